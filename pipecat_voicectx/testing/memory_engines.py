"""Engines for tests: one in memory that behaves, and one that misbehaves to order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum

import numpy as np

from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.memory.records import MemoryHit, MemoryRecord
from pipecat_voicectx.stores.embedders import Embedder, LexicalEmbedder
from pipecat_voicectx.stores.engine import (
    AddReport,
    BlockingEngine,
    Embedded,
    EngineWorker,
    ScrubReport,
    SearchRequest,
)

__all__ = ["EngineFault", "FaultyEngine", "InMemoryEngine"]


class InMemoryEngine(BlockingEngine):
    """A conforming engine without files. `shared` lets two engines see one another's records, as two clients would."""

    def __init__(
        self,
        *,
        embedder: Embedder | None = None,
        shared: dict[str, tuple[MemoryRecord, list[float]]] | None = None,
        timeout_secs: float = 3.0,
    ) -> None:
        super().__init__(
            name="in-memory",
            embedder=embedder if embedder is not None else LexicalEmbedder(),
            worker=EngineWorker(name="memory-engine"),
            timeout_secs=timeout_secs,
        )
        self.items: dict[str, tuple[MemoryRecord, list[float]]] = shared if shared is not None else {}

    def _add_now(self, embedded: Embedded) -> AddReport:
        stored, refused = [], []
        for record, vector in embedded.pairs:
            known = self.items.get(record.id)
            if known is not None and known[0].owner != record.owner:
                refused.append(record.id)
                continue
            self.items[record.id] = (record, vector)
            stored.append(record.id)
        return AddReport(stored=tuple(stored), failed=tuple(embedded.failed), refused=tuple(refused))

    def _delete_now(self, ids: Sequence[str]) -> None:
        for each in ids:
            self.items.pop(each, None)

    def _get_now(self, record_id: str) -> MemoryRecord | None:
        known = self.items.get(record_id)
        return known[0] if known else None

    def _search_now(self, request: SearchRequest) -> Sequence[MemoryHit]:
        query = self._embed_one(request.query)
        if query is None:
            raise ValueError("the query could not be embedded")
        hits = [
            MemoryHit(record=record, score=float(np.dot(query, vector)))
            for record, vector in self.items.values()
            if record.owner == request.owner
            and (request.ids is None or record.id in request.ids)
            and (request.tags is None or not request.tags.isdisjoint(record.tags))
        ]
        return sorted(hits, key=lambda hit: -hit.score)[: request.limit]

    def _list_now(self, owner: Owner) -> Sequence[MemoryRecord]:
        return [record for record, _ in self.items.values() if record.owner == owner]

    def _scrub_now(self) -> ScrubReport:
        return ScrubReport(scrubbed=True, note="there are no files")

    def _close_now(self) -> None:
        self._worker.join()


class EngineFault(Enum):
    """What the next call of a `FaultyEngine` does."""

    NONE = "none"
    RAISE = "raise"
    """The client raises."""
    HANG = "hang"
    """The client does not return before `release()`; the engine's timeout answers."""
    FOREIGN_HITS = "foreign_hits"
    """A search returns everybody's records."""
    DUPLICATE_HITS = "duplicate_hits"
    """A search returns every hit twice."""


class FaultyEngine(InMemoryEngine):
    """An in-memory engine with a plan of faults, one for each call; after the plan, `otherwise`."""

    def __init__(
        self,
        *,
        plan: Iterable[EngineFault] = (),
        otherwise: EngineFault = EngineFault.NONE,
        embedder: Embedder | None = None,
        timeout_secs: float = 3.0,
    ) -> None:
        super().__init__(embedder=embedder, timeout_secs=timeout_secs)
        self._plan = deque(plan)
        self.otherwise = otherwise
        self._released = threading.Event()

    def release(self) -> None:
        """Lets hanging calls go on."""
        self._released.set()

    def _close_now(self) -> None:
        self.release()
        super()._close_now()

    def _add_now(self, embedded: Embedded) -> AddReport:
        self._strike()
        return super()._add_now(embedded)

    def _delete_now(self, ids: Sequence[str]) -> None:
        self._strike()
        super()._delete_now(ids)

    def _list_now(self, owner: Owner) -> Sequence[MemoryRecord]:
        self._strike()
        return super()._list_now(owner)

    def _search_now(self, request: SearchRequest) -> Sequence[MemoryHit]:
        match self._strike():
            case EngineFault.FOREIGN_HITS:
                return [MemoryHit(record=record, score=1.0) for record, _ in self.items.values()]
            case EngineFault.DUPLICATE_HITS:
                hits = super()._search_now(request)
                return [*hits, *hits]
            case _:
                return super()._search_now(request)

    def _strike(self) -> EngineFault:
        fault = self._plan.popleft() if self._plan else self.otherwise
        if fault is EngineFault.RAISE:
            raise ConnectionError("scripted fault")
        if fault is EngineFault.HANG:
            self._released.wait(timeout=30)
        return fault
