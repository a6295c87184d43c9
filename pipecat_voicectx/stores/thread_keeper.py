"""Keeps one owner's threads: loads them, puts embedded pages into them, refreshes their summaries, stores what changed.

Nothing here is on the response path but `with_bonus`, which looks a few pages up. Refreshing is coalesced: whatever
became stale while a refresh ran is done by the same run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace

import numpy as np

from pipecat_voicectx.memory.index import ROWS_PER_PAGE, FloatArray, PageIndex
from pipecat_voicectx.memory.pages import Owner, VoicePage
from pipecat_voicectx.memory.ranking import RankedPage
from pipecat_voicectx.memory.threads import (
    ThreadBook,
    ThreadConfig,
    VoiceThread,
    page_vector,
    summarize_thread,
)
from pipecat_voicectx.stores.page_store import PageStore
from pipecat_voicectx.stores.stored_pages import StoredPage, StoredThread

__all__ = ["ThreadKeeper"]

# A page that shares a thread with one of the best three hits. Measured on LoCoMo's first half: 0.05 to 0.3 change
# recall@5 by at most half a point, so it serves what that data does not have: a request that leans on its topic.
_BONUS_HITS = 3
_BONUS = 0.1


class ThreadKeeper:
    """The threads of one owner in one session. For the event loop's thread, save `loaded`."""

    def __init__(self, *, owner: Owner, embedder_name: str) -> None:
        self._owner = owner
        self.book = ThreadBook(config=ThreadConfig.for_embedder(embedder_name))
        """The threads as they are now."""
        self._stale: dict[str, VoiceThread] = {}
        self._refreshing = False

    def identify(self, owner: Owner) -> None:
        """Whose threads are loaded and stored from now on."""
        self._owner = owner

    def loaded(self, store: PageStore, stored: Sequence[StoredPage]) -> ThreadBook:
        """The stored threads of these pages; pages that a crash kept out of them join now. Blocks."""
        book = ThreadBook(config=self.book.config)
        there = {item.page.id for item in stored}
        for thread in store.load_threads(self._owner):
            pages = [page for page in thread.page_ids if page in there]
            if pages:
                kept = VoiceThread(thread.id, thread.leader, pages, thread.summary, thread.summarized_pages)
                book.restore([kept])
        changed: dict[str, VoiceThread] = {}
        for item in stored:
            if item.page.id in book or not (item.page.user_text and item.page.bot_text):
                continue
            vector = page_vector(item.vectors)
            if vector is not None:
                changed.update((thread.id, thread) for thread in book.add(item.page.id, vector))
        if changed:
            store.submit_threads([self._stored(thread) for thread in changed.values()])
        return book

    def with_bonus(self, hits: list[RankedPage]) -> list[RankedPage]:
        """The hits with a small bonus for those that share a thread with the best, ordered anew."""
        bonus = self.book.bonus([hit.key for hit in hits[:_BONUS_HITS]], weight=_BONUS)
        if not bonus:
            return hits
        raised = [replace(hit, score=hit.score + bonus.get(hit.key, 0.0)) for hit in hits]
        return sorted(raised, key=lambda hit: -hit.score)

    async def join(
        self,
        page_id: str,
        index: PageIndex,
        pages: Mapping[str, VoicePage],
        *,
        worker: Executor,
        store: PageStore | None,
    ) -> None:
        """Puts an embedded page into its threads and refreshes what that changed."""
        vectors = index.vectors_of(page_id)
        vector = page_vector([row if row.any() else None for row in vectors]) if vectors is not None else None
        if vector is None:
            return
        loop = asyncio.get_running_loop()
        similar = await loop.run_in_executor(
            worker, _similar, index, page_id, vector, self.book.config.threshold
        )
        for thread in self.book.add(page_id, vector, similar=similar):
            self._stale[thread.id] = thread
        if not self._refreshing:
            await self._refresh(pages, worker, store)

    async def renew(
        self,
        page_ids: Sequence[str],
        pages: Mapping[str, VoicePage],
        *,
        worker: Executor,
        store: PageStore | None,
    ) -> None:
        """Pages changed: writes the summaries of their threads anew."""
        for page_id in page_ids:
            self._stale.update((thread.id, thread) for thread in self.book.threads_of(page_id))
        if self._stale and not self._refreshing:
            await self._refresh(pages, worker, store)

    async def _refresh(
        self, pages: Mapping[str, VoicePage], worker: Executor, store: PageStore | None
    ) -> None:
        self._refreshing = True
        try:
            while self._stale:
                stale, self._stale = list(self._stale.values()), {}
                members = [[pages[i] for i in thread.page_ids if i in pages] for thread in stale]
                summaries = await asyncio.get_running_loop().run_in_executor(worker, _summaries, members)
                for thread, summary in zip(stale, summaries, strict=True):
                    thread.summary, thread.summarized_pages = summary, len(thread.page_ids)
                if store is not None:
                    store.submit_threads([self._stored(thread) for thread in stale])
        finally:
            self._refreshing = False

    def _stored(self, thread: VoiceThread) -> StoredThread:
        return StoredThread(
            id=thread.id,
            owner=self._owner,
            leader=thread.leader,
            page_ids=tuple(thread.page_ids),
            summary=thread.summary,
            summarized_pages=thread.summarized_pages,
        )


def _similar(index: PageIndex, page_id: str, vector: FloatArray, threshold: float) -> list[str]:
    """Pages near a vector, nearest first."""
    cosines = index.cosines(vector)
    best: dict[str, float] = {}
    for row in np.flatnonzero(cosines >= threshold):
        key = index.key_at(int(row) // ROWS_PER_PAGE)
        if key is not None and key != page_id:
            best[key] = max(best.get(key, -1.0), float(cosines[row]))
    return sorted(best, key=lambda key: -best[key])


def _summaries(threads: list[list[VoicePage]]) -> list[str]:
    return [summarize_thread(pages) for pages in threads]
