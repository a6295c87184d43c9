"""What hears the caller in every variant: voice activity, the end-of-turn model, a recogniser, reception counters.

What only depends on the audio is worked out once: voice activity by window, the end-of-turn model's verdict by the
audio it is asked about. Part of `voicectx bench loss`.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np
import numpy.typing as npt
from pipecat.audio.turn.smart_turn.base_smart_turn import BaseSmartTurn
from pipecat.audio.turn.smart_turn.local_smart_turn_v3 import LocalSmartTurnAnalyzerV3
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.audio.vad.vad_analyzer import VADAnalyzer, VADParams, VADState
from pipecat.frames.frames import Frame, TranscriptionFrame, VADUserStoppedSpeakingFrame
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor

from pipecat_voicectx.bench.loss_audio import PACKET_SECS, RATE_HZ, LossPath, Mask, Utterance
from pipecat_voicectx.signals.rtp_stats import RtpStatsSample
from pipecat_voicectx.states.network import NetworkSource

__all__ = ["Ear", "ReceiverStats", "Recogniser", "SharedEar", "SmartTurn"]

# Chosen: what a fast streaming recogniser takes for a final after the end of speech.
STT_DELAY_SECS = 0.2


class SharedEar:
    """Voice activity of one stream: each window is looked at once, whoever asks first."""

    def __init__(self) -> None:
        self.analyzer = SileroVADAnalyzer(sample_rate=RATE_HZ, params=VADParams())
        self.analyzer.set_sample_rate(RATE_HZ)
        self.windows: list[tuple[float, float]] = []
        self._volume = 0.0

    def window(self, number: int, audio: bytes) -> tuple[float, float]:
        """Confidence and smoothed volume of a window."""
        if number == len(self.windows):
            confidence = float(np.asarray(self.analyzer.voice_confidence(audio)).item())
            volume = self.analyzer._get_smoothed_volume(audio)
            self.analyzer._prev_volume = volume
            self.windows.append((confidence, volume))
        return self.windows[number]


class Ear(VADAnalyzer):
    """Pipecat's analyzer with its own state machine, over the shared windows."""

    def __init__(self, shared: SharedEar) -> None:
        super().__init__(params=VADParams())
        self._shared = shared
        self._window = 0
        self._volume = 0.0

    def num_frames_required(self) -> int:
        return self._shared.analyzer.num_frames_required()

    async def analyze_audio(self, buffer: bytes) -> VADState:
        # In place: a thread per frame costs more than the model.
        return self._run_analyzer(buffer)

    def voice_confidence(self, buffer: bytes) -> float:
        confidence, self._volume = self._shared.window(self._window, buffer)
        self._window += 1
        return confidence

    def _get_smoothed_volume(self, _audio: bytes) -> float:
        return self._volume


_verdicts: dict[bytes, dict[str, Any]] = {}
_model: list[LocalSmartTurnAnalyzerV3] = []
# A verdict is a few numbers, so this is a megabyte or two.
_MOST_VERDICTS = 20_000


class _InPlace(Executor):
    """Runs a job where it is submitted: five variants that ask the same question at once then share one answer."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # As an executor does: the one who waits gets it.
            future.set_exception(error)
        return future


class SmartTurn(BaseSmartTurn):
    """The bundled end-of-turn model, loaded once per process: it keeps no state between questions."""

    @property
    def _model_executor(self) -> Executor:  # type: ignore[override]
        return _InPlace()

    def _predict_endpoint(self, audio_array: npt.NDArray[np.float32]) -> dict[str, Any]:
        if not _model:
            _model.append(LocalSmartTurnAnalyzerV3())
        key = hashlib.blake2b(audio_array.tobytes(), digest_size=16).digest()
        if key not in _verdicts:
            if len(_verdicts) > _MOST_VERDICTS:
                _verdicts.clear()
            _verdicts[key] = _model[0]._predict_endpoint(audio_array)
        return _verdicts[key]


class Recogniser(FrameProcessor):
    """A final transcript after each stop of voice activity, with the words that were spoken by then.

    Words are spread evenly over the utterance, so that a model can tell a finished sentence from one that is not.
    """

    def __init__(self, utterance: Utterance, origin_secs: float) -> None:
        super().__init__()
        self._words = utterance.text.split()
        self._speech_secs = utterance.speech_secs
        self._origin_secs = origin_secs
        self._given = 0

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, VADUserStoppedSpeakingFrame):
            self.create_task(self._later(time.monotonic() - frame.stop_secs - self._origin_secs))
        await self.push_frame(frame, direction)

    async def _later(self, spoken_secs: float) -> None:
        await asyncio.sleep(STT_DELAY_SECS)
        # Detectors hear the last word's end a little early.
        share = min(1.0, (spoken_secs + 0.25) / self._speech_secs)
        upto = max(self._given, int(share * len(self._words)))
        text = " ".join(self._words[self._given : upto]) or "mm"
        self._given = upto
        await self.push_frame(TranscriptionFrame(text=text, user_id="u", timestamp="", finalized=True))


class ReceiverStats:
    """Counters as such a receiver has them: lost packets are known once they were due, or once a later one came."""

    def __init__(self, lost: Mask, path: LossPath, start_secs: float) -> None:
        self.source = NetworkSource.RTP_STATS if path is LossPath.AIORTC else NetworkSource.RECEIVER_STATS
        self._path = path
        self._start_secs = start_secs
        self._lost = np.concatenate([[0], np.cumsum(lost)])
        run, silent = 0, []
        for gone in lost:
            run = run + 1 if gone else 0
            # Concealment has faded to silence after four packets; zeros and comfort noise are silence at once.
            silent.append(bool(gone) and (path is not LossPath.FADE or run > 4))
        self._silent = np.concatenate([[0], np.cumsum(silent)])
        received = np.flatnonzero(~lost)
        self._received = received

    async def read(self) -> RtpStatsSample | None:
        now_secs = time.monotonic()
        due = min(len(self._lost) - 1, max(0, int((now_secs - self._start_secs) / PACKET_SECS)))
        if self._path is LossPath.AIORTC:
            before = self._received[self._received < due]
            due = int(before[-1]) + 1 if len(before) else 0
        lost = int(self._lost[due])
        conceals = self._path is not LossPath.AIORTC
        return RtpStatsSample(
            at_secs=now_secs,
            ssrc=1,
            packets_received=due - lost,
            packets_lost=lost,
            concealed_secs=lost * PACKET_SECS if conceals else None,
            silent_concealed_secs=int(self._silent[due]) * PACKET_SECS if conceals else None,
        )
