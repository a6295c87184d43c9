"""The database of pages together with its copy: what is written goes to both, what is loaded comes from the copy.

Of an embedded database only; a server's pages may be changed by other processes, so nothing of them is copied. The
database is opened when it is first needed, which it is not for loading an owner who is in the copy. For one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from loguru import logger

from pipecat_voicectx.errors import UnavailableError
from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.stores.page_copy import PageCopy
from pipecat_voicectx.stores.qdrant_pages import QdrantPages
from pipecat_voicectx.stores.stored_pages import EmbedderStamp, StoredPage, StoredThread

__all__ = ["CopiedPages"]

_EVERY_PAGE = 10_000_000


class CopiedPages:
    """A folder's database, or a server's.

    Args:
        folder: Of the embedded database. None: there is a server.
        url: Of the server.
        api_key: For the server.
        stamp: The embedder of the vectors.
        later: Runs work on this thread, after what is waiting.

    Raises:
        EmbedderMismatchError: It was made with another embedder.
        UnavailableError: It does not open. With a copy, that comes to light when it is first needed.
    """

    def __init__(
        self,
        *,
        folder: Path | None,
        url: str | None,
        api_key: str | None,
        stamp: EmbedderStamp,
        later: Callable[[Callable[[], None]], object],
    ) -> None:
        database = folder / "qdrant" if folder is not None else None
        self._connect = partial(QdrantPages, path=database, url=url, api_key=api_key, stamp=stamp)
        self._later = later
        self._database: QdrantPages | None = None
        self._copy: PageCopy | None = None
        # Loaded from the database, and not yet in the copy.
        self._to_complete: set[Owner] = set()
        copy = folder / "pages.sqlite" if folder is not None else None
        if copy is None or not PageCopy.is_there(copy, stamp=stamp):
            self._database = self._connect()
        if copy is not None:
            self._copy = PageCopy(copy, stamp=stamp)

    @property
    def is_open(self) -> bool:
        """Whether the database is open."""
        return self._database is not None

    @property
    def refused_owner(self) -> int:
        """Hits dropped because their owner was not the one asked for."""
        return self._database.refused_owner if self._database is not None else 0

    @property
    def database(self) -> QdrantPages:
        """The database. Opens it if need be.

        Raises:
            UnavailableError: It does not open.
        """
        if self._database is None:
            self._database = self._connect()
        return self._database

    def upsert(self, stored: StoredPage) -> None:
        """Writes a page under its id.

        Raises:
            UnavailableError: The database does not answer, or the disk is full.
        """
        self.database.upsert(stored)
        self._to_copy(lambda copy: copy.put([stored]))

    def upsert_threads(self, threads: list[StoredThread]) -> None:
        """Writes threads under their ids.

        Raises:
            UnavailableError: The database does not answer, or the disk is full.
        """
        self.database.upsert_threads(threads)
        self._to_copy(lambda copy: copy.put_threads(threads))

    def load(self, owner: Owner, *, limit: int) -> list[StoredPage]:
        """The owner's newest `limit` pages, oldest first."""
        if self._copy is None:
            return self.database.load(owner, limit=limit)
        pages = self._copy.load(owner, limit=limit)
        if pages is not None:
            return pages
        every = self.database.load(owner, limit=_EVERY_PAGE)
        self._to_complete.add(owner)
        self._later(lambda: self._complete(owner, every))
        return every[-limit:]

    def load_threads(self, owner: Owner) -> list[StoredThread]:
        """The owner's threads."""
        threads = self._copy.threads(owner) if self._copy is not None else None
        return self.database.load_threads(owner) if threads is None else threads

    def erase(self, owner: Owner) -> int:
        """Deletes all of an owner and returns how many pages there were."""
        erased = self.database.erase(owner)
        self._to_complete.discard(owner)
        self._to_copy(lambda copy: copy.erase(owner))
        return erased

    def drop_copy(self) -> None:
        """Deletes the copy; the next to open this has a new one made."""
        copy, self._copy = self._copy, None
        if copy is not None:
            copy.remove()

    def close(self) -> None:
        """Closes both. Harmless when repeated."""
        for part in (self._database, self._copy):
            if part is not None:
                part.close()

    def _complete(self, owner: Owner, pages: list[StoredPage]) -> None:
        if owner not in self._to_complete:
            return  # erased since, or completed by another load
        self._to_complete.discard(owner)
        threads = self.database.load_threads(owner)
        self._to_copy(lambda copy: copy.complete(owner, pages, threads))

    def _to_copy(self, write: Callable[[PageCopy], None]) -> None:
        """Writes to the copy; without it, should it not take that, the database is loaded from."""
        if self._copy is None:
            return
        try:
            write(self._copy)
        except UnavailableError as error:
            logger.warning("{}; pages will be loaded from the database", error)
            self.drop_copy()
