"""What kind of answer a question wants, and what kinds a turn could give: a time, a number, a name.

"When did I book it?" shares few words with "I took the one on Friday", but a turn that names a day is a likelier answer
than one that does not. The question word usually comes first, so this works before a question has been said to its end.
Both sides are only evidence for the ranking, never a filter.

Known limits: the words are English; names are found by their capitals, which some transcripts do not have. Where
nothing is recognised, nothing changes.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import IntFlag

from pipecat_voicectx.memory.tokens import stem

__all__ = ["AnswerType", "given_answers", "wanted_answers"]


class AnswerType(IntFlag):
    """Kinds of answers; a turn may give several."""

    NONE = 0
    TIME = 1
    """A day, a month, a year, or a time relative to now."""
    NUMBER = 2
    """A count, an amount or an age."""
    NAME = 4
    """A person, a place or another thing with a name."""
    PLACE = 8
    """A name behind a preposition of place."""


_TIME_WORDS = """yesterday today tonight tomorrow ago last next week weekend month year day morning summer spring
fall winter recently soon since monday tuesday wednesday thursday friday saturday sunday january february march april
june july august september october november december"""
_NUMBER_WORDS = """two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty hundred
thousand dozen couple several few many once twice"""
_TIME_TOKENS = frozenset(stem(word) for word in _TIME_WORDS.split())
_NUMBER_TOKENS = frozenset(stem(word) for word in _NUMBER_WORDS.split())
_NAME = re.compile(r"(?<=[a-z,;:] )[A-Z][a-z]+")
_PLACE = re.compile(r"\b(?:in|at|to|from|near|visited) (?:the )?[A-Z]")

_WANTS_TIME = re.compile(r"\bwhen\b|\bhow long\b|\bwhat (?:date|day|year|month|time)\b", re.IGNORECASE)
_WANTS_NUMBER = re.compile(r"\bhow (?:many|much|old|often)\b", re.IGNORECASE)
_WANTS_NAME = re.compile(r"^\W*(?:who|where|which)\b", re.IGNORECASE)
_WANTS_PLACE = re.compile(r"\bwhere\b|\b(?:what|which) (?:city|country|place|state)\b", re.IGNORECASE)


def wanted_answers(question: str) -> AnswerType:
    """What a question asks for; NONE for one whose form does not say."""
    wanted = AnswerType.NONE
    if _WANTS_TIME.search(question):
        wanted |= AnswerType.TIME
    if _WANTS_NUMBER.search(question):
        wanted |= AnswerType.NUMBER
    if _WANTS_NAME.search(question):
        wanted |= AnswerType.NAME
    if _WANTS_PLACE.search(question):
        wanted |= AnswerType.PLACE
    return wanted


def given_answers(text: str, tokens: Collection[str]) -> AnswerType:
    """What a turn could answer. `tokens` are those of `tokenize(text)`, which the caller has anyway."""
    given = AnswerType.NONE
    numbers = [token for token in tokens if token.isdecimal()]
    if not _TIME_TOKENS.isdisjoint(tokens) or any(len(number) == 4 for number in numbers):
        given |= AnswerType.TIME
    if numbers or not _NUMBER_TOKENS.isdisjoint(tokens):
        given |= AnswerType.NUMBER
    if _NAME.search(text):
        given |= AnswerType.NAME
    if _PLACE.search(text):
        given |= AnswerType.PLACE
    return given
