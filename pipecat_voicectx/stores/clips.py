"""Audio clips of pages: Opus files beside the page store, named by owner and content, under a size cap.

A clip's name is a hash of its owner and one of the samples it was made of: the same audio is kept once, a name never
changes its meaning, and an owner's clips are found and erased without asking any page. A file is written whole or not
at all (temporary name, flush, rename). Over the cap the clips that were longest neither written nor used go
first: `use` is called when a page was relevant to a turn, so what is relevant stays.

Encoding needs PyAV, which comes with the `webrtc` extra. All methods but `submit` block (a second of speech encodes in
some milliseconds): call them from a worker thread, such as the store's own. Thread-safe.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pipecat_voicectx.errors import BadInputError, UnavailableError, UsageError
from pipecat_voicectx.memory.pages import Owner

__all__ = ["DEFAULT_MAX_BYTES", "ClipStore", "ClipStoreStats", "erase_clips", "open_clip_store"]

T = TypeVar("T")

# Chosen: some eighteen hours of speech.
DEFAULT_MAX_BYTES = 200_000_000

# Opus takes 8, 12, 16, 24 and 48 kHz; other rates are resampled to this one.
_OPUS_RATES_HZ = (8_000, 12_000, 16_000, 24_000, 48_000)
_FALLBACK_RATE_HZ = 24_000
# Chosen: speech is transparent enough to be understood again; 3 kB a second.
_BITS_PER_SEC = 24_000
_OWNER_CHARS = 16
_DAY_SECS = 86_400.0
# Chosen: a promise in days is kept to the hour.
_LOOK_SECS = 3_600.0
_CONTENT_CHARS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipStoreStats:
    """What is kept, and counters since the store was opened."""

    clips: int
    bytes: int
    evicted: int
    """Clips deleted because the cap was reached."""
    expired: int
    """Clips deleted because they were older than is allowed."""
    damaged: int
    """Clips deleted because they could not be decoded."""


class ClipStore:
    """Clips in one folder.

    Args:
        folder: Made if need be.
        max_bytes: Cap of all clips together.
        keep_days: Age at which a clip is deleted, looked at when the store is opened and hourly while it is written to.
            None: clips stay until the cap or `erase`.

    Raises:
        UsageError: A cap below 10 kB, or no time at all.
        UnavailableError: PyAV is not installed, or the folder cannot be written.
    """

    def __init__(
        self, folder: str | Path, *, max_bytes: int = DEFAULT_MAX_BYTES, keep_days: float | None = None
    ) -> None:
        if max_bytes < 10_000:
            raise UsageError("a clip store needs max_bytes of at least 10000")
        if keep_days is not None and keep_days <= 0:
            raise UsageError("a clip store needs keep_days above 0; to keep no clips, do not record")
        try:
            import av
        except ImportError as error:
            raise UnavailableError("audio clips need PyAV: pip install 'pipecat-voicectx[webrtc]'") from error
        self._av: Any = av
        self._folder = Path(folder)
        self._max_bytes = max_bytes
        self._keep_secs = keep_days * _DAY_SECS if keep_days is not None else None
        self._next_look_secs = 0.0
        self._lock = threading.Lock()
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._evicted = 0
        self._expired = 0
        self._damaged = 0
        self._users = 0
        self._thread: ThreadPoolExecutor | None = None
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._scan()
        except OSError as error:
            raise UnavailableError(
                f"clip store {folder} cannot be used: {error.strerror or error}"
            ) from error

    def submit(self, work: Callable[[ClipStore], T]) -> Future[T]:
        """Runs `work` on the store's own thread; returns at once.

        Raises:
            UnavailableError: Everybody who opened the store has closed it.
        """
        with self._lock:
            if not self._users:
                raise UnavailableError("the clip store is closed")
            if self._thread is None:
                self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="voicectx-clips")
            return self._thread.submit(work, self)

    def close(self) -> None:
        """Gives a store of `open_clip_store` back. The last user's call waits for what was submitted."""
        with _registry_lock:
            self._users -= 1
            if self._users > 0:
                return
            _registry.pop(str(self._folder), None)
            with self._lock:
                thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown(wait=True)

    def add(self, pcm: bytes, *, sample_rate_hz: int, owner: Owner) -> str:
        """Keeps 16-bit mono samples; returns the clip's name.

        Raises:
            BadInputError: No samples, or half a sample.
            UnavailableError: The disk is full. Nothing is left half-written.
        """
        if not pcm or len(pcm) % 2 or sample_rate_hz <= 0:
            raise BadInputError("a clip needs whole 16-bit samples and a rate")
        name = _owner_part(owner) + _hash(pcm + str(sample_rate_hz).encode(), _CONTENT_CHARS)
        with self._lock:
            if name in self._sizes:
                self._sizes.move_to_end(name)
                return name
        data = self._encode(pcm, sample_rate_hz)
        with self._lock:
            self._write(name, data)
            self._sizes[name] = len(data)
            self._evict(keep=name)
            if time.time() >= self._next_look_secs:
                self._expire()
        return name

    def read(self, name: str, *, sample_rate_hz: int | None = None) -> tuple[bytes, int] | None:
        """Samples and rate of a clip, resampled if a rate is given.

        None: evicted, erased or damaged (then it is deleted and counted).
        """
        path = self._path(name)
        try:
            return self._decode(path.read_bytes(), sample_rate_hz)
        except FileNotFoundError:
            return None
        except (self._av.error.FFmpegError, ValueError, IndexError):
            with self._lock:
                self._damaged += 1
                self._delete(name)
            return None

    def use(self, name: str) -> None:
        """The clip was of use: it is evicted later."""
        with self._lock:
            if name in self._sizes:
                self._sizes.move_to_end(name)
                with contextlib.suppress(FileNotFoundError):
                    path = self._path(name)
                    # The time of writing stays: it says when the clip must go.
                    os.utime(path, (time.time(), path.stat().st_mtime))

    def give(self, name: str, owner: Owner) -> str | None:
        """Makes a clip another owner's; returns its new name. None: it is not there any more."""
        given = _owner_part(owner) + name[_OWNER_CHARS:]
        old, new = self._path(name), self._path(given)
        with self._lock:
            size = self._sizes.pop(name, None)
            try:
                new.parent.mkdir(exist_ok=True)
                old.replace(new)
            except OSError:
                return None
            self._sizes[given] = size if size is not None else new.stat().st_size
        return given

    def erase(self, names: Collection[str]) -> int:
        """Deletes clips; returns how many were there."""
        with self._lock:
            return sum(self._delete(name) for name in names)

    def erase_owner(self, owner: Owner) -> int:
        """Deletes all clips of an owner, those that no page names included; returns how many there were."""
        with self._lock:
            names = [name for name in self._sizes if name.startswith(_owner_part(owner))]
            return sum(self._delete(name) for name in names)

    def count(self, owner: Owner) -> int:
        """How many clips of an owner there are."""
        with self._lock:
            return sum(name.startswith(_owner_part(owner)) for name in self._sizes)

    def stats(self) -> ClipStoreStats:
        """What is kept, and the counters."""
        with self._lock:
            total = sum(self._sizes.values())
            return ClipStoreStats(
                clips=len(self._sizes),
                bytes=total,
                evicted=self._evicted,
                expired=self._expired,
                damaged=self._damaged,
            )

    def _path(self, name: str) -> Path:
        if len(name) != _OWNER_CHARS + _CONTENT_CHARS or not all(c in "0123456789abcdef" for c in name):
            raise BadInputError("not the name of a clip")
        return self._folder / name[:_OWNER_CHARS] / f"{name}.opus"

    def _scan(self) -> None:
        for leftover in self._folder.glob("*/*.tmp"):
            leftover.unlink()
        files = [(path.stat().st_atime, path) for path in self._folder.glob("*/*.opus")]
        for _, path in sorted(files, key=lambda item: item[0]):
            self._sizes[path.stem] = path.stat().st_size
        self._expire()

    def _expire(self) -> None:
        """Deletes what is older than is allowed."""
        self._next_look_secs = time.time() + _LOOK_SECS
        if self._keep_secs is None:
            return
        oldest_secs = time.time() - self._keep_secs
        for name in list(self._sizes):
            with contextlib.suppress(FileNotFoundError):
                if self._path(name).stat().st_mtime < oldest_secs:
                    self._delete(name)
                    self._expired += 1

    def _write(self, name: str, data: bytes) -> None:
        path = self._path(name)
        temporary = path.with_suffix(".tmp")
        try:
            path.parent.mkdir(exist_ok=True)
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise UnavailableError(f"clip cannot be written: {error.strerror or error}") from error

    def _evict(self, *, keep: str) -> None:
        total = sum(self._sizes.values())
        for name in list(self._sizes):
            if total <= self._max_bytes or name == keep:
                return
            total -= self._sizes[name]
            self._delete(name)
            self._evicted += 1

    def _delete(self, name: str) -> bool:
        if self._sizes.pop(name, None) is None:
            return False
        self._path(name).unlink(missing_ok=True)
        return True

    def _encode(self, pcm: bytes, sample_rate_hz: int) -> bytes:
        rate = sample_rate_hz if sample_rate_hz in _OPUS_RATES_HZ else _FALLBACK_RATE_HZ
        out = io.BytesIO()
        with self._av.open(out, mode="w", format="ogg") as container:
            stream = container.add_stream("libopus", rate=rate, layout="mono")
            stream.bit_rate = _BITS_PER_SEC
            frame = self._av.AudioFrame.from_ndarray(np.frombuffer(pcm, "<i2").reshape(1, -1), "s16", "mono")
            frame.sample_rate = sample_rate_hz
            resampler = self._av.AudioResampler(format="s16", layout="mono", rate=rate)
            for part in (*resampler.resample(frame), *resampler.resample(None)):
                for packet in stream.encode(part):
                    container.mux(packet)
            for packet in stream.encode(None):
                container.mux(packet)
        return out.getvalue()

    def _decode(self, data: bytes, rate_hz: int | None) -> tuple[bytes, int]:
        with self._av.open(io.BytesIO(data)) as container:
            rate = rate_hz or container.streams.audio[0].rate
            resampler = self._av.AudioResampler(format="s16", layout="mono", rate=rate)
            parts = [part for frame in container.decode(audio=0) for part in resampler.resample(frame)]
            parts += resampler.resample(None)
        return b"".join(part.to_ndarray().astype("<i2").tobytes() for part in parts), int(rate)


_registry: dict[str, ClipStore] = {}
_registry_lock = threading.Lock()


def open_clip_store(
    folder: str | Path, *, max_bytes: int = DEFAULT_MAX_BYTES, keep_days: float | None = None
) -> ClipStore:
    """The store of a folder, the same one for everybody in the process; `close` it. Blocks while it looks around.

    Raises:
        UsageError: As `ClipStore`.
        UnavailableError: PyAV is not installed, or the folder cannot be written.
    """
    path = Path(folder).expanduser().absolute()
    with _registry_lock:
        store = _registry.get(str(path))
        if store is None:
            store = _registry[str(path)] = ClipStore(path, max_bytes=max_bytes, keep_days=keep_days)
        store._users += 1
        return store


def erase_clips(folder: Path, owner: Owner) -> tuple[int, int]:
    """Deletes an owner's clips; returns how many there were and how many are left. Needs no PyAV. Blocks.

    For administration: a session that has the store open goes on counting what is gone.
    """
    own = folder / _owner_part(owner)
    files = list(own.glob("*.opus"))
    for file in [*files, *own.glob("*.tmp")]:
        file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        own.rmdir()
    return len(files), len(list(own.glob("*")))


def _owner_part(owner: Owner) -> str:
    return _hash(f"{owner.user_id}\x1f{owner.agent_id}".encode(), _OWNER_CHARS)


def _hash(data: bytes, chars: int) -> str:
    return hashlib.blake2b(data, digest_size=chars // 2).hexdigest()
