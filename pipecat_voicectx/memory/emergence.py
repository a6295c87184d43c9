"""Emergence: sub-clusters that queries keep activating together become schemas of their own.

After VoiceMem, section 3.1 and algorithm 1. For a connected set H of a cluster's entities, the query coherence is

    rho(H) = mean over queries q of |Aq & H| / |Aq | H|

with Aq the entities that q activated. The largest H with rho(H) > alpha is judged: relevant (queries ask for it),
important (enough is known of it), complete (no neighbour belongs to it as much). A judge that says yes to all three
promotes H to a schema; otherwise H is barred and not tried again. Both are kept across sessions.

The queries counted are those that touch the cluster: with every query of the log, a memory with ten topics could not
let anything emerge, since each query concerns one of them.

Candidates are exact up to twelve entities; beyond that they are grown greedily from every linked pair, adding the
neighbour with which rho stays highest, so that the largest set may be missed, but never a wrong one returned.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from pipecat_voicectx.errors import BadInputError, UsageError
from pipecat_voicectx.memory.left_brain import LeftBrain
from pipecat_voicectx.memory.query_log import QueryLog
from pipecat_voicectx.memory.schemas import Schema
from pipecat_voicectx.memory.tokens import tokenize

__all__ = [
    "Candidate",
    "Emergence",
    "EmergenceConfig",
    "EmergenceJudge",
    "Promoted",
    "RuleJudge",
    "Verdict",
    "query_coherence",
]

EMERGENCE_SCHEMA_VERSION = 1
# Chosen: 2^12 subsets take some ten milliseconds, in the background.
_MAX_EXACT = 12
# Chosen: barred sets are tiny, and a memory that bars more than this should be looked at.
_MAX_BARRED = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class EmergenceConfig:
    """When a sub-cluster is looked at."""

    alpha: float = 0.5
    """Coherence to exceed. The paper leaves it open. Chosen: in half of what the queries touch, H is all there is."""
    min_entities: int = 2
    min_queries: int = 5
    """Queries that must have touched the cluster. Chosen: fewer are an accident."""
    max_share: float = 0.7
    """An H that is more than this share of its cluster is the cluster; nothing is gained by moving it."""

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1 or self.min_entities < 2 or not 0 < self.max_share <= 1:
            raise UsageError("EmergenceConfig: 0 < alpha < 1, min_entities >= 2, 0 < max_share <= 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A coherent sub-cluster, for the judge."""

    entities: frozenset[str]
    coherence: float
    queries: int
    """Queries that activated at least two of its entities."""
    items: int
    """Items attached to its entities."""
    cluster_items: int
    """Items of the whole cluster."""
    best_outsider: float
    """The highest coherence that one neighbour more would give; 0 without neighbours."""
    neighbours: tuple[str, ...] = ()
    """Linked entities of the cluster that are not in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The judge's three answers."""

    relevant: bool
    important: bool
    complete: bool

    @property
    def promote(self) -> bool:
        """Whether all three are yes."""
        return self.relevant and self.important and self.complete


class EmergenceJudge(Protocol):
    """Decides about a candidate; a language model may stand behind it."""

    def __call__(self, candidate: Candidate) -> Verdict:
        """The verdict. Pure, or at least quick: it runs in the memory's writer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleJudge:
    """The judge without a model: counts."""

    min_queries: int = 3
    """Queries that asked for two of the entities at once. Chosen."""
    min_items: int = 3
    """Items known of it. Chosen: fewer fit a prompt without a schema."""
    margin: float = 0.02
    """How far below the candidate's the coherence with one neighbour more must be. Chosen."""

    def __call__(self, candidate: Candidate) -> Verdict:
        """See `EmergenceJudge`."""
        return Verdict(
            relevant=candidate.queries >= self.min_queries,
            important=candidate.items >= self.min_items,
            complete=candidate.best_outsider <= candidate.coherence - self.margin,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Promoted:
    """A schema that emerged."""

    schema: Schema
    entities: frozenset[str]
    coherence: float


def query_coherence(entities: Collection[str], queries: Sequence[frozenset[str]]) -> float:
    """rho(H) over the queries; 0 without queries or entities."""
    wanted = frozenset(entities)
    if not queries or not wanted:
        return 0.0
    return sum(len(query & wanted) / len(query | wanted) for query in queries) / len(queries)


class Emergence:
    """Runs the algorithm and remembers what was barred."""

    def __init__(self, *, config: EmergenceConfig | None = None, judge: EmergenceJudge | None = None) -> None:
        self.config = config or EmergenceConfig()
        self._judge: Callable[[Candidate], Verdict] = judge or RuleJudge()
        self._barred: dict[frozenset[str], None] = {}

    @property
    def barred(self) -> frozenset[frozenset[str]]:
        """Entity sets that were judged and refused."""
        return frozenset(self._barred)

    def run(self, brain: LeftBrain, log: QueryLog, *, now_wall_secs: float) -> list[Promoted]:
        """One pass over every schema; moves what is promoted, bars what is refused. Not for the response path."""
        promoted: list[Promoted] = []
        for name in sorted(brain.schemas):
            candidate = self.candidate(brain, log, name, now_wall_secs=now_wall_secs)
            if candidate is not None:
                made = self.decide(brain, candidate, self._judge(candidate))
                promoted += [made] if made is not None else []
        return promoted

    def decide(self, brain: LeftBrain, candidate: Candidate, verdict: Verdict) -> Promoted | None:
        """Promotes or bars one candidate. For a judge that must be waited for, such as a language model."""
        if verdict.promote:
            schema = _schema_for(candidate, brain)
            brain.move_to_schema(schema, candidate.entities)
            return Promoted(schema=schema, entities=candidate.entities, coherence=candidate.coherence)
        self._barred[candidate.entities] = None
        while len(self._barred) > _MAX_BARRED:
            del self._barred[next(iter(self._barred))]
        return None

    def candidate(
        self, brain: LeftBrain, log: QueryLog, schema: str, *, now_wall_secs: float
    ) -> Candidate | None:
        """The largest coherent connected subset of a schema that was not barred; None when there is none."""
        cluster = sorted(name for name, entity in brain.entities.items() if entity.schema == schema)
        if len(cluster) <= self.config.min_entities:
            return None
        queries = log.touching(cluster)
        if len(queries) < self.config.min_queries:
            return None
        inside = set(cluster)
        links = {name: set(brain.neighbours(name, now_wall_secs)) & inside for name in cluster}
        most = max(self.config.min_entities, int(self.config.max_share * len(cluster)))
        best: tuple[int, float, frozenset[str]] | None = None
        for subset in _connected(cluster, links, queries, most):
            if len(subset) < self.config.min_entities or len(subset) > most or subset in self._barred:
                continue
            coherence = query_coherence(subset, queries)
            key = (len(subset), coherence)
            better = best is None or key > best[:2] or (key == best[:2] and sorted(subset) < sorted(best[2]))
            if coherence > self.config.alpha and better:
                best = (*key, subset)
        return None if best is None else self._describe(brain, best[2], cluster, links, queries)

    def _describe(
        self,
        brain: LeftBrain,
        subset: frozenset[str],
        cluster: Sequence[str],
        links: Mapping[str, set[str]],
        queries: Sequence[frozenset[str]],
    ) -> Candidate:
        outsiders = set().union(*(links[name] for name in subset)) - subset
        items = {item for name in subset for item in brain.entities[name].items}
        return Candidate(
            entities=subset,
            coherence=query_coherence(subset, queries),
            queries=sum(len(query & subset) >= 2 for query in queries),
            items=len(items),
            cluster_items=len({item for name in cluster for item in brain.entities[name].items}),
            best_outsider=max((query_coherence(subset | {name}, queries) for name in outsiders), default=0.0),
            neighbours=tuple(sorted(outsiders)[:20]),
        )

    def forget(self, entities: Collection[str]) -> None:
        """Drops what names entities that were erased."""
        gone = frozenset(entities)
        self._barred = {names: None for names in self._barred if gone.isdisjoint(names)}

    def to_json(self) -> dict[str, object]:
        """Plain JSON types, with the schema version."""
        return {"schema": EMERGENCE_SCHEMA_VERSION, "barred": [sorted(each) for each in self._barred]}

    def load_json(self, data: Mapping[str, object]) -> None:
        """Takes over what `to_json` wrote.

        Raises:
            BadInputError: Not an emergence state, or a schema newer than this version reads.
        """
        try:
            if data.get("schema") != EMERGENCE_SCHEMA_VERSION:
                raise BadInputError(f"emergence state has schema {data.get('schema')!r}")
            barred = [frozenset(str(n) for n in each) for each in cast(list[list[str]], data["barred"])]
        except (KeyError, TypeError) as error:
            raise BadInputError(f"not an emergence state: {type(error).__name__}") from error
        self._barred = dict.fromkeys(barred[-_MAX_BARRED:])


def _connected(
    cluster: Sequence[str], links: Mapping[str, set[str]], queries: Sequence[frozenset[str]], most: int
) -> Iterable[frozenset[str]]:
    asked = [name for name in cluster if any(name in query for query in queries)]
    if len(asked) <= _MAX_EXACT:
        return _all_connected(asked, links)
    return _grown(asked, links, queries, most)


def _all_connected(names: Sequence[str], links: Mapping[str, set[str]]) -> Iterable[frozenset[str]]:
    found: dict[frozenset[str], None] = {frozenset({name}): None for name in names}
    layer = list(found)
    allowed = set(names)
    while layer:
        following: dict[frozenset[str], None] = {}
        for subset in layer:
            for neighbour in set().union(*(links[name] for name in subset)) & allowed - subset:
                larger = subset | {neighbour}
                if larger not in found:
                    found[larger] = following[larger] = None
        layer = list(following)
    return found


def _grown(
    names: Sequence[str], links: Mapping[str, set[str]], queries: Sequence[frozenset[str]], most: int
) -> Iterable[frozenset[str]]:
    allowed = set(names)
    for one in names:
        for other in sorted(links[one] & allowed):
            if one >= other:
                continue
            subset = frozenset({one, other})
            while True:
                yield subset
                around = set().union(*(links[name] for name in subset)) & allowed - subset
                if not around or len(subset) >= most:
                    break
                best = max(sorted(around), key=lambda name: query_coherence(subset | {name}, queries))
                subset = subset | {best}


def _schema_for(candidate: Candidate, brain: LeftBrain) -> Schema:
    members = sorted(candidate.entities, key=lambda name: (-len(brain.entities[name].items), name))
    title = " and ".join(members[:2])
    aliases = {alias for name in candidate.entities for alias in brain.entities[name].aliases}
    name, number = f"emerged:{title}", 2
    while name in brain.schemas:
        name, number = f"emerged:{title} {number}", number + 1
    return Schema(name=name, title=title, keywords=frozenset(tokenize(" ".join(aliases))), emerged=True)
