"""Whether the bot's own voice comes back through the caller's microphone.

Both sides' levels are laid on one 20 ms grid, and the microphone's is compared with the bot's, shifted by every delay
that a line and a loudspeaker may have. Levels survive what samples do not: codecs, resampling, a room. Speech that is
not an echo also rises and falls, and some shift always fits a little; so the likeness must be high, over seconds, and
at one delay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipecat_voicectx.signals.levels import FRAME_SECS, dbfs

__all__ = ["EchoDetector", "EchoEvidence"]

# What is compared at once. Chosen: some ten syllables, which unrelated speech does not match by chance.
COMPARED_SECS = 4.0
# From the write of the bot's audio to its return: playout buffers, loudspeaker, room, uplink. Chosen.
LONGEST_DELAY_SECS = 1.0
# The bot must be audible for this share of what is compared.
LEAST_BOT_SHARE = 0.4
# Pauses of the bot count as silence from here on.
BOT_FLOOR_DBFS = -60.0
# Correlation of the two levels (dB). Measured with eSpeak voices through a room (tuned on two, held on two others):
# echoes no louder than the noise floor 0.66 and more, 10 dB above it 0.77; unrelated speakers 0.5 (95%) to 0.63 (all),
# noise 0.27.
ECHO_CORRELATION = 0.65

_FRAMES = round(COMPARED_SECS / FRAME_SECS)
_LAGS = round(LONGEST_DELAY_SECS / FRAME_SECS)
_RING = 2 * (_FRAMES + _LAGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoEvidence:
    """One comparison."""

    correlation: float
    """-1..1, at the best delay."""
    delay_secs: float
    """From the write of the bot's audio to its return."""


class EchoDetector:
    """Feed it both sides' levels with the times they belong to; ask now and then."""

    def __init__(self) -> None:
        self._microphone = _Track()
        self._bot = _Track()

    def add_microphone(self, powers: Sequence[float], *, ended_secs: float) -> None:
        """Mean squares of the microphone's latest frames, the last of which ended at `ended_secs`."""
        self._microphone.add(powers, ended_secs=ended_secs)

    def add_bot(self, powers: Sequence[float], *, started_secs: float) -> None:
        """Mean squares of the frames that the bot plays from `started_secs` on, or when the earlier ones are done."""
        self._bot.queue(powers, started_secs=started_secs)

    def compare(self, *, now_secs: float) -> EchoEvidence | None:
        """The likeness of the last seconds; None while the bot was not audible for long enough in them."""
        end = int(now_secs / FRAME_SECS)
        microphone = self._microphone.levels(end, _FRAMES)
        # What the bot never wrote is silence.
        bot = np.fmax(self._bot.levels(end, _FRAMES + _LAGS), BOT_FLOOR_DBFS)
        if (bot[_LAGS:] > BOT_FLOOR_DBFS).mean() < LEAST_BOT_SHARE or not np.isfinite(microphone).all():
            return None
        # What lies under the noise floor is noise: the echo of the bot's pauses as well.
        microphone = np.maximum(microphone, np.percentile(microphone, 10))
        return _best_shift(microphone, bot)


def _best_shift(microphone: npt.NDArray[np.float64], bot: npt.NDArray[np.float64]) -> EchoEvidence:
    shifted = np.lib.stride_tricks.sliding_window_view(bot, _FRAMES)
    shifted = shifted - shifted.mean(axis=1, keepdims=True)
    centred = microphone - microphone.mean()
    scale = np.sqrt((shifted * shifted).sum(axis=1) * float(centred @ centred))
    likeness = shifted @ centred / np.maximum(scale, 1e-9)
    best = int(likeness.argmax())
    return EchoEvidence(correlation=float(likeness[best]), delay_secs=(_LAGS - best) * FRAME_SECS)


class _Track:
    """Levels on the grid, by frame number; what was never written is NaN (microphone) or silence (bot)."""

    def __init__(self) -> None:
        self._levels = np.full(_RING, np.nan)
        self._numbers = np.full(_RING, -1, dtype=np.int64)
        self._next = 0

    def add(self, powers: Sequence[float], *, ended_secs: float) -> None:
        self._write(powers, int(ended_secs / FRAME_SECS) - len(powers))

    def queue(self, powers: Sequence[float], *, started_secs: float) -> None:
        start = max(int(started_secs / FRAME_SECS), self._next)
        # A queue of more than the ring is a clock that jumped.
        if start - int(started_secs / FRAME_SECS) > _RING // 2:
            start = int(started_secs / FRAME_SECS)
        self._next = start + len(powers)
        self._write(powers, start)

    def levels(self, end: int, count: int) -> npt.NDArray[np.float64]:
        numbers = np.arange(end - count, end)
        places = numbers % _RING
        levels = np.where(self._numbers[places] == numbers, self._levels[places], np.nan)
        return _bridged(levels)

    def _write(self, powers: Sequence[float], start: int) -> None:
        for number, power in enumerate(powers[-_RING:], start):
            self._levels[number % _RING] = dbfs(power)
            self._numbers[number % _RING] = number


def _bridged(levels: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Single missing frames, as uneven arrivals leave them, take their neighbour's level."""
    missing = np.isnan(levels)
    missing[0] = False
    for place in np.flatnonzero(missing)[: len(levels) // 4]:
        levels[place] = levels[place - 1]
    return levels
