"""A scripted speech-to-text for the recorded call: it knows the words, but hears only those whose audio arrived.

The caller announces, by a message beside the audio, which recording starts at which RTP timestamp. The words of that
recording and their times are known; a word counts as heard when enough of its samples were received. So loss costs
words exactly as it costs a real recognizer its evidence, and nothing else is simulated: no wrong words.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field

from loguru import logger
from pipecat.frames.frames import (
    Frame,
    InputAudioRawFrame,
    InputTransportMessageFrame,
    InterimTranscriptionFrame,
    TranscriptionFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.processors.frame_processor import FrameDirection
from pipecat.services.settings import STTSettings
from pipecat.services.stt_service import STTService
from pipecat.transcriptions.language import Language
from pipecat.utils.time import time_now_iso8601

from pipecat_voicectx.demo.recording import Recording

__all__ = ["RECORDING_MESSAGE", "HeardWord", "RecordedCallSTT", "RecordedListener", "recording_message"]

RECORDING_MESSAGE = "voicectx-demo-recording"
"""Type of the caller's announcement, an RTVI client message."""

_RTP_RATE_HZ = 48_000
_PIECE_SAMPLES = 960
# Chosen: recognizers keep a word that lost a phoneme and lose one that lost its stressed syllable; 60% lies between.
_MIN_RECEIVED_RATIO = 0.6
# Bounded: 60 s of received pieces, longer than any recording.
_MAX_PIECES = 3000
# Opus gives audio back this much behind its timestamp.
_CODEC_DELAY_SAMPLES = 312


def recording_message(utterance_id: str, rtp_timestamp: int) -> dict[str, object]:
    """What the caller sends when a recording begins with the packet of that RTP timestamp."""
    return {"id": utterance_id, "r": rtp_timestamp}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeardWord:
    """One word on the received timeline."""

    text: str
    start_secs: float
    end_secs: float


@dataclass(slots=True)
class _Announced:
    words: list[tuple[str, int, int]]
    """Word, first and last sample on the received timeline."""
    next_word: int = 0


@dataclass(slots=True)
class RecordedListener:
    """The core: received pieces and announced recordings in, heard words out. Positions are 48 kHz samples."""

    recordings: Mapping[str, Recording]
    _pieces: deque[int] = field(default_factory=lambda: deque(maxlen=_MAX_PIECES))
    _announced: deque[_Announced] = field(default_factory=lambda: deque(maxlen=8))
    _pending: list[HeardWord] = field(default_factory=list)
    missed_words: int = 0

    def announce(self, utterance_id: str, position: int) -> bool:
        """A recording begins at `position`; False when it is not known."""
        recording = self.recordings.get(utterance_id)
        if recording is None:
            return False
        base = position + _CODEC_DELAY_SAMPLES
        self._announced.append(
            _Announced(
                [
                    (w, base + round(s * _RTP_RATE_HZ), base + round(e * _RTP_RATE_HZ))
                    for w, s, e in recording.words
                ]
            )
        )
        return True

    def receive(self, position: int) -> bool:
        """20 ms arrived; True when that completed at least one more word."""
        self._pieces.append(position)
        before = len(self._pending)
        for announced in self._announced:
            while announced.next_word < len(announced.words):
                word, start, end = announced.words[announced.next_word]
                if end > position + _PIECE_SAMPLES:
                    break
                announced.next_word += 1
                if self._received_ratio(start, end) >= _MIN_RECEIVED_RATIO:
                    heard = HeardWord(text=word, start_secs=start / _RTP_RATE_HZ, end_secs=end / _RTP_RATE_HZ)
                    self._pending.append(heard)
                else:
                    self.missed_words += 1
        return len(self._pending) > before

    @property
    def pending(self) -> list[HeardWord]:
        """Words heard since the last `take`."""
        return list(self._pending)

    def take(self) -> list[HeardWord]:
        """The words heard since the last call: one segment."""
        taken, self._pending = self._pending, []
        return taken

    def _received_ratio(self, start: int, end: int) -> float:
        received = 0
        for piece in reversed(self._pieces):
            if piece + _PIECE_SAMPLES <= start:
                break
            received += max(0, min(end, piece + _PIECE_SAMPLES) - max(start, piece))
        return received / max(1, end - start)


class RecordedCallSTT(STTService):
    """Pipecat shell of `RecordedListener`: interims while words arrive, one final after the VAD's stop."""

    def __init__(self, *, recordings: Mapping[str, Recording], rtp_origin: Callable[[], int | None]) -> None:
        """Builds the service.

        Args:
            recordings: Utterance id to recording.
            rtp_origin: RTP timestamp at which the input's pts is 0; None while unknown.
        """
        # Measured: the final leaves within 1 ms of the VAD's stop.
        super().__init__(
            ttfs_p99_latency=0.0, settings=STTSettings(model="recorded-call", language=Language.EN)
        )
        self._listener = RecordedListener(recordings)
        self._rtp_origin = rtp_origin
        self._unplaced: list[tuple[str, int]] = []

    def can_generate_metrics(self) -> bool:
        return True

    async def run_stt(self, audio: bytes) -> AsyncGenerator[Frame | None, None]:
        """Does nothing: words are taken from the timeline, not from samples."""
        yield None

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        match frame:
            case InputTransportMessageFrame() if direction is FrameDirection.DOWNSTREAM:
                self._on_message(frame.message)
            case VADUserStoppedSpeakingFrame():
                await self._push_final()

    async def process_audio_frame(self, frame: InputAudioRawFrame, direction: FrameDirection) -> None:
        if self._muted or frame.pts is None:
            return
        self._place_announced()
        if self._listener.receive(frame.pts):
            words = self._listener.pending
            await self.push_frame(
                InterimTranscriptionFrame(
                    _text(words), self._user_id, time_now_iso8601(), Language.EN, result=_result(words)
                )
            )

    def _on_message(self, message: object) -> None:
        data = message.get("data") if isinstance(message, dict) else None
        if (
            not isinstance(data, dict)
            or data.get("t") != RECORDING_MESSAGE
            or not isinstance(data.get("d"), dict)
        ):
            return
        utterance_id, rtp = data["d"].get("id"), data["d"].get("r")
        if isinstance(utterance_id, str) and isinstance(rtp, int):
            self._unplaced.append((utterance_id, rtp))
            self._place_announced()

    def _place_announced(self) -> None:
        if not self._unplaced or (origin := self._rtp_origin()) is None:
            return
        for utterance_id, rtp in self._unplaced:
            position = (rtp - origin + (1 << 31)) % (1 << 32) - (1 << 31)
            if not self._listener.announce(utterance_id, position):
                logger.warning("{}: the caller announced a recording that is not in the scenario", self)
        self._unplaced.clear()

    async def _push_final(self) -> None:
        words = self._listener.take()
        if not words:
            return
        frame = TranscriptionFrame(
            _text(words),
            self._user_id,
            time_now_iso8601(),
            Language.EN,
            result=_result(words),
            finalized=True,
        )
        await self.push_frame(frame)


def _text(words: list[HeardWord]) -> str:
    return " ".join(word.text for word in words)


def _result(words: list[HeardWord]) -> list[dict[str, object]]:
    return [{"word": w.text, "start": round(w.start_secs, 4), "end": round(w.end_secs, 4)} for w in words]
