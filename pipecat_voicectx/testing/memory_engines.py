"""Engines for tests: one in memory that behaves, one that misbehaves to order, and trouble for any engine."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from enum import Enum

import numpy as np

from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.memory.records import MemoryHit, MemoryRecord
from pipecat_voicectx.stores.blocking_engine import (
    BlockingEngine,
    Embedded,
    EngineWorker,
    SearchRequest,
)
from pipecat_voicectx.stores.embedders import Embedder, LexicalEmbedder
from pipecat_voicectx.stores.engine import (
    LIST_PAGE_SIZE,
    AddReport,
    EngineResult,
    MemoryEngine,
    RecordPage,
    ScrubReport,
    Unavailable,
    UnavailableReason,
)

__all__ = ["EngineFault", "FaultyEngine", "InMemoryEngine", "TroubledEngine"]


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


class TroubledEngine:
    """Another engine behind trouble: every call takes `delay_secs`, and those that `fails` names do not answer.

    The delay is `asyncio.sleep`, so it costs nothing on virtual time.
    """

    def __init__(
        self, engine: MemoryEngine, *, delay_secs: float = 0.0, fails: Collection[int] | None = ()
    ) -> None:
        self._engine = engine
        self._delay_secs = delay_secs
        self._fails = fails
        self.calls = 0
        """Calls so far; `fails` counts them from 0. None fails them all."""

    @property
    def name(self) -> str:
        """For logs and reports."""
        return f"troubled {self._engine.name}"

    async def add(self, records: Sequence[MemoryRecord]) -> EngineResult[AddReport]:
        """As the engine behind, if it is reached."""
        return await self._trouble() or await self._engine.add(records)

    async def update(self, record: MemoryRecord) -> EngineResult[bool]:
        """As the engine behind, if it is reached."""
        return await self._trouble() or await self._engine.update(record)

    async def delete(self, owner: Owner, ids: Collection[str]) -> EngineResult[int]:
        """As the engine behind, if it is reached."""
        return await self._trouble() or await self._engine.delete(owner, ids)

    async def get(self, owner: Owner, record_id: str) -> EngineResult[MemoryRecord | None]:
        """As the engine behind, if it is reached."""
        return await self._trouble() or await self._engine.get(owner, record_id)

    async def search(
        self,
        owner: Owner,
        query: str,
        *,
        limit: int = 5,
        ids: Collection[str] | None = None,
        tags: Collection[str] | None = None,
    ) -> EngineResult[tuple[MemoryHit, ...]]:
        """As the engine behind, if it is reached."""
        return await self._trouble() or await self._engine.search(
            owner, query, limit=limit, ids=ids, tags=tags
        )

    async def list_by_owner(
        self, owner: Owner, *, limit: int = LIST_PAGE_SIZE, after: str | None = None
    ) -> EngineResult[RecordPage]:
        """As the engine behind, if it is reached."""
        return await self._trouble() or await self._engine.list_by_owner(owner, limit=limit, after=after)

    async def scrub(self) -> EngineResult[ScrubReport]:
        """As the engine behind, if it is reached."""
        return await self._trouble() or await self._engine.scrub()

    async def close(self) -> None:
        """Closes the engine behind."""
        await self._engine.close()

    async def _trouble(self) -> Unavailable | None:
        call, self.calls = self.calls, self.calls + 1
        if self._delay_secs:
            await asyncio.sleep(self._delay_secs)
        if self._fails is None or call in self._fails:
            return Unavailable(reason=UnavailableReason.FAILED, detail="scripted fault")
        return None
