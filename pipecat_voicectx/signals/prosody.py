"""How a stretch of speech sounds, apart from its words: pitch, loudness, pauses, tempo.

Levels come from `levels`, pitch from `pitch`; both are collected while somebody speaks and summed up once. Frames at
both ends that hold no speech (the detector's delay, the silence it waits for) are cut off first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipecat_voicectx.signals.levels import FRAME_SECS, FloatSamples, LevelBlock, dbfs
from pipecat_voicectx.signals.pitch import PITCH_HOP_SECS, track_pitch

__all__ = ["Prosody", "ProsodyCollector"]

# Speech moves by 30 dB within a syllable; what is further below the loud parts is a gap. 6 dB over the noise floor is
# the least that is distinguishable from it. Chosen.
DEEPEST_BELOW_LOUD_DB = 30.0
LEAST_OVER_FLOOR_DB = 6.0
# Shorter silences are closures of plosives (Goldman-Eisler 1968 takes 0.25 s; 0.15 s suffices with this resolution).
SHORTEST_PAUSE_SECS = 0.15
# A syllable's nucleus stands out by this much from the dip before it (de Jong and Wempe 2009).
NUCLEUS_DIP_DB = 2.0
# Pitch is worked out for so much speech at a time: 1 s takes about 0.7 ms.
PITCH_BATCH_SECS = 1.0
# Speech in one turn beyond this says nothing new; the bound on memory.
LONGEST_SECS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prosody:
    """Of one stretch of speech."""

    speech_secs: float
    """From the first loud frame to the last, pauses included."""
    level_dbfs: float
    """Mean level of the frames that hold speech."""
    level_spread_db: float
    """Between the 10th and the 90th percentile of their levels."""
    pause_ratio: float
    """Share of `speech_secs` in pauses of 0.15 s and more."""
    nuclei_per_sec: float
    """Syllable nuclei per second of speech without its pauses: the articulation rate, without a transcript."""
    voiced_secs: float
    f0_hz: float | None
    """Median. None: less than 0.2 s of it was voiced."""
    f0_spread_semitones: float | None
    """Between the 10th and the 90th percentile."""


# Fewer voiced frames give no median worth the name. Chosen.
LEAST_VOICED_SECS = 0.2


class ProsodyCollector:
    """Collects blocks of one stretch of speech, in order, and sums them up."""

    def __init__(self) -> None:
        self._powers: list[float] = []
        self._f0: list[npt.NDArray[np.floating]] = []
        self._waiting: list[FloatSamples] = []
        self._waiting_size = 0
        self._rate_hz = 0

    @property
    def full(self) -> bool:
        """Whether the bound is reached; further blocks are ignored."""
        return len(self._powers) * FRAME_SECS >= LONGEST_SECS

    def add(self, block: LevelBlock) -> None:
        """Feeds one block. Pitch is worked out once a second, for all of it."""
        if self.full:
            return
        if block.rate_hz != self._rate_hz:
            self._track()
            self._rate_hz = block.rate_hz
        self._powers.extend(block.powers)
        self._waiting.append(block.samples)
        self._waiting_size += len(block.samples)
        if self._waiting_size >= PITCH_BATCH_SECS * self._rate_hz:
            self._track()

    def summary(self, *, floor_power: float | None) -> Prosody | None:
        """The prosody so far; None when there is no speech in it.

        Args:
            floor_power: Mean square of the noise around the speech. None: unknown.
        """
        self._track()
        powers = np.asarray(self._powers)
        heard = powers[powers > 0.0]
        if len(heard) < 5:
            return None
        levels = 10.0 * np.log10(np.maximum(powers, 1e-10))
        threshold_db = float(np.percentile(levels, 95)) - DEEPEST_BELOW_LOUD_DB
        if floor_power is not None and floor_power > 0.0:
            threshold_db = max(threshold_db, dbfs(floor_power) + LEAST_OVER_FLOOR_DB)
        active = levels > threshold_db
        if not active.any():
            return None
        first, last = int(active.argmax()), len(active) - int(active[::-1].argmax())
        return self._summed(levels[first:last], active[first:last])

    def _summed(self, levels: npt.NDArray[np.floating], active: npt.NDArray[np.bool_]) -> Prosody:
        low_db, high_db = np.percentile(levels[active], (10, 90))
        secs = len(levels) * FRAME_SECS
        pause_secs = _pause_frames(active) * FRAME_SECS
        f0 = np.concatenate(self._f0) if self._f0 else np.zeros(0)
        f0 = f0[np.isfinite(f0)]
        voiced_secs = len(f0) * PITCH_HOP_SECS
        voiced = voiced_secs >= LEAST_VOICED_SECS
        spread = 12.0 * float(np.log2(np.percentile(f0, 90) / np.percentile(f0, 10))) if voiced else None
        return Prosody(
            speech_secs=secs,
            level_dbfs=10.0 * float(np.log10(np.mean(10.0 ** (levels[active] / 10.0)))),
            level_spread_db=float(high_db - low_db),
            pause_ratio=pause_secs / secs,
            nuclei_per_sec=_nuclei(levels, active) / max(secs - pause_secs, FRAME_SECS),
            voiced_secs=voiced_secs,
            f0_hz=float(np.median(f0)) if voiced else None,
            f0_spread_semitones=spread,
        )

    def _track(self) -> None:
        if self._waiting:
            samples = np.concatenate(self._waiting) if len(self._waiting) > 1 else self._waiting[0]
            self._f0.append(track_pitch(samples, rate_hz=self._rate_hz).f0_hz)
            self._waiting, self._waiting_size = [], 0


def _pause_frames(active: npt.NDArray[np.bool_]) -> int:
    edges = np.flatnonzero(np.diff(np.concatenate(([True], active, [True])).astype(np.int8)))
    runs = edges[1::2] - edges[::2]
    return int(runs[runs * FRAME_SECS >= SHORTEST_PAUSE_SECS].sum())


def _nuclei(levels: npt.NDArray[np.floating], active: npt.NDArray[np.bool_]) -> int:
    """Peaks of the level that stand out from the dips on both sides."""
    smooth = np.convolve(np.pad(levels, 1, mode="edge"), (0.25, 0.5, 0.25), mode="valid")
    count, lowest, highest, rising = 0, float("inf"), float("-inf"), True
    for level, loud in zip(smooth, active, strict=True):
        if rising:
            highest = max(highest, float(level)) if loud else highest
            if highest - level > NUCLEUS_DIP_DB:
                count += 1
                rising, lowest = False, float(level)
        else:
            lowest = min(lowest, float(level))
            if loud and level - lowest > NUCLEUS_DIP_DB:
                rising, highest = True, float(level)
    return count + (rising and highest > float("-inf"))
