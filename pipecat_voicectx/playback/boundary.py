"""The two boundaries of an interrupted turn: where the sound ended, and where the meaning did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipecat_voicectx.playback.spans import Span

__all__ = ["PhysicalBoundary", "SemanticBoundary", "UnheardRemainder", "semantic_boundary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalBoundary:
    """How much of a turn's audio was played."""

    turn_id: int
    played_samples: int
    """Turn-local, all utterances in a row."""
    sample_rate_hz: int
    estimated: bool
    """True when no acknowledgement stands behind it."""
    complete: bool = False
    """Whether the turn was played to its end, so that nothing of it is left to come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SemanticBoundary:
    """The last sentence that was played whole."""

    turn_id: int
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class UnheardRemainder:
    """What an interruption left unsaid: for "shall I go on?", outside any prompt."""

    turn_id: int
    """The turn that was cut; the first of them where several were still to be played."""
    text: str
    """The words that were not heard."""
    spans: tuple[Span, ...]
    """The sentences that were not heard to their end; of the first, the beginning may have been."""


def semantic_boundary(
    spans: Sequence[Span], physical: PhysicalBoundary, *, epsilon_secs: float
) -> SemanticBoundary | None:
    """The end of the last finalized span whose end + epsilon was played; None when no sentence was played whole.

    Spans without word times never make one, however long they have been over: an estimate may serve the context,
    not a decision to act.
    """
    tolerance = 0.0 if physical.complete else epsilon_secs * physical.sample_rate_hz
    needed = physical.played_samples - tolerance
    played = [span for span in spans if span.finalized and span.end_samples <= needed]
    return SemanticBoundary(turn_id=physical.turn_id, span=played[-1]) if played else None
