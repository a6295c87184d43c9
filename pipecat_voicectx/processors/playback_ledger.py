"""`PlaybackLedger`: the conversation says what was heard, not what was generated.

Place it after `transport.output()` and before the assistant aggregator. It listens at the TTS service and at the
output transport, takes acknowledgements of playback from the client, and commits each bot turn's text where the
aggregator would have taken it from the TTS. After an interruption the assistant message holds exactly what was
heard, followed by a short note (`CUT_OFF_NOTE`); later acknowledgements correct it.
"""

from __future__ import annotations

import asyncio
import time

from pipecat.frames.frames import (
    BotStoppedSpeakingFrame,
    CancelFrame,
    EndFrame,
    Frame,
    FunctionCallCancelFrame,
    FunctionCallInProgressFrame,
    InputTransportMessageFrame,
    InterruptionFrame,
    LLMAssistantPushAggregationFrame,
    LLMContextAssistantTurnFrame,
    LLMFullResponseEndFrame,
    SystemFrame,
    TTSStoppedFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.processors.frameworks.rtvi.frames import RTVIClientMessageFrame

from pipecat_voicectx.errors import BadInputError
from pipecat_voicectx.orchestrator.directives import SetResponseSpeed
from pipecat_voicectx.playback.clock import PlayoutClock
from pipecat_voicectx.playback.heard import HeardTurn
from pipecat_voicectx.playback.ledger import LedgerEntry, TurnLedger
from pipecat_voicectx.playback.settlement import (
    AmendText,
    CommitText,
    CutReason,
    RevokeAudio,
    Settled,
    SettlementEvent,
    TurnSettler,
)
from pipecat_voicectx.processors.commit_frames import (
    RELEASING,
    CloseTurnFrame,
    HeardTextFrame,
    OpenTurnFrame,
)
from pipecat_voicectx.processors.frames import DirectiveFrame, HeardTurnFrame, NetworkStateFrame
from pipecat_voicectx.processors.late_calls import LateCalls
from pipecat_voicectx.processors.playback_settings import PlaybackLedgerConfig
from pipecat_voicectx.processors.playback_view import PlaybackView
from pipecat_voicectx.runtimes.cascaded import CascadedTaps
from pipecat_voicectx.runtimes.client_link import ClientLink
from pipecat_voicectx.runtimes.heard_messages import HeardMessages
from pipecat_voicectx.runtimes.playout_position import PlayoutPositionSource, find_position_source
from pipecat_voicectx.runtimes.realtime import RealtimeTruncation
from pipecat_voicectx.sources.client_messages import RTVI_MESSAGE_TYPE, is_client_message

__all__ = ["HeardTextFrame", "PlaybackLedger", "PlaybackLedgerConfig"]


class PlaybackLedger(PlaybackView):
    """Commits what was heard of each bot turn.

    Event handlers:
        on_heard: Called with the `HeardTurn` of a turn that was settled or amended.
        on_boundary: Called with the `PhysicalBoundary` and the `SemanticBoundary` (or None) of a turn that was cut,
            for runtimes that keep checkpoints of their own.
        on_interruption_settled: Called after each interruption, with whether it changed anything; at once, not in a
            task of its own.
    """

    def __init__(
        self,
        *,
        context: LLMContext,
        tts: FrameProcessor,
        output: FrameProcessor,
        config: PlaybackLedgerConfig | None = None,
        position: PlayoutPositionSource | None = None,
    ) -> None:
        """Initialize the ledger and start listening.

        Args:
            context: The context the aggregators share.
            tts: The TTS service, or whatever sends TTS frames into the output transport. An OpenAI Realtime
                service also has the truncates it sends corrected.
            output: The output transport (`transport.output()`).
            config: Settings.
            position: Where the outgoing track stands. None: found for SmallWebRTC, counted from writes otherwise.
        """
        super().__init__(name="PlaybackLedger")
        self._config = config or PlaybackLedgerConfig()
        self._ledger = TurnLedger(config=self._config.ledger)
        self._clock = PlayoutClock(rate_hz=24_000, config=self._config.clock)
        self._settler = TurnSettler(ledger=self._ledger, clock=self._clock, config=self._config.settlement)
        self._messages = HeardMessages(context, note=self._config.cut_off_note)
        source = position or find_position_source(output)
        self._link = ClientLink(
            ledger=self._ledger, clock=self._clock, source=source, announcements=self._config.announcements
        )
        self._taps = CascadedTaps(
            ledger=self._ledger,
            clock=self._clock,
            source=source,
            pipeline_clock_ns=lambda: self.get_clock().get_time(),
            on_turn_started=self._on_turn_started,
        )
        self._taps.attach(tts, output)
        self._truncation = None
        if RealtimeTruncation.fits(tts):
            self._truncation = RealtimeTruncation(
                tts,
                utterance_now=self._taps.synthesizing,
                played=lambda: self._settler.played_secs(time.monotonic()),
                speech_began=self._settler.speech_started,
            )
        self._waiting_end: tuple[Frame, tuple[int, int | None]] | None = None
        self._speed_wpm: float | None = None
        self.late_calls = LateCalls()
        self._starting: list[tuple[LedgerEntry, int]] = []
        self._timer: asyncio.Task[None] | None = None
        self._cut_turns: tuple[HeardTurn, ...] = ()
        self.failures = 0
        self._register_event_handler("on_heard")
        self._register_event_handler("on_boundary")
        self._register_event_handler("on_interruption_settled", sync=True)

    @property
    def client(self) -> ClientLink:
        """The client's side: counters of its messages, measured delays."""
        return self._link

    @property
    def fallbacks(self) -> int:
        """Turns whose unfinished text had to be dropped because nothing said where it ended."""
        return self._settler.fallbacks

    @property
    def rewritten(self) -> int:
        """Times a committed message was changed: the note put in, the boundary moved."""
        return self._messages.rewritten

    def was_not_cut(self, turn_id: int) -> None:
        """The rest of a cut turn is being spoken after all: the note comes off its message."""
        for event in self._settler.resumed(turn_id):
            if isinstance(event, AmendText):
                self._messages.amend(event.message, event.text, interrupted=False, now_secs=time.monotonic())

    async def cleanup(self) -> None:
        """Release the timer. Idempotent."""
        await super().cleanup()  # type: ignore[no-untyped-call]
        if self._timer is not None:
            await self.cancel_task(self._timer)
            self._timer = None

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Commit before the frames that end an answer, listen to the rest, forward everything.

        Args:
            frame: The frame.
            direction: Where it goes.
        """
        await super().process_frame(frame, direction)
        held = False
        try:
            held = await self._before(frame, direction)
        except Exception as error:  # the pipeline's frame goes on whatever happens here
            await self._failed(error)
        if not held:
            await self.push_frame(frame, direction)
        try:
            await self._after(frame)
        except Exception as error:
            await self._failed(error)

    async def _before(self, frame: Frame, direction: FrameDirection) -> bool:
        """What must reach the aggregator ahead of the frame. True: in its place, or the frame waits for its audio."""
        down = direction is FrameDirection.DOWNSTREAM
        if self._waiting_end is not None and down and isinstance(frame, RELEASING):
            await self._release_end(frame)
        match frame:
            case InterruptionFrame():
                self._waiting_end = None
                stopped, self._taps.stopped_turns = self._taps.stopped_turns, None
                events = self._settler.cut(time.monotonic(), CutReason.INTERRUPTION, turn_ids=stopped)
                await self._carry_out(events)
                await self._call_event_handler("on_interruption_settled", bool(events))
            case LLMFullResponseEndFrame() | LLMAssistantPushAggregationFrame() if down:
                return await self._on_answer_end(frame)
            case FunctionCallInProgressFrame() if down:
                if await self._commit_through(self._taps.place_of(frame)):
                    await self.push_frame(LLMAssistantPushAggregationFrame())
            case FunctionCallCancelFrame() if (result := self.late_calls.cancelled(frame)) is not None:
                await self.push_frame(result)
                return True
            case EndFrame() | CancelFrame():
                self._waiting_end = None
                await self._carry_out(self._settler.cut(time.monotonic(), CutReason.ENDED))
            case _:
                pass
        return False

    async def _on_answer_end(self, frame: Frame) -> bool:
        """Commits the answer, or lets its end wait while its audio is still being written.

        Word times do not know of a starved output: the end comes by them, seconds before the last word may.
        """
        place = self._taps.place_of(frame)
        if place is not None and not self._settler.is_written(place[0]):
            self._waiting_end = (frame, place)
            return True
        await self._commit_through(place)
        return False

    async def _release_end(self, before: Frame) -> None:
        """The waiting end goes on, its text first. Ahead of a system frame, the turn is closed at once."""
        assert self._waiting_end is not None
        end, place = self._waiting_end
        if isinstance(before, TTSStoppedFrame) and not self._settler.is_written(place[0]):
            return  # another utterance's
        self._waiting_end = None
        if await self._commit_through(place) and isinstance(before, SystemFrame):
            await self.push_frame(CloseTurnFrame())
        await self.push_frame(end)

    async def _after(self, frame: Frame) -> None:
        now_secs = time.monotonic()
        match frame:
            case RTVIClientMessageFrame() if frame.type == RTVI_MESSAGE_TYPE:
                await self._on_client_message(frame.data, rtvi=True)
            case InputTransportMessageFrame() if is_client_message(frame.message):
                await self._on_client_message(frame.message, rtvi=False)
            case VADUserStartedSpeakingFrame():
                age_secs = max(0.0, time.time() - frame.timestamp)
                self._settler.speech_started(now_secs - age_secs - frame.start_secs)
                await self._update(now_secs)
            case VADUserStoppedSpeakingFrame():
                self._settler.speech_stopped(now_secs)
            case LLMContextAssistantTurnFrame():
                self._messages.sync(now_secs)
            case NetworkStateFrame() if frame.state.rtt_secs is not None:
                self._link.measured_rtt(frame.state.rtt_secs)
            case FunctionCallInProgressFrame():
                if (result := self.late_calls.result_for(frame)) is not None:
                    await self.push_frame(result)
            case DirectiveFrame(directive=SetResponseSpeed(words_per_minute=wpm)):
                if self._speed_wpm is not None:
                    self._ledger.pace.scale(self._speed_wpm / wpm)
                self._speed_wpm = wpm
            case TTSStoppedFrame() | BotStoppedSpeakingFrame():
                self._arm_timer()
            case _:
                pass
        if self._starting:
            await self._announce_turns()

    async def _commit_through(self, place: tuple[int, int | None] | None) -> bool:
        events = [] if place is None else self._settler.commit_through(*place)
        await self._carry_out(events)
        return any(isinstance(event, CommitText) for event in events)

    async def _on_client_message(self, data: object, *, rtvi: bool) -> None:
        now_secs = time.monotonic()
        try:
            moved = self._link.take(data, now_secs, rtvi=rtvi)
        except BadInputError as error:
            # A broken client sends ten of these a second: say it once, count the rest.
            if self._link.refused == 1:
                await self.push_error(f"client message refused: {error}")
            return
        if moved:
            await self._update(now_secs)
        await self._send(self._link.reminder(now_secs))

    # What the settler decided

    async def _update(self, now_secs: float) -> None:
        self._messages.sync(now_secs)
        await self._carry_out(self._settler.update(now_secs))

    async def _carry_out(self, events: list[SettlementEvent]) -> None:
        now_secs = time.monotonic()
        for event in events:
            match event:
                case CommitText():
                    self._messages.committed(
                        event.message, event.text, interrupted=event.interrupted, now_secs=now_secs
                    )
                    await self.push_frame(OpenTurnFrame())
                    await self.push_frame(HeardTextFrame(text=event.text))
                case AmendText():
                    self._messages.amend(
                        event.message, event.text, interrupted=event.interrupted, now_secs=now_secs
                    )
                case Settled():
                    await self._on_settled(event.turn)
                case RevokeAudio():
                    await self._send(self._link.revoke(event))
                    if self._truncation is not None:
                        await self._truncation.cut()
                    await self._call_event_handler(
                        "on_boundary",
                        self.physical_boundary(event.turn_id),
                        self.semantic_boundary(event.turn_id),
                    )
        self._arm_timer()

    async def _on_settled(self, turn: HeardTurn) -> None:
        if turn.interrupted and turn.unheard_text:
            self._note_cut(turn)
        await self.broadcast_frame(HeardTurnFrame, turn=turn)
        await self._call_event_handler("on_heard", turn)

    # Time

    def _arm_timer(self) -> None:
        """One task waits for the next deadline; without one there is no task."""
        if self._timer is None and self._next_deadline() is not None:
            self._timer = self.create_task(self._wait_for_deadlines(), "deadlines")

    def _next_deadline(self) -> float | None:
        deadline = self._settler.next_deadline()
        soon = time.monotonic() + 0.1 if self._messages.pending else None
        return min((due for due in (deadline, soon) if due is not None), default=None)

    async def _wait_for_deadlines(self) -> None:
        try:
            while (deadline := self._next_deadline()) is not None:
                # At least a millisecond, so that a deadline that cannot be met yet does not spin.
                await asyncio.sleep(max(0.001, deadline - time.monotonic()))
                await self._update(time.monotonic())
        except Exception as error:  # said once; the next event arms the timer again
            await self._failed(error)
        finally:
            self._timer = None

    # The client

    def _on_turn_started(self, entry: LedgerEntry, position_samples: int) -> None:
        # Announced by the written frame itself, which passes here next.
        self._starting.append((entry, position_samples))

    async def _announce_turns(self) -> None:
        starting, self._starting = self._starting, []
        for entry, position_samples in starting:
            await self._send(self._link.turn_started(entry.turn_id, position_samples))

    async def _send(self, message: tuple[Frame, FrameDirection] | None) -> None:
        if message is not None:
            await self.push_frame(*message)

    async def _failed(self, error: Exception) -> None:
        self.failures += 1
        await self.push_error(f"playback ledger: {type(error).__name__}", exception=error)
