"""How fast the caller speaks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = [
    "RateBasis",
    "RateUnit",
    "SpeakingRateEstimator",
    "SpeakingRateState",
    "SpokenUtterance",
    "valid_rate",
]


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


# Shorter utterances ("yes", "okay") say nothing about a speaker's rate (LOV, section 4.1).
SHORTEST_UTTERANCE_SECS = 0.5
# Plausible rates of spoken English (LOV, section 4.1).
ENGLISH_WPM = (100.0, 300.0)
# Spaced languages differ in how much a word holds: Finnish and German run slower in words, Spanish faster.
# Chosen around the cross-language syllable rates of Pellegrino et al. 2011; untested.
OTHER_SPACED_WPM = (60.0, 350.0)
# Characters per minute of read and spontaneous speech: Mandarin about 255, Japanese about 360 (kana and kanji mixed),
# Thai several hundred (vowel signs are not letters here). Chosen wide; untested beyond Mandarin.
CHARACTERS_PER_MINUTE = {"zh": (100.0, 450.0), "yue": (100.0, 450.0), "ja": (120.0, 700.0)}
OTHER_UNSPACED_CPM = (150.0, 1000.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenUtterance:
    """One utterance: what was said and how long saying it took."""

    units: int
    """Words or characters, by `unit`."""
    unit: RateUnit
    language: str
    """Base code, for the range of valid rates."""
    speech_secs: float
    basis: RateBasis
    speaker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ValidRate:
    rate: float
    basis: RateBasis


class SpeakingRateEstimator:
    """Folds utterances into an estimate: the ten most recent valid rates, the newest weighted most.

    The estimate is sum(i * r_i) / sum(i) over the rates r_1 (oldest) to r_n (LOV, section 4.1). It starts over when
    the speaker or the language changes, since the old rates then say nothing about the new voice.
    """

    def __init__(self, *, window: int = 10) -> None:
        self._window = window
        self._rates: list[_ValidRate] = []
        self._key: tuple[str, str, RateUnit] | None = None
        self._before_last: list[_ValidRate] | None = None
        self.dropped = 0
        """Utterances that were too short, out of range, or in a language we cannot count."""

    @property
    def state(self) -> SpeakingRateState:
        """The estimate now."""
        if not self._rates or self._key is None:
            return SpeakingRateState(rate=None, unit=self._key[2] if self._key else RateUnit.WORDS_PER_MINUTE)
        weights = range(1, len(self._rates) + 1)
        total = sum(weight * item.rate for weight, item in zip(weights, self._rates, strict=True))
        newest = self._rates[-1]
        return SpeakingRateState(
            rate=total / sum(weights),
            unit=self._key[2],
            latest_rate=newest.rate,
            utterances=len(self._rates),
            basis=newest.basis,
        )

    def add(self, utterance: SpokenUtterance) -> bool:
        """Folds one utterance in. Returns whether it counted."""
        rate = valid_rate(utterance)
        if rate is None:
            self.dropped += 1
            self._before_last = list(self._rates)
            return False
        key = (utterance.speaker, utterance.language, utterance.unit)
        if key != self._key:
            self._key, self._rates = key, []
        self._before_last = list(self._rates)
        self._rates = [*self._rates, _ValidRate(rate=rate, basis=utterance.basis)][-self._window :]
        return True

    def replace_last(self, utterance: SpokenUtterance) -> bool:
        """Takes back the utterance added last and folds its corrected form in. Returns whether that counted."""
        if self._before_last is not None:
            self._rates = self._before_last
        return self.add(utterance)


def valid_rate(utterance: SpokenUtterance) -> float | None:
    """Units per minute, or None when the utterance says nothing about its speaker's rate."""
    if utterance.unit is RateUnit.UNKNOWN or not utterance.speech_secs >= SHORTEST_UTTERANCE_SECS:
        return None
    rate = utterance.units * 60.0 / utterance.speech_secs
    if utterance.unit is RateUnit.CHARACTERS_PER_MINUTE:
        low, high = CHARACTERS_PER_MINUTE.get(utterance.language, OTHER_UNSPACED_CPM)
    else:
        low, high = ENGLISH_WPM if utterance.language == "en" else OTHER_SPACED_WPM
    return rate if low <= rate <= high else None
