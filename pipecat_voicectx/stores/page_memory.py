"""One session's view of one owner's memory: the in-process index in front, the page store behind.

The event loop reads and adds here without ever waiting: `add` makes a page searchable by its words at once and queues
it for the store, `rank` works on what is in memory. Whatever blocks (opening, loading, embedding, writing) runs in
worker threads, and its results come back to the loop: vectors of a page when it is stored, the embedding of the words
that the user is still saying when it is ready. A query whose embedding is not ready is ranked by its words.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from pipecat_voicectx.errors import UnavailableError, UsageError, VoiceContextError
from pipecat_voicectx.memory.index import FloatArray, PageIndex
from pipecat_voicectx.memory.pages import Owner, VoicePage, emptied_page
from pipecat_voicectx.memory.ranking import PageQuery, RankedPage, RankingWeights, rank_pages
from pipecat_voicectx.memory.resume import LastSession, last_session
from pipecat_voicectx.memory.scene import HeardAs, SceneIndex
from pipecat_voicectx.memory.scene_ranking import with_scenes
from pipecat_voicectx.memory.text import readable
from pipecat_voicectx.memory.threads import VoiceThread, page_vector
from pipecat_voicectx.memory.tokens import tokenize
from pipecat_voicectx.projection.topics import TopicSummary
from pipecat_voicectx.stores.embedders import Embedder, EmbeddingThread
from pipecat_voicectx.stores.page_embedding import embed_page
from pipecat_voicectx.stores.page_loading import (
    LoadedPages,
    MemoryStatus,
    PageStoreConfig,
    indexed_page,
    indexed_turns,
    load_pages,
    take_strangers,
)
from pipecat_voicectx.stores.page_store import PageStore
from pipecat_voicectx.stores.query_search import QuerySearch
from pipecat_voicectx.stores.stored_pages import StoredPage
from pipecat_voicectx.stores.summarizer import BetterSummaries, PageSummarizer, with_summary
from pipecat_voicectx.stores.thread_keeper import ThreadKeeper
from pipecat_voicectx.stores.waiting import in_background, opened_in_background
from pipecat_voicectx.stores.write_ticket import PageWrite, WriteTicket

__all__ = ["MemoryStatus", "PageMemory", "PageStoreConfig", "PageWrite"]

# Chosen: what the database adds for an owner with more pages than are loaded.
_BEYOND_HITS = 10
# Chosen: among so many, a page that sounds as asked for is also ranked by its words.
_SCENE_HITS = 200
# Chosen: more than a block takes.
_HITS = 12
# Chosen: whoever asks for an erasure is told, rather than left waiting for a store that hangs.
_OPEN_SECS = 3.0


class PageMemory:
    """Pages of one owner, for one session. All methods are for the event loop's thread."""

    def __init__(
        self,
        *,
        owner: Owner,
        session_id: str,
        embedder: Embedder,
        store: PageStoreConfig | None,
        weights: RankingWeights | None = None,
        summarizer: PageSummarizer | None = None,
    ) -> None:
        self._owner = owner
        self._identified = False
        self._session_id = session_id
        self._embedder = embedder
        self._config = store
        self._weights = weights
        self._summaries = BetterSummaries(summarizer)
        self._store: PageStore | None = None
        self._pages: dict[str, VoicePage] = {}
        self._scenes = SceneIndex()
        self._index = PageIndex(dimension=embedder.dimension)
        # Added, but not searchable yet: what is in the window is not looked for, and need not be indexed on the path.
        self._unindexed: dict[str, VoicePage] = {}
        self._loaded = store is None
        self._opened = asyncio.Event()
        self._thread: ThreadPoolExecutor | None = None
        self._closed = False
        self._last_session: LastSession | None = None
        self._failed_writes = 0
        self._redacted: set[str] = set()
        self._has_more = False
        self._keeper = ThreadKeeper(owner=owner, embedder_name=embedder.name)
        self._search = QuerySearch(
            embedder=embedder,
            worker=self._worker,
            index=lambda: self._index,
            extend=self._search_beyond,
            weights=weights,
        )

    @property
    def pages(self) -> Mapping[str, VoicePage]:
        """All pages in memory by id."""
        return self._pages

    @property
    def previous_session(self) -> LastSession | None:
        """The owner's session before this one. None: not loaded, or there was none."""
        return self._last_session

    @property
    def failed_summaries(self) -> int:
        """Pages that kept their rule-based summary because the summarizer failed."""
        return self._summaries.failed

    def status(self) -> MemoryStatus:
        """What works."""
        return MemoryStatus(
            loaded=self._loaded,
            persistent=self._store is not None,
            pages=len(self._pages),
            failed_writes=self._failed_writes,
        )

    async def open(self) -> None:
        """Opens the store and loads the owner's pages, in worker threads. Pages added meanwhile are kept.

        Raises:
            VoiceContextError: The store does not open; the session goes on with what is said in it.
        """
        if self._config is None or self._store is not None:
            return
        load = partial(load_pages, self._config, owner=self._owner, embedder=self._embedder)
        try:
            loaded = await opened_in_background(load, undo=lambda loaded: loaded.store.close())
            if self._closed:
                await in_background(loaded.store.close)
                return
            self._store = loaded.store
            last = await in_background(self._session_before, loaded.pages)
            self._take(loaded, last)
            # Searchable from here on; the database itself takes its time to open.
            self._keeper.book = await in_background(self._keeper.loaded, loaded.store, loaded.stored)
            await in_background(loaded.store.ready)
        finally:
            self._opened.set()

    def _session_before(self, pages: Mapping[str, VoicePage]) -> LastSession | None:
        return last_session(list(pages.values()), current_session_id=self._session_id)

    def _take(self, loaded: LoadedPages, last: LastSession | None) -> None:
        current = self._pages
        self._index, self._pages, self._scenes = loaded.index, loaded.pages, loaded.scenes
        self._has_more, self._last_session = loaded.has_more, last
        self._loaded = True
        for page in current.values():
            self._index_page(page)

    def check_identity(self, owner: Owner, store: PageStoreConfig | None) -> None:
        """Whether this session's pages may become `owner`'s, in `store`.

        Raises:
            UsageError: It has a store, open by now or not, with another owner's pages, or another one is open; or the
                caller was identified as somebody else before.
        """
        if (self._identified or self._config is not None) and owner != self._owner:
            raise UsageError("this call's pages are another owner's already; identify anonymous callers only")
        if self._store is not None and store is not None and not store.is_same_place(self._config):
            raise UsageError("this call's pages are kept in another store already")

    async def identify(self, owner: Owner, store: PageStoreConfig | None) -> list[VoicePage]:
        """The caller turned out to be `owner`: loads their pages; this session's become theirs.

        Returns:
            This session's pages, to be added and written again; [] when they are the caller's already.

        Raises:
            UsageError: As `check_identity`.
            VoiceContextError: The store does not open; the session goes on with what is said in it.
        """
        self.check_identity(owner, store)
        if self._store is not None:
            return []
        self._owner, self._identified = owner, True
        self._keeper.identify(owner)
        own = [replace(page, owner=owner) for page in self._pages.values()]
        self._pages = {page.id: page for page in own}
        if store is not None:
            self._config, self._loaded, self._opened = store, False, asyncio.Event()
            await self.open()
        return own

    def preload(self, stored: Sequence[StoredPage]) -> None:
        """Adds pages that are kept elsewhere, with their vectors; they are not written. For benches and imports."""
        if not len(self._index):
            self._index.load(map(indexed_page, stored))
        for item in stored:
            self._index_page(item.page)
            self._index.set_vectors(item.page.id, item.vectors)

    async def redact(self, page_ids: Collection[str]) -> None:
        """Empties pages because the caller wants forgotten what they say: here at once, then on the disk.

        What is written of them later in this session is emptied as well.

        Raises:
            VoiceContextError: The disk or the database does not take it.
        """
        self._redacted.update(page_ids)
        emptied = [emptied_page(self._pages[each]) for each in sorted(self._redacted) if each in self._pages]
        emptied = [page for page in emptied if page.id in page_ids]
        for page in emptied:
            self._index_page(page)
        store = self._store
        if store is not None and emptied:
            await in_background(store.redact, emptied)
        if emptied and not self._closed:
            ids = [page.id for page in emptied]
            await self._keeper.renew(ids, self._pages, worker=self._worker(), store=store)

    def is_forgotten(self, page_id: str) -> bool:
        """Whether the caller wants forgotten what a page says: nothing is to be learned from it any more."""
        return page_id in self._redacted

    async def erase(self) -> None:
        """Everything of the owner goes: what is here is emptied, what is in the store is deleted with its threads.

        Raises:
            VoiceContextError: The store is not open, or the disk or the database does not take it.
        """
        await self.redact(list(self._pages))
        store = await self._opened_store()
        if store is not None:
            await self.redact(list(self._pages))  # what was loaded meanwhile
            await in_background(store.erase, self._owner)

    async def _opened_store(self) -> PageStore | None:
        """The store, waited for while it opens. None: none was asked for.

        Raises:
            UnavailableError: It takes too long, or did not open.
        """
        if self._config is None:
            return None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_OPEN_SECS):
                await self._opened.wait()
        if self._store is None:
            raise UnavailableError("what earlier calls said cannot be reached: their store is not open")
        return self._store

    def add(self, page: VoicePage) -> PageWrite:
        """Makes a page searchable now. Await the returned write's `journaled`, then its `settled`."""
        if page.id in self._redacted:
            page = emptied_page(page)
        self._pages[page.id] = self._unindexed[page.id] = page
        return PageWrite(page, journal=self._journal, settle=self._settle)

    def prepare_query(self, text: str) -> Callable[[], Coroutine[Any, Any, None]] | None:
        """The user is saying this. Await the returned function to embed it; None when that is under way already."""
        self._index.prepare_words(tokenize(text))
        return self._search.run if self._search.want(text) else None

    @property
    def latest_heard(self) -> str:
        """What `prepare_query` was last called with."""
        return self._search.latest

    def has_embedding_for(self, text: str) -> bool:
        """Whether a ranking of `text` would use meaning."""
        return self._search.usable(text) is not None

    def query_vector(self, text: str) -> FloatArray | None:
        """The embedding of `text`, or of nearly all of it, where it is ready."""
        query = self._search.usable(text)
        return query.vector if query is not None else None

    def prepare_ranking(self, *, exclude: Collection[str], limit: int = _HITS) -> None:
        """Ranks for what was heard last, so that `rank` at the turn's end need not.

        Args:
            exclude: What the window is going to show then.
            limit: As `rank` is going to be asked for.
        """
        self._index_rest(exclude=exclude)
        self._search.prepare(exclude=exclude, limit=2 * limit)

    def rank(
        self, text: str, *, exclude: Collection[str] = (), limit: int = _HITS, provisional: bool = False
    ) -> list[RankedPage]:
        """The best pages for `text`, with what is ready now; what came too late for the turn before is among them.

        Args:
            text: The request.
            exclude: Pages that are in the window anyway.
            limit: Most pages.
            provisional: The words may not be all: leaves no trace.
        """
        self._index_rest(exclude=exclude)
        sounding = self.sounding(text)
        wanted = 2 * limit if not sounding else _SCENE_HITS
        hits = self._search.rank(text, exclude=exclude, limit=wanted, provisional=provisional)
        hits = self._keeper.with_bonus(hits)
        if sounding:
            hits = with_scenes(hits, {key for key in sounding if key not in exclude}, self._pages)
        return hits[:limit]

    def sounding(self, text: str) -> Mapping[str, frozenset[HeardAs]]:
        """Pages that `text` asks for by how they sounded, and what of it they have."""
        return self._scenes.matching(text)

    def rank_related(
        self, page: VoicePage, *, exclude: Collection[str] = (), limit: int = 20
    ) -> list[RankedPage]:
        """The best pages for what another page was about."""
        self._index_rest()
        vectors = self._index.vectors_of(page.id)
        vector = page_vector(list(vectors)) if vectors is not None else None
        cosines = self._index.cosines(vector) if vector is not None else None
        query = PageQuery(text=f"{readable(page.user_text)} {readable(page.bot_text)}", cosines=cosines)
        return rank_pages(self._index, query, weights=self._weights, exclude={*exclude, page.id}, limit=limit)

    def threads(self) -> list[VoiceThread]:
        """The owner's threads, oldest first."""
        return self._keeper.book.threads()

    def threads_of(self, page_id: str) -> list[VoiceThread]:
        """The threads a page belongs to."""
        return self._keeper.book.threads_of(page_id)

    def topics(self, page_ids: Iterable[str]) -> list[TopicSummary]:
        """The threads of these pages that have been summarized, each once, in the pages' order."""
        threads = {t.id: t for page_id in page_ids for t in self.threads_of(page_id) if t.summary}
        return [TopicSummary(page_ids=frozenset(t.page_ids), text=t.summary) for t in threads.values()]

    def latest(self, count: int, *, exclude: Collection[str] = ()) -> list[VoicePage]:
        """The newest pages, newest first."""
        newest = sorted(self._pages.values(), key=lambda p: (p.started_wall_secs, p.index), reverse=True)
        return [p for p in newest if p.id not in exclude and (p.user_text or p.bot_text)][:count]

    def _worker(self) -> ThreadPoolExecutor:
        """The embedding thread, held from the first use on: a memory that never ran holds none."""
        if self._closed:
            raise UnavailableError("this session's memory is closed")
        if self._thread is None:
            self._thread = EmbeddingThread.acquire()
        return self._thread

    async def close(self) -> None:
        """Waits for writes that are queued and gives the store back. Harmless when repeated."""
        self._closed = True
        if self._thread is not None:
            self._thread = None
            EmbeddingThread.release()
        store, self._store = self._store, None
        if store is not None:
            await in_background(store.close)

    def _index_page(self, page: VoicePage) -> None:
        self._pages[page.id] = page
        self._unindexed.pop(page.id, None)
        self._scenes.add(page)
        self._index.upsert(page.id, session=page.session_id, turns=indexed_turns(page))

    async def _journal(self, page: VoicePage) -> tuple[VoicePage, WriteTicket | None]:
        self._index_rest()
        page = self._summarize(page)
        if self._config is not None:
            await self._opened.wait()
        if page.id in self._redacted:  # while it waited
            page = emptied_page(page)
        ticket = self._store.submit_write(page) if self._store is not None else None
        if ticket is not None:
            try:
                await in_background(ticket.journaled.result)
            except VoiceContextError:
                self._failed_writes += 1
                raise
        return page, ticket

    def _index_rest(self, *, exclude: Collection[str] = ()) -> None:
        """Indexes what was added, in the order of its arrival, unless all of it is excluded from the search."""
        if any(page_id not in exclude for page_id in self._unindexed):
            for page in list(self._unindexed.values()):
                self._index_page(page)

    def _summarize(self, page: VoicePage) -> VoicePage:
        summarized = with_summary(page)
        if self._pages.get(page.id) is page:
            self._pages[page.id] = summarized
        return summarized

    async def _settle(self, page: VoicePage, ticket: WriteTicket | None) -> None:
        """What follows the acknowledgement: vectors and threads."""
        loop = asyncio.get_running_loop()
        try:
            if ticket is None:
                vectors = await loop.run_in_executor(self._worker(), embed_page, self._embedder, page)
            else:
                vectors = (await in_background(ticket.stored.result)).vectors
        except VoiceContextError as error:
            if ticket is None:
                self._search.note_failure(error)
            else:
                self._failed_writes += 1
            return
        self._set_vectors(page, vectors)
        if page.user_text and page.bot_text and not self._closed:
            await self._keeper.join(
                page.id, self._index, self._pages, worker=self._worker(), store=self._store
            )
            await self._summarize_better(page)

    async def _summarize_better(self, page: VoicePage) -> None:
        better = await self._summaries.better(page)
        if better is not None and self._pages.get(page.id) == page:
            self._pages[page.id] = better
            if self._store is not None:
                self._store.submit_write(better)

    def _set_vectors(self, page: VoicePage, vectors: tuple[FloatArray | None, FloatArray | None]) -> None:
        current = self._pages.get(page.id)
        if current is None:
            return
        user = vectors[0] if current.user_text == page.user_text else None
        bot = vectors[1] if current.bot_text == page.bot_text else None
        self._index.set_vectors(page.id, (user, bot))

    async def _search_beyond(self, vector: FloatArray) -> bool:
        """For an owner with more pages than are loaded: takes the database's nearest ones into the index.

        They come as soon as the database answers, for this turn or the next; nobody waits for them.

        Returns:
            Whether there are new ones.
        """
        store = self._store
        if store is None or not self._has_more:
            return False
        search = store.submit(lambda pages: pages.search(self._owner, vector, limit=_BEYOND_HITS))
        try:
            hits = await in_background(search.result)
        except VoiceContextError:
            return False
        return take_strangers(self._index, self._pages, (stored for stored, _score in hits))
