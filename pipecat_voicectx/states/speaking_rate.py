"""How fast the caller speaks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["RateBasis", "RateUnit", "SpeakingRateState"]


class RateUnit(Enum):
    """What was counted. A script without spaces has no words to count."""

    WORDS_PER_MINUTE = "words_per_minute"
    CHARACTERS_PER_MINUTE = "characters_per_minute"
    UNKNOWN = "unknown"


class RateBasis(Enum):
    """Where the speech seconds of the latest utterance came from."""

    WORD_TIMES = "word_times"
    """First word's start to last word's end, as the speech-to-text gave them."""
    VOICE_ACTIVITY = "voice_activity"
    """Voice activity, less the silence that the detector waits before it reports a stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakingRateState:
    """The weighted estimate after the latest valid utterance."""

    rate: float | None
    """In `unit`, pauses inside an utterance included. None: no valid utterance yet, or a language that
    we cannot count; never a guess."""
    unit: RateUnit = RateUnit.WORDS_PER_MINUTE
    latest_rate: float | None = None
    """Rate of the latest valid utterance alone, in `unit`."""
    utterances: int = 0
    """Valid utterances behind the estimate, at most the window (ten)."""
    basis: RateBasis | None = None
    """None while `rate` is."""

    @property
    def speaking_rate_wpm(self) -> float | None:
        """Words per minute, or None where words were not what was counted."""
        return self.rate if self.unit is RateUnit.WORDS_PER_MINUTE else None
