"""The crash-safe journal in front of the page store: append-only JSON lines, each flushed to the disk.

A write is acknowledged once its line is on the disk (`fsync`), before the store has it. `done` lines mark what the
store has taken. On start, whatever was appended and not done is handed out again, in order; applying it twice is
harmless because pages carry stable ids. A torn last line (a crash in the middle of a write) is cut off and counted; a
line that is damaged, or that the store refuses for good, goes to `poison.jsonl` beside the journal and is counted, so
that one bad entry never keeps the good ones from being written. What is done, and what was set aside, leaves the file
when it is closed, when it is opened after a crash, and when it has grown.

Thread-safe: the store appends on one thread and marks as done on another.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipecat_voicectx.errors import UnavailableError

__all__ = ["Journal", "JournalEntry", "JournalStats"]

# Chosen: rewriting a file this small takes a few milliseconds.
_COMPACT_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One acknowledged write that the store may not have yet."""

    sequence: int
    body: dict[str, Any]


@dataclass(slots=True)
class JournalStats:
    """Counters since the journal was opened."""

    appended: int = 0
    replayed: int = 0
    torn: int = 0
    """Last lines cut off, because a crash had left them unfinished."""
    poisoned: int = 0
    """Entries set aside because they were damaged or refused for good."""


@dataclass(slots=True)
class Journal:
    """An open journal. `open_journal` makes one."""

    path: Path
    stats: JournalStats = field(default_factory=JournalStats)
    _pending: dict[int, dict[str, Any]] = field(default_factory=dict)
    _next: int = 1
    _file: Any = None
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _has_finished: bool = False
    """Whether the file holds more than what is pending."""
    _whole_bytes: int | None = None
    """How much of the file is whole, while a failed write could not be taken back."""
    _subject: Callable[[dict[str, Any]], object] = lambda _body: None

    @classmethod
    def open(cls, path: Path, *, subject: Callable[[dict[str, Any]], object] | None = None) -> Journal:
        """Opens or creates the journal and reads what is pending.

        Args:
            path: The file.
            subject: What an entry is a version of; None: of nothing. An entry whose mark is lost or damaged is not
                handed out again when the store has a later version.

        Raises:
            UnavailableError: The folder or file cannot be written.
        """
        journal = cls(path)
        if subject is not None:
            journal._subject = subject
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            journal._read()
            journal._file = path.open("ab")
            _sync_folder(path.parent)
            journal._drop_finished()
        except OSError as error:
            raise UnavailableError(f"journal {path} cannot be opened: {error.strerror or error}") from error
        journal.stats.replayed = len(journal._pending)
        return journal

    def pending(self) -> list[JournalEntry]:
        """Entries that were acknowledged and are not done, oldest first."""
        with self._lock:
            return [JournalEntry(sequence, body) for sequence, body in sorted(self._pending.items())]

    def append(self, body: Mapping[str, Any]) -> int:
        """Writes one entry and returns its sequence number once it is on the disk. Blocks for the `fsync`.

        Raises:
            UnavailableError: The disk is full or gone. Nothing was acknowledged; the caller keeps the entry.
        """
        with self._lock:
            sequence = self._next
            self._write({"seq": sequence, "body": dict(body)}, durable=True)
            self._next += 1
            self._pending[sequence] = dict(body)
            self.stats.appended += 1
            return sequence

    def done(self, sequence: int) -> None:
        """The store has the entry. Not flushed: losing the mark only costs a harmless repetition."""
        self._mark({"done": sequence})

    def _mark(self, record: dict[str, Any]) -> None:
        with self._lock:
            if self._pending.pop(record["done"], None) is None:
                return
            self._has_finished = True
            with contextlib.suppress(UnavailableError, OSError):
                self._write(record, durable=False)
                if not self._pending and self._file.tell() > _COMPACT_BYTES:
                    self._compact({})

    def poison(self, sequence: int, reason: str) -> None:
        """Sets an entry aside for good, with the reason; it will not be replayed."""
        with self._lock:
            body = self._pending.get(sequence)
            if body is not None:
                self._set_aside({"seq": sequence, "reason": reason, "body": body})
                self._mark({"done": sequence, "aside": True})

    def close(self) -> None:
        """Closes the file. What is pending stays for the next start. Harmless when repeated."""
        with self._lock:
            self._whole_bytes = None
            if self._file is not None:
                self._drop_finished()
                self._file.close()
                self._file = None

    def _drop_finished(self) -> None:
        """Nothing that was said stays in the file longer than it is needed there. A full disk keeps it a while."""
        if self._has_finished:
            with contextlib.suppress(OSError):
                self._compact(self._pending)

    def erase(self, matches: Callable[[dict[str, Any]], bool]) -> int:
        """Rewrites the journal without the entries for whose body `matches` is true, poisoned ones included.

        Raises:
            UnavailableError: The disk does not take it; what was acknowledged is still there.
        """
        with self._lock:
            try:
                return self._erase(matches)
            except OSError as error:
                raise UnavailableError(
                    f"journal {self.path} cannot be rewritten: {error.strerror or error}"
                ) from error

    def _erase(self, matches: Callable[[dict[str, Any]], bool]) -> int:
        for file in (self.path, self._poison_path):
            _temporary(file).unlink(missing_ok=True)  # what a crash left half written
        kept = {sequence: body for sequence, body in self._pending.items() if not matches(body)}
        gone = len(self._pending) - len(kept)
        self._compact(kept)
        poison = self._poison_path
        if poison.exists():
            lines = [line for line in poison.read_bytes().splitlines() if not _line_matches(line, matches)]
            _replace(poison, b"".join(line + b"\n" for line in lines))
        return gone

    @property
    def _poison_path(self) -> Path:
        return self.path.with_name("poison.jsonl")

    def _read(self) -> None:
        data = self.path.read_bytes() if self.path.exists() else b""
        complete, _, tail = data.rpartition(b"\n")
        if tail:
            self.stats.torn += 1
            with self.path.open("r+b") as file:
                file.truncate(len(data) - len(tail))
        stored: dict[object, int] = {}
        for raw in complete.splitlines():
            if not raw.strip():
                continue
            record = _parse(raw)
            if record is None:
                self._has_finished = True
                self._set_aside({"reason": "damaged line", "line": raw.decode("utf-8", "replace")})
            elif "done" in record:
                body = self._pending.pop(record["done"], None)
                if body is not None:
                    self._has_finished = True
                    if not record.get("aside") and (subject := self._subject(body)) is not None:
                        stored[subject] = max(record["done"], stored.get(subject, 0))
                self._next = max(self._next, record["done"] + 1)
            else:
                self._pending[record["seq"]] = record["body"]
                self._next = max(self._next, record["seq"] + 1)
        for sequence, body in list(self._pending.items()):
            if sequence < stored.get(self._subject(body), 0):
                del self._pending[sequence]
                self._has_finished = True

    def _write(self, record: dict[str, Any], *, durable: bool) -> None:
        start: int | None = None
        try:
            if self._file is None:
                self._reopen()
            start = self._file.tell()
            self._file.write(_line(record))
            self._file.flush()
            if durable:
                os.fsync(self._file.fileno())
        except (OSError, ValueError) as error:
            if start is not None:
                self._take_back(start)
            raise UnavailableError(f"journal {self.path} cannot be written: {error}") from error

    def _take_back(self, length: int) -> None:
        """Cuts off half a line that a full disk left, so that the next append starts on its own line."""
        with contextlib.suppress(OSError):
            self._file.close()
        self._file, self._whole_bytes = None, length
        with contextlib.suppress(OSError):
            self._reopen()

    def _reopen(self) -> None:
        """Opens the file again behind what of it is whole. When that fails, too, the next write tries once more."""
        if self._whole_bytes is None:
            raise OSError("journal is closed")
        os.truncate(self.path, self._whole_bytes)
        self._file = self.path.open("ab")
        self._whole_bytes = None

    def _set_aside(self, record: dict[str, Any]) -> None:
        self.stats.poisoned += 1
        with self._poison_path.open("ab") as file:
            file.write(_line(record))

    def _compact(self, kept: dict[int, dict[str, Any]]) -> None:
        """Writes the file anew with these entries only. When that fails, the file goes on as it was."""
        # The last number used is kept, so that numbers never repeat; ahead of the entries, one of which may have it.
        lines = [_line({"done": self._next - 1})]
        lines += [_line({"seq": sequence, "body": body}) for sequence, body in sorted(kept.items())]
        data = b"".join(lines)
        _replace(self.path, data)
        self._pending = kept
        self._has_finished = False
        if self._file is not None:
            self._file.close()
            self._file = None
        self._whole_bytes = len(data)
        self._reopen()


def _line(record: dict[str, Any]) -> bytes:
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"), default=str)
    data = text.encode("utf-8", "surrogatepass")
    return b"%08x %s\n" % (zlib.crc32(data), data)


def _parse(raw: bytes) -> dict[str, Any] | None:
    checksum, _, data = raw.partition(b" ")
    try:
        if int(checksum, 16) != zlib.crc32(data):
            return None
        record = json.loads(data.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    if isinstance(record.get("done"), int):
        return record
    return record if isinstance(record.get("seq"), int) and isinstance(record.get("body"), dict) else None


def _line_matches(raw: bytes, matches: Callable[[dict[str, Any]], bool]) -> bool:
    try:
        record = json.loads(raw.partition(b" ")[2].decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return True
    body = record.get("body") if isinstance(record, dict) else None
    return not isinstance(body, dict) or bool(matches(body))


def _temporary(path: Path) -> Path:
    return path.with_name(path.name + ".tmp")


def _replace(path: Path, data: bytes) -> None:
    temporary = _temporary(path)
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Makes a new directory entry durable; a no-op where folders cannot be opened."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    with contextlib.suppress(OSError):
        os.fsync(descriptor)
    os.close(descriptor)
