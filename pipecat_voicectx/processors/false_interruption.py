"""`FalseInterruptionRecovery`: a cough does not end an answer.

An interruption after which the user says no word within 0.8 s of falling silent was none. The rest of the answer is
then spoken from where it was cut, without another model call, and the note that it was cut off comes off again. If
the model had not finished the answer, or the user's request had no answer yet, the model is run again: an
interruption that was none never ends in silence.

    recovery = FalseInterruptionRecovery(ledger, context=context, llm=llm, user=aggregators.user())

It is no processor: it listens at the ledger and acts through it, so a call without interruptions pays nothing.

Pipecat has a recovery of its own for such turns: it prompts the model to ask what the user said (`empty_user_turn`
of the user aggregator's parameters, on by default). Use one of the two: set `empty_user_turn=None` with this
processor.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from enum import Enum

from pipecat.frames.frames import (
    CancelFrame,
    EndFrame,
    Frame,
    FunctionCallCancelFrame,
    FunctionCallResultFrame,
    InterruptionFrame,
    LLMFullResponseStartFrame,
    LLMMessagesAppendFrame,
    LLMRunFrame,
    TTSSpeakFrame,
    UserStoppedSpeakingFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.utils.base_object import BaseObject

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.playback.heard import HeardTurn
from pipecat_voicectx.processors.frames import HeardTurnFrame
from pipecat_voicectx.processors.late_calls import STILL_RUNNING
from pipecat_voicectx.processors.playback_ledger import PlaybackLedger
from pipecat_voicectx.runtimes.llm_tap import AnswerWatch
from pipecat_voicectx.runtimes.word_watch import WordWatch

__all__ = ["FalseInterruptionConfig", "FalseInterruptionRecovery", "Recovery"]

_GO_ON = (
    "The user did not say anything: what stopped you was noise. Go on exactly where your last message ends. Do not "
    "repeat anything and do not mention this."
)


class Recovery(Enum):
    """What became of a false interruption."""

    RESUMED = "resumed"
    """The rest of the answer is spoken from where it was cut."""
    CONTINUED = "continued"
    """The model was still making the answer: it goes on with it."""
    RUN_AGAIN = "run_again"
    """Nothing had been said yet: the model answers again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseInterruptionConfig:
    """When an interruption was none."""

    wordless_secs: float = 0.8
    """No word for this long after the user fell silent. Transcripts of short answers come within about half of it."""
    silent_secs: float = 2.0
    """Without any report that the user fell silent, this long after the interruption. Chosen."""

    def __post_init__(self) -> None:
        if not 0 < self.wordless_secs <= 10 or not 0 < self.silent_secs <= 30:
            raise UsageError("wordless_secs must lie in 0..10 and silent_secs in 0..30 (both above 0)")


class FalseInterruptionRecovery(BaseObject):
    """Resumes answers that nobody meant to stop.

    Event handlers:
        on_resumed: Called with the `HeardTurn` whose rest is being spoken.
        on_recovered: Called with the `Recovery` of every false interruption.
    """

    def __init__(
        self,
        ledger: PlaybackLedger,
        *,
        context: LLMContext,
        llm: FrameProcessor | None = None,
        user: FrameProcessor | None = None,
        config: FalseInterruptionConfig | None = None,
    ) -> None:
        """Starts listening.

        Args:
            ledger: Knows what was not heard.
            context: The shared context: a user message in it means that there were words.
            llm: The serving LLM, to know of answers that were cut while they were made. None: what there is of an
                answer is taken for all of it.
            user: The user aggregator, where words are seen as soon as they are transcribed. None: once they are in
                the context.
            config: Times.
        """
        super().__init__(name="FalseInterruptionRecovery")
        self._ledger = ledger
        self._context = context
        self._config = config or FalseInterruptionConfig()
        self._answer = AnswerWatch(llm) if llm is not None else None
        self._words = WordWatch(user) if user is not None else None
        self._waiting = False
        self._user_speaks = False
        self._cut: HeardTurn | None = None
        self._users_before = 0
        self._words_before = 0
        self._due_secs: float | None = None
        self._timer: asyncio.Task[None] | None = None
        self.recovered = dict.fromkeys(Recovery, 0)
        """How often each happened."""
        self._register_event_handler("on_resumed")
        self._register_event_handler("on_recovered")
        ledger.add_event_handler("on_before_push_frame", self._on_frame)

    @property
    def resumed(self) -> int:
        """False interruptions after which the answer went on, or was run again."""
        return sum(self.recovered.values())

    async def _on_frame(self, _ledger: FrameProcessor, frame: Frame) -> None:
        match frame:
            case HeardTurnFrame() if frame.turn.interrupted:
                self._on_cut(frame.turn, time.monotonic())
            case InterruptionFrame() if self._request_is_open():
                self._wait_for_words(time.monotonic())
            case FunctionCallCancelFrame():
                self._wait_for_words(time.monotonic())
            case FunctionCallResultFrame() if frame.result is STILL_RUNNING:
                self._wait_for_words(time.monotonic())
            case VADUserStartedSpeakingFrame():
                self._user_speaks, self._due_secs = True, None
            case VADUserStoppedSpeakingFrame() | UserStoppedSpeakingFrame():
                self._user_speaks = False
                if self._waiting:
                    self._arm(time.monotonic() + self._config.wordless_secs)
            case LLMFullResponseStartFrame():
                self._forget()
            case EndFrame() | CancelFrame():
                self._forget()
                if self._timer is not None:
                    await self._ledger.cancel_task(self._timer)
                    self._timer = None
            case _:
                pass

    def _on_cut(self, turn: HeardTurn, now_secs: float) -> None:
        if not turn.unheard_text:
            return
        if self._cut is None or self._cut.turn_id != turn.turn_id:
            self._wait_for_words(now_secs)
        self._cut = turn

    def _wait_for_words(self, now_secs: float) -> None:
        if not self._waiting:
            self._waiting = True
            self._users_before = self._users()
            self._words_before = self._words.count if self._words is not None else 0
        if not self._user_speaks:
            self._arm(now_secs + self._config.silent_secs)

    def _forget(self) -> None:
        self._waiting = False
        self._cut = None
        self._due_secs = None

    def _roles(self) -> list[object]:
        return [message.get("role") for message in self._context.messages if isinstance(message, dict)]

    def _users(self) -> int:
        return self._roles().count("user")

    def _request_is_open(self) -> bool:
        """Whether the conversation ends with something that has no answer."""
        spoken = [role for role in self._roles() if role not in ("system", "developer")]
        return bool(spoken) and spoken[-1] in ("user", "tool")

    def _there_were_words(self) -> bool:
        if self._words is not None and self._words.count != self._words_before:
            return True
        return self._users() != self._users_before

    def _arm(self, due_secs: float) -> None:
        self._due_secs = due_secs
        if self._timer is None:
            self._timer = self._ledger.create_task(self._wait(), "wordless")

    async def _wait(self) -> None:
        while self._due_secs is not None and time.monotonic() < self._due_secs:  # noqa: ASYNC110 - a time, no event
            await asyncio.sleep(max(0.001, self._due_secs - time.monotonic()))
        self._timer = None
        cut, due, waiting = self._cut, self._due_secs, self._waiting
        words = self._there_were_words()
        if due is None:
            return  # the user speaks: the end of it arms the timer again
        self._forget()
        if waiting and not words:
            await self._recover(cut)

    async def _recover(self, cut: HeardTurn | None) -> None:
        unfinished = self._answer is not None and self._answer.was_stopped
        if cut is not None and not unfinished:
            recovery = Recovery.RESUMED
            self._ledger.was_not_cut(cut.turn_id)
            await self._ledger.push_frame(TTSSpeakFrame(cut.unheard_text), FrameDirection.UPSTREAM)
            await self._call_event_handler("on_resumed", cut)
        elif cut is not None and cut.heard_text:
            recovery = Recovery.CONTINUED
            self._ledger.was_not_cut(cut.turn_id)
            go_on = LLMMessagesAppendFrame([{"role": "developer", "content": _GO_ON}], run_llm=True)
            await self._ledger.push_frame(go_on, FrameDirection.UPSTREAM)
        else:
            recovery = Recovery.RUN_AGAIN
            await self._ledger.push_frame(LLMRunFrame(), FrameDirection.UPSTREAM)
        self.recovered[recovery] += 1
        await self._call_event_handler("on_recovered", recovery)
