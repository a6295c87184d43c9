"""What a voice really delivers, against what it was asked for.

A table says how fast a service speaks at each setting; a given voice is off by a tenth or two. The ratio of delivered
to asked rate is learned from turns that were heard to their end, and applied to both directions: what is asked of the
voice, and what is told about it. Bounded, so that a wrong measurement cannot make speech unintelligible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["LearnedSpeed", "SpeedCalibration"]

# Shorter answers ("Yes, of course.") say little about a voice's tempo. Chosen.
FEWEST_WORDS = 8
SHORTEST_SECS = 2.0
# Beyond this the measurement is wrong, not the table. Chosen; eSpeak, the farthest seen, is at 1.2.
SMALLEST_RATIO, LARGEST_RATIO = 0.7, 1.4
# What the table's word is worth, in words heard: one short answer with a pause in it measured 0.78 for a voice that
# delivers 1.0, and must not move the voice by a fifth. Chosen: about two sentences.
TABLE_WORDS = 40.0
# Older turns fade beyond so many words, so that a changed voice is followed. Chosen.
MEMORY_WORDS = 200.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedSpeed:
    """What was learned of a voice, to be kept between calls."""

    ratio: float
    words: float
    """What the ratio rests on, the table's own worth included."""


class SpeedCalibration:
    """The ratio delivered / asked of one voice."""

    def __init__(self, learned: LearnedSpeed | None = None) -> None:
        """Args:
        learned: From earlier calls. None, and what cannot be true: the table alone.
        """
        self._words = TABLE_WORDS
        self._ratio = 1.0
        if learned is not None and math.isfinite(learned.ratio) and math.isfinite(learned.words):
            self._ratio = min(LARGEST_RATIO, max(SMALLEST_RATIO, learned.ratio))
            self._words = min(MEMORY_WORDS, max(TABLE_WORDS, learned.words))

    @property
    def learned(self) -> LearnedSpeed | None:
        """What is worth keeping; None while nothing was heard."""
        if self._words <= TABLE_WORDS:
            return None
        return LearnedSpeed(ratio=self._ratio, words=self._words)

    @property
    def ratio(self) -> float:
        """1.0 until something was heard."""
        return self._ratio

    def add(self, *, asked_wpm: float, words: int, secs: float) -> None:
        """A turn was heard to its end; measurements that cannot be true are dropped."""
        if words < FEWEST_WORDS or not SHORTEST_SECS <= secs <= 600.0 or not asked_wpm > 0.0:
            return
        ratio = words * 60.0 / secs / asked_wpm
        if not math.isfinite(ratio) or not 0.5 <= ratio <= 2.0:
            return
        total = self._words + words
        mixed = (self._ratio * self._words + ratio * words) / total
        self._ratio = min(LARGEST_RATIO, max(SMALLEST_RATIO, mixed))
        self._words = min(total, MEMORY_WORDS)

    def ask_for(self, words_per_minute: float) -> int:
        """What to ask of the voice so that it delivers this rate."""
        return round(words_per_minute / self.ratio)

    def delivered(self, asked_wpm: float) -> int:
        """What the voice delivers when asked for this rate."""
        return round(asked_wpm * self.ratio)
