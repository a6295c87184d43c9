"""Sleep-time consolidation: merge duplicates, let the newer win, forget by a curve, reflect.

Runs between calls, by command or API, over everything that is known of one owner. Pure: it plans operations and the
caller writes them. Running it twice in a row plans nothing the second time.

The curve: retention = 0.5 ^ (age / half-life), age counted from the last time a fact was said. The half-life grows with
every turn that confirmed it. What falls below the threshold is hidden as forgotten, with its validity, and is not
deleted; who somebody is, is not forgotten at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.facts import (
    USER,
    Cardinality,
    Fact,
    FactEnd,
    Polarity,
    content_words,
    current_facts,
)
from pipecat_voicectx.memory.reconcile import Delete, Operation, Update

__all__ = [
    "ConsolidationConfig",
    "ConsolidationPlan",
    "Reflection",
    "consolidate",
    "half_life_secs",
    "retention",
]

_DAY = 86_400.0
_LASTING = frozenset(
    {"name", "last name", "nickname", "birthday", "be allergic to", "come from", "grow up in", "phone number", "email",
     "address", "live in", "account number"}
)  # fmt: skip
_PREFERENCES = frozenset(
    {"like", "prefer", "be", "speak", "play", "support", "eat", "drink", "favourite colour"}
)
_PASSING = frozenset(
    {"plan", "need", "want", "call about", "state", "budget", "party size", "leave", "arrive", "return"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationConfig:
    """Half-lives in seconds, and the threshold of forgetting. Chosen, not measured; an application sets its own."""

    passing_half_life_secs: float = 14 * _DAY
    """Plans, needs, reasons for a call, states: a fortnight."""
    default_half_life_secs: float = 90 * _DAY
    """Everything that is of no other kind: a season."""
    preference_half_life_secs: float = 365 * _DAY
    """Tastes and abilities: a year."""
    threshold: float = 0.05
    """Retention below which a fact is forgotten: after 4.3 half-lives."""
    confirmation_gain: float = 0.5
    """A fact said n times lives (1 + gain * ln n) times as long."""
    min_reflection_turns: int = 3
    """Turns a pattern must show in to be reflected upon."""

    def __post_init__(self) -> None:
        shortest = min(
            self.passing_half_life_secs, self.default_half_life_secs, self.preference_half_life_secs
        )
        if shortest <= 0 or not 0 < self.threshold < 1 or self.confirmation_gain < 0:
            raise UsageError("ConsolidationConfig: half-lives > 0, 0 < threshold < 1, confirmation_gain >= 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflection:
    """A pattern over several calls, in one sentence, with the turns it rests on."""

    key: str
    """Names the pattern: the same pattern is the same record."""
    text: str
    source_turns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationPlan:
    """What is to be written."""

    operations: tuple[Operation, ...] = ()
    reflections: tuple[Reflection, ...] = ()
    merged: int = 0
    superseded: int = 0
    forgotten: int = 0


def half_life_secs(fact: Fact, config: ConsolidationConfig) -> float | None:
    """After which a fact counts half; None when it is not forgotten."""
    if fact.attribute in _LASTING:
        return None
    if fact.attribute in _PASSING or fact.attribute.endswith("ing"):
        base = config.passing_half_life_secs
    elif fact.attribute in _PREFERENCES or fact.attribute.startswith("favourite"):
        base = config.preference_half_life_secs
    else:
        base = config.default_half_life_secs
    return base * (1 + config.confirmation_gain * math.log(max(1, len(fact.source_turns))))


def retention(fact: Fact, *, now_wall_secs: float, config: ConsolidationConfig) -> float:
    """0..1; 1 when just said. A clock that went back counts as just said."""
    half_life = half_life_secs(fact, config)
    if half_life is None:
        return 1.0
    return float(0.5 ** (max(0.0, now_wall_secs - fact.last_said_wall_secs) / half_life))


def consolidate(
    facts: Iterable[Fact], *, now_wall_secs: float, config: ConsolidationConfig | None = None
) -> ConsolidationPlan:
    """What to do to one owner's facts."""
    config = config or ConsolidationConfig()
    before = {fact.id: fact for fact in facts}
    after = dict(before)
    merged = _merge_duplicates(after)
    superseded = _newer_wins(after, now_wall_secs)
    forgotten = 0
    for fact in list(after.values()):
        if fact.current and retention(fact, now_wall_secs=now_wall_secs, config=config) < config.threshold:
            after[fact.id] = _ended(fact, FactEnd.FORGOTTEN, at=now_wall_secs, by=None)
            forgotten += 1
    operations: list[Operation] = [
        Update(fact=fact) for fact in after.values() if fact != before.get(fact.id)
    ]
    operations += [Delete(fact_id=each) for each in before if each not in after]
    return ConsolidationPlan(
        operations=tuple(operations),
        reflections=tuple(_reflections(after.values(), config)),
        merged=merged,
        superseded=superseded,
        forgotten=forgotten,
    )


def _ended(fact: Fact, why: FactEnd, *, at: float, by: str | None) -> Fact:
    end = max(at, fact.valid_from_wall_secs)
    return replace(fact, valid_to_wall_secs=end, ended_because=why, superseded_by=by)


def _merge_duplicates(facts: dict[str, Fact]) -> int:
    """Current facts that say the same in other words become one, which keeps the earliest beginning and all turns."""
    groups: dict[tuple[str, str, Polarity, frozenset[str]], list[Fact]] = {}
    for fact in current_facts(facts.values()):
        words = content_words(fact.value)
        if words:
            groups.setdefault((fact.subject, fact.attribute, fact.polarity, words), []).append(fact)
    merged = 0
    for group in groups.values():
        if len(group) < 2:
            continue
        newest, rest = group[0], group[1:]  # current_facts puts the last said first
        turns = [
            turn for fact in sorted(group, key=lambda f: f.valid_from_wall_secs) for turn in fact.source_turns
        ]
        facts[newest.id] = replace(
            newest,
            source_turns=tuple(dict.fromkeys(turns)),
            valid_from_wall_secs=min(fact.valid_from_wall_secs for fact in group),
            confidence=max(fact.confidence for fact in group),
        )
        for fact in rest:
            del facts[fact.id]
        merged += len(rest)
    return merged


def _newer_wins(facts: dict[str, Fact], now_wall_secs: float) -> int:
    """Of current facts that cannot both be true the last said stays."""
    ended = 0
    current = current_facts(facts.values())
    for position, newer in enumerate(current):
        if not facts[newer.id].current:
            continue
        for older in current[position + 1 :]:
            same = older.subject == newer.subject and older.attribute == newer.attribute
            if not same or not facts[older.id].current:
                continue
            single = Cardinality.ONE in (newer.cardinality, older.cardinality)
            words, others = content_words(newer.value), content_words(older.value)
            denied = newer.polarity is not older.polarity and (words <= others or others <= words)
            if (single and newer.polarity is older.polarity) or denied:
                at = min(now_wall_secs, newer.last_said_wall_secs)
                facts[older.id] = _ended(older, FactEnd.SUPERSEDED, at=at, by=newer.id)
                ended += 1
    return ended


def _reflections(facts: Iterable[Fact], config: ConsolidationConfig) -> Sequence[Reflection]:
    """What keeps coming back: reasons for calling, and subjects that are spoken of again and again."""
    reasons: dict[str, list[str]] = {}
    subjects: dict[str, list[str]] = {}
    for fact in sorted(facts, key=lambda each: (each.valid_from_wall_secs, each.id)):
        if fact.attribute == "call about":
            words = sorted(content_words(fact.value))
            for word in words[-1:]:
                reasons.setdefault(word, []).extend(fact.source_turns)
        if fact.subject != USER:
            subjects.setdefault(fact.subject, []).extend(fact.source_turns)
    out: list[Reflection] = []
    for word, turns in reasons.items():
        distinct = tuple(dict.fromkeys(turns))
        if len(distinct) >= config.min_reflection_turns:
            out.append(
                Reflection(
                    key=f"calls-about:{word}",
                    text=f"The user often calls about the {word}.",
                    source_turns=distinct,
                )
            )
    for subject, turns in subjects.items():
        distinct = tuple(dict.fromkeys(turns))
        if len(distinct) >= 2 * config.min_reflection_turns:
            text = f"The user often speaks of their {subject}."
            out.append(Reflection(key=f"speaks-of:{subject}", text=text, source_turns=distinct))
    return out
