"""What a page store tells of its writes."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

from pipecat_voicectx.stores.stored_pages import StoredPage

__all__ = ["PageStoreStats", "WriteTicket"]


@dataclass(frozen=True, slots=True)
class WriteTicket:
    """The two ends of one write."""

    journaled: Future[None]
    """Done: no crash loses the page. Fails with UnavailableError when the disk does not take it."""
    stored: Future[StoredPage]
    """Done: the page is in the database, with these vectors. Fails while the database is down; it is tried again."""


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
