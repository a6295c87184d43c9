"""The left brain: schemas over entities over items, and the routes that lead from what is being said to what is known.

After VoiceMem, section 3.1. Every entity belongs to exactly one schema; entities of the same item are linked,
and a link's weight fades with a half-life, so that "strong" and "weak" say how often and how lately two things were
spoken of together; links between schemas are the sum of the links between their entities. While the user speaks,
interim transcripts activate entities and schemas; one hop along the links expands them; what is reached gives each
item a route score between 0 and 1.

Route scores are features of the one ranking and cut nothing off: restricting a good ranking to the matched pool costs
recall (see `LeftBrainConfig.route_bonus`). The paper's hard pool is there as `item_pool`, as a setting.

The state is the brain's own: plain data with a stable JSON form. Time is an argument (Unix seconds, since it outlives
sessions). Everything that grows is bounded; what is dropped is the least linked and longest unseen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import nlargest, nsmallest
from math import log2
from typing import cast

from pipecat_voicectx.errors import BadInputError
from pipecat_voicectx.memory.associations import Activation, Entity, LeftBrainConfig, Link, Routes
from pipecat_voicectx.memory.entities import EntityKind, EntityMention, alias_tokens
from pipecat_voicectx.memory.schemas import GENERAL, PRESET_SCHEMAS, Schema
from pipecat_voicectx.memory.tokens import tokenize

__all__ = ["Activation", "Entity", "LeftBrain", "LeftBrainConfig", "Link", "Routes"]

LEFT_BRAIN_SCHEMA_VERSION = 1
_MAX_ALIAS_TOKENS = 3


class LeftBrain:
    """The index over one owner's items. Not thread-safe; the memory's one writer changes it."""

    def __init__(
        self, *, config: LeftBrainConfig | None = None, schemas: Sequence[Schema] = PRESET_SCHEMAS
    ) -> None:
        self.config = config or LeftBrainConfig()
        self.schemas: dict[str, Schema] = {schema.name: schema for schema in (*schemas, GENERAL)}
        self.entities: dict[str, Entity] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._neighbours: dict[str, set[str]] = {}
        self._by_alias: dict[tuple[str, ...], set[str]] = {}
        self._items: dict[str, set[str]] = {}
        self._schema_links: dict[str, dict[str, float]] = {}
        self._main_members: dict[str, tuple[str, ...]] = {}
        self._settled_wall_secs = 0.0
        self._unsettled = True

    # Writing

    def add_item(
        self, item_id: str, text: str, mentions: Iterable[EntityMention], *, now_wall_secs: float
    ) -> tuple[str, ...]:
        """Attaches an item to the entities it mentions; repeating it changes nothing.

        Returns:
            The names of its entities.
        """
        self._unsettled = True
        context = frozenset(tokenize(text))
        known = self._items.get(item_id, set())
        names: list[str] = []
        for mention in mentions:
            name = self._resolve(mention)
            entity = self._entity(name, mention, now_wall_secs)
            if item_id not in entity.items:
                entity.items[item_id] = now_wall_secs
                self._vote(entity, context)
                while len(entity.items) > self.config.max_items_per_entity:
                    self._items.get(oldest := next(iter(entity.items)), set()).discard(name)
                    del entity.items[oldest]
            names.append(name)
        unique = list(dict.fromkeys(names))
        fresh = set(unique) - known
        for i, one in enumerate(unique):
            for other in unique[i + 1 :]:
                if one in fresh or other in fresh:
                    self._reinforce(one, other, now_wall_secs)
        if unique:
            self._items[item_id] = known | set(unique)
        self._evict(keep=set(unique), now_wall_secs=now_wall_secs)
        return tuple(unique)

    def remove_items(self, item_ids: Collection[str]) -> None:
        """Forgets items; entities that nothing is known of any more go with their links."""
        self._unsettled = True
        for item_id in item_ids:
            for name in self._items.pop(item_id, set()):
                entity = self.entities.get(name)
                if entity is not None:
                    entity.items.pop(item_id, None)
                    if not entity.items:
                        self._drop(name)

    def remove_empty_schemas(self) -> None:
        """Forgets schemas that emerged from entities of which none is left; their names are those entities'."""
        used = {entity.schema for entity in self.entities.values()}
        for name in [name for name, schema in self.schemas.items() if schema.emerged and name not in used]:
            del self.schemas[name]

    def move_to_schema(self, schema: Schema, entities: Collection[str]) -> None:
        """Puts entities into a schema, made if need be, and keeps them there."""
        self._unsettled = True
        self.schemas[schema.name] = schema
        for name in entities:
            if name in self.entities:
                self.entities[name].schema = schema.name
                self.entities[name].pinned = True

    def _resolve(self, mention: EntityMention) -> str:
        """The entity a mention means: by name, else by an alias that only one entity bears."""
        if mention.name in self.entities:
            return mention.name
        bearers = self._by_alias.get(tuple(tokenize(mention.name)), set())
        return next(iter(bearers)) if len(bearers) == 1 else mention.name

    def _entity(self, name: str, mention: EntityMention, now_wall_secs: float) -> Entity:
        entity = self.entities.get(name)
        if entity is None:
            entity = Entity(name=name, kind=mention.kind, schema=GENERAL.name)
            self.entities[name] = entity
        entity.seen_wall_secs = max(entity.seen_wall_secs, now_wall_secs)
        for alias in (name, mention.name, *mention.aliases):
            if alias not in entity.aliases:
                entity.aliases.add(alias)
                for tokens in alias_tokens([alias]):
                    self._by_alias.setdefault(tokens, set()).add(name)
        return entity

    def _vote(self, entity: Entity, context: frozenset[str]) -> None:
        if entity.pinned:
            return
        for schema in self.schemas.values():
            fit = len(context & schema.keywords) + (2 if entity.kind in schema.kinds else 0)
            if fit:
                entity.votes[schema.name] = entity.votes.get(schema.name, 0) + fit
        if entity.votes:
            best = max(entity.votes.values())
            if entity.votes.get(entity.schema, 0) < best:  # ties stay where they are
                entity.schema = min(name for name, votes in entity.votes.items() if votes == best)

    def _reinforce(self, one: str, other: str, now_wall_secs: float) -> None:
        key = (one, other) if one < other else (other, one)
        link = self._links.get(key)
        weight = 1.0 + (self._faded(link, now_wall_secs) if link else 0.0)
        self._links[key] = Link(weight=weight, at_wall_secs=now_wall_secs)
        self._neighbours.setdefault(one, set()).add(other)
        self._neighbours.setdefault(other, set()).add(one)
        for name in (one, other):
            around = self._neighbours[name]
            most = self.config.max_links_per_entity
            if (
                len(around) > most + most // 4
            ):  # some slack, so that a busy entity is not sorted at every turn
                kept = nlargest(most, around, key=lambda other: (self._strength(name, other), other))
                for each in around.difference(kept):
                    self._unlink(name, each)

    def _strength(self, one: str, other: str) -> float:
        """Orders links by faded weight without fading them: all fade at one rate."""
        link = self._links[(one, other) if one < other else (other, one)]
        return log2(link.weight) + link.at_wall_secs / self.config.link_half_life_secs

    def _unlink(self, one: str, other: str) -> None:
        self._links.pop((one, other) if one < other else (other, one), None)
        self._neighbours.get(one, set()).discard(other)
        self._neighbours.get(other, set()).discard(one)

    def _drop(self, name: str) -> None:
        for other in list(self._neighbours.pop(name, set())):
            self._unlink(name, other)
        entity = self.entities.pop(name, None)
        if entity is None:
            return
        for tokens in alias_tokens(entity.aliases):
            bearers = self._by_alias.get(tokens, set())
            bearers.discard(name)
            if not bearers:
                self._by_alias.pop(tokens, None)
        for item_id in entity.items:
            self._items.get(item_id, set()).discard(name)

    def _evict(self, *, keep: set[str], now_wall_secs: float) -> None:
        while len(self.entities) > self.config.max_entities:
            droppable = [entity for entity in self.entities.values() if entity.name not in keep]
            if not droppable:
                return
            # The least known first; among those, the longest unseen.
            victim = min(droppable, key=lambda each: (len(each.items), each.seen_wall_secs, each.name))
            self._drop(victim.name)

    # Reading

    def link_weight(self, one: str, other: str, now_wall_secs: float) -> float:
        """The faded weight of the link between two entities; 0 when there is none."""
        link = self._links.get((one, other) if one < other else (other, one))
        return self._faded(link, now_wall_secs) if link else 0.0

    def _faded(self, link: Link, now_wall_secs: float) -> float:
        age_secs = max(0.0, now_wall_secs - link.at_wall_secs)
        return link.weight * float(0.5 ** (age_secs / self.config.link_half_life_secs))

    def neighbours(self, name: str, now_wall_secs: float) -> dict[str, float]:
        """Linked entities with their faded weights, those below a weak link left out."""
        weights = {
            each: self.link_weight(name, each, now_wall_secs) for each in self._neighbours.get(name, set())
        }
        return {each: weight for each, weight in weights.items() if weight >= self.config.weak_link}

    def entities_of(self, item_id: str) -> frozenset[str]:
        """The entities an item is attached to."""
        return frozenset(self._items.get(item_id, set()))

    def activate(self, text: str, before: Activation | None = None) -> Activation:
        """What the text so far activates. Interim transcripts extend each other, so what was activated stays, unless
        the new text is not a continuation (a recognizer that took something back)."""
        tokens = tokenize(text)
        entities: set[str] = set()
        for start in range(len(tokens)):
            for length in range(1, _MAX_ALIAS_TOKENS + 1):
                entities |= self._by_alias.get(tuple(tokens[start : start + length]), set())
        words = frozenset(tokens)
        schemas = {schema.name for schema in self.schemas.values() if words & schema.keywords}
        if before is not None and text.casefold().startswith(before.text.casefold()):
            entities |= before.entities & self.entities.keys()
            schemas |= before.schemas
        return Activation(text=text, entities=frozenset(entities), schemas=frozenset(schemas))

    def expand(self, activation: Activation, *, now_wall_secs: float) -> Routes:
        """One hop: named entities, those of matched schemas, and the strongly and weakly linked of the named."""
        reached: dict[str, float] = {}

        def reach(name: str, score: float) -> None:
            reached[name] = max(score, reached.get(name, 0.0))

        for name in activation.entities:
            reach(name, 1.0)
            for other, weight in self.neighbours(name, now_wall_secs).items():
                strong = weight >= self.config.strong_link
                reach(other, self.config.strong_route if strong else self.config.weak_route)
        return Routes(activation=activation, entities=reached)

    def item_route(self, item_id: str, routes: Routes) -> float:
        """The route score of one item, 0..1: the best of its entities'. For the candidates of a ranking."""
        best = 0.0
        for name in self._items.get(item_id, ()):
            score = routes.entities.get(name, 0.0)
            if self.entities[name].schema in routes.activation.schemas:
                score = max(score, self.config.matched_schema_route)
            best = max(best, score)
        return best

    def named_items(self, routes: Routes, *, limit: int) -> list[str]:
        """The latest items of the entities that were named, `limit` for each."""
        out: list[str] = []
        for name in sorted(routes.activation.entities):
            entity = self.entities.get(name)
            if entity is not None:
                out += [item_id for item_id, _ in zip(reversed(entity.items), range(limit), strict=False)]
        return list(dict.fromkeys(out))

    def item_routes(self, routes: Routes) -> dict[str, float]:
        """Item to route score for everything that is reached. Walks all of it: not for the response path."""
        scores: dict[str, float] = {}
        for entity in self.entities.values():
            score = routes.entities.get(entity.name, 0.0)
            if entity.schema in routes.activation.schemas:
                score = max(score, self.config.matched_schema_route)
            if score > 0:
                for item_id in entity.items:
                    scores[item_id] = max(score, scores.get(item_id, 0.0))
        return scores

    def item_boosts(self, item_ids: Iterable[str], routes: Routes) -> dict[str, float]:
        """What a ranking adds to its candidates: route score times `route_bonus`, those without a route left out."""
        scores = {item_id: self.item_route(item_id, routes) for item_id in item_ids}
        return {item_id: score * self.config.route_bonus for item_id, score in scores.items() if score > 0}

    def item_pool(self, routes: Routes) -> frozenset[str]:
        """The paper's hard pool: the items a search is restricted to. Empty when nothing was activated: search all."""
        return frozenset(self.item_routes(routes))

    def settle(self) -> None:
        """Works out the links between schemas after changes; call it in the background, reads use the last result."""
        if not self._unsettled:
            return
        self._unsettled = False
        now_wall_secs = max((link.at_wall_secs for link in self._links.values()), default=0.0)
        self._schema_links, self._settled_wall_secs = {}, now_wall_secs
        for one, other in self._links:
            first, second = self.entities[one].schema, self.entities[other].schema
            if first != second:
                weight = self.link_weight(one, other, now_wall_secs)
                for schema, neighbour in ((first, second), (second, first)):
                    weights = self._schema_links.setdefault(schema, {})
                    weights[neighbour] = weights.get(neighbour, 0.0) + weight
        members: dict[str, list[Entity]] = {}
        for entity in self.entities.values():
            members.setdefault(entity.schema, []).append(entity)
        self._main_members = {
            schema: tuple(
                e.name for e in nsmallest(4, each, key=lambda e: (-len(e.items), -e.seen_wall_secs, e.name))
            )
            for schema, each in members.items()
        }

    def schema_links(self, schema: str, now_wall_secs: float) -> dict[str, float]:
        """Other schemas with the summed weights of the links between their entities and this one's, as of the last
        `settle` and faded since; exact, because all links fade at one rate."""
        age_secs = max(0.0, now_wall_secs - self._settled_wall_secs)
        fading = 0.5 ** (age_secs / self.config.link_half_life_secs)
        weights = {name: weight * fading for name, weight in self._schema_links.get(schema, {}).items()}
        return {name: weight for name, weight in weights.items() if weight >= self.config.weak_link}

    def neighbour_sentence(self, activation: Activation, *, now_wall_secs: float) -> str:
        """The strongest linked neighbour of the matched schemas as one sentence; "" when none is strongly linked.

        One sentence instead of items keeps the pool small (VoiceMem, appendix B.1: as good as expanding it).
        """
        matched = activation.schemas | {self.entities[name].schema for name in activation.entities}
        best: tuple[float, str] = (0.0, "")
        for schema in sorted(matched):
            for name, weight in self.schema_links(schema, now_wall_secs).items():
                if name not in matched and name != GENERAL.name and weight > best[0]:
                    best = (weight, name)
        if best[0] < self.config.strong_link:
            return ""
        members = ", ".join(self._main_members.get(best[1], ()))
        return f"Often comes up with this: {self.schemas[best[1]].title} ({members})."

    # Persistence

    def to_json(self) -> dict[str, object]:
        """Plain JSON types, with the schema version; equal states give equal objects."""
        return {
            "schema": LEFT_BRAIN_SCHEMA_VERSION,
            "schemas": [self.schemas[name].to_json() for name in sorted(self.schemas)],
            "entities": [
                {
                    "name": e.name, "kind": e.kind.value, "schema": e.schema, "aliases": sorted(e.aliases),
                    "items": [[key, at] for key, at in e.items.items()], "votes": dict(sorted(e.votes.items())),
                    "pinned": e.pinned, "seen_wall_secs": e.seen_wall_secs,
                }
                for _, e in sorted(self.entities.items())
            ],
            "links": [[*key, link.weight, link.at_wall_secs] for key, link in sorted(self._links.items())],
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, object], *, config: LeftBrainConfig | None = None) -> LeftBrain:
        """The brain that `to_json` wrote.

        Raises:
            BadInputError: Not a left brain, or a schema newer than this version reads.
        """
        brain = cls(config=config, schemas=())
        try:
            schema = data.get("schema")
            if not isinstance(schema, int) or not 1 <= schema <= LEFT_BRAIN_SCHEMA_VERSION:
                raise BadInputError(
                    f"left brain has schema {schema!r}; this version reads {LEFT_BRAIN_SCHEMA_VERSION}"
                )
            for each in cast(list[Mapping[str, object]], data["schemas"]):
                loaded = Schema.from_json(each)
                brain.schemas[loaded.name] = loaded
            for raw in cast(list[dict[str, object]], data["entities"]):
                brain._load_entity(raw)
            for one, other, weight, at in cast(list[tuple[str, str, float, float]], data["links"]):
                brain._links[(str(one), str(other))] = Link(weight=float(weight), at_wall_secs=float(at))
                brain._neighbours.setdefault(str(one), set()).add(str(other))
                brain._neighbours.setdefault(str(other), set()).add(str(one))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadInputError(f"not a left brain: {type(error).__name__}") from error
        return brain

    def _load_entity(self, raw: dict[str, object]) -> None:
        name = str(raw["name"])
        entity = Entity(
            name=name,
            kind=EntityKind(raw["kind"]),
            schema=str(raw["schema"]),
            aliases={str(alias) for alias in cast(list[str], raw["aliases"])},
            items={str(key): float(at) for key, at in cast(list[tuple[str, float]], raw["items"])},
            votes={str(key): int(n) for key, n in cast(dict[str, int], raw["votes"]).items()},
            pinned=bool(raw["pinned"]),
            seen_wall_secs=float(cast(float, raw["seen_wall_secs"])),
        )
        if entity.schema not in self.schemas:
            raise ValueError("an entity of an unknown schema")
        self.entities[name] = entity
        for tokens in alias_tokens(entity.aliases):
            self._by_alias.setdefault(tokens, set()).add(name)
        for item_id in entity.items:
            self._items.setdefault(item_id, set()).add(name)
