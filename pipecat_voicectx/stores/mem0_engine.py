"""MemoryEngine on Mem0 over embedded Qdrant: the default engine.

Mem0 ranks (its hybrid of similarity and keywords) and Mem0 reads; records are written through Mem0's own vector store
in Mem0's payload layout, since `Memory.add` chooses a random id and embeds one text at a time. A Mem0 application
that opens the same collection sees ordinary memories.

Mem0 as it comes phones home, fetches a keyword model from the network on the first write or search (39 s without one),
fetches a spaCy model when spaCy is there without one, keeps every old text in a history file, and writes a folder in
the home directory. `load_mem0` and `build_memory` switch each of these off: telemetry and folder before the import,
a local keyword encoder, no spaCy download, history in memory only, no LLM. When the host imported mem0 before us, the
first two are its own choice, and one warning says so.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import sys
import threading
import uuid
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
from loguru import logger

from pipecat_voicectx.errors import UnavailableError, UsageError
from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.memory.records import MemoryHit, MemoryRecord
from pipecat_voicectx.memory.tokens import tokenize
from pipecat_voicectx.private_reads import has_private
from pipecat_voicectx.stores.blocking_engine import (
    DEFAULT_TIMEOUT_SECS,
    LIST_LIMIT,
    BlockingEngine,
    Embedded,
    SearchRequest,
)
from pipecat_voicectx.stores.embedders import Embedder
from pipecat_voicectx.stores.engine import AddReport, ScrubReport, tag_field
from pipecat_voicectx.stores.qdrant_engine import (
    SharedQdrant,
    check_embedder,
    open_embedded_qdrant,
    read_payload,
    record_payload,
    vacuum_embedded,
)

__all__ = ["Mem0Engine", "build_memory", "load_mem0"]

COLLECTION_PREFIX = "mem0_voicectx"
# Term frequency saturation of BM25; the usual value. Qdrant itself applies the inverse document frequency.
_BM25_K1 = 1.2

_import_lock = threading.Lock()


def load_mem0(state_dir: Path) -> ModuleType:
    """Imports mem0 with telemetry off and its folder inside `state_dir`; environment variables are left as they were.

    `MEM0_DIR` and `MEM0_TELEMETRY` that the user set stay in force.

    Raises:
        UnavailableError: mem0 is not installed.
    """
    with _import_lock:
        if "mem0.memory.main" in sys.modules:
            _warn_if_imported_first()
        else:
            _import_quietly(state_dir)
        main = sys.modules["mem0.memory.main"]
        # It logs the text of every memory it creates or updates, at INFO.
        logging.getLogger("mem0.memory.main").setLevel(logging.WARNING)
        _forbid_spacy_download()
        return main


_imported_by_us = False


def _import_quietly(state_dir: Path) -> None:
    global _imported_by_us
    wanted = {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(state_dir)}
    added = {key: value for key, value in wanted.items() if key not in os.environ}
    state_dir.mkdir(parents=True, exist_ok=True)
    os.environ.update(added)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            importlib.import_module("mem0.memory.main")
    except ImportError as error:
        raise UnavailableError("mem0 is not installed: pip install mem0ai") from error
    finally:
        for key in added:
            os.environ.pop(key, None)
    _imported_by_us = True


def _warn_if_imported_first() -> None:
    telemetry = sys.modules.get("mem0.memory.telemetry")
    if not _imported_by_us and getattr(telemetry, "MEM0_TELEMETRY", False):
        logger.warning(
            "mem0 was imported before its engine here, with its telemetry on; set MEM0_TELEMETRY=False and MEM0_DIR "
            "in the environment, or open the engine first"
        )


def _forbid_spacy_download() -> None:
    """mem0 runs `spacy download` when spaCy is there without its English model; marks the model as unavailable."""
    if importlib.util.find_spec("spacy") is None or importlib.util.find_spec("en_core_web_sm") is not None:
        return
    models = importlib.import_module("mem0.utils.spacy_models")
    for flag in ("_load_failed_full", "_load_failed_lemma"):
        if not hasattr(models, flag):
            raise UnavailableError(
                "this mem0 version would download a spaCy model; install en_core_web_sm or remove spaCy"
            )
        setattr(models, flag, True)


@dataclass(frozen=True, slots=True)
class _SparseVector:
    indices: np.ndarray[Any, np.dtype[np.int64]]
    values: np.ndarray[Any, np.dtype[np.float32]]


class LocalKeywordEncoder:
    """Stands where mem0 puts fastembed's BM25 model: hashed words with saturated counts, nothing to fetch."""

    def embed(self, texts: Sequence[str]) -> Iterator[_SparseVector]:
        """One sparse vector for each text."""
        for text in texts:
            counts: Counter[int] = Counter(
                zlib.crc32(token.encode()) & 0x7FFFFFFF for token in tokenize(text)
            )
            keys = sorted(counts)
            values = [counts[key] * (_BM25_K1 + 1) / (counts[key] + _BM25_K1) for key in keys]
            yield _SparseVector(np.asarray(keys, np.int64), np.asarray(values, np.float32))


class _InjectedEmbedder:
    """An `Embedder` of ours in mem0's interface."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.config = type("Config", (), {"embedding_dims": embedder.dimension})()

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self.embed_batch([text])[0]

    def embed_batch(self, texts: Sequence[str], memory_action: str = "add") -> list[list[float]]:
        return [[float(number) for number in vector] for vector in self._embedder.embed(texts)]


class _NoLlm:
    """The engine never lets mem0 infer; extraction is ours, before the engine."""

    def generate_response(self, *_args: object, **_kwargs: object) -> str:
        raise UsageError("the engine's mem0 has no LLM; extract facts before they are stored")


def build_memory(
    *, embedder: Embedder, provider: str, vector_config: Mapping[str, Any], state_dir: Path
) -> Any:
    """A `mem0.Memory` with our embedder, no LLM, no history file and no entity store. Blocking.

    Raises:
        UnavailableError: mem0 is not installed, or this version hides a switch that must be set.
    """
    main = load_mem0(state_dir)
    unused_client = {"api_key": "unused"}
    config = main.MemoryConfig(
        vector_store={"provider": provider, "config": dict(vector_config)},
        llm={"provider": "openai", "config": unused_client},
        embedder={
            "provider": "openai",
            "config": {**unused_client, "embedding_dims": embedder.dimension},
        },
        history_db_path=":memory:",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "payload indexes have no effect in the local Qdrant"
        memory = _without_entities(main)(config)
    for part in (memory.llm, memory.embedding_model):
        part.client.close()
    memory.llm = _NoLlm()
    memory.embedding_model = _InjectedEmbedder(embedder)
    if provider == "qdrant":
        if not has_private(memory.vector_store, "_bm25_encoder"):
            raise UnavailableError("this mem0 version hides its keyword encoder; use mem0ai 2.2")
        memory.vector_store._bm25_encoder = LocalKeywordEncoder()
    return memory


def _without_entities(main: ModuleType) -> Any:
    """A Memory whose search does not consult mem0's entity store, which is never filled without its LLM."""

    class OfflineMemory(main.Memory):  # type: ignore[misc, name-defined]
        def _compute_entity_boosts(self, query_entities: object, filters: object) -> dict[str, float]:
            return {}

    return OfflineMemory


class Mem0Base(BlockingEngine):
    """What the two Mem0 engines share: everything above Mem0's vector store."""

    _memory: Any

    def _add_now(self, embedded: Embedded) -> AddReport:
        store = self._memory.vector_store
        fresh, known, refused = [], [], []
        for record, vector in embedded.pairs:
            existing = self._get_now(record.id)
            if existing is None:
                fresh.append((record, vector))
            elif existing.owner == record.owner:
                known.append((record, vector))
            else:
                refused.append(record.id)
        if fresh:
            store.insert(
                vectors=[vector for _, vector in fresh],
                payloads=[_mem0_payload(record) for record, _ in fresh],
                ids=[record.id for record, _ in fresh],
            )
        for record, vector in known:
            store.update(vector_id=record.id, vector=vector, payload=_mem0_payload(record))
        return AddReport(
            stored=tuple(record.id for record, _ in (*fresh, *known)),
            failed=tuple(embedded.failed),
            refused=tuple(refused),
        )

    def _delete_now(self, ids: Sequence[str]) -> None:
        for each in ids:
            self._memory.vector_store.delete(vector_id=each)

    def _get_now(self, record_id: str) -> MemoryRecord | None:
        try:
            uuid.UUID(record_id)
        except ValueError:
            return None
        return self._read(self._memory.get(record_id))

    def _search_now(self, request: SearchRequest) -> Sequence[MemoryHit]:
        filters: dict[str, Any] = _owner_fields(request.owner)
        if request.ids is not None:
            filters["record_id"] = {"in": sorted(request.ids)}
        if request.tags is not None:
            filters["OR"] = [{tag_field(tag): "1"} for tag in sorted(request.tags)]
        found = self._memory.search(request.query, top_k=request.limit, filters=filters, threshold=0.0)
        return [
            MemoryHit(record=record, score=float(item["score"]))
            for item in found["results"]
            if (record := self._read(item)) is not None
        ]

    def _list_now(self, owner: Owner) -> Sequence[MemoryRecord]:
        filters = _owner_fields(owner)
        found = self._memory.get_all(filters=filters, top_k=LIST_LIMIT, show_expired=True)
        return [record for item in found["results"] if (record := self._read(item)) is not None]

    def _read(self, item: Mapping[str, Any] | None) -> MemoryRecord | None:
        if item is None:
            return None
        metadata = item.get("metadata") or {}
        payload = {
            "voicectx": metadata.get("voicectx"),
            "user_id": unquote(str(item.get("user_id"))),
            "agent_id": unquote(str(item.get("agent_id"))),
        }
        record = read_payload(payload)
        if record is None:
            self.counters.unreadable += 1
        return record


def _owner_fields(owner: Owner) -> dict[str, str]:
    return {"user_id": _mem0_id(owner.user_id), "agent_id": _mem0_id(owner.agent_id)}


def _mem0_id(key: str) -> str:
    """A key in a form that Mem0 takes as it is: it trims keys and refuses those with blanks ("Ann Smith")."""
    return "".join(quote(char, safe="") if char.isspace() or char == "%" else char for char in key)


def _mem0_payload(record: MemoryRecord) -> dict[str, Any]:
    """Mem0's own layout with ours beside it; `data` is what Mem0 shows as the memory."""
    created = datetime.fromtimestamp(record.created_wall_secs, UTC).isoformat()
    return {
        **record_payload(record),
        **_owner_fields(record.owner),
        "data": record.text,
        "hash": hashlib.md5(record.text.encode(), usedforsecurity=False).hexdigest(),
        "created_at": created,
        "updated_at": created,
        "text_lemmatized": " ".join(tokenize(record.text)) or record.text,
    }


class Mem0Engine(Mem0Base):
    """Mem0 over an embedded Qdrant folder. Blocks while it opens (about a second): construct it off the event loop.

    Args:
        embedder: Makes the vectors; its name and dimension name the collection.
        path: Folder of the store. Nothing is written outside it, unless `MEM0_DIR` is set.
        prefix: Start of the collection's name.
        timeout_secs: After which a call answers `Unavailable`.

    Raises:
        UnavailableError: mem0 is missing, or hides a switch that must be set.
        EmbedderMismatchError: The folder was filled with another embedder.
        StoreLockedError: Another process holds the folder.
    """

    def __init__(
        self,
        *,
        embedder: Embedder,
        path: Path,
        prefix: str = COLLECTION_PREFIX,
        timeout_secs: float = DEFAULT_TIMEOUT_SECS,
    ) -> None:
        self._shared: SharedQdrant = open_embedded_qdrant(path)
        super().__init__(
            name="mem0-qdrant", embedder=embedder, worker=self._shared.worker, timeout_secs=timeout_secs
        )
        self._memory: Any = None
        try:
            existing = [each.name for each in self._shared.client.get_collections().collections]
            self._collection = check_embedder(embedder, prefix=prefix, existing=existing)
            self._memory = build_memory(
                embedder=embedder,
                provider="qdrant",
                # path is not opened, since there is a client; mem0 insists on it all the same.
                vector_config={
                    "client": self._shared.client,
                    "path": str(self._shared.path),
                    "collection_name": self._collection,
                    "embedding_model_dims": embedder.dimension,
                },
                state_dir=self._shared.path / "mem0",
            )
        except BaseException:
            self._close_now()
            raise

    def _scrub_now(self) -> ScrubReport:
        return vacuum_embedded(self._shared.client, self._collection)

    def _close_now(self) -> None:
        self._shared.release()
        if self._memory is not None:
            self._memory.close()
