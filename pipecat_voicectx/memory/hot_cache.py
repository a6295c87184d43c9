"""The hot cache: what a call needs to know of its caller from the first turn on, read as a dictionary.

Filled once while the call connects (profile, last call's summary, open issues, persona), it lives in the call's
memory; a lookup costs microseconds. It is a value: facts that are still on their way to the store ("read your
writes") and facts of this call are laid over it, giving a new one. An anonymous caller has an empty cache; when
the caller is identified in mid-call, what was said until then is laid over the profile that was loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest

from pipecat_voicectx.memory.facts import USER, Cardinality, Fact, Polarity
from pipecat_voicectx.memory.reconcile import Operation, apply_operations

__all__ = ["HotCache", "build_hot_cache"]

# Chosen: the profile's share of a prompt; some twelve short sentences.
DEFAULT_MAX_WORDS = 120
_FIRST = ("name", "nickname", "last name")
# Chosen: far more than a prompt takes, so that losing some to corrections leaves enough; the rest is found by recall.
_MAX_FACTS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class HotCache:
    """What is known of a caller when the phone rings."""

    identified: bool = False
    """Whether the caller is known at all; False for the anonymous caller."""
    facts: tuple[Fact, ...] = ()
    """The first 200 of the current facts: names, then what has one value, then the rest, the last said first."""
    last_call_summary: str = ""
    open_issues: tuple[str, ...] = ()
    persona: tuple[str, ...] = ()
    """Sentences of the right brain."""
    _by_key: Mapping[tuple[str, str], str] = field(default_factory=dict, repr=False)

    def lookup(self, attribute: str, *, subject: str = USER) -> str | None:
        """The current value of an attribute; None when it is not known. A dictionary read."""
        return self._by_key.get((subject, attribute))

    def with_operations(self, operations: Iterable[Operation]) -> HotCache:
        """This cache after changes that the store may not have yet."""
        return _with_facts(self, apply_operations(self.facts, operations))

    def with_persona(self, persona: Sequence[str]) -> HotCache:
        """This cache with other sentences about the person."""
        return replace(self, persona=tuple(persona))

    def identified_as(self, loaded: HotCache, *, session_facts: Sequence[Fact]) -> HotCache:
        """The loaded profile with what this call has established on top; what was just said wins."""
        said = {
            (fact.subject, fact.attribute) for fact in session_facts if fact.cardinality is Cardinality.ONE
        }
        kept = [fact for fact in loaded.facts if (fact.subject, fact.attribute) not in said]
        known = {fact.id for fact in kept}
        merged = [*kept, *(fact for fact in session_facts if fact.current and fact.id not in known)]
        return _with_facts(replace(loaded, identified=True), merged)

    def render(self, *, max_words: int = DEFAULT_MAX_WORDS) -> str:
        """The profile as a few lines for a prompt, most important first; "" when nothing is known."""
        lines: list[str] = []
        left = max_words
        parts = [
            " ".join(self._fitting([fact.statement for fact in self.facts], max_words * 6 // 10)),
            f"Last call: {self.last_call_summary}" if self.last_call_summary else "",
            f"Open: {'; '.join(self.open_issues)}" if self.open_issues else "",
            " ".join(self.persona),
        ]
        for part in parts:
            words = part.split()
            if words and left > 3:
                lines.append(" ".join(words[:left]))
                left -= len(words)
        return "\n".join(lines)

    @staticmethod
    def _fitting(sentences: Sequence[str], max_words: int) -> list[str]:
        chosen: list[str] = []
        for sentence in sentences:
            cost = len(sentence.split())
            if cost > max_words:
                break
            chosen.append(sentence)
            max_words -= cost
        return chosen


def build_hot_cache(
    facts: Iterable[Fact],
    *,
    last_call_summary: str = "",
    open_issues: Sequence[str] = (),
    persona: Sequence[str] = (),
) -> HotCache:
    """The cache of an identified caller, from what the store holds."""
    empty = HotCache(
        identified=True,
        last_call_summary=last_call_summary,
        open_issues=tuple(open_issues),
        persona=tuple(persona),
    )
    return _with_facts(empty, facts)


def _with_facts(cache: HotCache, facts: Iterable[Fact]) -> HotCache:
    def rank(fact: Fact) -> tuple[int, int, float, str]:
        order = (
            _FIRST.index(fact.attribute) if fact.attribute in _FIRST and fact.subject == USER else len(_FIRST)
        )
        return (order, 0 if fact.cardinality is Cardinality.ONE else 1, -fact.last_said_wall_secs, fact.id)

    ordered = tuple(nsmallest(_MAX_FACTS, (fact for fact in facts if fact.current), key=rank))
    by_key: dict[tuple[str, str], str] = {}
    for fact in ordered:
        if fact.polarity is Polarity.AFFIRMED:
            by_key.setdefault((fact.subject, fact.attribute), fact.value)
    return replace(cache, facts=ordered, _by_key=by_key)
