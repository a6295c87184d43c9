"""One pass over one turn, so far: what was said in it and before it, and what it changes.

The base of the readings in `substitutions` and `extraction`. Immutable values go in and out; the pass itself collects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from pipecat_voicectx.memory.corrections import (
    x_not_y,
)
from pipecat_voicectx.memory.facts import (
    USER,
    Assertion,
    Cardinality,
    Change,
    Ending,
    Fact,
    Polarity,
    content_words,
)
from pipecat_voicectx.memory.frames import CONSUMING, HABIT_VERBS, sentence, third_person
from pipecat_voicectx.memory.spoken_english import (
    GIVEN_NAMES,
    PERSON_RELATIONS,
    PETS,
    expand_contractions,
    kind_span,
    value_class,
)
from pipecat_voicectx.memory.subjects import Referents

__all__ = ["LEAD_IN", "NAMES", "WISHES", "ConversationFocus", "Extraction", "TurnState", "alike", "denied"]

# Chosen: "forget that" means a statement of this turn or of one of so many before it.
_MAX_TURNS_BACK = 2
# Chosen: what a correction may reach back to, in assertions.
_MAX_RECENT = 6
_PRONOUNS = frozenset(
    {"it", "that", "this", "them", "him", "her", "one", "those", "these", "some", "so", "there"}
)
_ABOUT_IT = re.compile(
    r"^(?:it|them|that|this) (?:to|in|on|at|for|with|from|every|most|twice|once|there|here)\b", re.IGNORECASE
)
_OF_THE_CALL = frozenset({"want", "need", "have", "get"})
_CALL_TALK = re.compile(
    r"^(?:to (?:speak|talk)\b|(?:an?|some|any|your|one|another)? ?(?:quick |more |little |last )?(?:help|"
    r"questions?|message|second|minute|"
    r"moment|favou?r|hand|callback|call back)\b)",
    re.IGNORECASE,
)
_DETERMINER = re.compile(r"^(?:an?|the|my|our|one|two|three|four|five|six|some|this|that)\s", re.IGNORECASE)
WISHES = frozenset({"want", "need"})
"""Attributes of which a caller has many at once, each a condition of its own."""
NAMES = frozenset({"name", "last name"})
"""Attributes that hold a name."""
LEAD_IN = re.compile(
    r"^(?:(?:and|but|so|well|oh|yeah|yes|yep|okay|ok|hi|hello|hey|good (?:morning|afternoon|evening)|also|"
    r"now|then|"
    r"plus|anyway|listen|look|right|honestly|basically|to be honest|by the way|guess what|you know|"
    r"the thing is|"
    r"because|since|please|in fact|as i said|i told you|i should (?:say|mention)|"
    r"i (?:think|guess|believe|suppose|reckon|figure|would say|would guess) (?=i |my |we |our |it is )|to "
    r"be fair|just so you know|fyi|apparently|"
    r"thinking about it|"
    r"for the record|you should know|these days|better|"
    r"(?:this time|lately|nowadays|right now|usually|normally|for now|at the moment|most (?:days|nights|"
    r"weeks|mornings)|on (?:weekends|"
    r"weekdays|weeknights)|every (?:day|week|year|night|morning|summer|winter)|in the (?:mornings?|"
    r"evenings?|summers?|winters?)) "
    r"(?=(?:i|we|he|she|they|my|our|the) )|"
    r"(?:at|from) (?:the moment|next (?:week|month|year)|now on)|everybody knows|of course)\b[\s,]*)+",
    re.IGNORECASE,
)
"""What leads into a clause and says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationFocus:
    """What the next turn may refer to. Kept for a session, not stored."""

    referents: Referents = field(default_factory=Referents)
    recent: tuple[Assertion, ...] = ()
    """What was asserted lately, the latest last."""
    correcting: bool = False
    """The speaker said that something was wrong, and not yet what is right."""
    said_last: tuple[Assertion, ...] = ()
    """What the last turn that stated something asserted."""
    turns_since: int = 0
    """Turns since then."""
    ended_attribute: str | None = None
    """Verb of what was just given up, for "i switched to tea"."""

    @classmethod
    def from_facts(cls, facts: Iterable[Fact]) -> ConversationFocus:
        """The focus at the start of a call: the names that are known."""
        referents = Referents()
        for fact in facts:
            if fact.current and fact.attribute == "name" and fact.subject != USER:
                referents = referents.seen(fact.subject, fact.value)
        return cls(referents=replace(referents, she=None, he=None, it=None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """What a turn said, and the focus for the next one."""

    changes: tuple[Change, ...]
    focus: ConversationFocus


class TurnState:
    """What one pass has collected."""

    def __init__(self, focus: ConversationFocus, question: str) -> None:
        self._focus = focus
        self._question = expand_contractions(question)
        self._changes: list[Change] = []
        self._said: list[Assertion] = []
        self._wrong = False

    def _next_focus(self) -> ConversationFocus:
        waiting = self._focus.correcting and self._wrong  # "no" alone corrects within its turn only
        recent = (*self._focus.recent, *self._said)[-_MAX_RECENT:]
        said = tuple(self._said) or self._focus.said_last
        since = 0 if self._said else self._focus.turns_since + 1
        return replace(self._focus, recent=recent, correcting=waiting, said_last=said, turns_since=since)

    def _recent(self) -> list[Assertion]:
        """What may be corrected, the latest first."""
        return [*reversed(self._said), *reversed(self._focus.recent)]

    def _said_last(self) -> tuple[Assertion, ...]:
        """What "that" is in "forget that"."""
        if self._said:
            return tuple(self._said)
        return self._focus.said_last if self._focus.turns_since < _MAX_TURNS_BACK else ()

    def _said_lately(self, words: str) -> bool:
        """Whether these words are within a value that was said lately."""
        return any(content_words(words) <= content_words(each.value) for each in self._recent())

    def _add(self, change: Change, *, corrects: bool = False, stands_alone: bool = False) -> None:
        """Takes a change in; `stands_alone` says that it corrects nothing, whatever came before."""
        counts = isinstance(change, Assertion) and change.attribute.startswith(
            ("number of ", "party size", "age")
        )
        if isinstance(change, Assertion) and change.value.casefold() in _PRONOUNS and not counts:
            return  # whatever it means, it is not a value
        if (
            isinstance(change, Assertion)
            and change.attribute in _OF_THE_CALL
            and _CALL_TALK.match(change.value)
        ):
            return  # "i need some help" is why people call
        if isinstance(change, Assertion) and _ABOUT_IT.match(change.value) and change.attribute not in NAMES:
            return  # "ride it to school" of a thing that is not named here
        if isinstance(change, Assertion):
            change = _without_the_wrong(change)
            if change.value.casefold().startswith("not "):
                return  # a correction that was not understood
            if (corrects or self._focus.correcting) and not stands_alone:
                change = self._as_correction(change)
            self._said.append(change)
            name = change.value if change.attribute == "name" else None
            subject = change.subject if change.subject != USER else _thing_of(change)
            referents = self._focus.referents.seen(subject, name) if subject else self._focus.referents
            self._focus = replace(self._focus, referents=_mentioned(change, referents), correcting=False)
        elif isinstance(change, Ending):
            self._focus = replace(self._focus, referents=self._focus.referents.seen(change.subject))
        self._changes.append(change)

    def _as_correction(self, change: Assertion) -> Assertion:
        for recent in self._recent():
            same = recent.subject == change.subject and recent.attribute == change.attribute
            same = same and recent.polarity is change.polarity and alike(recent, change.value)
            if same and recent.value.casefold() != change.value.casefold():
                return replace(change, replaces=recent.value)
        return change

    def _adds_to_denial(self, denied: Assertion, value: str, *, excepted: bool) -> None:
        """ "and no dairy either", "except penicillin", after something was denied."""
        polarity = Polarity.AFFIRMED if excepted else Polarity.NEGATED
        statement = sentence(denied.subject, "", third_person(denied.attribute, value, polarity))
        self._add(replace(denied, value=value, statement=statement, polarity=polarity, replaces=None))

    def _role(self) -> str | None:
        """Who was named last and is not the user: "the manager"."""
        named = (each for each in self._recent() if each.attribute == "name" and each.subject != USER)
        return next((each.subject for each in named), None)

    def _liked(self) -> str | None:
        """What "it" is in "i quite like it now"."""
        said = (each for each in self._recent() if each.subject == USER and each.attribute in CONSUMING)
        return next((each.value for each in said), None)

    def _switched_from(self, change: Assertion) -> Assertion | None:
        if self._focus.ended_attribute is not None:
            return None
        said = (
            each
            for each in self._recent()
            if each.subject == change.subject and (each.attribute in HABIT_VERBS | {"see"} or _on(each))
        )
        return next((each for each in said if each.polarity is Polarity.AFFIRMED), None)


def _on(said: Assertion) -> bool:
    return said.attribute == "be" and said.value.casefold().startswith("on ")


def alike(old: Assertion, new: str) -> bool:
    """Whether a new value may stand in the place of an old one: a wish is one of many, another is no correction."""
    if old.attribute not in WISHES:
        return True
    kind = value_class(new)
    if content_words(old.value) & content_words(new) or (kind and kind_span(old.value, kind[0])):
        return True
    return (
        len(old.value.split()) <= 4 and len(new.split()) <= 4 and _determined(old.value) is _determined(new)
    )


def denied(said: Assertion) -> Assertion:
    """The same, with a no."""
    statement = sentence(said.subject, "", third_person(said.attribute, said.value, Polarity.NEGATED))
    return replace(said, polarity=Polarity.NEGATED, statement=statement)


def _determined(value: str) -> bool:
    return _DETERMINER.match(value) is not None


def _without_the_wrong(change: Assertion) -> Assertion:
    """ "comes from ipswich not norwich" says where from, and what it corrects."""
    halves = x_not_y(change.value) if change.attribute not in NAMES else None
    if halves is None or change.polarity is Polarity.NEGATED or len(halves[1].split()) > 3:
        return change
    right, wrong = halves
    statement = change.statement.replace(change.value, right)
    return replace(change, value=right, statement=statement, replaces=change.replaces or wrong)


_MENTION = re.compile(
    r"\b(?:my|our) (?:[\w-]+ )??(?P<kin>"
    + "|".join(sorted(PERSON_RELATIONS | PETS, key=len, reverse=True))
    + r")\b"
    r"(?: (?P<name>\w+))?",
    re.IGNORECASE,
)


# "two dogs from the shelter, waffles and biscuit".
_NAMED_TOGETHER = re.compile(
    r"\b(?P<kin>"
    + "|".join(sorted(PERSON_RELATIONS | PETS, key=len, reverse=True))
    + r")s\b(?: [\w']+){0,5}?"
    r"(?: (?:called|named))? (?P<a>(?!and\b|the\b|a\b)[a-z]\w{2,}) and (?P<b>(?!the\b|a\b|one\b|two\b)[a-z]\w{2,})$",
    re.IGNORECASE,
)


def _mentioned(change: Assertion, referents: Referents) -> Referents:
    """Who was spoken of within a value: "tulips for my mother-in-law" makes "she" her."""
    for match in _MENTION.finditer(change.value):
        name = (match["name"] or "").casefold()
        referents = referents.seen(match["kin"].casefold(), name if name in GIVEN_NAMES else None)
    if several := _NAMED_TOGETHER.search(change.value):
        kind = several["kin"].casefold()
        for name in (several["a"], several["b"]):
            referents = referents.seen(kind, name)
    return referents


def _thing_of(change: Assertion) -> str | None:
    """What "it" would mean after an assertion about the user."""
    if change.cardinality is Cardinality.ONE:
        unnameable = change.attribute in {"name", "age", "last name", "nickname"}
        verbal = change.attribute.endswith((" in", " as", " at", " to", " from"))
        return None if unnameable or verbal else change.attribute
    words: list[str] = re.findall(r"[\w'-]+", change.value.casefold())
    if len(words) > 1 and words[0] in {"a", "an", "the", "my", "our", "two", "three"}:
        nouns = [word for word in words[1:4] if word not in {"new", "old", "in", "on", "for", "at"}]
        if nouns:
            return nouns[-1] if nouns[-1] in PETS else nouns[0]
    return None
