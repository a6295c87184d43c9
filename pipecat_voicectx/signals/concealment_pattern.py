"""Concealed audio recognised from the samples alone.

A receiver that conceals (libwebrtc behind Daily, a telephony gateway) hands out invented audio in place of lost
packets, and says so only in its statistics. Two patterns give it away without them: exact digital silence in the
middle of audio that has a noise floor, and a scaled exact repetition of what came just before (packet-loss
concealment repeats a pitch period and fades it). Real microphones produce neither.

A hint, not evidence: comfort noise leaves no such pattern, and a muted microphone or a noise gate sends exact zeros
all the time. A source whose zeros are usual is therefore learned and no longer reported.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["ConcealedAudio", "ConcealmentPatternDetector"]

# Normalised correlation above which a frame is a copy of recent audio. Voiced speech repeats itself up to about
# 0.99 from one period to the next; the fade of a concealment is a pure scaling. Measured with lab masks on speech.
COPY_CORRELATION = 0.9995
# The longest pitch period a concealment repeats (50 Hz) plus one frame.
HISTORY_SECS = 0.075
# Below this RMS (of 32768) a frame is noise, and noise correlates with nothing.
SMALLEST_RMS = 10.0
# This share of zero frames outside speech means that the source gates or mutes itself. Chosen; untested.
USUAL_ZEROS_SHARE = 0.5
# Frames that must be seen before zeros can be called usual: two seconds of 20 ms frames.
FRAMES_TO_LEARN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcealedAudio:
    """A frame that looks concealed."""

    secs: float
    silent: bool


class SilenceGate:
    """Learns whether exact silence is usual for a source: a muted microphone, a noise gate."""

    def __init__(self) -> None:
        self._zero_share = 0.0
        self._frames = 0
        self._run_secs = 0.0

    @property
    def gated(self) -> bool:
        """Whether exact silence is usual for this source."""
        return self._frames >= FRAMES_TO_LEARN and self._zero_share >= USUAL_ZEROS_SHARE

    @property
    def run_secs(self) -> float:
        """How long exact silence has lasted up to now."""
        return self._run_secs

    def add(self, audio: bytes, *, secs: float) -> bool:
        """Feeds one frame; returns whether it is exact silence. The usual frame costs a microsecond."""
        # Two bytes of a microphone's noise are enough to say no; only silence is looked at as a whole.
        zeros = audio.count(0) == len(audio)
        self._frames += 1
        # An exponential share with a memory of about FRAMES_TO_LEARN frames.
        self._zero_share += (float(zeros) - self._zero_share) / min(self._frames, FRAMES_TO_LEARN)
        self._run_secs = self._run_secs + secs if zeros else 0.0
        return zeros


class ConcealmentPatternDetector:
    """Feed every frame of one stream in order."""

    def __init__(self) -> None:
        self._recent: npt.NDArray[np.float32] = np.zeros(0, np.float32)

    def add(self, audio: bytes, *, sample_rate_hz: int, gate: SilenceGate) -> ConcealedAudio | None:
        """Feeds one frame of 16-bit mono samples (an odd last byte is dropped), after `gate` was fed with it."""
        samples = np.frombuffer(audio[: len(audio) // 2 * 2], dtype=np.int16).astype(np.float32)
        if len(samples) == 0 or sample_rate_hz <= 0:
            return None
        secs = len(samples) / sample_rate_hz
        if gate.run_secs > 0.0:
            heard = len(self._recent) > 0
            return ConcealedAudio(secs=secs, silent=True) if heard and not gate.gated else None
        copied = self._is_copy(samples)
        self._recent = np.concatenate([self._recent, samples])[-round(HISTORY_SECS * sample_rate_hz) :]
        return ConcealedAudio(secs=secs, silent=False) if copied else None

    def _is_copy(self, samples: npt.NDArray[np.float32]) -> bool:
        size = len(samples)
        if size < 64 or len(self._recent) < size + 32:
            return False
        energy = float(samples @ samples)
        if energy < SMALLEST_RMS**2 * size:
            return False
        products = np.correlate(self._recent, samples, mode="valid").astype(np.float64)
        squares = np.concatenate([[0.0], np.cumsum(self._recent.astype(np.float64) ** 2)])
        energies = squares[size:] - squares[:-size] + 1e-9
        return bool(np.max(products / np.sqrt(energies * energy)) >= COPY_CORRELATION)
