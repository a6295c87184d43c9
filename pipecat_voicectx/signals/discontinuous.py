"""Senders that stop sending while nobody speaks (discontinuous transmission, DTX).

Such a sender looks like a bad line: nothing arrives for 400 ms at a time. What gives it away is that no packet is
missing afterwards. Once that was seen, a pause after quiet audio is no stall any more; one after speech still is.
"""

from __future__ import annotations

import numpy as np

__all__ = ["DiscontinuousSender"]

# The comfort noise that a DTX encoder sends, and what it takes for silence, is below this (RMS of 32768, -45 dBFS).
# Chosen.
QUIET_RMS = 185.0


class DiscontinuousSender:
    """What is known of one sender."""

    def __init__(self) -> None:
        self.proven = False
        """Whether a pause without a missing packet was seen."""

    def silent_after(self, audio: bytes) -> bool:
        """Whether nothing need arrive for a while behind this frame of 16-bit samples."""
        if not self.proven:
            return False
        samples = np.frombuffer(audio[: len(audio) // 2 * 2], dtype="<i2").astype(np.float32)
        return len(samples) > 0 and float(samples @ samples) < QUIET_RMS**2 * len(samples)
