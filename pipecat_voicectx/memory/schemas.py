"""Schemas: the coarse drawers of the left brain. Presets that an application may edit; emergence adds others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from pipecat_voicectx.errors import BadInputError, UsageError
from pipecat_voicectx.memory.entities import EntityKind
from pipecat_voicectx.memory.tokens import tokenize

__all__ = ["GENERAL", "PRESET_SCHEMAS", "Schema", "make_schema"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """One drawer: what belongs in it, and how it is called in a sentence."""

    name: str
    title: str
    """For prompts: "work", "family and friends"."""
    keywords: frozenset[str] = frozenset()
    """Tokens (as `tokenize` makes them) that speak for it."""
    kinds: frozenset[EntityKind] = frozenset()
    """Kinds of entities that belong here unless their contexts say otherwise."""
    emerged: bool = False
    """Whether use made it rather than an application."""

    def to_json(self) -> dict[str, object]:
        """Plain JSON types."""
        return {
            "name": self.name,
            "title": self.title,
            "keywords": sorted(self.keywords),
            "kinds": sorted(kind.value for kind in self.kinds),
            "emerged": self.emerged,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Schema:
        """The schema that `to_json` wrote.

        Raises:
            BadInputError: Not a schema.
        """
        try:
            return cls(
                name=str(data["name"]),
                title=str(data["title"]),
                keywords=frozenset(str(word) for word in cast(list[str], data["keywords"])),
                kinds=frozenset(EntityKind(kind) for kind in cast(list[str], data["kinds"])),
                emerged=bool(data.get("emerged", False)),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BadInputError(f"not a schema: {type(error).__name__}") from error


def make_schema(name: str, title: str, words: str, *kinds: EntityKind) -> Schema:
    """A schema from plain words, which are tokenized as queries are.

    Raises:
        UsageError: No name, or neither words nor kinds: nothing could ever be put into it.
    """
    if not name or not (words.strip() or kinds):
        raise UsageError("a schema needs a name, and words or kinds that speak for it")
    return Schema(name=name, title=title, keywords=frozenset(tokenize(words)), kinds=frozenset(kinds))


GENERAL = Schema(name="general", title="other things")
"""Where entities are that nothing speaks for yet. Always there; never matched by words."""

PRESET_SCHEMAS: tuple[Schema, ...] = (
    make_schema(
        "people", "family and friends",
        "family wife husband partner girlfriend boyfriend mother father mum dad parents sister brother son daughter "
        "kids children baby friend cousin aunt uncle grandmother grandfather married wedding birthday "
        "anniversary neighbour",
        EntityKind.PERSON,
    ),
    make_schema(
        "work", "work and study",
        "work job boss colleague office meeting project company salary career interview client school university "
        "study exam class course teacher student degree manager shift",
    ),
    make_schema(
        "health", "health",
        "health doctor hospital dentist medicine pills insulin allergy allergic surgery operation pain sick ill hurt "
        "injury therapy diet pregnant diabetic appointment prescription symptoms sleep",
    ),
    make_schema(
        "home", "home and pets",
        "home house flat apartment rent garden kitchen bedroom move furniture boiler heating dog cat pet puppy rabbit "
        "parrot address neighbourhood landlord cleaning repair",
        EntityKind.PET,
    ),
    make_schema(
        "travel", "travel",
        "travel trip flight fly hotel train airport holiday vacation visit passport visa luggage beach booking seat "
        "tour abroad city ticket drive car",
        EntityKind.PLACE,
    ),
    make_schema(
        "food", "food and drink",
        "food eat drink cook restaurant dinner lunch breakfast coffee tea wine beer pizza vegetarian vegan recipe meal "
        "table hungry taste",
    ),
    make_schema(
        "leisure", "leisure",
        "music band guitar piano play game football tennis chess sport gym run swim hike movie film book read paint "
        "festival concert hobby dance team club",
    ),
    make_schema(
        "money", "money and orders",
        "money pay price budget cost bank account invoice bill refund order delivery parcel contract card loan buy "
        "sell euros dollars pounds",
    ),
    make_schema(
        "plans", "plans and goals",
        "plan goal want hope dream future next start begin learn save try decide tomorrow week month year",
    ),
)  # fmt: skip
"""Presets for personal assistants and service calls; replace or extend them for a trade."""
