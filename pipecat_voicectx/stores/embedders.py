"""Text embedders, each with a name that a store remembers.

Default: sentence-transformers/all-MiniLM-L6-v2 through fastembed, with which every figure of this package was measured.
The model comes from a folder you name, from fastembed's cache, or, when you allow it and there is a network, from the
Hugging Face hub. The cache is always tried first and without a network, so that a machine without one answers at once
instead of after fastembed's three back-offs (39 s).

All calls block for milliseconds (for seconds while a model loads): run them in a worker thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from loguru import logger

from pipecat_voicectx.errors import UnavailableError, UsageError
from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.memory.tokens import tokenize
from pipecat_voicectx.stores.model_cache import MINILM, model_cache

__all__ = [
    "BGE_SMALL",
    "MINILM",
    "AbsentEmbedder",
    "Embedder",
    "EmbeddingThread",
    "FastEmbedder",
    "LexicalEmbedder",
    "default_embedder",
]

BGE_SMALL = "BAAI/bge-small-en-v1.5"
_DIMENSIONS = {MINILM: 384, BGE_SMALL: 384}
# Chosen: one small batch; page turns come by twos, a re-embedding by thousands.
_BATCH = 32


# Where fastembed fetches from: the hub, and its own store of the same models.
_MODEL_HOSTS = ("huggingface.co", "storage.googleapis.com")


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors. Thread-safe; the same text always gives the same vector."""

    @property
    def name(self) -> str:
        """Identifies the vectors: two embedders with one name must be interchangeable. Stores are stamped with it."""
        ...

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        ...

    def embed(self, texts: Sequence[str]) -> list[FloatArray]:
        """One vector per text. Blocks.

        Raises:
            UnavailableError: The model cannot be had now.
        """
        ...


class FastEmbedder:
    """A fastembed model on one thread of the CPU. The model loads at the first `embed` (or `load`), not before.

    Args:
        model: A name fastembed knows; `MINILM` or `BGE_SMALL`.
        path: Folder with the model's files. They are taken for `model`, whose name the store is stamped with.
        cache_dir: Where models are kept; `model_cache()` otherwise.
        download: Whether a model that is in no cache may be fetched from the Hugging Face hub.

    Raises:
        UsageError: Unknown model, or `path` is not a folder with a model.
    """

    def __init__(
        self,
        model: str = MINILM,
        *,
        path: str | Path | None = None,
        cache_dir: str | Path | None = None,
        download: bool = False,
    ) -> None:
        if model not in _DIMENSIONS:
            raise UsageError(
                f"unknown embedding model {model!r}; use one of {', '.join(sorted(_DIMENSIONS))}"
            )
        if path is not None and not (Path(path) / "tokenizer.json").is_file():
            raise UsageError(f"embedding model folder {path} has no tokenizer.json")
        self._model_name = model
        self._path = str(path) if path is not None else None
        self._cache_dir = Path(cache_dir) if cache_dir is not None else None
        self._download = download
        self._model: Any = None
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self._model_name

    @property
    def dimension(self) -> int:
        return _DIMENSIONS[self._model_name]

    @property
    def cache_folder(self) -> Path:
        """Where the model is looked for, and put when it is fetched."""
        return self._cache_dir if self._cache_dir is not None else model_cache()

    def load(self) -> None:
        """Loads the model; does nothing when it is loaded. Blocks for about a second, longer for a download.

        Raises:
            UnavailableError: Not in the folder or cache, and not to be downloaded.
        """
        with self._lock:
            if self._model is None:
                self._model = self._load()

    def embed(self, texts: Sequence[str]) -> list[FloatArray]:
        if not texts:
            return []
        self.load()
        cleaned = [text if text.strip() else "." for text in texts]
        return [np.asarray(v, np.float32) for v in self._model.embed(cleaned, batch_size=_BATCH)]

    def _load(self) -> Any:
        # The hub's progress bars and telemetry have no place in a voice bot's terminal; what the host set stays.
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        try:
            from fastembed import TextEmbedding
        except ImportError as error:
            raise UnavailableError("fastembed is not installed: pip install fastembed") from error
        common: dict[str, Any] = {"threads": 1, "cuda": False, "cache_dir": str(self.cache_folder)}
        if self._path is not None:
            try:
                return TextEmbedding(self._model_name, specific_model_path=self._path, **common)
            except Exception as error:  # onnxruntime and tokenizers raise what they like for a broken file
                raise UnavailableError(f"embedding model in {self._path} does not load: {error}") from error
        cause: Exception | None = None
        if _has_models(self.cache_folder):
            try:
                return TextEmbedding(self._model_name, local_files_only=True, **common)
            except Exception as error:  # fastembed raises ValueError, the hub its own classes
                cause = error
        if not self._download:
            raise UnavailableError(
                f"embedding model {self._model_name} is not in fastembed's cache; give its folder, or allow "
                "the download once with FastEmbedder(download=True)"
            ) from cause
        if not _reachable():
            raise UnavailableError(
                f"embedding model {self._model_name} is not in fastembed's cache, and the network is off; connect "
                "once, or give the model's folder"
            )
        logger.info("downloading embedding model {}", self._model_name)
        try:
            return TextEmbedding(self._model_name, **common)
        except Exception as error:
            raise UnavailableError(
                f"embedding model {self._model_name} cannot be downloaded: {error}"
            ) from error


class AbsentEmbedder:
    """Names the vectors of a store and makes none: what reading and erasing need where the model cannot be had.

    Args:
        embedder: The one the store was filled with; it is not asked for anything but its name and dimension.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._name, self._dimension = embedder.name, embedder.dimension

    @property
    def name(self) -> str:
        return self._name

    @property
    def dimension(self) -> int:
        return self._dimension

    def embed(self, texts: Sequence[str]) -> list[FloatArray]:
        if not texts:
            return []
        raise UnavailableError(f"embedding model {self._name} is not here; nothing new can be embedded")


def _has_models(cache: Path) -> bool:
    """Whether a cache holds any model at all. Asked first: for an empty one fastembed logs two errors at every look,
    which a newcomer takes for a fault while the model is still being fetched."""
    return any(next(cache.glob(layout), None) for layout in ("models--*", "fast-*"))


def _reachable() -> bool:
    """Whether a host that has the models can be found. Asked first: fastembed tries for 40 s, in a thread that nobody
    can end, and a bot that is told to stop would wait for it."""
    for host in _MODEL_HOSTS:
        with contextlib.suppress(OSError):
            socket.getaddrinfo(host, 443)
            return True
    return bool(
        os.environ.get("HF_ENDPOINT") or os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")
    )


class LexicalEmbedder:
    """Hashed words and word stems as a vector: no model, no network, no meaning.

    The stand-in of the demo and of tests. It finds what shares words with the query, roughly as BM25 does, and
    nothing else. Vectors are stable across machines and versions of Python.
    """

    _DIMENSION = 256

    @property
    def name(self) -> str:
        return f"voicectx-lexical-{self._DIMENSION}"

    @property
    def dimension(self) -> int:
        return self._DIMENSION

    def embed(self, texts: Sequence[str]) -> list[FloatArray]:
        return [self._embed(text) for text in texts]

    def _embed(self, text: str) -> FloatArray:
        vector = np.zeros(self._DIMENSION, np.float32)
        for token in tokenize(text):
            digest = hashlib.blake2b(token.encode(), digest_size=8).digest()
            sign = 1.0 if digest[4] & 1 else -1.0
            vector[int.from_bytes(digest[:4], "little") % self._DIMENSION] += sign
        norm = float(np.linalg.norm(vector))
        return vector / np.float32(norm) if norm else vector


class EmbeddingThread:
    """The one worker thread in which all sessions of a process embed what their users are saying.

    One, because two embeddings at a time are slower than one after the other (measured on two cores). It exists
    while somebody holds it: `acquire` it and `release` it in pairs.
    """

    _lock = threading.Lock()
    _users = 0
    _thread: ThreadPoolExecutor | None = None

    @classmethod
    def acquire(cls) -> ThreadPoolExecutor:
        """The thread; started if need be."""
        with cls._lock:
            cls._users += 1
            if cls._thread is None:
                cls._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="voicectx-embed")
            return cls._thread

    @classmethod
    def release(cls) -> None:
        """Gives it back; the last one ends it without waiting for what still runs."""
        with cls._lock:
            cls._users -= 1
            if cls._users == 0 and cls._thread is not None:
                cls._thread.shutdown(wait=False, cancel_futures=True)
                cls._thread = None


def default_embedder(*, path: str | Path | None = None, download: bool = False) -> Embedder:
    """MiniLM when it can be had, else the lexical embedder, which says so in one line of the log.

    For demos and stores in memory only: a persistent store names its embedder, so that it never changes silently.
    Blocks while the model loads.
    """
    embedder = FastEmbedder(MINILM, path=path, download=download)
    try:
        embedder.load()
    except UnavailableError as error:
        logger.warning("searching by words only (lexical embedder): {}", error)
        return LexicalEmbedder()
    return embedder
