"""MemoryEngine on plain Qdrant: an embedded folder, or a server by URL.

Embedded Qdrant serves one client per path, so the clients of this process are shared and counted: two sessions that
open the same folder get one client and one worker thread. Another process that holds the folder is a
`StoreLockedError`. The collection's name carries the embedder and its dimension; a folder whose records were made
with another embedder is refused with the way to mend it, since its vectors mean something else.
"""

from __future__ import annotations

import re
import threading
import uuid
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pipecat_voicectx.stores.no_telemetry  # noqa: F401  # isort: skip
from qdrant_client import QdrantClient, models

from pipecat_voicectx.errors import (
    BadInputError,
    EmbedderMismatchError,
    StoreLockedError,
    UnavailableError,
    UsageError,
)
from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.memory.records import MemoryHit, MemoryRecord
from pipecat_voicectx.private_reads import private
from pipecat_voicectx.stores.blocking_engine import (
    DEFAULT_TIMEOUT_SECS,
    BlockingEngine,
    Embedded,
    EngineWorker,
    SearchRequest,
)
from pipecat_voicectx.stores.embedders import AbsentEmbedder, Embedder
from pipecat_voicectx.stores.engine import AddReport, ScrubReport, tag_field

__all__ = ["QdrantEngine", "SharedQdrant", "collection_name", "open_embedded_qdrant"]

COLLECTION_PREFIX = "voicectx_memory"
_SCROLL_PAGE = 1_000
# PostgreSQL cuts identifiers at 63 bytes, and mem0 appends up to 20 characters for an index.
_MAX_NAME_CHARS = 43
_UNSAFE = re.compile(r"[^a-z0-9]+")


def collection_name(prefix: str, embedder: Embedder) -> str:
    """`prefix` with the embedder's name and dimension: another embedder never shares a collection."""
    slug = _UNSAFE.sub("_", embedder.name.casefold()).strip("_")
    name = f"{prefix}_{slug}_{embedder.dimension}"
    return (
        name
        if len(name) <= _MAX_NAME_CHARS
        else f"{prefix}_{zlib.crc32(slug.encode()):08x}_{embedder.dimension}"
    )


def check_embedder(embedder: Embedder, *, prefix: str, existing: Sequence[str]) -> str:
    """Probes the embedder, unless it is absent, and returns its collection's name.

    Raises:
        EmbedderMismatchError: It makes vectors of another length than it states, or only collections of other
            embedders are there.
    """
    made = embedder.dimension
    if not isinstance(embedder, AbsentEmbedder):
        made = len(list(embedder.embed(["probe"])[0]))
    if made != embedder.dimension:
        raise EmbedderMismatchError(
            f"embedder {embedder.name!r} states {embedder.dimension} dimensions and makes {made}; "
            "configure the model's real dimension"
        )
    name = collection_name(prefix, embedder)
    others = sorted(
        n for n in existing if n.startswith(f"{prefix}_") and n != name and not n.endswith("_entities")
    )
    if others and name not in existing:
        raise EmbedderMismatchError(
            f"the store holds {others[0]!r}, made with another embedder than {embedder.name!r} "
            f"({embedder.dimension} dimensions); open it with that embedder, or export its records and add them "
            "to an engine on a new path"
        )
    return name


@dataclass(slots=True)
class SharedQdrant:
    """One embedded client of this process, its worker, and how many engines use it."""

    client: QdrantClient
    worker: EngineWorker
    path: Path
    users: int = 0

    def release(self) -> None:
        """Gives it back; the last one closes the client. Blocking."""
        with _registry_lock:
            self.users -= 1
            if self.users > 0:
                return
            _registry.pop(self.path, None)
        self.worker.join()
        self.client.close()


_registry: dict[Path, SharedQdrant] = {}
_registry_lock = threading.Lock()


def open_embedded_qdrant(path: Path) -> SharedQdrant:
    """The client for a folder: opened on first use, shared afterwards. Call `release` once per call. Blocking.

    Raises:
        StoreLockedError: Another process holds the folder.
        UnavailableError: The folder cannot be opened.
    """
    resolved = path.expanduser().resolve()
    with _registry_lock:
        shared = _registry.get(resolved)
        if shared is None:
            try:
                resolved.mkdir(parents=True, exist_ok=True)
                client = QdrantClient(path=str(resolved))
            except RuntimeError as error:
                raise StoreLockedError(
                    f"{resolved} is in use by another client; embedded Qdrant serves one process per folder, "
                    "so close the other one or point both at a Qdrant server by URL"
                ) from error
            except OSError as error:
                raise UnavailableError(f"{resolved} cannot be opened: {type(error).__name__}") from error
            shared = SharedQdrant(client, EngineWorker(name="engine"), resolved)
            _registry[resolved] = shared
        shared.users += 1
        return shared


class QdrantEngine(BlockingEngine):
    """Records as Qdrant points. Give `path` for an embedded store or `url` for a server.

    Args:
        embedder: Makes the vectors; its name and dimension name the collection.
        path: Folder of the embedded store.
        url: Server, e.g. `http://localhost:6333`.
        api_key: For the server.
        prefix: Start of the collection's name.
        timeout_secs: After which a call answers `Unavailable`.

    Raises:
        UsageError: Neither or both of path and url.
        EmbedderMismatchError: See `check_embedder`.
        StoreLockedError: Another process holds the folder.
    """

    def __init__(
        self,
        *,
        embedder: Embedder,
        path: Path | None = None,
        url: str | None = None,
        api_key: str | None = None,
        prefix: str = COLLECTION_PREFIX,
        timeout_secs: float = DEFAULT_TIMEOUT_SECS,
    ) -> None:
        if (path is None) == (url is None):
            raise UsageError("give QdrantEngine either path= or url=")
        self._shared: SharedQdrant | None = None
        if path is not None:
            self._shared = open_embedded_qdrant(path)
            self._client, worker = self._shared.client, self._shared.worker
        else:
            self._client = QdrantClient(
                url=url, api_key=api_key, timeout=max(1, round(timeout_secs)), check_compatibility=False
            )
            worker = EngineWorker(name="engine")
        super().__init__(name="qdrant", embedder=embedder, worker=worker, timeout_secs=timeout_secs)
        try:
            self._collection = self._prepare(prefix)
        except BaseException:
            self._close_now()
            raise

    def _prepare(self, prefix: str) -> str:
        existing = [each.name for each in self._client.get_collections().collections]
        name = check_embedder(self._embedder, prefix=prefix, existing=existing)
        if name not in existing:
            self._client.create_collection(
                name,
                vectors_config=models.VectorParams(
                    size=self._embedder.dimension, distance=models.Distance.COSINE
                ),
            )
            if self._shared is None:
                for key in ("user_id", "agent_id"):
                    self._client.create_payload_index(
                        name, key, field_schema=models.PayloadSchemaType.KEYWORD
                    )
        return name

    def _add_now(self, embedded: Embedded) -> AddReport:
        known = self._client.retrieve(
            self._collection, ids=[record.id for record, _ in embedded.pairs], with_payload=True
        )
        owners = {_canonical(point.id): _payload_owner(point.payload) for point in known}
        points, refused = [], []
        for record, vector in embedded.pairs:
            holder = owners.get(_canonical(record.id), record.owner)
            if holder != record.owner:
                refused.append(record.id)
                continue
            points.append(models.PointStruct(id=record.id, vector=vector, payload=record_payload(record)))
        if points:
            self._client.upsert(self._collection, points=points, wait=True)
        return AddReport(
            stored=tuple(str(point.id) for point in points),
            failed=tuple(embedded.failed),
            refused=tuple(refused),
        )

    def _delete_now(self, ids: Sequence[str]) -> None:
        self._client.delete(
            self._collection, points_selector=models.PointIdsList(points=list(ids)), wait=True
        )

    def _get_now(self, record_id: str) -> MemoryRecord | None:
        try:
            uuid.UUID(record_id)
        except ValueError:
            return None
        points = self._client.retrieve(self._collection, ids=[record_id], with_payload=True)
        return self._read(points[0].payload) if points else None

    def _search_now(self, request: SearchRequest) -> Sequence[MemoryHit]:
        vector = self._embed_one(request.query)
        if vector is None:
            raise UnavailableError("the query could not be embedded")
        must = _owner_conditions(request.owner)
        if request.ids is not None:
            must.append(models.HasIdCondition(has_id=sorted(request.ids)))
        if request.tags is not None:
            must.append(models.Filter(should=[_equals(tag_field(tag), "1") for tag in sorted(request.tags)]))
        answer = self._client.query_points(
            self._collection, query=vector, query_filter=models.Filter(must=must), limit=request.limit
        )
        return [
            MemoryHit(record=record, score=float(point.score))
            for point in answer.points
            if (record := self._read(point.payload)) is not None
        ]

    def _list_now(self, owner: Owner) -> Sequence[MemoryRecord]:
        records: list[MemoryRecord] = []
        offset: Any = None
        while True:
            points, offset = self._client.scroll(
                self._collection,
                scroll_filter=models.Filter(must=_owner_conditions(owner)),
                limit=_SCROLL_PAGE,
                offset=offset,
                with_payload=True,
            )
            records += [record for point in points if (record := self._read(point.payload)) is not None]
            if offset is None:
                return records

    def _scrub_now(self) -> ScrubReport:
        if self._shared is None:
            return ScrubReport(scrubbed=False, note="the server rewrites its segments by its own schedule")
        return vacuum_embedded(self._client, self._collection)

    def _close_now(self) -> None:
        if self._shared is not None:
            self._shared.release()
        else:
            self._worker.join()
            self._client.close()

    def _read(self, payload: dict[str, Any] | None) -> MemoryRecord | None:
        record = read_payload(payload)
        if record is None:
            self.counters.unreadable += 1
        return record


def record_payload(record: MemoryRecord) -> dict[str, Any]:
    """The payload of a record: the whole of it under one key, and beside it the flat fields that filters need."""
    return {
        "voicectx": record.to_json(),
        "user_id": record.owner.user_id,
        "agent_id": record.owner.agent_id,
        "record_id": record.id,
        **{tag_field(tag): "1" for tag in record.tags},
    }


def read_payload(payload: dict[str, Any] | None) -> MemoryRecord | None:
    """The record in a payload; None when it is not one, or when its flat owner was changed behind our back."""
    if not payload:
        return None
    try:
        record = MemoryRecord.from_json(payload["voicectx"])
    except (BadInputError, KeyError, AttributeError):
        return None
    return record if _payload_owner(payload) == record.owner else None


def vacuum_embedded(client: QdrantClient, collection: str) -> ScrubReport:
    """Rewrites an embedded collection's file without the deleted rows, which SQLite otherwise keeps in free pages."""
    try:
        # Private, but the only handle on the file while the client holds it; its absence is reported, not fatal.
        connection = private(client, "_client").collections[collection].storage.storage
        connection.execute("VACUUM")
    except (AttributeError, KeyError):
        return ScrubReport(
            scrubbed=False, note="this qdrant-client version hides the file; deleted pages may linger"
        )
    return ScrubReport(scrubbed=True, note="the collection's file was rewritten")


def _canonical(point_id: object) -> str:
    return str(uuid.UUID(str(point_id)))


def _payload_owner(payload: dict[str, Any] | None) -> Owner | None:
    try:
        return Owner(user_id=str((payload or {})["user_id"]), agent_id=str((payload or {})["agent_id"]))
    except (KeyError, UsageError):
        return None


def _equals(key: str, value: str) -> models.FieldCondition:
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


def _owner_conditions(owner: Owner) -> list[Any]:
    return [_equals("user_id", owner.user_id), _equals("agent_id", owner.agent_id)]
