"""Entities: the people, pets, places and things a user's memories are about, found without capitals or a model.

What is an entity is learned from facts (their subjects, and values that name a person, a place or a thing) and from
two patterns of speech: "my/our NOUN", and a common given name. Once known, an entity is found in any text by its
aliases, whichever way the recognizer wrote them; that is one dictionary look-up per word, fast enough for every
interim transcript.

An LLM-backed finder needs no other interface: give `LeftBrain.add_item` the mentions it found.

Known limits: a name that is an everyday word ("rose", "will") is found where the word is meant; things said only with
"the" become entities when a fact is about them, not before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from pipecat_voicectx.memory.facts import USER, Fact, Polarity, content_words
from pipecat_voicectx.memory.spoken_english import GIVEN_NAMES, PERSON_RELATIONS, PETS
from pipecat_voicectx.memory.tokens import tokenize

__all__ = ["EntityKind", "EntityMention", "mentions_in_fact", "mentions_in_text"]


class EntityKind(Enum):
    """What an entity is."""

    PERSON = "person"
    PET = "pet"
    PLACE = "place"
    THING = "thing"
    TOPIC = "topic"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityMention:
    """One entity that a text or a fact is about."""

    name: str
    """In lower case; identifies the entity."""
    kind: EntityKind
    aliases: tuple[str, ...] = ()
    """Other words for it, such as the name of "sister"."""


_PLACE_ATTRIBUTES = frozenset({"live in", "come from", "grow up in", "go to", "visit", "work at", "be going"})
_NAMED_ATTRIBUTES = frozenset(
    {"work as", "play", "speak", "learn", "like", "own", "have", "drive", "support", "be on"}
)
_OWN = re.compile(
    r"\b(?:my|our)\s+(?:new |old |little |big |best |favou?rite |own )*(?P<n>[a-z][\w'-]+)(?:\s+(?P<m>[a-z][\w'-]+))?",
    re.IGNORECASE,
)
_NOT_THINGS_TEXT = """name own way turn mind bad god question questions word opinion view side time times day life thing
things lot bit point idea guess first last one ones next most best kind sort number is are was has have will can and"""
_NOT_THINGS = frozenset(_NOT_THINGS_TEXT.split())
_NAME_AFTER = re.compile(r"^(?:is|was|and|has|had|lives?|works?|who|will|can|said|says|in|at|on|to|for)$")


def mentions_in_text(text: str) -> list[EntityMention]:
    """The entities that a turn names, known or not, in the order of their first mention."""
    found: dict[str, EntityMention] = {}
    for match in _OWN.finditer(text):
        noun, after = match["n"].casefold().removesuffix("'s"), (match["m"] or "").casefold()
        if noun in _NOT_THINGS:
            continue
        if noun in PERSON_RELATIONS | PETS:
            named = after in GIVEN_NAMES and not _NAME_AFTER.match(after)
            kind = EntityKind.PET if noun in PETS else EntityKind.PERSON
            found.setdefault(noun, EntityMention(name=noun, kind=kind, aliases=(after,) if named else ()))
        else:
            found.setdefault(noun, EntityMention(name=noun, kind=EntityKind.THING))
    aliases = {alias for mention in found.values() for alias in mention.aliases}
    for word in re.findall(r"[^\W\d_][\w'-]*", text):
        name = word.casefold().removesuffix("'s")
        if name in GIVEN_NAMES and name not in aliases:
            found.setdefault(name, EntityMention(name=name, kind=EntityKind.PERSON))
    return list(found.values())


def mentions_in_fact(fact: Fact) -> list[EntityMention]:
    """The entities a fact is about: its subject, and its value where that names something."""
    out: list[EntityMention] = []
    if fact.subject != USER:
        kind = EntityKind.PET if fact.subject in PETS else EntityKind.PERSON
        if fact.subject not in PETS | PERSON_RELATIONS and fact.subject not in GIVEN_NAMES:
            kind = EntityKind.THING
        alias = (
            (fact.value.casefold(),)
            if fact.attribute == "name" and fact.polarity is Polarity.AFFIRMED
            else ()
        )
        out.append(EntityMention(name=fact.subject, kind=kind, aliases=alias))
    if fact.attribute in _PLACE_ATTRIBUTES:
        place = re.sub(
            r"^(?:the|a|an|my|to|in)\s+|\s+(?:on|in|next|for|with)\s.*$", "", fact.value.casefold()
        )
        if place:
            out.append(EntityMention(name=place, kind=EntityKind.PLACE))
    elif fact.attribute in _NAMED_ATTRIBUTES:
        out += _topics(fact.value)
    elif (
        fact.subject == USER
        and fact.attribute not in {"name", "age", "last name", "nickname"}
        and not fact.attribute.startswith("be ")
    ):
        if len(fact.attribute.split()) <= 2 and fact.cardinality.value == "one":
            out.append(EntityMention(name=fact.attribute, kind=EntityKind.THING))
    else:
        out += _topics(fact.value)
    return out


def _topics(value: str) -> list[EntityMention]:
    words = [
        word for word in re.findall(r"[^\W\d_][\w'-]*", value.casefold()) if word in content_words(value)
    ]
    if not words or len(words) > 4:
        return []
    return [EntityMention(name=" ".join(words[-2:]) if len(words) <= 2 else words[-1], kind=EntityKind.TOPIC)]


def alias_tokens(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Names as token sequences, to be found in tokenized text; names that are stop words only are left out."""
    return [tokens for name in names if (tokens := tuple(tokenize(name)))]
