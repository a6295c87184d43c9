"""The projector: which remembered pages enter the window, and at what fidelity.

The LOV paper's policy (section 3.5). Every candidate starts at its best available fidelity. While the whole is over
budget, candidates are taken in increasing order of relevance and lowered along audio -> transcript -> summary ->
omitted, one rung for all before the next rung for any: nothing is left out while something can still be shortened.
What remains is serialized in conversational order. Two sorts and a few passes: O(N log N).

A candidate may have a floor: the most relevant page is worth more in full than five marginal ones
as summaries, since a summary loses answers that only the transcript holds (14.6% of them in the paper).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from pipecat_voicectx.errors import UsageError

__all__ = ["Budget", "Candidate", "Fidelity", "ProjectedHistory", "ProjectedItem", "project"]


class Fidelity(IntEnum):
    """How much of a page enters the window; a higher number is more."""

    OMITTED = 0
    SUMMARY = 1
    TRANSCRIPT = 2
    AUDIO = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Tokens for the projected history."""

    total_tokens: int
    """B: the most the history may cost."""
    safety_tokens: int = 0
    """B_safe: kept free, for the answer and for errors of the estimate."""

    def __post_init__(self) -> None:
        if self.total_tokens < 0 or self.safety_tokens < 0:
            raise UsageError("a budget must not be negative")

    @property
    def available_tokens(self) -> int:
        """What may be spent."""
        return max(0, self.total_tokens - self.safety_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One page, or the summary of a thread, that could enter the window."""

    key: str
    order: float
    """Position in the conversation; the output is sorted by it."""
    relevance: float
    """Higher is more relevant; only the order matters."""
    audio_tokens: int | None = None
    """Cost as audio. None: no audio is kept, or the model takes none."""
    transcript_tokens: int | None = None
    """Cost as transcript. None: not available (a thread summary)."""
    summary_tokens: int | None = None
    """Cost as summary. None: none has been written."""
    floor: Fidelity = Fidelity.OMITTED
    """Not lowered below this before every other candidate is omitted."""

    def cost(self, fidelity: Fidelity) -> int | None:
        """Tokens at a fidelity; None where it is not available."""
        match fidelity:
            case Fidelity.AUDIO:
                return self.audio_tokens
            case Fidelity.TRANSCRIPT:
                return self.transcript_tokens
            case Fidelity.SUMMARY:
                return self.summary_tokens
            case Fidelity.OMITTED:
                return 0


@dataclass(frozen=True, slots=True)
class ProjectedItem:
    """One candidate that made it into the window."""

    key: str
    fidelity: Fidelity
    tokens: int


@dataclass(frozen=True, slots=True)
class ProjectedHistory:
    """The items in conversational order, and what was left out."""

    items: tuple[ProjectedItem, ...]
    tokens: int
    omitted: tuple[str, ...]

    def count(self, fidelity: Fidelity) -> int:
        """How many items have this fidelity."""
        if fidelity is Fidelity.OMITTED:
            return len(self.omitted)
        return sum(item.fidelity is fidelity for item in self.items)


_RUNGS = (Fidelity.AUDIO, Fidelity.TRANSCRIPT, Fidelity.SUMMARY)
_SHORTENED = (Fidelity.AUDIO, Fidelity.TRANSCRIPT)


def project(candidates: Sequence[Candidate], budget: Budget) -> ProjectedHistory:
    """Fits the candidates into the budget. Never over it; duplicates of a key count once, the most relevant.

    The result depends on the values only, not on the order of `candidates`.
    """
    unique: dict[str, Candidate] = {}
    for candidate in candidates:
        known = unique.get(candidate.key)
        if known is None or candidate.relevance > known.relevance:
            unique[candidate.key] = candidate
    by_relevance = sorted(unique.values(), key=lambda c: (c.relevance, -c.order, c.key))
    chosen = {c.key: _best_available(c) for c in by_relevance}
    total = sum(c.cost(chosen[c.key]) or 0 for c in by_relevance)
    limit = budget.available_tokens
    for respect_floor in (True, False):
        for rung in (*_SHORTENED, None):
            for candidate in by_relevance:
                if total <= limit:
                    break
                now = chosen[candidate.key]
                lower = Fidelity.OMITTED if rung is None else _next_lower(candidate, rung)
                if (rung is not None and now is not rung) or lower is now:
                    continue
                if respect_floor and lower < candidate.floor:
                    continue
                total += (candidate.cost(lower) or 0) - (candidate.cost(now) or 0)
                chosen[candidate.key] = lower
    in_order = sorted(unique.values(), key=lambda c: (c.order, c.key))
    items = tuple(
        ProjectedItem(c.key, chosen[c.key], c.cost(chosen[c.key]) or 0)
        for c in in_order
        if chosen[c.key] is not Fidelity.OMITTED
    )
    omitted = tuple(c.key for c in in_order if chosen[c.key] is Fidelity.OMITTED)
    return ProjectedHistory(items, sum(item.tokens for item in items), omitted)


def _best_available(candidate: Candidate) -> Fidelity:
    return next((rung for rung in _RUNGS if candidate.cost(rung) is not None), Fidelity.OMITTED)


def _next_lower(candidate: Candidate, rung: Fidelity) -> Fidelity:
    """The next available fidelity that is also cheaper (a longer summary is no step down), or the same one."""
    cost = candidate.cost(rung) or 0
    for lower in _RUNGS[_RUNGS.index(rung) + 1 :]:
        lower_cost = candidate.cost(lower)
        if lower_cost is not None and lower_cost < cost:
            return lower
    return rung
