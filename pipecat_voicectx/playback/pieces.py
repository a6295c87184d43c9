"""The units an utterance's text is cut into, each with its place in the audio."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from pipecat_voicectx.playback.alignment import is_unspaced, split_words

__all__ = ["Piece", "Placement", "Segment"]


class Placement(Enum):
    """How a piece came to its place."""

    WORD_TIME = "word_time"
    """The synthesizer said when it is spoken."""
    ALIGNED = "aligned"
    """Estimated from the voice's energy and pace."""
    UNPLACED = "unplaced"
    """Not known: its audio is unfinished and nothing is known of the voice."""
    UNSPOKEN = "unspoken"
    """Shown, never spoken (a code block): it counts as perceived once everything before it was played."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A word, or a stretch of unspoken text, with its place in the utterance."""

    text: str
    """As it goes into the context."""
    start_samples: int
    """First sample."""
    end_samples: int
    """One past the last sample. Equal to the start for unspoken text."""
    placement: Placement
    """What the two rest on."""
    lead: str
    """What separates the text from the piece before it."""
    segment: int
    """Index of the text it is part of, in `Utterance.segments`."""
    begins: bool = False
    """Whether it opens a text, or goes on after a pause, at a place that is known and not estimated."""


@dataclass(slots=True, kw_only=True)
class Segment:
    """A text given to the synthesizer, usually a sentence."""

    segment_id: int | None
    """Identity of the announcement, which words refer to. None for a text that was never announced."""
    text: str
    """As it goes into the context."""
    start_samples: int
    """Audio of the utterance when the text was announced."""
    end_samples: int | None = None
    """Audio when the text was confirmed, if its audio came in between; else None."""
    spoken: bool = True
    """False for text that is only shown."""
    confirmed: bool = False
    """Whether the synthesizer has taken the text."""
    has_spacing: bool = False
    """The text carries its own blanks: none is inserted between it and a neighbour that does too."""
    words: list[tuple[str, float, bool]] = field(default_factory=list)
    """(text, start in seconds from the first audio, has_spacing), where the synthesizer gave word times."""


def is_sentence(text: str) -> bool:
    """Whether a text ends as sentences do."""
    return text.rstrip().endswith((".", "!", "?", "\u3002", "\uff01", "\uff1f"))


def with_leads(segment: Segment, spaced_before: bool) -> list[tuple[str, str]]:
    """(lead, word) of a text's units; the first lead is a blank unless both neighbours carry their own."""
    words: list[tuple[str, str]] = []
    position = 0
    for word in split_words(segment.text):
        start = segment.text.index(word, position)
        lead = segment.text[position:start]
        if not words and not (segment.has_spacing and spaced_before and (lead or is_unspaced(word))):
            lead = " "
        words.append((lead, word))
        position = start + len(word)
    return words


def unspoken(segment: Segment, number: int, position: int, spaced_before: bool) -> Piece:
    """The piece of a text that is only shown, at the end of what was placed before it."""
    return Piece(
        text=segment.text,
        start_samples=position,
        end_samples=position,
        placement=Placement.UNSPOKEN,
        lead="" if segment.has_spacing and spaced_before else " ",
        segment=number,
    )


def unplaced(words: list[tuple[str, str]], number: int, position: int) -> list[Piece]:
    """Pieces whose place is not known: beyond everything that is there."""
    return [
        Piece(
            text=word,
            start_samples=position,
            end_samples=position,
            placement=Placement.UNPLACED,
            lead=lead,
            segment=number,
        )
        for lead, word in words
    ]


def rest_of(segment: Segment) -> list[tuple[str, str]]:
    """(lead, word) of a segment's text beyond the words that have word times."""
    timed = sum(len("".join(text.split())) for text, _, _ in segment.words)
    for index, char in enumerate(segment.text):
        if timed == 0:
            return [(" ", word) for word in segment.text[index:].split()]
        timed -= not char.isspace()
    return []
