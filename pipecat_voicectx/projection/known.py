"""What is known of the caller, as lines of the recalled block: profile, this call, what bears on the turn.

Pure. The three come from the hot cache, the session facts and a recall that was staged while the caller spoke. A fact
stands once, and not at all while the words it came from are in the window anyway. The budget is spent on what bears
on the turn first, then on what this call established, then on the profile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.dual_recall import DualRecall
from pipecat_voicectx.memory.facts import Fact
from pipecat_voicectx.memory.hot_cache import HotCache
from pipecat_voicectx.projection.block import RecalledLine, escape_recalled
from pipecat_voicectx.projection.costs import estimate_tokens

__all__ = ["KNOWN_GROUP", "KnownConfig", "known_lines"]

KNOWN_GROUP = "known of this caller"
# A line's dash and end, rounded up.
_LINE_TOKENS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownConfig:
    """How much of what is known enters a prompt."""

    budget_tokens: int = 150
    """Tokens of all lines together, taken from the recalled block's own budget. Chosen: a dozen short sentences."""
    profile_facts: int = 6
    """Facts of the hot cache, names first. Chosen."""
    session_facts: int = 6
    """The latest facts of this call. Chosen."""
    opening_turns: int = 2
    """User turns at the start of a call that see the last call's summary and what was left open. Chosen."""

    def __post_init__(self) -> None:
        if min(self.budget_tokens, self.profile_facts, self.session_facts, self.opening_turns) < 0:
            raise UsageError("KnownConfig: budget and counts must not be negative")


class _Purse:
    """Takes sentences while the budget lasts, each once."""

    def __init__(self, budget_tokens: int, count: Callable[[str], int]) -> None:
        self._left = budget_tokens
        self._count = count
        self._taken: set[str] = set()

    def line(self, sentences: Iterable[str], *, lead: str = "") -> str:
        """One line of those that fit; "" when none does."""
        chosen: list[str] = []
        for sentence in sentences:
            cost = self._count(escape_recalled(sentence)) + (
                0 if chosen else self._count(lead) + _LINE_TOKENS
            )
            if sentence and sentence not in self._taken and cost <= self._left:
                self._left -= cost
                self._taken.add(sentence)
                chosen.append(sentence)
        return lead + " ".join(chosen) if chosen else ""


def known_lines(
    cache: HotCache,
    session: Sequence[Fact],
    recalled: DualRecall | None,
    *,
    turn: int,
    in_window: Collection[str] = (),
    config: KnownConfig | None = None,
    count: Callable[[str], int] = estimate_tokens,
) -> tuple[RecalledLine, ...]:
    """The lines for one turn, in the order profile, last call, this call, this turn.

    Args:
        cache: Profile of the caller, this call's facts laid over it.
        session: Facts of this call, oldest first.
        recalled: What was staged for this turn. None: nothing is ready.
        turn: Number of the user turn in this call, from 1.
        in_window: Pages whose words the model sees anyway; facts said only there are left out.
        config: Budget and counts.
        count: Token estimate.
    """
    config = config or KnownConfig()
    window = frozenset(in_window)

    def shown(fact: Fact) -> bool:
        return fact.current and not (fact.source_turns and window.issuperset(fact.source_turns))

    purse = _Purse(config.budget_tokens, count)
    bearing = purse.line(_bearing(recalled, shown)) if recalled is not None else ""
    of_call = [fact for fact in session if shown(fact)]
    latest = purse.line(fact.statement for fact in reversed(of_call[-config.session_facts :]))
    said_here = {fact.id for fact in session}
    profile = (fact for fact in cache.facts if fact.id not in said_here and shown(fact))
    about = purse.line(fact.statement for fact in islice(profile, config.profile_facts))
    before = ""
    if turn <= config.opening_turns:
        before = purse.line([cache.last_call_summary], lead="Last call: ")
        if cache.open_issues:
            before += purse.line([f" Left open: {'; '.join(cache.open_issues)}."])
    lines = (about, before.strip(), latest, bearing)
    return tuple(RecalledLine(text=text, group=KNOWN_GROUP) for text in lines if text)


def _bearing(recalled: DualRecall, shown: Callable[[Fact], bool]) -> list[str]:
    hidden = {fact.statement for fact in recalled.facts if not shown(fact)}
    return [sentence for sentence in recalled.sentences if sentence not in hidden]
