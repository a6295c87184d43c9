"""`RealtimeOrchestrator`: the orchestrator in front of a speech-to-speech service.

Such a service is not asked once per turn with the whole context: it holds the conversation, and answers by itself when
a turn ends. A context frame only reports what was said. So the states go in while the user speaks (`RealtimeLink` puts
`state_text` into the conversation), and what belongs to an answer is reset when the server begins one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pipecat.frames.frames import LLMContextFrame

from pipecat_voicectx.orchestrator.modes import ControlMode
from pipecat_voicectx.orchestrator.state_text import GUIDING_PRINCIPLE
from pipecat_voicectx.processors.context_edits import make_state_block
from pipecat_voicectx.processors.orchestrator import _ANSWER_NOW, Orchestrator
from pipecat_voicectx.processors.tool_advertising import advertise

__all__ = ["RealtimeOrchestrator"]


class RealtimeOrchestrator(Orchestrator):
    """See the module's text. Events and functions are those of `Orchestrator`."""

    answer_deferred: Callable[[str], Awaitable[None]] | None = None
    """Puts a text into the server's conversation and asks for an answer. Set by `RealtimeLink`."""

    def state_block(self) -> str | None:
        """What the model should know about the call now; None when nothing is worth saying."""
        if self._config.mode is ControlMode.OFF:
            return None
        text = self._state_text()
        return None if text is None else make_state_block(text)["content"]

    async def response_began(self, *, to_user: bool) -> None:
        """The server began an answer: to what the user said, or because it was asked to go on."""
        self._tap.spoken, self._tap.called = False, ()
        self._calls.restart()
        if to_user:
            self._deferral.turn_answered()
            await self._cancel_timer()
            self._response_due()

    async def _prepare_inference(self, frame: LLMContextFrame) -> None:
        if self._config.mode is ControlMode.OFF or frame.speculation:
            return
        self._context = frame.context
        self._edit(frame.context, merge=False)
        advertise(frame.context, self._functions, handler=self._on_call)

    async def _answer_deferred(self) -> None:
        if self.answer_deferred is not None:
            text = self._state_text() or GUIDING_PRINCIPLE
            await self.answer_deferred(make_state_block(f"{text}\n{_ANSWER_NOW}")["content"])
