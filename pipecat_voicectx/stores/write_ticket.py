"""What a page store tells of its writes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass

from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.stores.stored_pages import StoredPage

__all__ = ["PageStoreStats", "PageWrite", "WriteTicket"]


@dataclass(frozen=True, slots=True)
class WriteTicket:
    """The two ends of one write."""

    journaled: Future[None]
    """Done: no crash loses the page. Fails with UnavailableError when the disk does not take it."""
    stored: Future[StoredPage]
    """Done: the page is in the database, with these vectors. Fails while the database is down; it is tried again."""


class PageWrite:
    """One page of a session on its way to the store. Await `journaled` first, then `settled`.

    Args:
        page: The page.
        journal: Writes it down; returns it as it was written, with its ticket (None: there is no store).
        settle: What follows the acknowledgement.
    """

    def __init__(
        self,
        page: VoicePage,
        *,
        journal: Callable[[VoicePage], Awaitable[tuple[VoicePage, WriteTicket | None]]],
        settle: Callable[[VoicePage, WriteTicket | None], Awaitable[None]],
    ) -> None:
        self._page = page
        self._ticket: WriteTicket | None = None
        self._journal = journal
        self._settle = settle

    async def journaled(self) -> bool:
        """Waits until no crash can lose the page. False: there is no store, it is kept for this session only.

        Raises:
            UnavailableError: The disk does not take it.
        """
        self._page, self._ticket = await self._journal(self._page)
        return self._ticket is not None

    async def settled(self) -> None:
        """Waits until the page is embedded, in the database and in its threads, or that has failed (counted)."""
        await self._settle(self._page, self._ticket)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageStoreStats:
    """Counters since the store was opened in this process."""

    written: int
    replayed: int
    """Entries found in the journal at the start."""
    pending: int
    """Acknowledged, but not in the database yet."""
    poisoned: int
    """Entries set aside in `poison.jsonl`: damaged, or refused for good."""
    torn: int
    unembedded: int
    """Pages stored without vectors because the embedder failed; found by their words only."""
    refused_owner: int
