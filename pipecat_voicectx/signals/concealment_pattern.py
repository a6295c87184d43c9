"""Concealed audio recognised from the samples alone.

A receiver that conceals (libwebrtc behind Daily, a telephony gateway) hands out invented audio in place of lost
packets, and says so only in its statistics. Two patterns give it away without them: exact digital silence in the
middle of audio that has a noise floor, and a scaled exact repetition of what came just before (packet-loss
concealment repeats a pitch period and fades it). Real microphones produce neither. What comfort noise leaves is in
`abrupt_cuts`.

A hint, not evidence: a muted microphone or a noise gate sends exact zeros
all the time. A source whose zeros are usual is therefore learned and no longer reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["ConcealedAudio", "ConcealmentPatternDetector", "SilenceGate", "decoded"]

FloatSamples: TypeAlias = npt.NDArray[np.float32]

# Normalised correlation of a frame's first samples with recent audio above which the frame is looked at as a whole.
# Voiced speech repeats itself up to about 0.99 from one period to the next.
HEAD_CORRELATION = 0.998
# Energy of what a faded copy does not explain. Concealment is arithmetic, so only rounding remains; chosen.
LARGEST_RESIDUAL = 0.002
# The longest pitch period a concealment repeats (50 Hz) and the samples compared.
HISTORY_SECS = 0.023
# Below this RMS (of 32768) a frame is noise, and noise correlates with nothing.
SMALLEST_RMS = 10.0
# Three milliseconds: long enough not to be met by chance in noise, short enough to be cheap.
HEAD_SAMPLES = 48
# This share of zero frames outside speech means that the source gates or mutes itself. Chosen; untested.
USUAL_ZEROS_SHARE = 0.5
# Frames that must be seen before zeros can be called usual: ten seconds of 20 ms frames, longer than any outage that
# is waited for.
FRAMES_TO_LEARN = 500


# What the first look may be wrong by: rounding in single precision. Who passes it is looked at exactly.
ROUNDING = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcealedAudio:
    """A frame that looks concealed."""

    secs: float
    silent: bool


def decoded(audio: bytes) -> FloatSamples:
    """16-bit little-endian samples as numbers, once for all detectors; an odd last byte is dropped."""
    return np.frombuffer(audio, dtype="<i2", count=len(audio) // 2).astype(np.float32)


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
        self._recent: FloatSamples = np.zeros(0, np.float32)

    def add(self, samples: FloatSamples, *, sample_rate_hz: int, gate: SilenceGate) -> ConcealedAudio | None:
        """Feeds one frame of mono samples, after `gate` was fed with it."""
        if len(samples) == 0 or sample_rate_hz <= 0:
            return None
        secs = len(samples) / sample_rate_hz
        if gate.run_secs > 0.0:
            heard = len(self._recent) > 0
            return ConcealedAudio(secs=secs, silent=True) if heard and not gate.gated else None
        copied = self._is_copy(samples)
        self._recent = np.concatenate([self._recent, samples])[-round(HISTORY_SECS * sample_rate_hz) :]
        return ConcealedAudio(secs=secs, silent=False) if copied else None

    def _is_copy(self, samples: FloatSamples) -> bool:
        size, recent = len(samples), self._recent
        if size < 2 * HEAD_SAMPLES or len(recent) < HEAD_SAMPLES * 2:
            return False
        head = samples[:HEAD_SAMPLES]
        head_energy = float(head.dot(head))
        if head_energy < SMALLEST_RMS**2 * HEAD_SAMPLES:
            return False
        # A copy begins like something one pitch period ago; few frames get past this look at their first samples.
        products = np.correlate(recent, head, mode="valid")
        sums = np.zeros(len(recent) + 1, np.float32)
        (recent * recent).cumsum(out=sums[1:])
        energies = sums[HEAD_SAMPLES:] - sums[:-HEAD_SAMPLES]
        # The likeness squared, with its sign, without a root and a quotient for each lag.
        needed = energies * np.float32((HEAD_CORRELATION - ROUNDING) ** 2 * head_energy)
        if not (products * np.abs(products) >= needed).any():
            return False
        likeness = products / np.sqrt(np.maximum(energies, 1.0) * head_energy)
        best = int(np.argmax(likeness))
        return bool(likeness[best] >= HEAD_CORRELATION) and self._continues(samples, len(recent) - best)

    def _continues(self, samples: FloatSamples, lag: int) -> bool:
        """Whether the whole frame is the last `lag` samples over and over, scaled by a straight line."""
        size = len(samples)
        repeated = np.resize(self._recent[-lag:], size).astype(np.float64)
        ramp = np.linspace(0.0, 1.0, size)
        basis = np.stack([repeated, repeated * ramp], axis=1)
        target = samples.astype(np.float64)
        weights, *_ = np.linalg.lstsq(basis, target, rcond=None)
        residual = target - basis @ weights
        return float(residual @ residual) <= LARGEST_RESIDUAL * float(target @ target)
