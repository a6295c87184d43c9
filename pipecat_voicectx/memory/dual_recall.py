"""Joint recall: what both brains know that bears on what is being said, within a budget.

Facts are ranked by their words, by meaning where vectors are there, by the left brain's routes and by how lately they
were said; persona nodes come from the right brain for the entities the left one reached. Everything is in memory; a
recall takes well under a millisecond for a few thousand facts, so it may run on the response path.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.facts import USER, Fact
from pipecat_voicectx.memory.index import ROWS_PER_PAGE, FloatArray, IndexedTurn, PageIndex
from pipecat_voicectx.memory.left_brain import Activation, LeftBrain, Routes
from pipecat_voicectx.memory.right_brain import PersonaNode, RightBrain
from pipecat_voicectx.memory.tokens import tokenize

__all__ = ["DualRecall", "DualRecallConfig", "FactIndex", "RoutePolicy", "recall_from_brains"]

# Chosen: enough for the routes to change the order of what words and meaning found.
_CANDIDATES = 50
# BM25 over the best fact's, beside the cosine. The page ranking's weight of BM25 and its window together is 0.9; a fact
# is one sentence without a window.
_LEXICAL_WEIGHT = 0.6


class RoutePolicy(Enum):
    """What the left brain's routes do to the ranking."""

    BONUS = "bonus"
    """They add to the score and cut nothing off. The default, since it measured better."""
    HARD_POOL = "hard_pool"
    """Only what a route reaches is ranked, as in the VoiceMem paper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DualRecallConfig:
    """How much is recalled."""

    max_facts: int = 5
    """The VoiceMem paper's operating point."""
    max_persona: int = 2
    """Most sentences about how the caller is or feels; 0 leaves them out. Chosen."""
    max_tokens: int = 430
    """For everything recalled; the paper's memory tokens at five items."""
    min_score: float = 0.2
    """Below, a fact does not bear on the turn. Chosen: a shared rare word or a route beside some meaning pass."""
    recency_bonus: float = 0.05
    """For a fact just said; half of it after `recency_half_life_secs`. Chosen: breaks ties."""
    recency_half_life_secs: float = 30 * 86_400.0
    """Age at which the bonus of a fact just said has halved. Chosen: a month."""
    policy: RoutePolicy = RoutePolicy.BONUS
    """Whether routes raise a fact's score or cut the rest off. A hard pool costs a good ranking 4 to 13 points."""

    def __post_init__(self) -> None:
        if (
            self.max_facts < 0
            or self.max_persona < 0
            or self.max_tokens < 1
            or self.recency_half_life_secs <= 0
        ):
            raise UsageError(
                "DualRecallConfig: counts must not be negative, tokens and half-life must be positive"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DualRecall:
    """What both brains have to say about a turn."""

    facts: tuple[Fact, ...] = ()
    """Best first."""
    persona: tuple[PersonaNode, ...] = ()
    neighbour: str = ""
    """One sentence about the schema that is linked to this one; "" for none."""
    routes: Routes | None = None

    @property
    def sentences(self) -> tuple[str, ...]:
        """For the prompt, in order of importance. Raw: whoever renders them escapes them."""
        out = [fact.statement for fact in self.facts]
        out += [node.description for node in self.persona]
        return (*out, self.neighbour) if self.neighbour else tuple(out)


class FactIndex:
    """The current facts of one owner, searchable by words and, where vectors are set, by meaning."""

    def __init__(self, *, dimension: int = 1) -> None:
        self._index = PageIndex(dimension=dimension)
        self._facts: dict[str, Fact] = {}

    def __len__(self) -> int:
        return len(self._facts)

    def set(self, facts: Iterable[Fact]) -> None:
        """Adds or replaces facts; those that are no longer current are hidden."""
        for fact in facts:
            if not fact.current:
                self.remove([fact.id])
                continue
            known = self._facts.get(fact.id)
            self._facts[fact.id] = fact
            if known is None or known.statement != fact.statement:
                # The owner of every fact is the same, so "user" as a token would only be noise.
                text = fact.statement.removeprefix("The user's ").removeprefix("The user ")
                turn = IndexedTurn(speaker=USER, text=f"{text} {fact.attribute}")
                self._index.upsert(fact.id, session="facts", turns=[turn])

    def remove(self, fact_ids: Collection[str]) -> None:
        """Hides facts."""
        for fact_id in fact_ids:
            if self._facts.pop(fact_id, None) is not None:
                self._index.upsert(fact_id, session="facts", turns=[])

    def set_vector(self, fact_id: str, vector: FloatArray) -> None:
        """The embedding of a fact's statement."""
        if fact_id in self._facts:
            self._index.set_vectors(fact_id, [np.asarray(vector, np.float32)])

    def get(self, fact_id: str) -> Fact | None:
        """A current fact by id."""
        return self._facts.get(fact_id)

    def search(
        self, text: str, *, vector: FloatArray | None = None, limit: int = _CANDIDATES
    ) -> list[tuple[Fact, float]]:
        """Facts with their scores by words and meaning, best first."""
        lexical = self._index.lexical_scores(tokenize(text)).turn[::ROWS_PER_PAGE]
        best = float(lexical.max(initial=0.0))
        scores = lexical * (_LEXICAL_WEIGHT / best) if best > 0 else np.zeros_like(lexical)
        if vector is not None:
            scores = scores + self._index.cosines(np.asarray(vector, np.float32))[::ROWS_PER_PAGE]
        many = len(scores) > limit
        places = np.argpartition(-scores, limit)[:limit] if many else np.arange(len(scores))
        found: list[tuple[Fact, float]] = []
        for place in places[np.argsort(-scores[places], kind="stable")]:
            fact = self._facts.get(self._index.key_at(int(place)) or "")
            if fact is not None and scores[place] > 0:
                found.append((fact, float(scores[place])))
        return found


def recall_from_brains(
    text: str,
    *,
    index: FactIndex,
    left: LeftBrain,
    right: RightBrain,
    now_wall_secs: float,
    activation: Activation | None = None,
    vector: FloatArray | None = None,
    similar: Mapping[str, float] | None = None,
    exclude: Collection[str] = (),
    config: DualRecallConfig | None = None,
) -> DualRecall:
    """What bears on `text`.

    Args:
        text: The user's words so far.
        index: The owner's current facts.
        left: Whose routes count.
        right: Whose nodes are matched.
        now_wall_secs: Unix time, for fading links and recency.
        activation: What earlier interim transcripts of this utterance activated.
        vector: The embedding of the text, where it is ready and facts have vectors.
        similar: Ids of facts that an engine found near in meaning, with its scores in 0..1.
        exclude: Facts that are in the prompt anyway.
        config: Budget and policy.
    """
    config = config or DualRecallConfig()
    routes = left.expand(left.activate(text, activation), now_wall_secs=now_wall_secs)
    facts = _ranked(
        text, index, left, routes, vector, similar or {}, now_wall_secs, frozenset(exclude), config
    )
    persona = right.match(text, routes.entities, limit=config.max_persona) if config.max_persona else []
    neighbour = left.neighbour_sentence(routes.activation, now_wall_secs=now_wall_secs)
    found = DualRecall(facts=tuple(facts), persona=tuple(persona), neighbour=neighbour, routes=routes)
    return _within(found, config.max_tokens)


def _ranked(
    text: str,
    index: FactIndex,
    left: LeftBrain,
    routes: Routes,
    vector: FloatArray | None,
    similar: Mapping[str, float],
    now_wall_secs: float,
    exclude: frozenset[str],
    config: DualRecallConfig,
) -> list[Fact]:
    scores = {fact.id: score for fact, score in index.search(text, vector=vector)}
    for fact_id in left.named_items(routes, limit=_CANDIDATES):
        scores.setdefault(fact_id, 0.0)
    for fact_id, score in similar.items():
        scores[fact_id] = scores.get(fact_id, 0.0) + score
    hard = config.policy is RoutePolicy.HARD_POOL and bool(routes.entities or routes.activation.schemas)
    ranked: list[tuple[float, float, Fact]] = []
    for fact_id, score in scores.items():
        fact = index.get(fact_id)
        if fact is None or fact_id in exclude:
            continue
        route = left.item_route(fact_id, routes)
        # An entity that was named vouches for its facts by itself; a mere neighbour needs a word or a meaning too.
        score += left.config.route_bonus * route * (2 if route >= 1 else 1)
        if score < config.min_score or (hard and route == 0):
            continue
        age_secs = max(0.0, now_wall_secs - fact.last_said_wall_secs)
        recency = config.recency_bonus * 0.5 ** (age_secs / config.recency_half_life_secs)
        ranked.append((score + recency, fact.last_said_wall_secs, fact))
    ranked.sort(key=lambda each: (-each[0], -each[1], each[2].id))
    return [fact for _, _, fact in ranked[: config.max_facts]]


def _within(found: DualRecall, max_tokens: int) -> DualRecall:
    """Drops the neighbour sentence, then persona, then the least facts, until the rest fits."""
    while _tokens(found.sentences) > max_tokens:
        if found.neighbour:
            found = replace(found, neighbour="")
        elif found.persona:
            found = replace(found, persona=found.persona[:-1])
        elif found.facts:
            found = replace(found, facts=found.facts[:-1])
        else:
            break
    return found


def _tokens(sentences: Sequence[str]) -> int:
    # Text costs 1.33 tokens a word (LOV); scripts without blanks about one a character.
    return sum(
        max(
            round(1.33 * len(sentence.split())),
            len(sentence) if not sentence.isascii() and " " not in sentence else 0,
        )
        for sentence in sentences
    )
