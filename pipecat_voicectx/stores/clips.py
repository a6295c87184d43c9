"""Audio clips of pages: Opus files beside the page store, named by their content, under a size cap.

A clip's name is the hash of the samples it was made of, so the same audio is kept once and a name never changes its
meaning. A file is written whole or not at all (temporary name, flush, rename). Over the cap the clips that were longest
neither written nor used go first: `use` is called when a page's audio enters a prompt, so what is relevant stays.

Encoding needs PyAV, which comes with the `webrtc` extra. All methods block (a second of speech encodes in some
milliseconds): call them from a worker thread. Thread-safe.
"""

from __future__ import annotations

import hashlib
import io
import os
import threading
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipecat_voicectx.errors import BadInputError, UnavailableError, UsageError

__all__ = ["ClipStore", "ClipStoreStats"]

# Opus takes 8, 12, 16, 24 and 48 kHz; other rates are resampled to this one.
_OPUS_RATES_HZ = (8_000, 12_000, 16_000, 24_000, 48_000)
_FALLBACK_RATE_HZ = 24_000
# Chosen: speech is transparent enough to be understood again; 3 kB a second.
_BITS_PER_SEC = 24_000
_NAME_CHARS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipStoreStats:
    """What is kept, and counters since the store was opened."""

    clips: int
    bytes: int
    evicted: int
    """Clips deleted because the cap was reached."""
    damaged: int
    """Clips deleted because they could not be decoded."""


class ClipStore:
    """Clips in one folder.

    Args:
        folder: Made if need be.
        max_bytes: Cap of all clips together.

    Raises:
        UsageError: A cap below 10 kB.
        UnavailableError: PyAV is not installed, or the folder cannot be written.
    """

    def __init__(self, folder: str | Path, *, max_bytes: int = 200_000_000) -> None:
        if max_bytes < 10_000:
            raise UsageError("a clip store needs max_bytes of at least 10000")
        try:
            import av
        except ImportError as error:
            raise UnavailableError("audio clips need PyAV: pip install 'pipecat-voicectx[webrtc]'") from error
        self._av: Any = av
        self._folder = Path(folder)
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._evicted = 0
        self._damaged = 0
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._scan()
        except OSError as error:
            raise UnavailableError(
                f"clip store {folder} cannot be used: {error.strerror or error}"
            ) from error

    def add(self, pcm: bytes, *, sample_rate_hz: int) -> str:
        """Keeps 16-bit mono samples; returns the clip's name.

        Raises:
            BadInputError: No samples, or half a sample.
            UnavailableError: The disk is full. Nothing is left half-written.
        """
        if not pcm or len(pcm) % 2 or sample_rate_hz <= 0:
            raise BadInputError("a clip needs whole 16-bit samples and a rate")
        name = hashlib.blake2b(pcm + str(sample_rate_hz).encode(), digest_size=_NAME_CHARS // 2).hexdigest()
        with self._lock:
            if name in self._sizes:
                self._sizes.move_to_end(name)
                return name
        data = self._encode(pcm, sample_rate_hz)
        with self._lock:
            self._write(name, data)
            self._sizes[name] = len(data)
            self._evict(keep=name)
        return name

    def read(self, name: str) -> tuple[bytes, int] | None:
        """Samples and rate of a clip. None: evicted, erased or damaged (then it is deleted and counted)."""
        path = self._path(name)
        try:
            return self._decode(path.read_bytes())
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
                os.utime(self._path(name))

    def erase(self, names: Collection[str]) -> int:
        """Deletes clips; returns how many were there."""
        with self._lock:
            return sum(self._delete(name) for name in names)

    def stats(self) -> ClipStoreStats:
        """What is kept, and the counters."""
        with self._lock:
            total = sum(self._sizes.values())
            return ClipStoreStats(
                clips=len(self._sizes), bytes=total, evicted=self._evicted, damaged=self._damaged
            )

    def _path(self, name: str) -> Path:
        if len(name) != _NAME_CHARS or not all(c in "0123456789abcdef" for c in name):
            raise BadInputError("not the name of a clip")
        return self._folder / name[:2] / f"{name}.opus"

    def _scan(self) -> None:
        for leftover in self._folder.glob("*/*.tmp"):
            leftover.unlink()
        files = [(path.stat().st_mtime, path) for path in self._folder.glob("*/*.opus")]
        for _, path in sorted(files, key=lambda item: item[0]):
            self._sizes[path.stem] = path.stat().st_size

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

    def _decode(self, data: bytes) -> tuple[bytes, int]:
        with self._av.open(io.BytesIO(data)) as container:
            rate = container.streams.audio[0].rate
            resampler = self._av.AudioResampler(format="s16", layout="mono", rate=rate)
            parts = [part for frame in container.decode(audio=0) for part in resampler.resample(frame)]
            parts += resampler.resample(None)
        return b"".join(part.to_ndarray().astype("<i2").tobytes() for part in parts), int(rate)
