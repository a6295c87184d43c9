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

    def tokens_of(self, fidelity: Fidelity) -> int:
        """Tokens of the items with this fidelity."""
        return sum(item.tokens for item in self.items if item.fidelity is fidelity)


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
    costs = [_costs(candidate) for candidate in by_relevance]
    chosen = [max(rung for rung in Fidelity if cost[rung] is not None) for cost in costs]
    _lower(by_relevance, costs, chosen, budget.available_tokens)
    place = {candidate.key: number for number, candidate in enumerate(by_relevance)}
    items: list[ProjectedItem] = []
    omitted: list[str] = []
    for candidate in sorted(unique.values(), key=lambda c: (c.order, c.key)):
        number = place[candidate.key]
        fidelity = chosen[number]
        if fidelity is Fidelity.OMITTED:
            omitted.append(candidate.key)
        else:
            items.append(ProjectedItem(candidate.key, fidelity, costs[number][fidelity] or 0))
    return ProjectedHistory(tuple(items), sum(item.tokens for item in items), tuple(omitted))


_Costs = tuple[int | None, int | None, int | None, int | None]
"""Tokens of one candidate, by `Fidelity`."""


def _costs(candidate: Candidate) -> _Costs:
    return (0, candidate.summary_tokens, candidate.transcript_tokens, candidate.audio_tokens)


def _lower(
    by_relevance: Sequence[Candidate], costs: Sequence[_Costs], chosen: list[Fidelity], limit: int
) -> None:
    """Lowers `chosen` until the whole is within `limit`: rung by rung, first above the floors, then through them."""
    total = sum(cost[fidelity] or 0 for cost, fidelity in zip(costs, chosen, strict=True))
    for respect_floor in (True, False):
        for rung in (*_SHORTENED, None):
            for number, candidate in enumerate(by_relevance):
                if total <= limit:
                    return
                now = chosen[number]
                if rung is None:
                    lower = Fidelity.OMITTED
                elif now is rung:
                    lower = _next_lower(costs[number], rung)
                else:
                    continue
                if lower is now or (respect_floor and lower < candidate.floor):
                    continue
                total += (costs[number][lower] or 0) - (costs[number][now] or 0)
                chosen[number] = lower


def _next_lower(costs: _Costs, rung: Fidelity) -> Fidelity:
    """The next available fidelity that is also cheaper (a longer summary is no step down), or the same one."""
    cost = costs[rung] or 0
    for lower in _RUNGS:
        lower_cost = costs[lower]
        if lower < rung and lower_cost is not None and lower_cost < cost:
            return lower
    return rung
