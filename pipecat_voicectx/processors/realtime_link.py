"""`RealtimeLink`: what our layer and a realtime service's server have to say to each other.

Place it directly in front of an OpenAI Realtime service (or one that shares its class). It

- turns the server's turn detection into the voice activity frames that the other processors listen to, with the times
  the server found;
- puts the voice states into the conversation while the user speaks, so that the answer that follows knows them and no
  extra request is made, and what was recalled of earlier talk between turns; each is one item, replaced;
- deletes old exchanges from the server's conversation;
- changes the speed between answers, and the silence that ends a turn at once;
- on an unreliable line, makes the server leave the answer to us (`create_response` off): the turn hold then decides
  when the turn is over, a continuation becomes part of it, and one answer is asked for; on a clean line the server
  answers by itself and nothing is added;
- opens another session when the connection breaks off.

With the server's turn detection off, turns are Pipecat's own, and held like those of any other pipeline.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, cast

from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    CancelFrame,
    EndFrame,
    Frame,
    InputAudioRawFrame,
    LLMContextFrame,
    UserStartedSpeakingFrame,
    UserStoppedSpeakingFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor

from pipecat_voicectx.orchestrator.directives import SetVadSilenceDuration
from pipecat_voicectx.orchestrator.turn_hold import TurnHold, TurnHoldConfig
from pipecat_voicectx.processors.frames import DirectiveFrame, NetworkStateFrame
from pipecat_voicectx.processors.realtime_orchestrator import RealtimeOrchestrator
from pipecat_voicectx.projection.block import RECALLED_TAG, is_our_block
from pipecat_voicectx.projection.server_window import ServerWindowConfig
from pipecat_voicectx.runtimes.realtime import padding_ms_of
from pipecat_voicectx.runtimes.realtime_items import RealtimeItems
from pipecat_voicectx.runtimes.realtime_session import RealtimeRenewal
from pipecat_voicectx.runtimes.realtime_settings import RealtimeSettings, TurnDetectionWanted
from pipecat_voicectx.runtimes.realtime_socket import JsonObject, RealtimeSocket
from pipecat_voicectx.runtimes.realtime_speed import RealtimeSpeedFrame
from pipecat_voicectx.states.network import LinkBand, NetworkState

__all__ = ["RealtimeLink", "RealtimeLinkConfig"]

# A lengthened silence ends by the clock; looking for it a few times a second is enough.
_CHECK_SECS = 0.25
# The turn hold lets go at its cap; this is for a turn whose end nobody reports.
_CAP_MARGIN_SECS = 1.0
# Chosen: an answer that broke off is taken up again when its remains were played, if the user says nothing.
_TAKE_UP_SECS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeLinkConfig:
    """What the link does."""

    window: ServerWindowConfig | None = field(default_factory=ServerWindowConfig)
    """How much of the conversation stays on the server; None: all of it."""
    hold: TurnHoldConfig | None = field(default_factory=TurnHoldConfig)
    """Deadlines for answers on an unreliable line, and how long a lengthened silence lasts; None: the server always
    answers by itself."""


class RealtimeLink(FrameProcessor):
    """See the module's text."""

    def __init__(
        self,
        *,
        llm: FrameProcessor,
        settings: RealtimeSettings | None = None,
        orchestrator: RealtimeOrchestrator | None = None,
        config: RealtimeLinkConfig | None = None,
    ) -> None:
        """Args:
        llm: The service.
        settings: Of its session, when somebody else (a speed control) has them too.
        orchestrator: Whose states are shown and whose deferred answers are given.
        config: What is done.
        """
        super().__init__(name="RealtimeLink")
        self._config = config or RealtimeLinkConfig()
        self._llm = cast(Any, llm)
        self._orchestrator = orchestrator
        self._hold = TurnHold(self._config.hold)
        self._unreliable = False
        self._answering = self._user_speaking = self._bot_speaking = False
        self._committed = self._turn_ended = self._asked = self._unanswered = False
        self._said = self._unwritten = ""
        self._padding_ms = 0
        self._checked_secs = 0.0
        self._deadline: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self.failures = 0
        """Frames and events whose evaluation failed; each went on all the same."""
        self.settings = settings or RealtimeSettings(llm)
        """Of the session."""
        self.socket = RealtimeSocket.of(llm)
        """The connection: counters of refusals and errors."""
        self.items = RealtimeItems(
            llm,
            may_delete=lambda: not (self._answering or self._llm._response_active),
            config=self._config.window,
            bounded=self._config.window is not None,
        )
        """The server's conversation."""
        self.socket.on_event(self._on_event)
        self.renewal: RealtimeRenewal | None = None
        """Opens other sessions; None when the service cannot be given one."""
        if RealtimeRenewal.fits(llm):
            self.renewal = RealtimeRenewal(llm)
            self.socket.on_lost(self._on_lost)
        if orchestrator is not None:
            orchestrator.answer_deferred = self._answer_deferred

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Forwards everything first.

        Args:
            frame: The frame.
            direction: Where it goes.
        """
        await super().process_frame(frame, direction)
        if isinstance(frame, RealtimeSpeedFrame):
            await self._guarded(self._set_speed(frame.speed))
            return
        await self.push_frame(frame, direction)
        await self._guarded(self._observe(frame, direction))

    async def cleanup(self) -> None:
        """Release tasks. Idempotent."""
        await super().cleanup()  # type: ignore[no-untyped-call]
        await self._close()

    async def _close(self) -> None:
        await self._cancel_deadline()
        renewing, self._renewing = self._renewing, None
        if renewing is not None:
            await self.cancel_task(renewing)
        await self.items.close()

    async def _guarded(self, step: Awaitable[None]) -> None:
        try:
            await step
        except Exception as error:  # The outer edge: a call goes on without us.
            self.failures += 1
            await self.push_error(f"realtime link: {type(error).__name__}", exception=error)

    # What the pipeline says

    async def _observe(self, frame: Frame, direction: FrameDirection) -> None:
        down = direction is FrameDirection.DOWNSTREAM
        match frame:
            case InputAudioRawFrame():
                await self._check_silence()
            case NetworkStateFrame():
                await self._on_network(frame.state)
            case DirectiveFrame(directive=SetVadSilenceDuration() as directive) if down:
                self._hold.set_silence(
                    directive.duration_ms, origin=directive.origin, now_secs=time.monotonic()
                )
                await self._update_turns()
            case UserStartedSpeakingFrame() if down:
                self._turn_ended = False
            case UserStoppedSpeakingFrame() if down:
                self._turn_ended = True
                await self._answer_if_due()
            case LLMContextFrame() if down:
                self._unwritten = ""
                self._show_recalled(frame.context)
            case BotStartedSpeakingFrame():
                self._bot_speaking = True
            case BotStoppedSpeakingFrame():
                self._bot_speaking = False
            case EndFrame() | CancelFrame():
                await self._close()
            case _:
                pass

    async def _on_network(self, state: NetworkState) -> None:
        self._hold.add_network(state, now_secs=time.monotonic())
        self._unreliable = state.impaired or state.band is LinkBand.RECOVERING
        await self._update_turns()
        if self._user_speaking:
            self._show_state()

    async def _check_silence(self) -> None:
        now_secs = time.monotonic()
        if now_secs - self._checked_secs >= _CHECK_SECS:
            self._checked_secs = now_secs
            await self._update_turns()

    async def _update_turns(self) -> None:
        if self._config.hold is None:
            return
        longer_secs = self._hold.silence_secs(time.monotonic())
        self.settings.want_turns(
            TurnDetectionWanted(
                silence_ms=None if longer_secs is None else round(1000 * longer_secs),
                answers=not (self._unreliable and self._config.hold.mode.reflex),
            )
        )
        await self.settings.apply(between_answers=not self._answering)

    async def _set_speed(self, speed: float) -> None:
        self.settings.want_speed(speed)
        await self.settings.apply(between_answers=not self._answering)

    def _show_state(self) -> None:
        if self._orchestrator is not None:
            self.items.show("state", self._orchestrator.state_block())

    def _show_recalled(self, context: LLMContext) -> None:
        blocks = [message for message in context.messages if is_our_block(message, tag=RECALLED_TAG)]
        text = cast("dict[str, str]", blocks[-1])["content"] if blocks else None
        self.items.show("recalled", text)

    # What the server says

    async def _on_event(self, event: JsonObject) -> None:
        match event["type"]:
            case "session.created":
                self._answering = self._user_speaking = self._committed = False
            case "session.updated":
                self._padding_ms = padding_ms_of(event)
                await self.settings.apply(between_answers=not self._answering)
            case "input_audio_buffer.speech_started":
                await self._speech_started(event["audio_start_ms"])
            case "input_audio_buffer.speech_stopped":
                await self._speech_stopped(event["audio_end_ms"])
            case "input_audio_buffer.committed":
                await self._on_committed()
            case "conversation.item.input_audio_transcription.completed":
                self._unwritten = f"{self._unwritten} {event['transcript']}".strip()
            case "response.created":
                await self._response_began()
            case "response.output_audio_transcript.delta":
                self._said += event["delta"]
            case "response.done":
                self._answering = self._unanswered = False
                self._said = ""
                # Ahead of an answer that the service now owes: it is spoken at the new speed.
                await self.settings.apply(between_answers=True)
                self.items.tidy()
            case _:
                pass

    async def _speech_started(self, audio_start_ms: int) -> None:
        self._user_speaking = True
        self._show_state()
        self.items.tidy()
        late_secs = self._late_secs((audio_start_ms + self._padding_ms) / 1000)
        await self.broadcast_frame(VADUserStartedSpeakingFrame, start_secs=late_secs)

    async def _speech_stopped(self, audio_end_ms: int) -> None:
        self._user_speaking = False
        silence_ms = self.settings.silence_ms if self.settings.counts_silence else 0
        late_secs = self._late_secs((audio_end_ms - silence_ms) / 1000)
        await self.broadcast_frame(VADUserStoppedSpeakingFrame, stop_secs=late_secs)

    def _late_secs(self, position_secs: float) -> float:
        at_secs = self.socket.sent_audio.time_of(position_secs)
        return 0.0 if at_secs is None else max(0.0, time.monotonic() - at_secs)

    async def _response_began(self) -> None:
        to_user = not self._asked
        self._answering, self._asked, self._committed = True, False, False
        self._said = ""
        await self._cancel_deadline()
        if self._orchestrator is not None:
            await self._orchestrator.response_began(to_user=to_user)

    # Answers that are ours to ask for

    async def _on_committed(self) -> None:
        self._unanswered = True
        if not self.settings.detects_turns or self.settings.server_answers:
            return
        self._committed = True
        await self._answer_if_due()
        if self._committed and self._deadline is None and self._config.hold is not None:
            self._deadline = self.create_task(
                self._answer_at_last(self._config.hold.cap_secs + _CAP_MARGIN_SECS), "answer_deadline"
            )

    async def _answer_if_due(self) -> None:
        if self._committed and self._turn_ended and not self._user_speaking:
            await self._answer()

    async def _answer_at_last(self, wait_secs: float) -> None:
        await asyncio.sleep(wait_secs)
        self._deadline = None
        if self._committed and not self._user_speaking:
            await self._guarded(self._answer())

    async def _answer(self) -> None:
        self._committed = False
        await self._cancel_deadline()
        if self._answering:
            return
        if self._llm._context is not None:
            await self._llm._create_response()
        else:
            await self.socket.send({"type": "response.create"})

    async def _answer_deferred(self, text: str) -> None:
        self._asked = True
        self.items.show("state", text)
        await self.items.shown()
        await self._answer()

    async def _cancel_deadline(self) -> None:
        deadline, self._deadline = self._deadline, None
        if deadline is not None and deadline is not asyncio.current_task():
            await self.cancel_task(deadline)

    # Another session

    def _on_lost(self) -> None:
        if self._renewing is None or self._renewing.done():
            self._renewing = self.create_task(self._renew(), "renewal")

    async def _renew(self) -> None:
        assert self.renewal is not None
        said, owed = self._said, self._answering or self._unanswered
        self._answering = self._user_speaking = self._committed = self._unanswered = False
        self._said = ""
        if not await self.renewal.renew():
            await self.push_error("realtime link: the server cannot be reached again")
            return
        if self._unwritten:
            await self.items.add_for_user(self._unwritten)
        await self.socket.resume()
        if not owed:
            return
        if said:
            self.items.show(
                "broken_off", f"Your answer broke off on the line after: {said}\nGo on from there."
            )
            await self._bot_silent()
        if not (self._answering or self._user_speaking):
            await self._answer()
        self.items.show("broken_off", None)

    async def _bot_silent(self) -> None:
        end_secs = time.monotonic() + _TAKE_UP_SECS
        while self._bot_speaking and time.monotonic() < end_secs:  # noqa: ASYNC110 - a few looks, once per lost session
            await asyncio.sleep(0.1)
