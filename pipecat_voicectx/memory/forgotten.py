"""Which facts a request to forget means."""

from __future__ import annotations

import re
from collections.abc import Collection

from pipecat_voicectx.memory.facts import USER, Cardinality, Fact, content_words
from pipecat_voicectx.memory.frames import WORKING
from pipecat_voicectx.memory.turnovers import stems

__all__ = ["means_everything", "to_forget"]

_EVERYTHING = re.compile(
    r"(?:please )?(?:everything|it all|all(?: of it)?)"
    r"(?: (?:that )?(?:you|we|i)(?: have|'ve)?(?: ever)?"
    r" (?:know|knew|have|remember|stored?|saved?|kept|said|told you))?"
    r"(?: (?:about|on|of) (?:me|us|myself))?|"
    r"(?:all )?(?:of )?my (?:whole |entire )?(?:data|memory|memories|history|profile)|"
    r"(?:all )?(?:(?:the )?data|information) (?:about|on) me|me",
    re.IGNORECASE,
)

_WHERE = re.compile(r"^where (?:i|we)\b.*\b(?:live|living|stay|staying|sleep|am|are|reside)\b", re.IGNORECASE)
_PLACES = frozenset({"live in", "be staying", "stay", "live", "address", "home", "move", "reside"})
_NO_TOPIC_TEXT = """
what where when who how why thing part bit stuff my your please just anything everything about number detail say
tell mention have get do go be information"""
_NO_TOPIC = frozenset(_NO_TOPIC_TEXT.split())
# Nouns by which people call what they said with a verb.
_TOPICS = {
    "address": _PLACES, "home": _PLACES, "job": WORKING, "work": WORKING,
    "salary": frozenset({"earn", "make", "salary"}), "income": frozenset({"earn", "make", "income"}),
    "weight": frozenset({"weigh", "weight"}), "age": frozenset({"age"}),
}  # fmt: skip
_MIN_SHARED_PREFIX = 4


def _shared(wanted: frozenset[str], there: frozenset[str]) -> int:
    """How many of the words are there, in this or a kindred form: "weight" in "weighs"."""
    return sum(
        any(
            word == other
            or (
                min(len(word), len(other)) >= _MIN_SHARED_PREFIX
                and (word.startswith(other) or other.startswith(word))
            )
            for other in there
        )
        for word in wanted
    )


def _shared_with(fact: Fact, wanted: frozenset[str]) -> int:
    shared = _shared(wanted, stems(_all_of(fact)))
    if fact.cardinality is Cardinality.MANY and shared < len(wanted):
        # Of the many things that somebody likes, "that i like tea" means none but tea.
        named = _shared(wanted, stems(f"{fact.subject} {fact.value}"))
        return shared if named else 0
    return shared


def _says_where(fact: Fact) -> bool:
    return fact.attribute in _PLACES or (
        fact.attribute == "be"
        and re.match(r"^(?:at|in|over at|near|up in)\b", fact.value, re.IGNORECASE) is not None
    )


def _all_of(fact: Fact) -> str:
    return f"{fact.subject} {fact.attribute} {fact.value} {fact.statement}"


def means_everything(topic: str) -> bool:
    """Whether a topic is no topic but all that is known of the caller."""
    return _EVERYTHING.fullmatch(topic.strip(" .!?,")) is not None


def to_forget(about: str, facts: Collection[Fact]) -> list[Fact]:
    """The facts that a request to forget names: by all its words, else by as many as any fact holds.

    Wider rather than narrower: who asks for something to be forgotten does not say it as it was said.
    """
    words = content_words(about) - {"said", "anything", "everything", "number"} or content_words(about)
    if _WHERE.match(about):
        places = [fact for fact in facts if fact.subject == USER and _says_where(fact)]
        if places:
            return places
    for topic, attributes in _TOPICS.items():
        if topic in words and (held := [each for each in facts if each.attribute in attributes]):
            return held
    exact = [fact for fact in facts if words <= content_words(_all_of(fact))]
    if exact:
        return exact
    wanted = stems(about) - _NO_TOPIC
    shared = {fact.id: _shared_with(fact, wanted) for fact in facts}
    most = max(shared.values(), default=0)
    if most * 2 < max(1, len(wanted)):
        return []  # one word of three in common is something else
    return [fact for fact in facts if shared[fact.id] == most]
