"""What of a bot turn was heard: the value every other part of the package reads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["CUT_OFF_NOTE", "BoundaryEvidence", "HeardTurn", "strip_cut_off_note", "with_cut_off_note"]


class BoundaryEvidence(Enum):
    """What the end of `HeardTurn.heard_text` rests on, strongest first."""

    WORD = "word"
    """The synthesizer's own word times."""
    DURATION = "duration"
    """Voiced-energy segmentation of the audio and a rate learned for this voice; conservative by one word."""
    NONE = "none"
    """Nothing but whole utterances: what was unfinished was dropped, not guessed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeardTurn:
    """One bot turn, reduced to what the user heard of it. `heard_text` and `unheard_text` together are all words."""

    turn_id: int
    """Rises by at least one from turn to turn of a session; never reused."""
    heard_text: str
    """The words played to the user, joined with single blanks. Empty when nothing was heard."""
    unheard_text: str
    """The words generated but not heard. Never part of a prompt; for "shall I go on?" and for the record."""
    interrupted: bool
    """Whether the user's speech ended the turn before its last word was played."""
    evidence: BoundaryEvidence
    """What the end of the heard text rests on."""
    estimated: bool
    """True when the played position came from the write clock (no acknowledgements) or the cut from alignment."""
    played_samples: int
    """Samples of this turn that were played, at `sample_rate_hz`."""
    sample_rate_hz: int
    """Rate of `played_samples`."""
    started_secs: float
    """Monotonic time at which the turn's first audio was played (first text, if none was)."""
    ended_secs: float
    """Monotonic time of the boundary: the onset of the user's speech, or the end of playback."""


CUT_OFF_NOTE = "[cut off here by the user]"
"""What the model reads after an answer that was interrupted. Not heard by anybody: metrics strip it."""


def with_cut_off_note(text: str, note: str = CUT_OFF_NOTE) -> str:
    """`text` with the note after it; unchanged when either is empty."""
    return f"{text} {note}" if text and note else text


def strip_cut_off_note(text: str, note: str = CUT_OFF_NOTE) -> str:
    """`text` without a trailing note."""
    return text.removesuffix(note).rstrip() if note and text.endswith(note) else text
