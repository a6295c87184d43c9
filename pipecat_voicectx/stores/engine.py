"""MemoryEngine: the interchangeable store under the two brains, and the answers it gives.

An engine keeps records that are addressed by id, finds them by similarity, and never mixes owners. The brains above it
decide what to store and where to look; the engine below knows nothing of schemas or persons. Every call answers with
`Answered` or `Unavailable`: "nothing is known" and "we could not ask" lead to opposite replies, and only the type
tells them apart.

The engines here are built on `blocking_engine`.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, Protocol, TypeVar

from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.memory.records import MemoryHit, MemoryRecord

__all__ = [
    "AddReport",
    "Answered",
    "EngineCounters",
    "EngineResult",
    "MemoryEngine",
    "RecordPage",
    "ScrubReport",
    "Unavailable",
    "UnavailableReason",
    "erase_owner",
    "tag_field",
]

T = TypeVar("T")
_Value = TypeVar("_Value", covariant=True)

# Chosen: one page of a listing; a user of 10,000 records takes five.
LIST_PAGE_SIZE = 2_000
# Chosen: what one turn in the worker writes or deletes, so that a search never waits behind a bulk load. Embedding a
# sentence takes about 5 ms, a commit of embedded Qdrant 1-5 ms.
WRITE_CHUNK = 64


class UnavailableReason(Enum):
    """Why an engine did not answer."""

    TIMEOUT = "timeout"
    """It did not answer in time. A write may still take effect; writing again is harmless."""
    FAILED = "failed"
    """It answered with an error."""
    BUSY = "busy"
    """Too many calls were waiting; nothing was attempted."""
    CLOSED = "closed"
    """`close()` was called before."""


@dataclass(frozen=True, slots=True)
class Answered(Generic[_Value]):
    """The engine answered; an empty value means that there is nothing."""

    value: _Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """The engine did not answer; nothing is known about what it holds."""

    reason: UnavailableReason
    detail: str = ""
    """The kind of error, without any stored text."""


EngineResult = Answered[T] | Unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class AddReport:
    """What became of the records of one `add`."""

    stored: tuple[str, ...] = ()
    """Ids that are in the engine now."""
    failed: tuple[str, ...] = ()
    """Ids that could not be embedded or written; the caller keeps them in its journal and tries again."""
    refused: tuple[str, ...] = ()
    """Ids that another owner holds; trying again cannot help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPage:
    """One page of an owner's records, ordered by id."""

    records: tuple[MemoryRecord, ...]
    next_after: str | None
    """Pass as `after` for the next page. None: this was the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubReport:
    """What `scrub` could do about deleted text that lingers in files."""

    scrubbed: bool
    note: str


@dataclass(slots=True, kw_only=True)
class EngineCounters:
    """Totals since the engine was opened."""

    calls: int = 0
    timeouts: int = 0
    failures: int = 0
    busy: int = 0
    foreign_hits: int = 0
    """Hits of another owner, id or tag than asked for; dropped."""
    unreadable: int = 0
    """Stored items that are not records of ours; skipped."""
    unembedded: int = 0
    """Records that the embedder failed on."""


class MemoryEngine(Protocol):
    """The store under the brains. Conformance: `pipecat_voicectx.testing.engine_conformance`."""

    @property
    def name(self) -> str:
        """For logs and reports."""
        ...

    async def add(self, records: Sequence[MemoryRecord]) -> EngineResult[AddReport]:
        """Writes records; a record with a known id of the same owner is replaced, so repeating is harmless."""
        ...

    async def update(self, record: MemoryRecord) -> EngineResult[bool]:
        """Replaces the record of this id and owner; False when there is none."""
        ...

    async def delete(self, owner: Owner, ids: Collection[str]) -> EngineResult[int]:
        """Deletes the owner's records among `ids`; the number that were there."""
        ...

    async def get(self, owner: Owner, record_id: str) -> EngineResult[MemoryRecord | None]:
        """The owner's record; None when there is none, also when it is another owner's."""
        ...

    async def search(
        self,
        owner: Owner,
        query: str,
        *,
        limit: int = 5,
        ids: Collection[str] | None = None,
        tags: Collection[str] | None = None,
    ) -> EngineResult[tuple[MemoryHit, ...]]:
        """The owner's most similar records, best first; restricted to `ids` and to any of `tags` when given."""
        ...

    async def list_by_owner(
        self, owner: Owner, *, limit: int = LIST_PAGE_SIZE, after: str | None = None
    ) -> EngineResult[RecordPage]:
        """The owner's records in the order of their ids, a page at a time."""
        ...

    async def scrub(self) -> EngineResult[ScrubReport]:
        """Removes deleted text from the files behind the engine, as far as the engine can."""
        ...

    async def close(self) -> None:
        """Releases everything; every later call answers `Unavailable(CLOSED)`. Idempotent."""
        ...


def tag_field(tag: str) -> str:
    """The payload field that marks a tag: one flat key, since back ends disagree about lists in filters."""
    return f"tag_{zlib.crc32(tag.encode()):08x}"


async def erase_owner(engine: MemoryEngine, owner: Owner) -> EngineResult[int]:
    """Deletes everything of one owner, scrubs the files and lists once more to prove it.

    Returns:
        The number of records deleted; `Unavailable` when any step was, or when records were left over.
    """
    deleted = 0
    while True:
        page = await engine.list_by_owner(owner)
        if isinstance(page, Unavailable):
            return page
        if not page.value.records:
            break
        before = deleted
        ids = [record.id for record in page.value.records]
        for start in range(0, len(ids), WRITE_CHUNK):
            result = await engine.delete(owner, ids[start : start + WRITE_CHUNK])
            if isinstance(result, Unavailable):
                return result
            deleted += result.value
        if deleted == before:
            return Unavailable(reason=UnavailableReason.FAILED, detail="records remain after deletion")
    scrubbed = await engine.scrub()
    return scrubbed if isinstance(scrubbed, Unavailable) else Answered(deleted)
