"""Opening a store for one owner: their pages and the index of them, in a worker thread."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.index import IndexedPage, IndexedTurn, PageIndex
from pipecat_voicectx.memory.pages import Owner, VoicePage
from pipecat_voicectx.memory.scene import SceneIndex
from pipecat_voicectx.memory.text import readable
from pipecat_voicectx.stores.collector import no_collections
from pipecat_voicectx.stores.embedders import Embedder
from pipecat_voicectx.stores.page_store import DEFAULT_LOAD_LIMIT, PageStore, open_page_store
from pipecat_voicectx.stores.stored_pages import StoredPage

__all__ = [
    "LoadedPages",
    "MemoryStatus",
    "PageStoreConfig",
    "indexed_page",
    "indexed_turns",
    "load_pages",
    "take_strangers",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageStoreConfig:
    """Where pages live. Give `path` (embedded Qdrant, one process) or `url` and `journal_dir` (a server)."""

    path: str | Path | None = None
    """Folder of an embedded Qdrant and what is kept beside it. None, without a `url`: pages last for the call."""
    url: str | None = None
    """Address of a Qdrant server."""
    api_key: str | None = None
    """Its key, where it asks for one."""
    journal_dir: str | Path | None = None
    """Folder of this worker's own for the journal and what no server keeps, with `url`; `path` has it by itself."""
    load_limit: int = DEFAULT_LOAD_LIMIT
    """Newest pages of an owner held in the in-process index."""

    def __post_init__(self) -> None:
        if self.load_limit < 1:
            raise UsageError(f"PageStoreConfig.load_limit must be 1 or more, is {self.load_limit}")

    @property
    def folder(self) -> Path | None:
        """Where a memory keeps what is not in the database. None: nowhere."""
        folder = self.path if self.path is not None else self.journal_dir
        return Path(folder).expanduser().absolute() if folder is not None else None

    def is_same_place(self, other: PageStoreConfig | None) -> bool:
        """Whether both name one store, however they write its path."""
        return other is not None and (self.folder, self.url) == (other.folder, other.url)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStatus:
    """What works, for reports and metrics."""

    loaded: bool
    """Whether earlier calls are available."""
    persistent: bool
    """Whether pages reach the store. False: no store was asked for, or it could not be opened."""
    pages: int
    failed_writes: int
    """Pages that are in the journal but not in the database, or in neither (the disk is full)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPages:
    """One owner's pages, searchable."""

    store: PageStore
    index: PageIndex
    stored: Sequence[StoredPage]
    """Oldest first."""
    pages: dict[str, VoicePage]
    """The same by id."""
    scenes: SceneIndex
    """What can be heard on them."""
    has_more: bool
    """Whether the database may have older ones."""


def load_pages(config: PageStoreConfig, *, owner: Owner, embedder: Embedder) -> LoadedPages:
    """Opens the store and indexes the owner's newest pages. Blocks.

    Raises:
        VoiceContextError: The store does not open.
    """
    store = open_page_store(
        config.path,
        embedder=embedder,
        url=config.url,
        api_key=config.api_key,
        journal_dir=config.journal_dir,
    )
    try:
        stored = store.load(owner, limit=config.load_limit)
        with no_collections():
            index = PageIndex(dimension=embedder.dimension, max_pages=max(10, 2 * config.load_limit))
            index.load(map(indexed_page, stored))
            pages = {item.page.id: item.page for item in stored}
            scenes = SceneIndex(pages.values())
    except BaseException:
        store.close()
        raise
    return LoadedPages(
        store=store,
        index=index,
        stored=stored,
        pages=pages,
        scenes=scenes,
        has_more=len(stored) == config.load_limit,
    )


def indexed_page(stored: StoredPage) -> IndexedPage:
    """A stored page as the index takes it."""
    page = stored.page
    return IndexedPage(
        key=page.id,
        session=page.session_id,
        turns=indexed_turns(page),
        terms=stored.terms,
        vectors=stored.vectors,
    )


def indexed_turns(page: VoicePage) -> tuple[IndexedTurn, IndexedTurn]:
    """A page's two turns as the index takes them."""
    user, bot = readable(page.user_text), readable(page.bot_text)
    return IndexedTurn(speaker="user", text=user), IndexedTurn(speaker="bot", text=bot)


def take_strangers(
    index: PageIndex, pages: MutableMapping[str, VoicePage], found: Iterable[StoredPage]
) -> bool:
    """Adds pages whose neighbours were not loaded. Each is a session of its own, so that no turn of another one stands
    in its window.

    Returns:
        Whether any of them is new.
    """
    new = [stored for stored in found if stored.page.id not in pages]
    for stored in new:
        page = pages[stored.page.id] = stored.page
        index.upsert(page.id, session=f"beyond {page.id}", turns=indexed_turns(page))
        index.set_vectors(page.id, stored.vectors)
    return bool(new)
