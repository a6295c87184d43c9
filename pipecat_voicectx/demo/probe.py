"""The neutral probe: what the bot received, when turns began and ended, and where each spoken word sits on its track.

It is the same in both passes and knows nothing of the plugin. It observes frames, listens to what the TTS
synthesized, and sees each 10 ms piece leave on the outgoing track; a word's place is found by matching the pieces
that left with the sound that was synthesized.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    Frame,
    InputAudioRawFrame,
    InterruptionFrame,
    UserStartedSpeakingFrame,
    UserStoppedSpeakingFrame,
)
from pipecat.observers.base_observer import BaseObserver, FramePushed
from pipecat.processors.frame_processor import FrameDirection

from pipecat_voicectx.demo.espeak import Synthesis
from pipecat_voicectx.demo.events import EventLog

__all__ = ["DemoProbe", "TrackProbe"]

_RTP_RATE_HZ = 48_000
_PIECE_SAMPLES = 960
# Chosen: two packets; below it a step in pts is rounding, and a listener hears nothing.
_MIN_GAP_SECS = 0.03
_KINDS: dict[type[Frame], str] = {
    UserStartedSpeakingFrame: "turn_start",
    UserStoppedSpeakingFrame: "turn_stop",
    InterruptionFrame: "interrupted",
    BotStartedSpeakingFrame: "bot_started",
    BotStoppedSpeakingFrame: "bot_stopped",
}
# Chosen: stretches closer than this are one in the report; the transport itself leaves 10 ms holes on a busy host.
_MERGE_SECS = 0.1
_TRACK_RATE_HZ = 24_000
# The transport writes 40 ms at a time; what was written when the bot stopped still leaves.
_TAIL_SECS = 0.1


@dataclass(slots=True)
class _Spoken:
    """One bot turn's sound, and how much of it has left."""

    number: int
    context_id: str
    samples: npt.NDArray[np.int16] = field(default_factory=lambda: np.zeros(0, np.int16))
    words: list[tuple[str, int, int]] = field(default_factory=list)
    text: str = ""
    written: int = 0
    runs: list[tuple[int, int, int]] = field(default_factory=list)
    """Stretches that left in one piece: offset in the turn, length, position on the track."""
    began_secs: float = 0.0
    ended_secs: float = 0.0

    def stretches(self) -> list[tuple[int, int]]:
        """What left, as stretches of the track without a hole a listener would call a pause."""
        merged: list[tuple[int, int]] = []
        for _, length, position in self.runs:
            if merged and position - merged[-1][1] < _MERGE_SECS * _TRACK_RATE_HZ:
                merged[-1] = (merged[-1][0], position + length)
            else:
                merged.append((position, position + length))
        return merged

    def place(self, offset: int) -> int | None:
        """Position on the track of a sample of the turn, None if it never left."""
        for start, length, position in self.runs:
            if start <= offset < start + length:
                return position + offset - start
        return None


class TrackProbe:
    """Finds synthesized sound on the outgoing track. Pure: pieces and sounds in, events out through `log`."""

    def __init__(self, log: EventLog, *, first_turn: int) -> None:
        self._log = log
        self._turns: deque[_Spoken] = deque(maxlen=64)
        self._current: _Spoken | None = None
        self._next_number = first_turn

    def on_synthesis(self, context_id: str, text: str, speech: Synthesis) -> None:
        """The TTS made a piece of a turn."""
        turn = next((t for t in self._turns if t.context_id == context_id), None)
        if turn is None:
            turn = _Spoken(self._next_number, context_id)
            self._next_number += 1
            self._turns.append(turn)
        offset = len(turn.samples)
        turn.words += [(w.text, offset + w.start_sample, offset + w.end_sample) for w in speech.words]
        turn.samples = np.concatenate([turn.samples, speech.samples])
        turn.text = f"{turn.text} {text}".strip()

    def on_piece(self, samples: npt.NDArray[np.int16], position: int, *, now_secs: float) -> None:
        """10 ms left on the track at `position`."""
        turn = self._match(samples)
        if turn is None:
            return
        if turn is not self._current:
            self.finish()
            self._current = turn
            turn.began_secs = now_secs
        length = min(len(samples), len(turn.samples) - turn.written)
        last = turn.runs[-1] if turn.runs else None
        if last and last[0] + last[1] == turn.written and last[2] + last[1] == position:
            turn.runs[-1] = (last[0], last[1] + length, last[2])
        else:
            turn.runs.append((turn.written, length, position))
        turn.written += length
        turn.ended_secs = now_secs + len(samples) / _TRACK_RATE_HZ

    def finish(self) -> None:
        """The current turn leaves nothing more: its events are written."""
        turn, self._current = self._current, None
        if turn is None:
            return
        while self._turns and self._turns[0] is not turn:
            self._turns.popleft()
        if self._turns:
            self._turns.popleft()
        placed: list[list[object]] = []
        for word, start, end in turn.words:
            at = turn.place(start)
            if at is None:
                break
            last = turn.place(max(start, end - 1))
            placed.append([word, at, at + end - start if last is None else last + 1])
        began, ended = self._log.at(turn.began_secs), self._log.at(turn.ended_secs)
        for first, last_sample in turn.stretches():
            start_secs = turn.began_secs + (first - turn.runs[0][2]) / _TRACK_RATE_HZ
            end_secs = start_secs + (last_sample - first) / _TRACK_RATE_HZ
            self._log.write(
                "bot_audio",
                at=self._log.at(start_secs),
                end=round(self._log.at(end_secs), 4),
                track_start=first,
                track_end=last_sample,
            )
        self._log.write(
            "bot_words",
            at=began,
            end=round(ended, 4),
            turn=turn.number,
            context=turn.context_id,
            words=placed,
            text=turn.text,
        )

    def _match(self, samples: npt.NDArray[np.int16]) -> _Spoken | None:
        candidates = list(self._turns)
        if self._current in candidates:
            candidates = candidates[candidates.index(self._current) :]
        for turn in candidates:
            expected = turn.samples[turn.written : turn.written + len(samples)]
            if len(expected) and np.array_equal(samples[: len(expected)], expected):
                return turn
        return None


class _TappedQueue(deque[Any]):
    """The track's queue; tells of each piece at the moment it is taken, with its place on the track."""

    def __init__(self, track: Any, on_piece: Callable[[bytes, int], None]) -> None:
        super().__init__(track._chunk_queue)
        self._track = track
        self._on_piece = on_piece

    def popleft(self) -> Any:
        chunk = super().popleft()
        self._on_piece(chunk[0], self._track._timestamp)
        return chunk


class DemoProbe(BaseObserver):
    """Observer of one call's pipeline."""

    def __init__(self, log: EventLog, *, first_turn: int = 1) -> None:
        super().__init__()
        self._log = log
        self.track = TrackProbe(log, first_turn=first_turn)
        self._seen: deque[int] = deque(maxlen=256)
        self._next_pts: int | None = None
        self._pts_epoch_secs: float | None = None
        self._finish_due_secs: float | None = None

    def tap_track(self, track: Any) -> None:
        """Watches an output track of Pipecat's SmallWebRTC transport."""
        track._chunk_queue = _TappedQueue(track, self._on_piece)

    def _on_piece(self, audio: bytes, position: int) -> None:
        self.track.on_piece(np.frombuffer(audio, np.int16), position, now_secs=time.monotonic())

    async def on_push_frame(self, data: FramePushed) -> None:
        frame = data.frame
        if self._finish_due_secs is not None and time.monotonic() >= self._finish_due_secs:
            self._finish_due_secs = None
            self.track.finish()
        if isinstance(frame, InputAudioRawFrame):
            if data.direction is FrameDirection.DOWNSTREAM and frame.id not in self._seen:
                self._seen.append(frame.id)
                self._on_audio(frame)
            return
        kind = _KINDS.get(type(frame))
        if kind is None:
            return
        now_secs = time.monotonic()
        if frame.id in self._seen:
            return
        self._seen.append(frame.id)
        if frame.broadcast_sibling_id is not None:  # the same frame, going the other way
            self._seen.append(frame.broadcast_sibling_id)
        self._log.write(kind, at=self._log.at(now_secs))
        if kind in ("bot_stopped", "interrupted"):
            self._finish_due_secs = now_secs + _TAIL_SECS

    def close(self) -> None:
        """The call is over: writes what is still open."""
        self.track.finish()

    def _on_audio(self, frame: InputAudioRawFrame) -> None:
        if frame.pts is None:
            return
        now_secs = time.monotonic()
        position_secs = frame.pts / _RTP_RATE_HZ
        if self._pts_epoch_secs is None:
            self._pts_epoch_secs = now_secs - position_secs
        self._pts_epoch_secs = min(self._pts_epoch_secs, now_secs - position_secs)
        if self._next_pts is not None:
            gap_secs = (frame.pts - self._next_pts) / _RTP_RATE_HZ
            if gap_secs >= _MIN_GAP_SECS:
                end = self._pts_epoch_secs + position_secs
                self._log.write(
                    "received_gap", at=self._log.at(end - gap_secs), end=round(self._log.at(end), 4)
                )
        self._next_pts = max(self._next_pts or 0, frame.pts + _PIECE_SAMPLES)
