"""The calls to Qdrant: pages as points, with the owner in the payload of each.

The same calls serve an embedded database (a folder, one process) and a server (a URL). Everything here blocks and must
run on the store's one thread: the embedded database does not survive a write beside a search.

A collection is named by embedder and dimension, so vectors of two models never mix. A stamp beside it records embedder,
dimension and schema; a store whose stamp differs is refused.

A point holds the page as one JSON string beside the fields it is filtered by, the mean of its two turns' vectors as the
point's own vector (what a server searches), and the two vectors themselves as half-precision bytes in base64. That form
loads 10,000 pages several times faster from the embedded database than nested payloads and named vectors do (measured),
and half precision moves no cosine by more than 0.001.
"""

from __future__ import annotations

import json
import re
import sqlite3
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from pipecat_voicectx.errors import (
    BadInputError,
    EmbedderMismatchError,
    StoreLockedError,
    UnavailableError,
)
from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.memory.pages import PAGE_SCHEMA_VERSION, Owner, VoicePage
from pipecat_voicectx.stores.stored_pages import (
    EmbedderStamp,
    StoredPage,
    StoredThread,
    mean_vector,
    page_payload,
    thread_of,
    thread_payload,
    unpacked,
)

__all__ = ["QdrantPages", "collection_name"]

_META = "voicectx_meta"
_META_POINT = "00000000-0000-4000-8000-0000000ec0de"
# Chosen: one answer of a server's scroll, some 5 MB. The embedded database sorts all its ids for each, so it gets one.
_SCROLL = 1_000
_SCROLL_EMBEDDED = 10_000_000
# Chosen: a server on the same network answers in milliseconds; nothing on the response path waits for this.
_SERVER_TIMEOUT_SECS = 5


def collection_name(stamp: EmbedderStamp, kind: str = "pages") -> str:
    """`voicectx_<kind>_<embedder>_<dimension>`; kinds are `pages` and `threads`."""
    slug = re.sub(r"[^a-z0-9]+", "-", stamp.name.lower()).strip("-")
    return f"voicectx_{kind}_{slug}_{stamp.dimension}"


class QdrantPages:
    """Pages in one Qdrant database. Exactly one of `path` and `url`."""

    def __init__(
        self, *, path: Path | None, url: str | None, api_key: str | None, stamp: EmbedderStamp
    ) -> None:
        self._where = str(path) if path is not None else str(url)
        self._stamp = stamp
        self._collection = collection_name(stamp)
        self._threads = collection_name(stamp, "threads")
        self._client = self._connect(path, url, api_key)
        self._scroll_size = _SCROLL if path is None else _SCROLL_EMBEDDED
        self.refused_owner = 0
        """Hits dropped because their owner was not the one asked for."""
        self.unreadable = 0
        """Points that are no page this version can read."""
        try:
            self._check_stamp()
        except BaseException:
            self._client.close()
            raise

    def upsert(self, *pages: StoredPage) -> None:
        """Writes pages under their ids, all in one request.

        Raises:
            UnavailableError: The database does not answer, or the disk is full.
        """
        size = self._stamp.dimension
        points = [
            models.PointStruct(
                id=item.page.id, vector=mean_vector(item.vectors, size), payload=page_payload(item)
            )
            for item in pages
        ]
        self._call("upsert", lambda: self._client.upsert(self._collection, points, wait=True))

    def get(self, owner: Owner, page_id: str) -> VoicePage | None:
        """One page, if it is the owner's."""
        records = self._call("retrieve", lambda: self._client.retrieve(self._collection, [page_id]))
        found = [stored for record in records if (stored := self._stored(owner, record.payload)) is not None]
        return found[0].page if found else None

    def load(self, owner: Owner, *, limit: int) -> list[StoredPage]:
        """All pages of an owner, oldest first; the newest `limit` when there are more."""
        pages = [stored for stored in self._scroll(owner) if stored is not None]
        pages.sort(key=lambda s: (s.page.started_wall_secs, s.page.session_id, s.page.index))
        return pages[-limit:]

    def search(self, owner: Owner, vector: FloatArray, *, limit: int) -> list[tuple[StoredPage, float]]:
        """The owner's pages nearest to a vector, best first. For users too large to preload."""
        response = self._call(
            "query_points",
            lambda: self._client.query_points(
                self._collection, query=vector.tolist(), query_filter=_filter(owner), limit=limit
            ),
        )
        hits = ((self._stored(owner, point.payload), float(point.score)) for point in response.points)
        return [(stored, score) for stored, score in hits if stored is not None]

    def count(self, owner: Owner) -> int:
        """How many pages the owner has."""
        result = self._call(
            "count", lambda: self._client.count(self._collection, count_filter=_filter(owner))
        )
        return int(result.count)

    def owners(self) -> list[Owner]:
        """Everybody with pages here. Reads the whole collection."""
        seen = {stored.page.owner for stored in self._scroll(None) if stored is not None}
        return sorted(seen, key=lambda o: (o.user_id, o.agent_id))

    def erase(self, owner: Owner) -> int:
        """Deletes all pages of an owner and returns how many there were."""
        there = self.count(owner)
        selector = models.FilterSelector(filter=_filter(owner))
        for name in (self._collection, self._threads):
            self._call(
                "delete", lambda name=name: self._client.delete(name, points_selector=selector, wait=True)
            )
        return there

    def upsert_threads(self, threads: Sequence[StoredThread]) -> None:
        """Writes threads under their ids."""
        points = [
            models.PointStruct(id=thread.id, vector=thread.leader.tolist(), payload=thread_payload(thread))
            for thread in threads
        ]
        if points:
            self._call("upsert", lambda: self._client.upsert(self._threads, points, wait=True))

    def load_threads(self, owner: Owner) -> list[StoredThread]:
        """All threads of an owner."""
        threads = [thread_of(owner, record.payload) for record in self._records(self._threads, owner)]
        self.refused_owner += sum(thread is None for thread in threads)
        return [thread for thread in threads if thread is not None]

    def move_to(self, stamp: EmbedderStamp) -> str:
        """Makes the collection for another embedder current, creating it; returns the name of the old one.

        Threads are dropped: they rest on the old vectors, and are made anew from the pages.
        """
        old = self._collection
        self.drop(self._threads)
        self._stamp, self._collection = stamp, collection_name(stamp)
        self._threads = collection_name(stamp, "threads")
        self._ensure_collections()
        self._write_stamp()
        return old

    def drop(self, collection: str) -> None:
        """Deletes a collection."""
        self._call("delete_collection", lambda: self._client.delete_collection(collection))

    def everything(self) -> list[VoicePage]:
        """Every page of every owner."""
        return [stored.page for stored in self._scroll(None) if stored is not None]

    def answers(self) -> bool:
        """Whether the database answers at all."""
        try:
            self._call("collection_exists", lambda: self._client.collection_exists(_META))
        except UnavailableError:
            return False
        return True

    def close(self) -> None:
        """Closes the database. Harmless when repeated."""
        self._client.close()

    def _connect(self, path: Path | None, url: str | None, api_key: str | None) -> QdrantClient:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if path is not None:
                    return QdrantClient(path=str(path))
                return QdrantClient(
                    url=url, api_key=api_key, timeout=_SERVER_TIMEOUT_SECS, check_compatibility=False
                )
        except RuntimeError as error:
            if "already accessed" in str(error):
                raise StoreLockedError(
                    f"page store {path} is in use by another process; embedded Qdrant serves one process per path. "
                    "Use another path, or a Qdrant server (url=...) for more than one process"
                ) from error
            raise UnavailableError(f"page store {self._where} does not open: {error}") from error
        except Exception as error:
            raise UnavailableError(f"page store {self._where} does not open: {_told(error)}") from error

    def _check_stamp(self) -> None:
        if not self._call("collection_exists", lambda: self._client.collection_exists(_META)):
            self._call(
                "create_collection",
                lambda: self._client.create_collection(
                    _META, vectors_config=models.VectorParams(size=1, distance=models.Distance.DOT)
                ),
            )
        records = self._call("retrieve", lambda: self._client.retrieve(_META, [_META_POINT]))
        if not records:
            self._ensure_collections()
            self._write_stamp()
            return
        stamp = records[0].payload or {}
        schema = stamp.get("schema")
        if not isinstance(schema, int) or schema > PAGE_SCHEMA_VERSION:
            raise UnavailableError(
                f"page store {self._where} has schema {schema!r}, written by a newer version; upgrade pipecat-voicectx"
            )
        if (stamp.get("embedder"), stamp.get("dimension")) != (self._stamp.name, self._stamp.dimension):
            made_with = f"{stamp.get('embedder')!r} ({stamp.get('dimension')})"
            raise EmbedderMismatchError(
                f"page store {self._where} was made with embedder {made_with}, opened with {self._stamp.name!r} "
                f"({self._stamp.dimension}). Open it with the former, or re-embed it once: "
                "pipecat_voicectx.stores.page_store.reembed(path, old, new)"
            )
        self._ensure_collections()
        if schema < PAGE_SCHEMA_VERSION:
            # Pages are upgraded as they are read; from here on an older version of the package must not write.
            self._write_stamp()

    def _ensure_collections(self) -> None:
        for name in (self._collection, self._threads):
            if not self._call("collection_exists", lambda name=name: self._client.collection_exists(name)):
                self._create(name)

    def _create(self, name: str) -> None:
        params = models.VectorParams(size=self._stamp.dimension, distance=models.Distance.COSINE)
        self._call("create_collection", lambda: self._client.create_collection(name, vectors_config=params))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the embedded database says that it ignores indexes
            for key in ("user_id", "agent_id", "session_id"):
                self._call(
                    "create_payload_index",
                    lambda key=key: self._client.create_payload_index(
                        name, key, field_schema=models.PayloadSchemaType.KEYWORD
                    ),
                )

    def _write_stamp(self) -> None:
        payload = {
            "schema": PAGE_SCHEMA_VERSION,
            "embedder": self._stamp.name,
            "dimension": self._stamp.dimension,
        }
        point = models.PointStruct(id=_META_POINT, vector=[0.0], payload=payload)
        self._call("upsert", lambda: self._client.upsert(_META, [point], wait=True))

    def _scroll(self, owner: Owner | None) -> Iterator[StoredPage | None]:
        return (self._stored(owner, record.payload) for record in self._records(self._collection, owner))

    def _records(self, collection: str, owner: Owner | None) -> Iterator[Any]:
        offset: Any = None
        while True:
            records, offset = self._call(
                "scroll",
                lambda offset=offset: self._client.scroll(
                    collection,
                    scroll_filter=_filter(owner) if owner is not None else None,
                    limit=self._scroll_size,
                    offset=offset,
                ),
            )
            yield from records
            if offset is None:
                return

    def _stored(self, owner: Owner | None, payload: Any) -> StoredPage | None:
        """The page of a hit, after a second look at whose it is."""
        try:
            page = VoicePage.from_json(json.loads(payload["page"]))
            vectors = unpacked(payload["vectors"])
        except (BadInputError, KeyError, TypeError, ValueError):
            self.unreadable += 1
            return None
        if owner is not None and page.owner != owner:
            self.refused_owner += 1
            return None
        return StoredPage(page, vectors)

    def _call(self, what: str, function: Any) -> Any:
        try:
            return function()
        except Exception as error:  # the client raises httpx, grpc, pydantic, sqlite and OS errors alike
            raise UnavailableError(f"page store {self._where}: {what} failed: {_told(error)}") from error


def _told(error: Exception) -> str:
    """What an error of the client may say in a log: a server's answers, and pydantic's complaints, repeat pages."""
    source = error.source if isinstance(error, ResponseHandlingException) else error
    if isinstance(source, UnexpectedResponse):
        return f"{type(source).__name__}: {source.status_code}"
    # Their texts are about files, sockets and collections.
    speaks = isinstance(source, OSError | sqlite3.Error | RuntimeError) or type(source) is ValueError
    speaks = speaks or type(source).__module__ == "httpx"
    return f"{type(source).__name__}: {source}" if speaks else type(source).__name__


def _filter(owner: Owner) -> models.Filter:
    return models.Filter(
        must=[
            models.FieldCondition(key="user_id", match=models.MatchValue(value=owner.user_id)),
            models.FieldCondition(key="agent_id", match=models.MatchValue(value=owner.agent_id)),
        ]
    )
