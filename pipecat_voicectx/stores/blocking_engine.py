"""The base of the engines here: a blocking client in a worker thread, with a bounded queue and a deadline.

One thread, since embedded Qdrant breaks searches that run beside a write. The owner, the ids and the tags of whatever
the client returns are checked once more.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from loguru import logger

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.memory.records import MemoryHit, MemoryRecord
from pipecat_voicectx.stores.embedders import Embedder
from pipecat_voicectx.stores.engine import (
    LIST_PAGE_SIZE,
    WRITE_CHUNK,
    AddReport,
    Answered,
    EngineCounters,
    EngineResult,
    RecordPage,
    ScrubReport,
    Unavailable,
    UnavailableReason,
)

__all__ = [
    "DEFAULT_MAX_PENDING",
    "DEFAULT_TIMEOUT_SECS",
    "LIST_LIMIT",
    "BlockingEngine",
    "Embedded",
    "EngineWorker",
    "SearchRequest",
]

T = TypeVar("T")

# Chosen: the documented worst case in the field is a back end of 3 s; a caller that can wait passes more.
DEFAULT_TIMEOUT_SECS = 3.0
# Chosen: at 40 ms a call a full queue is about one second of work; beyond that, saying so beats waiting.
DEFAULT_MAX_PENDING = 32
# Chosen: more records of one owner than any test of ours; past it a server would have to list in pages.
LIST_LIMIT = 200_000


@dataclass(slots=True)
class _Pending:
    count: int = 0


class EngineWorker:
    """One thread for one client; shared by the engines that share the client."""

    def __init__(self, *, name: str, max_pending: int = DEFAULT_MAX_PENDING) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"voicectx-{name}")
        self._pending = _Pending()
        self._max_pending = max_pending

    async def run(self, call: Callable[[], T], *, timeout_secs: float) -> EngineResult[T]:
        """`call` in the worker's thread. Its `UsageError`s are raised, its other errors become `Unavailable`."""
        if self._pending.count >= self._max_pending:
            return Unavailable(reason=UnavailableReason.BUSY)
        self._pending.count += 1
        future = asyncio.get_running_loop().run_in_executor(self._executor, call)
        future.add_done_callback(self._done)
        try:
            return Answered(await asyncio.wait_for(asyncio.shield(future), timeout_secs))
        except TimeoutError:
            return Unavailable(reason=UnavailableReason.TIMEOUT)
        except UsageError:
            raise
        except Exception as error:  # the outer edge: a client library raises what it likes
            return Unavailable(reason=UnavailableReason.FAILED, detail=type(error).__name__)

    def _done(self, future: asyncio.Future[T]) -> None:
        self._pending.count -= 1
        if not future.cancelled():
            future.exception()  # seen, also when the caller stopped waiting

    def stop(self) -> None:
        """Lets what was begun finish and ends the thread, without waiting for it."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        """Ends the thread and waits for it. Blocking."""
        self._executor.shutdown(wait=True, cancel_futures=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A search as the blocking part of an engine receives it."""

    owner: Owner
    query: str
    limit: int
    ids: frozenset[str] | None
    tags: frozenset[str] | None


@dataclass(slots=True, kw_only=True)
class Embedded:
    """Records with their vectors, and the ids of those the embedder failed on."""

    pairs: list[tuple[MemoryRecord, list[float]]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


class BlockingEngine(ABC):
    """Base of engines over a blocking client: subclasses implement the `_*_now` methods, which run in the worker."""

    def __init__(
        self,
        *,
        name: str,
        embedder: Embedder,
        worker: EngineWorker,
        timeout_secs: float = DEFAULT_TIMEOUT_SECS,
    ) -> None:
        self._name = name
        self._embedder = embedder
        self._worker = worker
        self._timeout_secs = timeout_secs
        self._closed = False
        self.counters = EngineCounters()

    @property
    def name(self) -> str:
        """For logs and reports."""
        return self._name

    async def add(self, records: Sequence[MemoryRecord]) -> EngineResult[AddReport]:
        """See `MemoryEngine.add`."""
        if not records:
            return Answered(AddReport())
        latest = list({record.id: record for record in records}.values())
        stored: tuple[str, ...] = ()
        failed: tuple[str, ...] = ()
        refused: tuple[str, ...] = ()
        for start in range(0, len(latest), WRITE_CHUNK):
            chunk = latest[start : start + WRITE_CHUNK]
            result = await self._call(partial(self._embed_and_add_now, chunk))
            if isinstance(result, Unavailable):
                return result
            stored += result.value.stored
            failed += result.value.failed
            refused += result.value.refused
        return Answered(AddReport(stored=stored, failed=failed, refused=refused))

    async def update(self, record: MemoryRecord) -> EngineResult[bool]:
        """See `MemoryEngine.update`."""

        def now() -> bool:
            known = self._get_now(record.id)
            if known is None or known.owner != record.owner:
                return False
            report = self._embed_and_add_now([record])
            if report.failed:
                raise ValueError("the record could not be embedded")
            return bool(report.stored)

        return await self._call(now)

    async def delete(self, owner: Owner, ids: Collection[str]) -> EngineResult[int]:
        """See `MemoryEngine.delete`."""
        wanted = sorted(set(ids))

        def now() -> int:
            own = [
                record_id
                for record_id in wanted
                if (known := self._get_now(record_id)) is not None and known.owner == owner
            ]
            if own:
                self._delete_now(own)
            return len(own)

        return await self._call(now) if wanted else Answered(0)

    async def get(self, owner: Owner, record_id: str) -> EngineResult[MemoryRecord | None]:
        """See `MemoryEngine.get`."""

        def now() -> MemoryRecord | None:
            known = self._get_now(record_id)
            return known if known is not None and known.owner == owner else None

        return await self._call(now)

    async def search(
        self,
        owner: Owner,
        query: str,
        *,
        limit: int = 5,
        ids: Collection[str] | None = None,
        tags: Collection[str] | None = None,
    ) -> EngineResult[tuple[MemoryHit, ...]]:
        """See `MemoryEngine.search`."""
        if limit < 1:
            raise UsageError("limit must be at least 1")
        if not query.strip() or (ids is not None and not ids) or (tags is not None and not tags):
            return Answered(())
        request = SearchRequest(
            owner=owner,
            query=query,
            limit=limit,
            ids=None if ids is None else frozenset(ids),
            tags=None if tags is None else frozenset(tags),
        )
        return await self._call(lambda: self._checked(request, self._search_now(request)))

    async def list_by_owner(
        self, owner: Owner, *, limit: int = LIST_PAGE_SIZE, after: str | None = None
    ) -> EngineResult[RecordPage]:
        """See `MemoryEngine.list_by_owner`."""
        if limit < 1:
            raise UsageError("limit must be at least 1")

        def now() -> RecordPage:
            every = [record for record in self._list_now(owner) if record.owner == owner]
            every.sort(key=lambda record: record.id)
            rest = [record for record in every if after is None or record.id > after]
            page = rest[:limit]
            return RecordPage(
                records=tuple(page), next_after=page[-1].id if len(rest) > limit and page else None
            )

        return await self._call(now)

    async def scrub(self) -> EngineResult[ScrubReport]:
        """See `MemoryEngine.scrub`."""
        return await self._call(self._scrub_now)

    async def close(self) -> None:
        """See `MemoryEngine.close`."""
        if self._closed:
            return
        self._closed = True
        closing = asyncio.get_running_loop().run_in_executor(None, self._close_now)
        try:
            await asyncio.wait_for(asyncio.shield(closing), self._timeout_secs)
        except TimeoutError:
            logger.warning("memory engine {} did not close in time; it goes on in the background", self._name)

    async def _call(self, call: Callable[[], T]) -> EngineResult[T]:
        self.counters.calls += 1
        if self._closed:
            return Unavailable(reason=UnavailableReason.CLOSED)
        result = await self._worker.run(call, timeout_secs=self._timeout_secs)
        if isinstance(result, Unavailable):
            match result.reason:
                case UnavailableReason.TIMEOUT:
                    self.counters.timeouts += 1
                case UnavailableReason.BUSY:
                    self.counters.busy += 1
                case UnavailableReason.FAILED | UnavailableReason.CLOSED:
                    self.counters.failures += 1
            logger.debug(
                "memory engine {} unavailable: {} {}", self._name, result.reason.value, result.detail
            )
        return result

    def _embed_and_add_now(self, records: Sequence[MemoryRecord]) -> AddReport:
        return self._add_now(self._embed(records))

    def _embed(self, records: Sequence[MemoryRecord]) -> Embedded:
        """Vectors in one batch; one at a time when the batch fails, so that one bad text costs only itself."""
        out = Embedded()
        try:
            vectors = [list(map(float, vector)) for vector in self._embedder.embed([r.text for r in records])]
            if len(vectors) != len(records):
                raise ValueError("the embedder returned another number of vectors")
            pairs: list[tuple[MemoryRecord, list[float] | None]] = list(zip(records, vectors, strict=True))
        except Exception:  # an embedder is a plug-in; it raises what it likes
            pairs = [(record, self._embed_one(record.text)) for record in records]
        for record, vector in pairs:
            if vector is None or len(vector) != self._embedder.dimension:
                self.counters.unembedded += 1
                out.failed.append(record.id)
            else:
                out.pairs.append((record, vector))
        return out

    def _embed_one(self, text: str) -> list[float] | None:
        try:
            return list(map(float, self._embedder.embed([text])[0]))
        except Exception:  # as above; counted by the caller
            return None

    def _checked(self, request: SearchRequest, hits: Sequence[MemoryHit]) -> tuple[MemoryHit, ...]:
        kept: dict[str, MemoryHit] = {}
        for hit in hits:
            record = hit.record
            fits = (
                record.owner == request.owner
                and (request.ids is None or record.id in request.ids)
                and (request.tags is None or not request.tags.isdisjoint(record.tags))
            )
            if not fits:
                self.counters.foreign_hits += 1
            elif record.id not in kept or kept[record.id].score < hit.score:
                kept[record.id] = hit
        ordered = sorted(kept.values(), key=lambda hit: (-hit.score, hit.record.id))
        return tuple(ordered[: request.limit])

    @abstractmethod
    def _add_now(self, embedded: Embedded) -> AddReport:
        """Upserts; must refuse an id that another owner holds."""

    @abstractmethod
    def _delete_now(self, ids: Sequence[str]) -> None:
        """Deletes ids that were checked to be the owner's."""

    @abstractmethod
    def _get_now(self, record_id: str) -> MemoryRecord | None:
        """The record of this id, whoever owns it."""

    @abstractmethod
    def _search_now(self, request: SearchRequest) -> Sequence[MemoryHit]:
        """At least the best hits that fit; what does not fit is dropped afterwards."""

    @abstractmethod
    def _list_now(self, owner: Owner) -> Sequence[MemoryRecord]:
        """Every record of the owner, in any order."""

    @abstractmethod
    def _scrub_now(self) -> ScrubReport:
        """Removes deleted text from files."""

    @abstractmethod
    def _close_now(self) -> None:
        """Releases the client; runs once, in another thread than the worker's."""
