"""Audio in place of a short hole: the last pitch period over and over, fading (ITU-T G.711, appendix I).

A recogniser then hears speech at its true tempo and no click. It is invented all the same: only a recogniser may hear
it, and nothing may be measured on it. What it does to word errors depends on the recogniser, and was not measured.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["LONGEST_FILLED_SECS", "HoleFiller"]

# The appendix fades to nothing within this; what is longer than a syllable's part cannot be guessed.
LONGEST_FILLED_SECS = 0.06
# At full level for 10 ms, as in the appendix.
UNFADED_SECS = 0.01
# Pitch of voices: 66 to 400 Hz.
SHORTEST_PERIOD_SECS, LONGEST_PERIOD_SECS = 0.0025, 0.015
# What is compared to find the period.
COMPARED_SECS = 0.005
HISTORY_SECS = LONGEST_PERIOD_SECS + COMPARED_SECS


class HoleFiller:
    """Remembers the end of one stream of 16-bit samples. Feed every frame, in order."""

    def __init__(self) -> None:
        self._recent = b""
        self._format = (0, 0)

    def add(self, audio: bytes, *, sample_rate_hz: int, channels: int) -> None:
        """Feeds one frame. A part of a sample is dropped; another format starts anew."""
        if sample_rate_hz <= 0 or channels <= 0:
            return
        if self._format != (sample_rate_hz, channels):
            self._format, self._recent = (sample_rate_hz, channels), b""
        size = 2 * channels
        kept = round(HISTORY_SECS * sample_rate_hz) * size
        self._recent = (self._recent + audio[: len(audio) // size * size])[-kept:]

    def fill(self, missing_secs: float, *, longest_secs: float = LONGEST_FILLED_SECS) -> bytes | None:
        """Audio for a hole behind what was fed, in its format; None when the hole is too long or nothing was fed."""
        rate_hz, channels = self._format
        if not 0.0 < missing_secs <= min(longest_secs, LONGEST_FILLED_SECS) + 1e-6 or not self._recent:
            return None
        recent = np.frombuffer(self._recent, dtype="<i2").reshape(-1, channels).astype(np.float32)
        length = round(missing_secs * rate_hz)
        period = _period(recent[:, 0], rate_hz)
        repeated = recent[-period:][np.arange(length) % period]
        at_secs = np.arange(length) / rate_hz
        gain = np.clip(
            1.0 - (at_secs - UNFADED_SECS) / (LONGEST_FILLED_SECS - UNFADED_SECS), 0.0, 1.0
        ).astype(np.float32)
        return bytes((repeated * gain[:, np.newaxis]).astype("<i2").tobytes())


def _period(recent: npt.NDArray[np.float32], rate_hz: int) -> int:
    """The lag at which the end of `recent` is most like what came before; all of it when there is too little."""
    compared, shortest = round(COMPARED_SECS * rate_hz), max(1, round(SHORTEST_PERIOD_SECS * rate_hz))
    if compared < 1 or len(recent) < compared + shortest + 1:
        return len(recent)
    end = recent[-compared:]
    lags = range(shortest, len(recent) - compared + 1)
    likeness = [
        float(end.dot(before)) / (float(before.dot(before)) + 1.0) ** 0.5
        for before in (recent[len(recent) - compared - lag : len(recent) - lag] for lag in lags)
    ]
    return lags[int(np.argmax(likeness))]
