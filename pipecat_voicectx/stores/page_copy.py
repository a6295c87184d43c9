"""A second copy of an embedded store's pages and threads, in the form in which a session loads them.

Embedded Qdrant reads all of its records when it opens, of all owners, and filters slowly: seconds for 10,000 pages. The
copy is one SQLite file beside it that gives one owner's pages at once, with vectors and terms in bulk, so that they are
searchable before the database is open. The database stays the truth: the copy is written after it and before the
journal lets go of a page, and an owner whose pages it does not hold completely is loaded from the database, once.

It is a cache: when it is damaged, of another version or of another embedder it is thrown away and made anew. Erased
text is overwritten in the file. All calls are for the store's one thread; `load` and `threads` may block for a second.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from loguru import logger

from pipecat_voicectx.errors import BadInputError, UnavailableError
from pipecat_voicectx.memory.pages import PAGE_SCHEMA_VERSION, Owner, VoicePage
from pipecat_voicectx.memory.turn_terms import TERMS_VERSION, TurnTerms
from pipecat_voicectx.stores.collector import no_collections
from pipecat_voicectx.stores.stored_pages import EmbedderStamp, StoredPage, StoredThread

__all__ = ["PageCopy"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS state (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS complete (user TEXT, agent TEXT, PRIMARY KEY (user, agent));
CREATE TABLE IF NOT EXISTS pages (
    id TEXT PRIMARY KEY, user TEXT, agent TEXT, started REAL, session TEXT, number INTEGER,
    page TEXT, vectors BLOB, terms TEXT
);
CREATE INDEX IF NOT EXISTS pages_of ON pages (user, agent, started, session, number);
CREATE TABLE IF NOT EXISTS threads (
    id TEXT PRIMARY KEY, user TEXT, agent TEXT, leader BLOB, pages TEXT, summary TEXT, summarized INTEGER
);
CREATE INDEX IF NOT EXISTS threads_of ON threads (user, agent);
"""
_VERSION = 1
_IS_FOR = "SELECT value FROM state WHERE key = 'for'"


class PageCopy:
    """The copy of one store.

    Args:
        path: Its file, made if need be.
        stamp: The embedder of the vectors in it.
    """

    def __init__(self, path: Path, *, stamp: EmbedderStamp) -> None:
        self._path = path
        self._dimension = stamp.dimension
        self._is_for = _version(stamp)
        self._connection = self._opened()

    @staticmethod
    def is_there(path: Path, *, stamp: EmbedderStamp) -> bool:
        """Whether there is a copy of this version and with this embedder."""
        if not path.is_file():
            return False
        try:
            with contextlib.closing(sqlite3.connect(path)) as connection:
                return bool(connection.execute(_IS_FOR).fetchone() == (_version(stamp),))
        except sqlite3.DatabaseError:
            return False

    def load(self, owner: Owner, *, limit: int) -> list[StoredPage] | None:
        """The owner's newest `limit` pages, oldest first. None: not all of them are here."""
        if not self._is_complete(owner):
            return None
        rows = self._query(
            "SELECT page, vectors, terms FROM pages WHERE user = ? AND agent = ? "
            "ORDER BY started DESC, session DESC, number DESC LIMIT ?",
            (owner.user_id, owner.agent_id, limit),
        )
        try:
            with no_collections():
                return self._unpacked(rows[::-1], owner)
        except (BadInputError, ValueError, TypeError) as error:
            logger.warning("the copy of the pages is damaged and made anew: {}", type(error).__name__)
            self.discard()
            return None

    def threads(self, owner: Owner) -> list[StoredThread] | None:
        """The owner's threads. None: not all of them are here."""
        if not self._is_complete(owner):
            return None
        rows = self._query(
            "SELECT id, leader, pages, summary, summarized FROM threads WHERE user = ? AND agent = ? ORDER BY rowid",
            (owner.user_id, owner.agent_id),
        )
        return [
            StoredThread(
                id=thread_id,
                owner=owner,
                leader=np.frombuffer(leader, np.float16).astype(np.float32),
                page_ids=tuple(json.loads(pages)),
                summary=summary,
                summarized_pages=summarized,
            )
            for thread_id, leader, pages, summary, summarized in rows
        ]

    def complete(self, owner: Owner, pages: Sequence[StoredPage], threads: Sequence[StoredThread]) -> None:
        """Takes everything that the database had of an owner; what is here already was written since.

        Raises:
            UnavailableError: The disk does not take it.
        """
        with self._writing() as connection:
            self._put(connection, pages, "IGNORE")
            self._put_threads(connection, threads, "IGNORE")
            connection.execute(
                "INSERT OR IGNORE INTO complete VALUES (?, ?)", (owner.user_id, owner.agent_id)
            )

    def put(self, pages: Sequence[StoredPage]) -> None:
        """Takes pages that were written to the database.

        Raises:
            UnavailableError: The disk does not take them.
        """
        with self._writing() as connection:
            self._put(connection, pages)

    def put_threads(self, threads: Sequence[StoredThread]) -> None:
        """Takes threads that were written to the database.

        Raises:
            UnavailableError: The disk does not take them.
        """
        with self._writing() as connection:
            self._put_threads(connection, threads)

    def erase(self, owner: Owner) -> None:
        """Forgets an owner: what is loaded of them next comes from the database.

        Raises:
            UnavailableError: The disk does not take it.
        """
        with self._writing() as connection:
            _delete(connection, owner)

    def discard(self) -> None:
        """Starts anew with an empty copy."""
        self._connection.close()
        self._path.unlink(missing_ok=True)
        self._connection = self._opened()

    def remove(self) -> None:
        """Closes and deletes the copy."""
        self._connection.close()
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Closes the file. Harmless when repeated."""
        self._connection.close()

    def _opened(self) -> sqlite3.Connection:
        try:
            return self._connected()
        except sqlite3.DatabaseError as error:
            logger.warning("the copy of the pages does not open and is made anew: {}", type(error).__name__)
        for path in (self._path, self._path.with_name(f"{self._path.name}-journal")):
            path.unlink(missing_ok=True)
        try:
            return self._connected()
        except (sqlite3.Error, OSError) as error:
            raise UnavailableError(f"page store {self._path.parent} cannot be written: {error}") from error

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, check_same_thread=False)
        try:
            connection.execute("PRAGMA secure_delete = ON")
            connection.executescript(_SCHEMA)
            if connection.execute(_IS_FOR).fetchone() != (self._is_for,):
                with connection:
                    for table in ("pages", "threads", "complete"):
                        connection.execute(f"DELETE FROM {table}")
                    connection.execute("INSERT OR REPLACE INTO state VALUES ('for', ?)", (self._is_for,))
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_complete(self, owner: Owner) -> bool:
        return bool(
            self._query(
                "SELECT 1 FROM complete WHERE user = ? AND agent = ?", (owner.user_id, owner.agent_id)
            )
        )

    def _query(self, sql: str, arguments: tuple[object, ...]) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql, arguments).fetchall()
        except sqlite3.DatabaseError as error:
            logger.warning("the copy of the pages is damaged and made anew: {}", type(error).__name__)
            self.discard()
            return []

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._connection as connection:
                yield connection
        except sqlite3.Error as error:
            raise UnavailableError(
                f"page store {self._path.parent}: {self._path.name} does not take writes: {error}"
            ) from error

    def _put(
        self, connection: sqlite3.Connection, pages: Sequence[StoredPage], known: str = "REPLACE"
    ) -> None:
        connection.executemany(
            f"INSERT OR {known} INTO pages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", map(self._row, pages)
        )

    def _put_threads(
        self, connection: sqlite3.Connection, threads: Sequence[StoredThread], known: str = "REPLACE"
    ) -> None:
        connection.executemany(
            f"INSERT OR {known} INTO threads VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    thread.id,
                    thread.owner.user_id,
                    thread.owner.agent_id,
                    thread.leader.astype(np.float16).tobytes(),
                    json.dumps(thread.page_ids),
                    thread.summary,
                    thread.summarized_pages,
                )
                for thread in threads
            ),
        )

    def _row(self, stored: StoredPage) -> tuple[object, ...]:
        page = stored.page
        terms = stored.terms or (TurnTerms.of(page.user_text), TurnTerms.of(page.bot_text))
        # A missing vector is one that is not a number.
        missing = np.full(self._dimension, np.nan, np.float16)
        vectors = [missing if vector is None else vector.astype(np.float16) for vector in stored.vectors]
        return (
            page.id,
            page.owner.user_id,
            page.owner.agent_id,
            page.started_wall_secs,
            page.session_id,
            page.index,
            json.dumps(page.to_json(), ensure_ascii=False),
            np.concatenate(vectors).tobytes(),
            "\n".join(each.packed() for each in terms),
        )

    def _unpacked(self, rows: Sequence[tuple[Any, ...]], owner: Owner) -> list[StoredPage]:
        packed = b"".join(vectors for _, vectors, _ in rows)
        vectors = np.frombuffer(packed, np.float16).astype(np.float32).reshape(len(rows), 2, self._dimension)
        there = ~np.isnan(vectors[:, :, 0])
        # All at once: a tenth of the time of one by one.
        texts = json.loads(f"[{','.join(text for text, _, _ in rows)}]")
        stored: list[StoredPage] = []
        for text, (_, _, terms), both, has in zip(texts, rows, vectors, there.tolist(), strict=True):
            page = VoicePage.from_json(text)
            if page.owner != owner:
                raise BadInputError("a page of another owner")
            user, bot = (TurnTerms.unpacked(line) for line in terms.split("\n"))
            pair = (both[0] if has[0] else None, both[1] if has[1] else None)
            stored.append(StoredPage(page, pair, (user, bot)))
        return stored


def _version(stamp: EmbedderStamp) -> str:
    """What a copy must have been made with."""
    made_with = [_VERSION, PAGE_SCHEMA_VERSION, TERMS_VERSION, stamp.name, stamp.dimension]
    return json.dumps(made_with, ensure_ascii=False)


def _delete(connection: sqlite3.Connection, owner: Owner) -> None:
    for table in ("pages", "threads", "complete"):
        connection.execute(
            f"DELETE FROM {table} WHERE user = ? AND agent = ?", (owner.user_id, owner.agent_id)
        )
