"""How long this speaker pauses inside a turn, and the silence that ends their turns because of it.

Evidence is a pause that turned out not to be the end: speech that resumed within the same turn, or so soon after a
boundary that the boundary must have been premature. The profile keeps the most recent pauses with an exponential
memory in time; its statistic is a high quantile, since the silence must outlast nearly all pauses and not the mean.

    silence = clip(q90 of the pauses + margin, 0.2 s, 1.5 s)

To wait less than a strategy does takes more: several turns spoken without any pause count as evidence of short ones,
and the longest pause of late must fit, since a turn that is cut costs more than one that is answered late.

Until there is enough evidence nothing is lengthened or shortened. While something is being dictated (digits, spelled
letters, an e-mail address), the longest silence applies: people group such things and breathe between the groups.
"""

from __future__ import annotations

import math
import re
from collections import deque
from dataclasses import dataclass

from pipecat_voicectx.errors import UsageError

__all__ = ["PauseProfile", "PauseProfileConfig", "is_dictation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseProfileConfig:
    """Bounds and memory of the profile."""

    shortest_secs: float = 0.2
    """Least silence that ends a turn; what the detector itself needs."""
    longest_secs: float = 1.5
    """Most silence that ends a turn. Chosen."""
    margin_secs: float = 0.15
    """Above the pause that nine of ten stay below. Chosen."""
    quantile: float = 0.9
    """Share of the pauses that the silence outlasts, 0.5 to below 1. Chosen."""
    fewest_pauses: int = 5
    """Evidence needed before anything changes. Chosen: below that, a q90 is the maximum."""
    fewest_to_shorten: int = 6
    """Pauses and fluent turns needed before a silence is shortened. Chosen; one more than for lengthening."""
    fluent_secs: float = 1.2
    """Speech without a pause for this long says that the speaker can do without. Chosen: about four words."""
    half_life_secs: float = 120.0
    """A pause this old counts half. Chosen: a topic's length."""
    most_pauses: int = 40
    """Pauses, and fluent turns, that are remembered. Chosen."""
    shortest_pause_secs: float = 0.15
    """Closures inside words are shorter and are no pauses (Goldman-Eisler's bound is 0.25 s). A pause counts from the
    end of speech to the detector's word that it resumed."""
    longest_pause_secs: float = 3.0
    """A longer silence inside a turn is an interruption of it, not a habit."""

    def __post_init__(self) -> None:
        if not 0.0 < self.shortest_secs < self.longest_secs or not 0.5 <= self.quantile < 1.0:
            raise UsageError("PauseProfileConfig: 0 < shortest_secs < longest_secs and quantile in [0.5, 1)")
        if (
            min(self.fewest_to_shorten, self.fewest_pauses) < 1
            or self.most_pauses < self.fewest_pauses
            or self.half_life_secs <= 0.0
        ):
            raise UsageError("PauseProfileConfig: 1 <= fewest_pauses <= most_pauses and half_life_secs > 0")
        if min(self.margin_secs, self.fluent_secs) < 0.0:
            raise UsageError("PauseProfileConfig: margin_secs and fluent_secs must not be negative")
        if not 0.0 <= self.shortest_pause_secs < self.longest_pause_secs:
            raise UsageError("PauseProfileConfig: 0 <= shortest_pause_secs < longest_pause_secs")


# Beyond three half-lives a pause weighs an eighth. Chosen.
_MEMORY_HALF_LIVES = 3.0


class PauseProfile:
    """Feed it pauses and what was said; ask for the silence."""

    def __init__(self, config: PauseProfileConfig | None = None) -> None:
        self._config = config or PauseProfileConfig()
        self._pauses: deque[tuple[float, float]] = deque(maxlen=self._config.most_pauses)
        self._fluent: deque[float] = deque(maxlen=self._config.most_pauses)
        self._dictating = False

    @property
    def dictating(self) -> bool:
        """Whether what was said last is being dictated."""
        return self._dictating

    def add_pause(self, pause_secs: float, *, now_secs: float) -> bool:
        """Speech resumed after this silence, inside one turn. Returns whether it is evidence."""
        if not self._config.shortest_pause_secs <= pause_secs <= self._config.longest_pause_secs:
            return False
        self._pauses.append((now_secs, pause_secs))
        return True

    def add_fluent(self, speech_secs: float, *, now_secs: float) -> None:
        """A turn was spoken without a pause."""
        if speech_secs >= self._config.fluent_secs:
            self._fluent.append(now_secs)

    def add_text(self, text: str) -> None:
        """A final transcript of the present turn."""
        self._dictating = is_dictation(text)

    def turn_over(self) -> None:
        """The next turn is not dictated until it says so."""
        self._dictating = False

    def silence_secs(self, *, now_secs: float) -> float | None:
        """Silence that should end this speaker's turn now; None without enough evidence."""
        if self._dictating:
            return self._config.longest_secs
        if len(self._pauses) < self._config.fewest_pauses:
            return None
        wanted_secs = self._quantile(now_secs) + self._config.margin_secs
        return min(self._config.longest_secs, max(self._config.shortest_secs, wanted_secs))

    def enough_secs(self, *, now_secs: float) -> float | None:
        """Silence after which this speaker has always been done; None without enough evidence."""
        since_secs = now_secs - _MEMORY_HALF_LIVES * self._config.half_life_secs
        pauses = [secs for at_secs, secs in self._pauses if at_secs >= since_secs]
        fluent = sum(at_secs >= since_secs for at_secs in self._fluent)
        if self._dictating or len(pauses) + fluent < self._config.fewest_to_shorten:
            return None
        wanted_secs = max(pauses, default=0.0) + self._config.margin_secs
        if wanted_secs > self._config.longest_secs:
            return None
        return max(self._config.shortest_secs, wanted_secs)

    def _quantile(self, now_secs: float) -> float:
        decay = math.log(2.0) / self._config.half_life_secs
        weighed = sorted(
            (secs, math.exp(-decay * max(0.0, now_secs - at_secs))) for at_secs, secs in self._pauses
        )
        target = self._config.quantile * sum(weight for _, weight in weighed)
        reached = 0.0
        for secs, weight in weighed:
            reached += weight
            if reached >= target - 1e-12:
                return secs
        return weighed[-1][0]


_DIGIT_WORDS = frozenset(
    (
        "zero",
        "oh",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "double",
        "triple",
    )
)
# Spoken punctuation that hardly occurs outside of addresses.
_ADDRESS_WORDS = frozenset(("dot", "underscore", "hyphen", "slash"))
_ADDRESS_REACH = 5
_FEWEST_IN_A_ROW = 3


def is_dictation(text: str) -> bool:
    """Whether a transcript ends in a number, letters or an address that is being read out.

    English digit words, digits of any script and single letters, three or more in a row at the end (a price or a
    time of day has fewer), or the spoken punctuation of an address among the last words.
    """
    tokens = re.findall(r"[\w@.+-]+", text.lower())
    ending = tokens[-_ADDRESS_REACH:]
    if any("@" in token or token in _ADDRESS_WORDS for token in ending):
        return True
    run = 0
    for token in reversed(tokens):
        bare = token.strip(".-+")
        if bare.isdigit():
            run += len(bare)
        elif (
            bare in _DIGIT_WORDS or bare == "plus" or (len(bare) == 1 and bare.isalpha() and bare not in "ai")
        ):
            run += 1
        else:
            break
    return run >= _FEWEST_IN_A_ROW
