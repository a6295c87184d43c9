"""Levels of caller audio: power per 20 ms frame, digital silence, clipping.

Frames of any length go in; blocks of whole 20 ms frames come out, ten at a time, because a look at one costs as much
as a look at ten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["FRAME_SECS", "SILENT_DBFS", "FloatSamples", "LevelBlock", "LevelMeter", "dbfs"]

FloatSamples: TypeAlias = npt.NDArray[np.float32]

FRAME_SECS = 0.02
FRAMES_PER_BLOCK = 10
# Below the rounding noise of 16 bits (-98 dBFS): nothing was measured.
SILENT_DBFS = -100.0
# An analogue-to-digital converter that is driven too hard stays at its end; Opus lets the flat tops ripple by about
# a tenth of a dB. Chosen: within 0.1 dB of full scale.
CLIPPED_FROM = 0.988
# Two samples at the end of the scale can be a loud vowel's peak; more in 20 ms are a flat top. Chosen.
CLIPPED_SAMPLES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelBlock:
    """A few 20 ms frames in a row."""

    samples: FloatSamples
    """-1..1, mono."""
    rate_hz: int
    powers: tuple[float, ...]
    """Mean square of each frame; exactly 0.0 for digital silence, which no microphone sends."""
    clipped: tuple[bool, ...]
    """Whether each frame is cut off at full scale."""


class LevelMeter:
    """Cuts a stream into blocks. Feed it 16-bit little-endian samples in order."""

    def __init__(self, *, frames_per_block: int = FRAMES_PER_BLOCK) -> None:
        self._frames_per_block = frames_per_block
        self._pending = bytearray()
        self._rate_hz = 0

    def add(self, audio: bytes, *, sample_rate_hz: int, channels: int = 1) -> LevelBlock | None:
        """Feeds one frame; returns the next block when it is full.

        An odd last byte is dropped; of several channels the first is read; another sample rate starts anew. More than
        a block's worth at once gives one longer block.
        """
        if sample_rate_hz <= 0 or channels <= 0 or not audio:
            return None
        if sample_rate_hz != self._rate_hz:
            self._rate_hz = sample_rate_hz
            self._pending.clear()
        if channels > 1:
            whole = len(audio) // (2 * channels) * 2 * channels
            self._pending += np.frombuffer(audio[:whole], dtype="<i2")[::channels].tobytes()
        else:
            self._pending += audio[: len(audio) // 2 * 2]
        return self._block(self._frames_per_block)

    def flush(self) -> LevelBlock | None:
        """The whole frames that are there, without waiting for a full block."""
        return self._block(1)

    def _block(self, fewest: int) -> LevelBlock | None:
        frame_size = round(FRAME_SECS * self._rate_hz)
        frames = len(self._pending) // (2 * frame_size) if frame_size else 0
        if frames < fewest:
            return None
        size = 2 * frames * frame_size
        block = _measured(bytes(self._pending[:size]), frames=frames, rate_hz=self._rate_hz)
        del self._pending[:size]
        return block


def _measured(audio: bytes, *, frames: int, rate_hz: int) -> LevelBlock:
    samples = np.frombuffer(audio, dtype="<i2").astype(np.float32)
    samples *= 1.0 / 32768.0
    rows = samples.reshape(frames, -1)
    powers = np.einsum("ij,ij->i", rows, rows) / rows.shape[1]
    clipped: tuple[bool, ...] = (False,) * frames
    if max(float(samples.max()), -float(samples.min())) >= CLIPPED_FROM:
        at_end = (np.abs(rows) >= CLIPPED_FROM).sum(axis=1)
        clipped = tuple(bool(count >= CLIPPED_SAMPLES) for count in at_end)
    return LevelBlock(samples=samples, rate_hz=rate_hz, powers=tuple(powers.tolist()), clipped=clipped)


def dbfs(power: float) -> float:
    """A mean square in dB relative to full scale (a square wave of full amplitude is 0)."""
    return max(SILENT_DBFS, 10.0 * float(np.log10(power))) if power > 0.0 else SILENT_DBFS
