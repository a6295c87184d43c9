"""Words with the time they were spoken at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["TimedWord", "spoken_secs"]

# A silence between two words that is longer than this is not part of the speech: the speaker waited, or the words
# between were lost. Chosen: three times the longest pause inside fluent speech that a 0.2 s detector bridges.
LONGEST_PAUSE_SECS = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedWord:
    """One word of a transcript, on the recogniser's own clock."""

    text: str
    start_secs: float
    end_secs: float


def spoken_secs(words: Sequence[TimedWord], *, longest_pause_secs: float = LONGEST_PAUSE_SECS) -> float:
    """Seconds of speech that `words` cover, without silence before, after, or longer than a pause between them."""
    ordered = sorted(words, key=lambda word: (word.start_secs, word.end_secs))
    total_secs = 0.0
    reached_secs: float | None = None
    for word in ordered:
        end_secs = max(word.end_secs, word.start_secs)
        if reached_secs is None:
            total_secs += end_secs - word.start_secs
            reached_secs = end_secs
            continue
        pause_secs = word.start_secs - reached_secs
        if pause_secs <= longest_pause_secs:
            total_secs += max(0.0, end_secs - reached_secs)
        else:
            total_secs += end_secs - word.start_secs
        reached_secs = max(reached_secs, end_secs)
    return total_secs
