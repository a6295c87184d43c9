"""Senders that stop sending while nobody speaks (discontinuous transmission, DTX).

Such a sender looks like a bad line: nothing arrives for 400 ms at a time. What gives it away is that no packet is
missing afterwards. Once that was seen, a pause after quiet audio is no stall any more; one after speech still is.

A jitter buffer that throws away what had arrived (aiortc's, when it overflows) leaves the same trace, but in the middle
of speech, where no sender falls silent.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["DiscontinuousSender"]

# The comfort noise that a DTX encoder sends, and what it takes for silence, is below this (RMS of 32768, -45 dBFS).
# Chosen.
QUIET_RMS = 185.0
# Who sounds like this (RMS of 32768, -35 dBFS) is speaking; background noise that an encoder still takes for silence is
# below. Chosen.
SPEECH_RMS = 580.0


class DiscontinuousSender:
    """What is known of one sender."""

    def __init__(self) -> None:
        self.proven = False
        """Whether a pause without a missing packet was seen."""
        self._latest = self._before = b""

    @property
    def spoke_before(self) -> bool:
        """Whether there was speech in the frame in front of the latest one."""
        return _rms(self._before) >= SPEECH_RMS

    def silent_after(self, audio: bytes) -> bool:
        """Whether nothing need arrive for a while behind this frame of 16-bit samples."""
        self._before, self._latest = self._latest, audio
        return self.proven and len(audio) > 1 and _rms(audio) < QUIET_RMS


def _rms(audio: bytes) -> float:
    samples = np.frombuffer(audio, dtype="<i2", count=len(audio) // 2).astype(np.float32)
    return math.sqrt(float(samples.dot(samples)) / max(1, len(samples)))
