"""Reconciliation: what a turn's changes do to the facts that are there: add, update, delete or keep.

Pure and idempotent. The plan for a turn depends on the facts, the changes and the turn's id and time; handling the same
turn again yields `Keep` only, because a fact's id is made of what it says and when it began, and because a turn
that is already among a fact's sources changes nothing.

What ends what:
- one-valued attributes (a name, a home): a newer value supersedes the older;
- a correction supersedes the value that it names;
- a denial ends the affirmations of the same thing, and the other way round, also across verbs that say the same
  (owning, liking): "i don't drink coffee anymore" ends "likes coffee in the morning";
- of many-valued attributes, the same words with another number or date are the same fact, moved;
- endings end what they name; retractions delete it, history included.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from pipecat_voicectx.memory.facts import (
    USER,
    Assertion,
    Cardinality,
    Change,
    Ending,
    EndingScope,
    Fact,
    FactEnd,
    Polarity,
    Retraction,
    content_words,
    fact_id,
)
from pipecat_voicectx.memory.forgotten import to_forget
from pipecat_voicectx.memory.frames import CONSUMING, OWNING, TROUBLE
from pipecat_voicectx.memory.spoken_english import GIVEN_NAMES, PERSON_RELATIONS, PETS, value_class
from pipecat_voicectx.memory.turnovers import stems

__all__ = ["Add", "Delete", "Keep", "Operation", "Update", "apply_operations", "reconcile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Add:
    """A fact that is new."""

    fact: Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A fact that changed: it ended, or another turn confirmed it. Same id."""

    fact: Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """A fact to be removed with its history, because the user asked for it."""

    fact_id: str
    source_turns: tuple[str, ...] = ()
    """The turns it rested on, for whoever keeps what was said in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """A fact that the turn says again and that needs no write."""

    fact_id: str


Operation = Add | Update | Delete | Keep

_PEOPLE = PERSON_RELATIONS | PETS | GIVEN_NAMES | {USER}
# Who holds a role may change; then what was known of the one before is over. A sister's name is only ever corrected.
_ROLES_TEXT = """
boss manager supervisor doctor dentist therapist lawyer accountant teacher tutor coach landlord landlady tenant
roommate flatmate housemate neighbour neighbor assistant nanny babysitter carer caretaker partner girlfriend
boyfriend lodger super superintendent principal trainer instructor"""
_ROLES = frozenset(_ROLES_TEXT.split())
# Attributes whose whole value may be a time.
_TIMED = frozenset({"wants to be called"})
# What is amiss when it is denied: what does not work, has not come.
_AWAITED = frozenset(
    {"work", "arrive", "come", "deliver", "charge", "start", "open", "load", "connect", "respond"}
)
_TROUBLE_STEMS = stems(" ".join(TROUBLE - {"working"})) - {"leave", "roll", "fall", "down", "late", "pull"}
# Attributes that are one question with several verbs.
_FAMILIES = (CONSUMING, OWNING, frozenset({"go to", "study at"}))


def reconcile(
    facts: Iterable[Fact],
    changes: Sequence[Change],
    *,
    turn_id: str,
    now_wall_secs: float,
    later_turns: Collection[str] = (),
) -> list[Operation]:
    """What to do to `facts` for one turn, in order.

    `later_turns` are turns that came after this one, when a turn is handled late (after a crash): what rests on them
    alone is newer and is not ended or superseded, whatever the clocks said.
    """
    plan = _Plan(facts, turn_id, now_wall_secs, later_turns)
    for change in changes:
        match change:
            case Assertion():
                plan.say(change)
            case Ending():
                plan.end(change)
            case Retraction():
                plan.retract(change)
    return plan.operations()


def apply_operations(facts: Iterable[Fact], operations: Iterable[Operation]) -> list[Fact]:
    """The facts after the operations."""
    by_id = {fact.id: fact for fact in facts}
    for operation in operations:
        match operation:
            case Add(fact=fact) | Update(fact=fact):
                by_id[fact.id] = fact
            case Delete(fact_id=each):
                by_id.pop(each, None)
            case Keep():
                pass
    return list(by_id.values())


class _Plan:
    def __init__(
        self, facts: Iterable[Fact], turn_id: str, now_wall_secs: float, later_turns: Collection[str]
    ) -> None:
        self._later_turns = later_turns
        self._facts = {fact.id: fact for fact in facts}
        self._before = dict(self._facts)
        self._kept: list[str] = []
        self._by_subject: dict[str, list[str]] = {}
        self._added: list[str] = []
        self._turn_id = turn_id
        self._now = now_wall_secs

    def operations(self) -> list[Operation]:
        out: list[Operation] = []
        for each, fact in self._facts.items():
            if each not in self._before:
                out.append(Add(fact=fact))
            elif fact is not self._before[each] and fact != self._before[each]:
                out.append(Update(fact=fact))
        out += [
            Delete(fact_id=each, source_turns=fact.source_turns)
            for each, fact in self._before.items()
            if each not in self._facts
        ]
        changed = {op.fact.id for op in out if isinstance(op, Add | Update)}
        out += [Keep(fact_id=each) for each in dict.fromkeys(self._kept) if each not in changed]
        return out

    def _current(self) -> list[Fact]:
        return [fact for fact in self._facts.values() if fact.current]

    def _of_subject(self, subject: str) -> list[Fact]:
        """Current facts about one subject. Who has many facts has few about each; finding them once is enough."""
        if subject not in self._by_subject:
            self._by_subject[subject] = [fact.id for fact in self._before.values() if fact.subject == subject]
        ids = (*self._by_subject[subject], *(each for each in self._added if each in self._facts))
        found = (self._facts[each] for each in ids if each in self._facts)
        return [fact for fact in found if fact.current and fact.subject == subject]

    def say(self, said: Assertion) -> None:
        """Adds, confirms or supersedes."""
        if not said.value and not said.statement:
            return
        if self._handled(said):
            return
        same = next((fact for fact in self._of_subject(said.subject) if _same(fact, said)), None)
        if same is not None and said.replaces is None:
            turns = (
                same.source_turns
                if self._turn_id in same.source_turns
                else (*same.source_turns, self._turn_id)
            )
            self._facts[same.id] = replace(
                same, source_turns=turns, last_said_wall_secs=max(self._now, same.last_said_wall_secs)
            )
            self._kept.append(same.id)
            return
        fresh = Fact(
            id=fact_id(said, began_wall_secs=self._now),
            subject=said.subject,
            attribute=said.attribute,
            value=said.value,
            statement=said.statement,
            polarity=said.polarity,
            cardinality=said.cardinality,
            confidence=said.confidence,
            valid_from_wall_secs=self._now,
            source_turns=(self._turn_id,),
            last_said_wall_secs=self._now,
        )
        newer: Fact | None = None
        for fact in self._of_subject(said.subject):
            if not _displaced(fact, said):
                continue
            if self._is_later(fact):
                newer = fact
            else:
                self._finish(fact, FactEnd.SUPERSEDED, by=fresh.id)
                if fact.attribute == "name" and fact.value:
                    self._renamed(fact, said)
        self._facts[fresh.id] = fresh
        self._added.append(fresh.id)
        if newer is not None:
            self._finish(fresh, FactEnd.SUPERSEDED, by=newer.id)

    def _is_later(self, fact: Fact) -> bool:
        return bool(fact.source_turns) and all(turn in self._later_turns for turn in fact.source_turns)

    def _handled(self, said: Assertion) -> bool:
        """Whether this very turn has said so before: it is being handled again."""
        for fact in self._before.values():
            if self._turn_id in fact.source_turns and _same(fact, said):
                self._kept.append(fact.id)
                return True
        return False

    def end(self, said: Ending) -> None:
        """Ends what is over; with whoever held a role goes what was known of them."""
        if said.subject in _ROLES and "name" in said.attributes:
            for named in self._of_subject(said.subject):
                if named.attribute == "name" and named.value:
                    self._gone(named)
        words = stems(said.value)
        for fact in self._current():
            if self._is_later(fact) or (self._turn_id in fact.source_turns and fact.id in self._before):
                continue
            if fact.subject != said.subject and not (words and not said.attributes):
                continue
            if said.attributes and not any(_related(fact.attribute, each) for each in said.attributes):
                continue
            thing = "" if fact.subject in _PEOPLE else fact.subject
            about = stems(f"{thing} {fact.attribute} {fact.value}")
            if words and not (words <= about or (stems(fact.value) and stems(fact.value) <= words)):
                continue
            trouble = said.scope is EndingScope.TROUBLE
            if fact.polarity is Polarity.NEGATED and not said.attributes and not trouble:
                continue
            if trouble and not _is_amiss(fact):
                continue
            self._finish(fact, FactEnd.ENDED, by=None)

    def retract(self, said: Retraction) -> None:
        """Deletes what the user wants forgotten, ended versions included."""
        words = content_words(said.about)
        if not words and said.of is not None:
            for fact in list(self._facts.values()):
                if any(_same(fact, each) for each in said.of) and not self._is_later(fact):
                    self._facts.pop(fact.id)
            return
        if not words:
            latest = max(
                (fact.last_said_wall_secs for fact in self._before.values() if fact.current), default=None
            )
            if latest is None or any(self._turn_id in fact.source_turns for fact in self._before.values()):
                latest = None
            for fact in list(self._facts.values()):
                said_last = fact.last_said_wall_secs == latest and not self._is_later(fact)
                if said_last or fact.id not in self._before:
                    self._facts.pop(fact.id)
            return
        known = [fact for fact in self._facts.values() if not self._is_later(fact)]
        for fact in to_forget(said.about, known):
            self._facts.pop(fact.id)

    def _gone(self, named: Fact) -> None:
        for fact in self._of_subject(named.subject):
            if named.value in fact.statement and fact.id != named.id and not self._is_later(fact):
                self._finish(fact, FactEnd.ENDED, by=None)

    def _renamed(self, before: Fact, said: Assertion) -> None:
        """A name that was corrected is corrected in the sentences; a role that changed hands starts anew."""
        changed_hands = said.replaces is None and before.subject in _ROLES
        for fact in self._of_subject(before.subject):
            if fact.id == before.id or before.value not in fact.statement or self._is_later(fact):
                continue
            if changed_hands:
                self._finish(fact, FactEnd.ENDED, by=None)
            elif fact.attribute != "name":
                statement = fact.statement.replace(before.value, said.value)
                self._facts[fact.id] = replace(fact, statement=statement)

    def _finish(self, fact: Fact, why: FactEnd, *, by: str | None) -> None:
        self._facts[fact.id] = replace(
            fact,
            valid_to_wall_secs=max(self._now, fact.valid_from_wall_secs),
            ended_because=why,
            superseded_by=by,
        )


def _is_amiss(fact: Fact) -> bool:
    words = content_words(f"{fact.attribute} {fact.value}")
    if fact.polarity is Polarity.NEGATED:
        return bool(stems(" ".join(words)) & _AWAITED)
    return bool(words & (TROUBLE - {"working"}) or stems(" ".join(words)) & _TROUBLE_STEMS)


def _same(fact: Fact, said: Assertion) -> bool:
    return (
        fact.subject == said.subject
        and fact.attribute == said.attribute
        and fact.polarity is said.polarity
        and fact.value.casefold() == said.value.casefold()
    )


def _related(one: str, other: str) -> bool:
    return one == other or any(one in family and other in family for family in _FAMILIES)


def _displaced(fact: Fact, said: Assertion) -> bool:
    """Whether a current fact stops being true by what was said."""
    if fact.subject != said.subject:
        return False
    if said.replaces is not None and fact.attribute == said.attribute:
        return fact.value.casefold() == said.replaces.casefold() or said.cardinality is Cardinality.ONE
    if fact.polarity is not said.polarity:
        if (
            said.cardinality is Cardinality.ONE
            and said.polarity is Polarity.AFFIRMED
            and fact.attribute == said.attribute
        ):
            return True
        return _related(fact.attribute, said.attribute) and _overlap(fact.value, said.value)
    if fact.attribute != said.attribute:
        return False
    return said.cardinality is Cardinality.ONE or _moved(fact.value, said.value, said.attribute)


def _overlap(one: str, other: str) -> bool:
    """Whether two values are about the same thing: one's words are among the other's, or one has none."""
    first, second = content_words(one), content_words(other)
    return first <= second or second <= first


def _moved(one: str, other: str, attribute: str) -> bool:
    """Whether two values differ in nothing but their number or date; "a cot" counts one."""
    first, second = value_class(_counted(one)), value_class(_counted(other))
    if first is None or second is None or first[0] != second[0]:
        return False
    rest = [
        frozenset(
            word.removesuffix("s") for word in content_words(f"{value[: kind[1][0]]} {value[kind[1][1] :]}")
        )
        for value, kind in ((_counted(one), first), (_counted(other), second))
    ]
    said = bool(rest[0]) or attribute in _TIMED
    return said and rest[0] == rest[1] and content_words(one) != content_words(other)


def _counted(value: str) -> str:
    return re.sub(r"^an?\s+", "one ", value, flags=re.IGNORECASE)
