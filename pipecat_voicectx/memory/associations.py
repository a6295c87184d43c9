"""What the left brain is made of: entities, links, what a text activates and what that reaches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.entities import EntityKind

__all__ = ["Activation", "Entity", "LeftBrainConfig", "Link", "Routes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBrainConfig:
    """Weights and bounds."""

    link_half_life_secs: float = 30 * 86_400.0
    """After which an unrepeated co-occurrence counts half. Chosen: a month, the pace at which topics change."""
    strong_link: float = 1.5
    """Faded weight from which a link is strong: two co-occurrences within about a fortnight. Chosen."""
    weak_link: float = 0.2
    """Faded weight below which a link is forgotten: one co-occurrence after ten weeks. Chosen."""
    matched_schema_route: float = 0.5
    """Route score of entities that are in a matched schema but were not named. Named ones have 1."""
    strong_route: float = 0.6
    weak_route: float = 0.3
    """Route scores one hop away along strong and weak links."""
    route_bonus: float = 0.1
    """What a route score of 1 adds to a ranking score. Measured on LoCoMo's first half, pages as items, entities by the
    rules: 0.05 to 0.1 move recall@5 by -0.3 and recall@1 by +0.3 points (nothing, that is), 0.15 costs 0.6; the hard
    pool costs 25, because only what an entity was found in is in it."""
    max_entities: int = 5_000
    max_items_per_entity: int = 500
    max_links_per_entity: int = 64

    def __post_init__(self) -> None:
        if self.link_half_life_secs <= 0 or min(self.max_entities, self.max_items_per_entity) < 1:
            raise UsageError("LeftBrainConfig: half-life and bounds must be positive")
        if not 0 <= self.weak_route <= self.strong_route <= 1:
            raise UsageError("LeftBrainConfig: 0 <= weak_route <= strong_route <= 1")


@dataclass(slots=True, kw_only=True)
class Entity:
    """One person, place or thing, and the items about it."""

    name: str
    kind: EntityKind
    schema: str
    """Name of its schema."""
    aliases: set[str] = field(default_factory=set)
    items: dict[str, float] = field(default_factory=dict)
    """Item ids and when they were added, oldest first."""
    votes: dict[str, int] = field(default_factory=dict)
    """How often its contexts spoke for each schema."""
    pinned: bool = False
    """Emergence put it into its schema; votes no longer move it."""
    seen_wall_secs: float = 0.0


@dataclass(slots=True, kw_only=True)
class Link:
    """How much two entities go together; the weight is as of `at_wall_secs`."""

    weight: float
    at_wall_secs: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """What an utterance has activated so far."""

    text: str = ""
    entities: frozenset[str] = frozenset()
    schemas: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """An activation after one hop: which entities it reaches, and how well."""

    activation: Activation
    entities: Mapping[str, float]
    """Named entities and their linked ones, with their route scores, 0..1. What is reached only because its schema was
    matched is not listed: it may be half the memory; `LeftBrain.item_route` knows it."""
