"""Facts: what is known about the user and the people and things they spoke of, with when it was true.

A fact is a subject, an attribute and a value, affirmed or negated, and one readable sentence. It is never overwritten:
a newer fact ends the older one's validity and hides it, and both keep the turns they came from. Only a retraction
("please forget that") removes a fact for good.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import cast

from pipecat_voicectx.errors import BadInputError

__all__ = [
    "FACT_SCHEMA_VERSION",
    "USER",
    "Assertion",
    "Cardinality",
    "Change",
    "Ending",
    "EndingScope",
    "Fact",
    "FactEnd",
    "Polarity",
    "Retraction",
    "content_words",
    "current_facts",
    "fact_id",
    "facts_as_of",
]

FACT_SCHEMA_VERSION = 1

USER = "user"
"""Subject of facts about the person who speaks."""

_ID_NAMESPACE = uuid.UUID("5f0d7a52-9a6e-4c0a-8d6f-1c2f5e6b7a80")


class Polarity(Enum):
    """Whether the statement is affirmed or denied."""

    AFFIRMED = "affirmed"
    NEGATED = "negated"


class Cardinality(Enum):
    """How many values an attribute has at one time."""

    ONE = "one"
    """A new value replaces the old: a name, a home."""
    MANY = "many"
    """Values stand beside each other: likes, allergies."""


class FactEnd(Enum):
    """Why a fact is no longer current."""

    SUPERSEDED = "superseded"
    """A newer value took its place, or it was corrected."""
    ENDED = "ended"
    """It stopped being true, and nothing took its place."""
    FORGOTTEN = "forgotten"
    """It faded by the forgetting curve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """Somebody said that something is so."""

    subject: str
    """`USER`, a relation ("sister"), a pet or a thing of the user's."""
    attribute: str
    """A noun ("phone number") or the base form of a verb ("like")."""
    value: str
    statement: str
    """One sentence in the third person, for prompts and for search."""
    polarity: Polarity = Polarity.AFFIRMED
    cardinality: Cardinality = Cardinality.MANY
    replaces: str | None = None
    """The value that the speaker corrects with this one. None: not a correction."""
    confidence: float = 0.8
    """0..1; the extractor's, as its documentation says."""


class EndingScope(Enum):
    """Which facts an ending may end."""

    ANY = "any"
    """All that it names."""
    TROUBLE = "trouble"
    """Those that state something amiss: what is "fine again" was broken, ill, late or lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Somebody said that something is no longer so."""

    subject: str
    attributes: frozenset[str]
    """Attributes it may be; empty means any."""
    value: str = ""
    """What is over; "" means whatever the attributes hold."""
    scope: EndingScope = EndingScope.ANY


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraction:
    """The speaker wants something forgotten."""

    about: str
    """What it is about; "" means what was said last."""
    of: tuple[Assertion, ...] | None = None
    """What was said last, where the conversation is known; clocks do not tell, they go back. None: by the clock."""


Change = Assertion | Ending | Retraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One statement, its validity and its provenance."""

    id: str
    """Of subject, attribute, value, polarity and the time it began; see `fact_id`."""
    subject: str
    attribute: str
    value: str
    statement: str
    polarity: Polarity = Polarity.AFFIRMED
    cardinality: Cardinality = Cardinality.MANY
    confidence: float = 0.8
    valid_from_wall_secs: float
    """Unix time of the turn that first said so."""
    valid_to_wall_secs: float | None = None
    """Unix time at which it stopped being true. None: still true."""
    ended_because: FactEnd | None = None
    superseded_by: str | None = None
    """Id of the fact that took its place."""
    source_turns: tuple[str, ...] = ()
    """Ids of the turns that said so, oldest first."""
    last_said_wall_secs: float
    """Unix time of the last turn that said so; what the forgetting curve counts from."""

    @property
    def current(self) -> bool:
        """Whether it is true now, as far as known."""
        return self.valid_to_wall_secs is None

    def to_json(self) -> dict[str, object]:
        """Plain JSON types, with the schema version."""
        return {
            "schema": FACT_SCHEMA_VERSION,
            "id": self.id,
            "subject": self.subject,
            "attribute": self.attribute,
            "value": self.value,
            "statement": self.statement,
            "polarity": self.polarity.value,
            "cardinality": self.cardinality.value,
            "confidence": self.confidence,
            "valid_from_wall_secs": self.valid_from_wall_secs,
            "valid_to_wall_secs": self.valid_to_wall_secs,
            "ended_because": None if self.ended_because is None else self.ended_because.value,
            "superseded_by": self.superseded_by,
            "source_turns": list(self.source_turns),
            "last_said_wall_secs": self.last_said_wall_secs,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Fact:
        """The fact that `to_json` wrote.

        Raises:
            BadInputError: Not a fact, or a schema newer than this version reads.
        """
        try:
            schema = data.get("schema")
            if not isinstance(schema, int) or not 1 <= schema <= FACT_SCHEMA_VERSION:
                raise BadInputError(
                    f"fact has schema {schema!r}; this version reads 1 to {FACT_SCHEMA_VERSION}"
                )
            ended, valid_to, by = (
                data.get("ended_because"),
                data.get("valid_to_wall_secs"),
                data.get("superseded_by"),
            )
            return cls(
                id=str(data["id"]),
                subject=str(data["subject"]),
                attribute=str(data["attribute"]),
                value=str(data["value"]),
                statement=str(data["statement"]),
                polarity=Polarity(data["polarity"]),
                cardinality=Cardinality(data["cardinality"]),
                confidence=float(cast(float, data["confidence"])),
                valid_from_wall_secs=float(cast(float, data["valid_from_wall_secs"])),
                valid_to_wall_secs=None if valid_to is None else float(cast(float, valid_to)),
                ended_because=None if ended is None else FactEnd(ended),
                superseded_by=None if by is None else str(by),
                source_turns=tuple(str(turn) for turn in cast(list[object], data["source_turns"])),
                last_said_wall_secs=float(cast(float, data["last_said_wall_secs"])),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadInputError(f"not a fact: {type(error).__name__}") from error


def fact_id(assertion: Assertion, *, began_wall_secs: float) -> str:
    """The id of a fact that began with `assertion` at a time; the same again when the turn is handled again."""
    parts = (
        assertion.subject,
        assertion.attribute,
        assertion.value.casefold(),
        assertion.polarity.value,
        f"{began_wall_secs:.3f}",
    )
    return str(uuid.uuid5(_ID_NAMESPACE, "\x1f".join(parts)))


def current_facts(facts: Iterable[Fact]) -> list[Fact]:
    """Those that are true now, the last said first."""
    return sorted(
        (fact for fact in facts if fact.current), key=lambda fact: (-fact.last_said_wall_secs, fact.id)
    )


def facts_as_of(facts: Iterable[Fact], wall_secs: float) -> list[Fact]:
    """Those that were held true at a time: what was known then, not what is known now about then."""
    return [
        fact
        for fact in facts
        if fact.valid_from_wall_secs <= wall_secs
        and (fact.valid_to_wall_secs is None or wall_secs < fact.valid_to_wall_secs)
    ]


_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_EMPTY_TEXT = """a an the my our your his her their its of to in on at for and or is are am be been i we you he she they
it that this really very some any with from by as about do does not user users"""
_EMPTY = frozenset(_EMPTY_TEXT.split())


def content_words(text: str) -> frozenset[str]:
    """The words of a value that tell it from another, case-folded."""
    return frozenset(word for word in _WORD.findall(text.casefold()) if word not in _EMPTY)
