"""An owner's pages are loaded from the copy: without the database, and without making anything of them again."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from pipecat_voicectx.errors import UnavailableError
from pipecat_voicectx.memory import turn_terms
from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.memory.threads import ThreadBook
from pipecat_voicectx.stores import copied_pages
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.journal import Journal
from pipecat_voicectx.stores.page_copy import PageCopy
from pipecat_voicectx.stores.page_loading import load_pages
from pipecat_voicectx.stores.page_memory import PageMemory, PageStoreConfig
from pipecat_voicectx.stores.page_store import PageStore, open_page_store
from pipecat_voicectx.stores.thread_keeper import ThreadKeeper
from tests.memory.builders import ANN, page

BEN = Owner(user_id="ben")
PAGES = [page(n, f"I have {n} dogs in house {n}.", "How nice for them.") for n in range(30)]


def opened(folder: Path) -> PageStore:
    return open_page_store(folder, embedder=LexicalEmbedder())


def fill(folder: Path) -> None:
    """A store with pages, threads and a complete copy."""
    store = opened(folder)
    for each in (*PAGES, page(0, "Ben's own words.", owner=BEN)):
        store.submit_write(each).stored.result(30)
    ThreadKeeper(owner=ANN, embedder_name="voicectx-lexical-256").loaded(store, store.load(ANN))
    store.load(BEN)
    store.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fill(tmp_path)
    return tmp_path


def refuse(*_: object, **__: object) -> None:
    raise UnavailableError("refused")


def test_pages_are_searchable_without_the_database_and_nothing_is_made_of_them_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in (
        (copied_pages, "QdrantPages"),
        (turn_terms, "tokenize"),
        (turn_terms, "given_answers"),
        (turn_terms, "is_question"),
        (ThreadBook, "add"),
    ):
        monkeypatch.setattr(module, name, refuse)
    loaded = load_pages(PageStoreConfig(path=folder), owner=ANN, embedder=LexicalEmbedder())
    try:
        assert [item.page for item in loaded.stored] == PAGES
        assert len(loaded.index) == len(PAGES)
        book = ThreadKeeper(owner=ANN, embedder_name="voicectx-lexical-256").loaded(
            loaded.store, loaded.stored
        )
        assert len(book), "threads came with it"
        with pytest.raises(UnavailableError, match="refused"):
            loaded.store.ready()
    finally:
        loaded.store.close()


def test_the_copy_gives_what_the_database_gives(folder: Path) -> None:
    store = opened(folder)
    try:
        copied = store.load(ANN)
        direct = store.submit(lambda pages: pages.load(ANN, limit=100)).result(30)
        assert [item.page for item in copied] == [item.page for item in direct]
        for one, other in zip(copied, direct, strict=True):
            for a, b in zip(one.vectors, other.vectors, strict=True):
                np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
        threads = store.submit(lambda pages: pages.load_threads(ANN)).result(30)
        assert {t.id: t.page_ids for t in store.load_threads(ANN)} == {t.id: t.page_ids for t in threads}
        assert [item.page.index for item in store.load(ANN, limit=2)] == [28, 29]
    finally:
        store.close()


def test_what_is_written_and_erased_afterwards_is_in_the_copy_as_well(folder: Path) -> None:
    store = opened(folder)
    late = page(30, "And a walrus named Zoe.", "", session="s2")
    store.submit_write(late).stored.result(30)
    assert store.load(ANN)[-1].page == late
    assert store.load(ANN)[-1].vectors[1] is None
    assert store.erase(BEN) == 1
    store.close()
    store = opened(folder)
    assert store.load(ANN)[-1].page == late
    assert store.load(BEN) == []
    store.close()
    assert b"own words" not in (folder / "pages.sqlite").read_bytes()


@pytest.mark.parametrize("damage", ["header", "page", "stamp", "gone"])
def test_a_copy_that_is_damaged_or_of_another_version_is_made_anew(folder: Path, damage: str) -> None:
    path = folder / "pages.sqlite"
    if damage == "header":
        path.write_bytes(b"no database at all" + path.read_bytes()[18:])
    elif damage == "gone":
        path.unlink()
    else:
        change = "UPDATE pages SET page = '{'" if damage == "page" else "UPDATE state SET value = 'older'"
        with sqlite3.connect(path) as connection:
            connection.execute(change)
        connection.close()
    for _ in range(2):
        store = opened(folder)
        assert [item.page for item in store.load(ANN)] == PAGES
        store.close()


def test_a_copy_that_takes_no_writes_is_dropped_and_the_page_is_stored(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(folder)
    monkeypatch.setattr(PageCopy, "put", refuse)
    late = page(30, "And a walrus.", "", session="s2")
    store.submit_write(late).stored.result(30)
    assert store.load(ANN)[-1].page == late
    store.close()
    assert not (folder / "pages.sqlite").exists()


def test_an_owner_who_is_new_is_complete_from_the_first_call_on(tmp_path: Path) -> None:
    async def call() -> None:
        memory = PageMemory(
            owner=ANN, session_id="s1", embedder=LexicalEmbedder(), store=PageStoreConfig(path=tmp_path)
        )
        await memory.open()
        await memory.add(PAGES[0]).journaled()
        await memory.close()

    asyncio.run(call())
    with sqlite3.connect(tmp_path / "pages.sqlite") as connection:
        assert connection.execute("SELECT user FROM complete").fetchall() == [("ann",)]
        assert connection.execute("SELECT count(*) FROM pages").fetchone() == (1,)
    connection.close()


def test_pages_that_only_the_journal_has_reach_the_database_also_when_the_copy_is_incomplete(
    tmp_path: Path,
) -> None:
    store = opened(tmp_path)
    # Ann is never loaded here: the copy does not claim to have all of hers.
    store.submit_write(PAGES[0]).stored.result(30)
    store.close()
    # As a process leaves it that was killed between journal and database.
    journal = Journal.open(tmp_path / "journal.jsonl")
    journal.append({"op": "page", "page": PAGES[1].to_json()})
    journal.close()
    store = opened(tmp_path)
    try:
        assert [item.page for item in store.load(ANN)] == PAGES[:2]
        store.ready()
        database = store.submit(lambda pages: pages.load(ANN, limit=10)).result(30)
        assert [item.page for item in database] == PAGES[:2]
        assert store.stats().pending == 0
    finally:
        store.close()
