"""The page store: one database per path and process, one database thread, a journal in front.

`open_page_store` gives every caller in the process the same store for the same path and counts them; the last `close`
closes it. All database calls run on the store's own thread, one after the other: the embedded database neither survives
a write beside a search nor a second thread. Methods without `submit_` in their name block for their turn in that
queue, so call them from a worker thread; `submit_write` never blocks.

A write has two ends. `journaled` is done when the page is on the disk in the journal: from then on no crash loses it.
`stored` is done when it is embedded and in the database. A database that is down only delays the second: what is
pending is tried again with every later write and at the next start.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from loguru import logger

from pipecat_voicectx.errors import BadInputError, UnavailableError, UsageError
from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.memory.pages import Owner, VoicePage
from pipecat_voicectx.stores.copied_pages import CopiedPages
from pipecat_voicectx.stores.embedders import Embedder
from pipecat_voicectx.stores.folder_lock import lock_folder, unlock
from pipecat_voicectx.stores.journal import Journal, JournalEntry
from pipecat_voicectx.stores.journaled_pages import (
    entry_page,
    is_owned,
    page_in,
    says_something,
    stored_page,
)
from pipecat_voicectx.stores.page_embedding import embed_page
from pipecat_voicectx.stores.qdrant_pages import QdrantPages
from pipecat_voicectx.stores.stored_pages import EmbedderStamp, StoredPage, StoredThread
from pipecat_voicectx.stores.write_ticket import PageStoreStats, WriteTicket

__all__ = ["PageStore", "PageStoreStats", "WriteTicket", "open_page_store", "reembed"]

T = TypeVar("T")

# Chosen: see `voicectx bench memory`; above this the oldest pages are found by the database only.
DEFAULT_LOAD_LIMIT = 10_000
# Chosen: a page that an answering database refuses this often is set aside.
_MAX_ATTEMPTS = 3


class PageStore:
    """Pages of all owners in one database. Made by `open_page_store`."""

    def __init__(
        self, key: str, *, path: Path | None, url: str | None, api_key: str | None, embedder: Embedder
    ) -> None:
        self._key = key
        self._embedder = embedder
        self._users = 1
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="voicectx-store")
        # Its own thread, so that a slow database never delays the moment from which a page is safe.
        self._journal_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="voicectx-journal")
        self._written = 0
        self._unembedded = 0
        self._embedder_failed = False
        self._retrying, self._replayed = True, False
        self._args = (path, url, api_key)
        self._lock_file: Any = None
        self._attempts: dict[int, int] = {}

    @property
    def embedder(self) -> Embedder:
        """The embedder whose vectors are in the store."""
        return self._embedder

    def submit_write(self, page: VoicePage) -> WriteTicket:
        """Queues a page for writing, under its id (an earlier version is replaced). Returns at once."""
        ticket = WriteTicket(Future(), Future())
        try:
            self._journal_thread.submit(self._journal_write, page, ticket)
        except RuntimeError as error:
            closed = UnavailableError(f"page store {self._key} is closed")
            closed.__cause__ = error
            ticket.journaled.set_exception(closed)
            ticket.stored.set_exception(closed)
        return ticket

    def submit_threads(self, threads: Sequence[StoredThread]) -> Future[None]:
        """Queues threads for writing. Not journaled: a lost one is made anew from its pages."""
        try:
            return self._thread.submit(lambda: self._stored.upsert_threads(list(threads)))
        except RuntimeError as error:
            closed: Future[None] = Future()
            closed.set_exception(UnavailableError(f"page store {self._key} is closed: {error}"))
            return closed

    def load_threads(self, owner: Owner) -> list[StoredThread]:
        """The owner's threads."""
        return self._thread.submit(lambda: self._stored.load_threads(owner)).result()

    def submit(self, function: Callable[[QdrantPages], T]) -> Future[T]:
        """Runs `function` with the database on the store's thread."""
        return self._thread.submit(lambda: function(self._pages))

    def ready(self) -> None:
        """Waits until the database is open, which it need not be for the first `load`.

        Raises:
            UnavailableError: It does not open. Pages are kept in the journal until it does.
        """
        self.submit(lambda _pages: None).result()

    def load(self, owner: Owner, *, limit: int = DEFAULT_LOAD_LIMIT) -> list[StoredPage]:
        """The owner's pages, oldest first, the newest `limit` of them; waits for writes queued before.

        Pages that are acknowledged but not in the database are among them.
        """
        self._journal_thread.submit(lambda: None).result()
        return self._thread.submit(self._load, owner, limit).result()

    def count(self, owner: Owner) -> int:
        """Pages of an owner in the database."""
        return self.submit(lambda pages: pages.count(owner)).result()

    def owners(self) -> list[Owner]:
        """Everybody with pages in the store."""
        return self.submit(lambda pages: pages.owners()).result()

    def export(self, owner: Owner) -> list[dict[str, object]]:
        """Everything about one owner as JSON objects, oldest first."""
        return [stored.page.to_json() for stored in self.load(owner, limit=10_000_000)]

    def erase(self, owner: Owner) -> int:
        """Deletes everything about one owner: pages, vectors and journal entries. Returns the number of pages.

        Raises:
            UnavailableError: The database still finds something afterwards, or does not answer.
        """
        self._journal_thread.submit(lambda: None).result()
        return self._thread.submit(self._erase, owner).result()

    def redact(self, emptied: Sequence[VoicePage]) -> None:
        """Puts emptied pages in the place of what was said, in the database and in the journal. Blocks.

        Raises:
            UnavailableError: The disk or the database does not take it; the database gets it with a later write.
        """
        tickets = [self.submit_write(page) for page in emptied]
        ids = {page.id for page in emptied}
        for ticket in tickets:
            ticket.journaled.result()
        self._thread.submit(self._journal.erase, lambda body: says_something(body, ids)).result()
        for ticket in tickets:
            ticket.stored.result()

    def flush(self, timeout_secs: float | None = None) -> None:
        """Waits until everything queued so far was tried.

        Raises:
            TimeoutError: It took longer.
        """
        self._journal_thread.submit(lambda: None).result(timeout_secs)
        self._thread.submit(lambda: None).result(timeout_secs)

    def stats(self) -> PageStoreStats:
        """The store's counters."""
        journal = self._journal.stats
        return PageStoreStats(
            written=self._written,
            replayed=journal.replayed,
            pending=len(self._journal.pending()),
            poisoned=journal.poisoned,
            torn=journal.torn,
            unembedded=self._unembedded,
            refused_owner=self._stored.refused_owner,
        )

    def close(self) -> None:
        """Gives the store back. The last user's call writes what is queued, then closes it; blocks for that."""
        with _registry_lock:
            self._users -= 1
            if self._users > 0:
                return
            _registry.pop(self._key, None)
            self._shut()

    def _open(self) -> None:
        """On the store's thread: lock, database, journal, replay."""
        path, url, api_key = self._args
        folder = Path(self._key.removeprefix("journal:")) if path is None else path
        self._lock_file = lock_folder(folder)
        try:
            self._journal = Journal.open(folder / "journal.jsonl", subject=page_in)
            self._stored = CopiedPages(
                folder=path,
                url=url,
                api_key=api_key,
                stamp=EmbedderStamp(name=self._embedder.name, dimension=self._embedder.dimension),
                later=self._thread.submit,
            )
        except BaseException:
            unlock(self._lock_file)
            raise
        if self._stored.is_open:
            self._replay()

    @property
    def _pages(self) -> QdrantPages:
        """The database, on the store's thread; what was waiting for it is stored when it opens."""
        database = self._stored.database
        if not self._replayed:
            self._replay()
        return database

    def _replay(self) -> None:
        self._replayed = True
        self._retry_pending()

    def _shut(self) -> None:
        try:
            self._journal_thread.shutdown(wait=True)
            self._thread.submit(self._shut_on_thread).result()
        finally:
            self._thread.shutdown(wait=True)

    def _shut_on_thread(self) -> None:
        self._journal.close()
        self._stored.close()
        unlock(self._lock_file)

    def _journal_write(self, page: VoicePage, ticket: WriteTicket) -> None:
        try:
            sequence = self._journal.append({"op": "page", "page": page.to_json()})
        except Exception as error:
            ticket.journaled.set_exception(error)
            ticket.stored.set_exception(error)
            return
        ticket.journaled.set_result(None)
        self._thread.submit(self._write, page, ticket, sequence)

    def _write(self, page: VoicePage, ticket: WriteTicket, sequence: int) -> None:
        try:
            if self._retrying:
                self._retry_pending(before=sequence)
            stored = self._store(page)
            stored_page(self._journal, page.id, sequence)
            ticket.stored.set_result(stored)
        except Exception as error:
            self._retrying = True
            ticket.stored.set_exception(error)

    def _store(self, page: VoicePage) -> StoredPage:
        vectors: tuple[FloatArray | None, FloatArray | None] = (None, None)
        try:
            vectors = embed_page(self._embedder, page)
            self._embedder_failed = False
        except Exception as error:
            self._unembedded += 1
            if not self._embedder_failed:
                self._embedder_failed = True
                logger.warning("pages are stored without vectors for now: {}", type(error).__name__)
        stored = StoredPage(page, vectors)
        self._stored.upsert(stored)
        self._written += 1
        return stored

    def _retry_pending(self, *, before: int | None = None) -> None:
        """Stores what the journal holds. Stops at the first failure of the database; damaged pages are set aside."""
        self._retrying = False
        for entry in self._journal.pending():
            if before is not None and entry.sequence >= before:
                return
            try:
                self._store(entry_page(entry))
            except BadInputError as error:
                self._journal.poison(entry.sequence, str(error))
                continue
            except UnavailableError as error:
                self._retrying = True
                if not self._is_refused(entry):
                    logger.warning("page store does not take writes, will try again: {}", error)
                    return
                self._journal.poison(entry.sequence, str(error))
                continue
            self._journal.done(entry.sequence)

    def _is_refused(self, entry: JournalEntry) -> bool:
        """Whether a write failed so often, by a database that answers, that the entry itself must be at fault."""
        attempts = self._attempts[entry.sequence] = self._attempts.get(entry.sequence, 0) + 1
        if attempts < _MAX_ATTEMPTS or not self._pages.answers():
            return False
        del self._attempts[entry.sequence]
        return True

    def _load(self, owner: Owner, limit: int) -> list[StoredPage]:
        stored = {item.page.id: item for item in self._stored.load(owner, limit=limit)}
        for entry in self._journal.pending():
            try:
                page = entry_page(entry)
            except BadInputError:
                continue
            if page.owner == owner:
                stored[page.id] = StoredPage(page, (None, None))
        ordered = sorted(
            stored.values(), key=lambda s: (s.page.started_wall_secs, s.page.session_id, s.page.index)
        )
        return ordered[-limit:]

    def _erase(self, owner: Owner) -> int:
        erased = self._stored.erase(owner)
        self._journal.erase(lambda body: is_owned(body, owner))
        left = self._pages.count(owner)
        if left:
            raise UnavailableError(f"{left} pages are still there after erasing")
        return erased


_registry: dict[str, PageStore] = {}
_registry_lock = threading.Lock()


def open_page_store(
    path: str | Path | None = None,
    *,
    embedder: Embedder,
    url: str | None = None,
    api_key: str | None = None,
    journal_dir: str | Path | None = None,
) -> PageStore:
    """The store at a path (embedded Qdrant) or URL (a server). Blocks while it opens: call it from a worker thread.

    Args:
        path: Folder of the embedded store, made if need be. One process at a time.
        embedder: Makes the vectors. Must be the one the store was made with.
        url: Qdrant server instead of a path.
        api_key: For the server.
        journal_dir: Folder of the journal when the pages are on a server; one process at a time.

    Raises:
        UsageError: Neither or both of path and url, or a server without `journal_dir`.
        EmbedderMismatchError: The store was made with another embedder; the message says how to re-embed.
        StoreLockedError: Another process holds the path.
        UnavailableError: The folder cannot be written, the database is damaged, or the server does not answer.
    """
    if (path is None) == (url is None):
        raise UsageError("give exactly one of path (embedded Qdrant) and url (Qdrant server)")
    if url is not None and journal_dir is None:
        raise UsageError("a store on a server needs journal_dir, a local folder for the crash-safe journal")
    folder = Path(path if path is not None else str(journal_dir)).expanduser().absolute()
    key = str(folder) if path is not None else f"journal:{folder}"
    with _registry_lock:
        store = _registry.get(key)
        if store is not None:
            _check_same_embedder(store, embedder)
            store._users += 1
            return store
        store = PageStore(
            key, path=folder if path is not None else None, url=url, api_key=api_key, embedder=embedder
        )
        try:
            store._thread.submit(store._open).result()
        except BaseException:
            store._journal_thread.shutdown(wait=True)
            store._thread.shutdown(wait=True)
            raise
        _registry[key] = store
        return store


def reembed(path: str | Path, old: Embedder, new: Embedder) -> int:
    """Gives a store another embedder: every page is embedded anew, then the old vectors are dropped. Blocks.

    Interrupted, it leaves the store with the old embedder or with the new one, never mixed; run it again.

    Returns:
        Number of pages.
    """
    store = open_page_store(path, embedder=old)
    try:
        pages = store.submit(lambda database: database.everything()).result()
        stored = [StoredPage(page, embed_page(new, page)) for page in pages]

        def move(database: QdrantPages) -> None:
            previous = database.move_to(EmbedderStamp(name=new.name, dimension=new.dimension))
            for item in stored:
                database.upsert(item)
            database.drop(previous)
            store._stored.drop_copy()

        store.submit(move).result()
    finally:
        store.close()
    return len(stored)


def _check_same_embedder(store: PageStore, embedder: Embedder) -> None:
    if (store.embedder.name, store.embedder.dimension) != (embedder.name, embedder.dimension):
        raise UsageError(
            f"the store is open in this process with embedder {store.embedder.name!r}, not {embedder.name!r}"
        )


def known_stores() -> Sequence[str]:
    """Paths of the stores open in this process; for tests and diagnosis."""
    with _registry_lock:
        return sorted(_registry)
