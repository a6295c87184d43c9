"""Listens at the TTS service and the output transport of a cascaded pipeline and feeds the ledger and the clock.

Both listeners hang on the synchronous event `on_before_push_frame`, which runs inside `push_frame`: nothing can be
lost in a queue, and an interruption cannot overtake it. At the TTS, text, audio and word marks come in the order the
synthesizer made them. At the output transport, an audio frame comes right after it was written. Chunked audio loses
its context id there; TTSStartedFrame keeps it and keeps its place, so audio belongs to the last one started.

Text that the ledger will commit is marked `append_to_context=False` on its way, so that Pipecat's assistant
aggregator does not take it a second time. Everything else about the frames is left alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pipecat.frames.frames import (
    AggregatedTextFrame,
    ErrorFrame,
    Frame,
    FunctionCallInProgressFrame,
    InterimTranscriptionFrame,
    InterruptionFrame,
    LLMAssistantPushAggregationFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    OutputAudioRawFrame,
    TextFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
    TTSStartedFrame,
    TTSStoppedFrame,
    TTSTextFrame,
)
from pipecat.pipeline.service_switcher import ServiceSwitcher
from pipecat.processors.frame_processor import FrameProcessor

from pipecat_voicectx.playback.clock import PlayoutClock, SentAudio
from pipecat_voicectx.playback.ledger import LedgerEntry, TurnLedger
from pipecat_voicectx.playback.proposal import Proposal, find_proposals
from pipecat_voicectx.playback.utterance import Utterance
from pipecat_voicectx.runtimes.frame_listeners import listen
from pipecat_voicectx.runtimes.playout_position import PlayoutPositionSource

__all__ = ["CascadedTaps"]

_DEFAULT_RATE_HZ = 24_000
# Ends of answers and tool calls on their way from the TTS to the ledger. An interruption drops some of them for good.
_MAX_PLACES = 64


@dataclass(slots=True)
class _WordBase:
    """Where the pipeline's clock stood at an utterance's first audio: word marks are relative to it."""

    base_ns: int | None = None
    waiting: list[tuple[int | None, str, int, bool]] = field(default_factory=list)
    """(segment, text, pts, has_spacing) of words that came before the first audio."""


@dataclass(slots=True, kw_only=True)
class CascadedTaps:
    """The two listeners. Create, then `attach`."""

    ledger: TurnLedger
    clock: PlayoutClock
    source: PlayoutPositionSource
    pipeline_clock_ns: Callable[[], int]
    """Time of the pipeline's clock, which word marks are in."""
    on_turn_started: Callable[[LedgerEntry, int], None]
    """Called when a turn's first audio was written, with its track position."""
    stopped_turns: list[int] | None = None
    """Turns that an interruption stopped at the TTS and nobody settled yet. None: no interruption passed there."""
    calls: dict[str, tuple[str, int, list[tuple[int, int]]]] = field(default_factory=dict)
    """Tool calls that passed the TTS: (function, turn, [(turn, sentences before the call)])."""
    _voices: tuple[FrameProcessor, ...] = ()
    _turn: LedgerEntry | None = None
    _contexts: dict[str | None, int] = field(default_factory=dict)
    _bases: dict[int, _WordBase] = field(default_factory=dict)
    _places: dict[int, tuple[int, int | None]] = field(default_factory=dict)
    _ended_turn: int = 0
    _last_pts: int = 0
    _writing: int | None = None
    _written: dict[int, int] = field(default_factory=dict)
    _counted_samples: int = 0
    _destination: str | None = None

    def attach(self, tts: FrameProcessor, output: FrameProcessor) -> None:
        """Registers the listeners."""
        if isinstance(tts, ServiceSwitcher):
            self._voices = (tts, *tts.services)
            tts.strategy.add_event_handler("on_service_switched", self._on_voice_switched)
        else:
            self._voices = (tts,)
        listen(tts, "on_before_push_frame", self._on_tts_frame)
        listen(output, "on_before_push_frame", self._on_output_frame)

    def place_of(self, frame: Frame) -> tuple[int, int | None] | None:
        """Where in the text an answer's end or a tool call belongs; None for a frame that did not come by the TTS.

        Returns:
            (turn, pieces of it that precede the frame; None for all of them).
        """
        return self._places.pop(frame.id, None)

    # At the TTS

    async def _on_voice_switched(self, _strategy: object, _service: FrameProcessor) -> None:
        self.ledger.pace.forget()

    async def _on_tts_frame(self, _tts: FrameProcessor, frame: Frame) -> None:
        match frame:
            case TTSTextFrame():
                self._on_spoken_text(frame)
            case AggregatedTextFrame() if frame.will_be_spoken:
                number = self._utterance_of(frame.context_id, frame)
                self._utterance(number).announce(frame.id, frame.raw_text or frame.text)
            case TextFrame():
                self._on_shown_text(frame)
            case TTSStartedFrame():
                number = self._utterance_of(frame.context_id, frame)
                self._utterance(number).in_context = frame.append_to_context
                self._destination = frame.transport_destination
            case TTSAudioRawFrame():
                self._on_synthesized(frame)
            case TTSStoppedFrame():
                self._on_synthesis_stopped(frame.context_id)
            case LLMFullResponseStartFrame():
                self._close_turn()
                self._turn = self.ledger.open_turn(time.monotonic())
            case LLMFullResponseEndFrame() | LLMAssistantPushAggregationFrame():
                self._mark_place(frame)
                self._end_turn()
            case FunctionCallInProgressFrame():
                self._mark_place(frame)
                self._mark_call(frame)
            case InterruptionFrame():
                self._on_interruption()
            case ErrorFrame() if frame.processor in self._voices:
                self._on_failure()
            case _:
                pass

    def _on_failure(self) -> None:
        for utterance in self._turn.utterances.values() if self._turn is not None else ():
            if not utterance.closed:
                utterance.break_off()

    def _on_interruption(self) -> None:
        self.stopped_turns = [entry.turn_id for entry in self.ledger.turns]
        self._close_turn()
        self._last_pts = 0
        # What is said next under the same name is something else; what cannot be stopped goes on.
        self._contexts = {
            context_id: number
            for context_id, number in self._contexts.items()
            if (found := self.ledger.find_utterance(number)) is not None and not found[1].interruptible
        }

    def _on_spoken_text(self, frame: TTSTextFrame) -> None:
        number = self._contexts.get(frame.context_id)
        if number is None and not frame.append_to_context:
            return
        if number is None:
            number = self._utterance_of(frame.context_id, frame)
        utterance = self._utterance(number)
        if utterance.in_context and not frame.append_to_context:
            return  # the inside of a pattern: its whole text comes with the pattern's last word
        frame.append_to_context = False
        text = frame.raw_text or frame.text
        if frame.pts is None:
            utterance.confirm(frame.segment_id, text, has_spacing=frame.includes_inter_frame_spaces)
            utterance.learn(frame.segment_id, self.ledger.pace)
            return
        base = self._bases.setdefault(number, _WordBase())
        mark = (frame.segment_id, text, frame.pts, frame.includes_inter_frame_spaces)
        if base.base_ns is None:
            base.waiting.append(mark)
        else:
            self._last_pts = frame.pts
            self._mark(utterance, mark, base.base_ns)

    @staticmethod
    def _mark(utterance: Utterance, mark: tuple[int | None, str, int, bool], base_ns: int) -> None:
        segment_id, text, pts, has_spacing = mark
        utterance.mark_word(segment_id, text, max(0, pts - base_ns) / 1e9, has_spacing=has_spacing)

    def _on_shown_text(self, frame: TextFrame) -> None:
        if isinstance(frame, (TranscriptionFrame, InterimTranscriptionFrame)) or not frame.append_to_context:
            return
        if isinstance(frame, LLMTextFrame) and not frame.skip_tts:
            return
        context_id = frame.context_id if isinstance(frame, AggregatedTextFrame) else None
        number = self._utterance_of(context_id, frame)
        text = frame.raw_text or frame.text if isinstance(frame, AggregatedTextFrame) else frame.text
        self._utterance(number).show(text, has_spacing=frame.includes_inter_frame_spaces)
        frame.append_to_context = False

    def _on_synthesized(self, frame: TTSAudioRawFrame) -> None:
        number = self._contexts.get(frame.context_id)
        if number is None:
            return
        utterance = self._utterance(number)
        if utterance.closed and not utterance.audio_samples:
            # Pipecat gives a voice up after 3 s without sound; a slower one is played, and heard, all the same.
            utterance.closed = utterance.broken_off = False
        if utterance.closed:  # a stream re-opened under the same name
            self._contexts.pop(frame.context_id)
            number = self._utterance_of(frame.context_id, frame)
            utterance, previous = self._utterance(number), utterance
            utterance.in_context = previous.in_context
        if not utterance.audio_samples:
            utterance.voicing.rate_hz = frame.sample_rate
        base = self._bases.setdefault(number, _WordBase())
        if base.base_ns is None:
            self._start_words(utterance, base)
        utterance.add_pcm(_mono(frame.audio, frame.num_channels))

    def _start_words(self, utterance: Utterance, base: _WordBase) -> None:
        """Fixes the base as Pipecat's word tracker did a moment ago: now, or the last word's time if that is later."""
        first = [mark[2] for mark in base.waiting[:1]]
        base.base_ns = min([max(self._last_pts, self.pipeline_clock_ns()), *first])
        for mark in base.waiting:
            self._last_pts = mark[2]
            self._mark(utterance, mark, base.base_ns)
        base.waiting.clear()

    def _utterance_of(self, context_id: str | None, frame: Frame) -> int:
        number = self._contexts.get(context_id)
        if number is not None and not self._is_closed(number):
            return number
        if self._turn is None:
            self._turn = self.ledger.open_turn(time.monotonic())
        number = self.ledger.open_utterance(self._turn, context_id, rate_hz=_DEFAULT_RATE_HZ)
        self._turn.utterances[number].interruptible = frame.interruptible
        self._contexts[context_id] = number
        self._forget_old()
        return number

    def _on_synthesis_stopped(self, context_id: str | None) -> None:
        number = self._contexts.get(context_id)
        found = None if number is None else self.ledger.find_utterance(number)
        broken_off = context_id is None and found is not None and found[0].turn_id <= self._ended_turn
        if found is not None and not broken_off:
            found[1].close(self.ledger.pace)

    def proposals_of(self, tool_call_id: str) -> tuple[Proposal, ...] | None:
        """The sentences a tool call rests on; None before the call has passed the TTS."""
        call = self.calls.get(tool_call_id)
        if call is None:
            return None
        function, calling_turn, counts = call
        spans = {entry.turn_id: self.ledger.spans(entry) for entry in self.ledger.turns}
        turns = [(turn_id, spans.get(turn_id, [])[:count]) for turn_id, count in counts]
        return find_proposals(turns, calling_turn=calling_turn, function=function)

    def synthesizing(self) -> tuple[int, int] | None:
        """(number, audio samples so far) of the utterance without a context that is being made, if there is one."""
        number = self._contexts.get(None)
        found = None if number is None else self.ledger.find_utterance(number)
        return None if number is None or found is None else (number, found[1].audio_samples)

    def _is_closed(self, number: int) -> bool:
        found = self.ledger.find_utterance(number)
        return found is None or found[1].closed

    def _utterance(self, number: int) -> Utterance:
        found = self.ledger.find_utterance(number)
        assert found is not None, "an utterance in `_contexts` is in the ledger"
        return found[1]

    def _mark_place(self, frame: Frame) -> None:
        if self.ledger.turns:
            entry = self.ledger.turns[-1]
            whole = isinstance(frame, (LLMFullResponseEndFrame, LLMAssistantPushAggregationFrame))
            pieces = None if whole or entry.closed else self.ledger.cut(entry, {}).piece_count
            self._places[frame.id] = (entry.turn_id, pieces)
        while len(self._places) > _MAX_PLACES:
            self._places.pop(next(iter(self._places)))

    def _mark_call(self, call: FunctionCallInProgressFrame) -> None:
        turn_id = self.ledger.turns[-1].turn_id if self.ledger.turns else 0
        if self._turn is None:
            turn_id += 1  # an answer that is nothing but a call
        # The turn's sentences before the call; the others are not its proposal.
        self.calls[call.tool_call_id] = (
            call.function_name,
            turn_id,
            [(entry.turn_id, len(self.ledger.spans(entry))) for entry in self.ledger.turns],
        )
        while len(self.calls) > _MAX_PLACES:
            self.calls.pop(next(iter(self.calls)))

    def _end_turn(self) -> None:
        """The answer's end came after all of its audio."""
        if self.ledger.turns:
            self._ended_turn = self.ledger.turns[-1].turn_id
        if self._turn is not None:
            for utterance in self._turn.utterances.values():
                # A service without contexts (speech to speech) says by TTSStoppedFrame when its audio is complete;
                # without that, its answer was broken off and more text than audio may have come.
                if utterance.context_id is not None:
                    utterance.close(self.ledger.pace)
        self._close_turn()

    def _close_turn(self) -> None:
        if self._turn is not None:
            self._turn.closed = True
            self._turn = None

    def _forget_old(self) -> None:
        kept = {number for entry in self.ledger.turns for number in entry.utterances}
        self._contexts = {key: number for key, number in self._contexts.items() if number in kept}
        self._bases = {number: base for number, base in self._bases.items() if number in kept}
        self._written = {number: samples for number, samples in self._written.items() if number in kept}

    # At the output transport

    async def _on_output_frame(self, _output: FrameProcessor, frame: Frame) -> None:
        match frame:
            case TTSStartedFrame():
                self._writing = self._first_unwritten(frame.context_id)
            case OutputAudioRawFrame():
                self._on_written(frame)
            case _:
                pass

    def _first_unwritten(self, context_id: str | None) -> int | None:
        numbers = [
            number
            for entry in self.ledger.turns
            for number, utterance in entry.utterances.items()
            if utterance.context_id == context_id and number not in self._written
        ]
        return numbers[0] if numbers else None

    def _on_written(self, frame: OutputAudioRawFrame) -> None:
        if frame.transport_destination != self._destination:
            return  # music, another language: not what the user is told
        now_secs = time.monotonic()
        if self.clock.rate_hz != frame.sample_rate:
            self.clock.rate_hz = frame.sample_rate
        if self.source.epoch != self.clock.epoch:
            self.clock.start_epoch(self.source.epoch, now_secs)
            self._counted_samples = 0
        self._counted_samples += frame.num_frames
        # A source tells the default destination's track.
        position = self.source.position_samples() if self._destination is None else None
        if position is None:
            position = self._counted_samples
        found = None
        if isinstance(frame, TTSAudioRawFrame) and self._writing is not None:
            found = self.ledger.find_utterance(self._writing)
        if found is None or self._writing is None:
            self._log(position, frame.num_frames, None, 0, now_secs)
            return
        entry, utterance = found
        written = self._written.get(self._writing, 0) + frame.num_frames
        self._written[self._writing] = written
        self._log(position, frame.num_frames, self._writing, written, now_secs)
        first = entry.first_written_secs is None
        self.ledger.add_written(
            entry, _mono(frame.audio, frame.num_channels), rate_hz=frame.sample_rate, now_secs=now_secs
        )
        if first:
            self.on_turn_started(entry, position - frame.num_frames)
        if utterance.closed and written * utterance.rate_hz >= utterance.audio_samples * frame.sample_rate:
            following = self._first_unwritten(utterance.context_id)
            self._writing = self._writing if following is None else following

    def _log(self, position: int, samples: int, utterance: int | None, end: int, now_secs: float) -> None:
        self.clock.add_sent(
            SentAudio(
                position_samples=position,
                samples=samples,
                utterance=utterance,
                utterance_end_samples=end,
                at_secs=now_secs,
            )
        )


def _mono(pcm: bytes, channels: int) -> bytes:
    """The first channel of interleaved 16-bit PCM."""
    if channels <= 1:
        return pcm
    width = 2 * channels
    whole = len(pcm) // width * width
    return b"".join(pcm[index : index + 2] for index in range(0, whole, width))
