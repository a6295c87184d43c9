"""The page store on a Qdrant server: the same calls, over a socket, with the journal in a local folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from loguru import logger

from pipecat_voicectx.errors import EmbedderMismatchError, UnavailableError
from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.stores import qdrant_pages
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.page_store import PageStore, open_page_store
from pipecat_voicectx.stores.thread_keeper import ThreadKeeper
from pipecat_voicectx.testing.qdrant_server import QdrantServer
from tests.memory.builders import ANN, page

BEN = Owner(user_id="ben")


class Other(LexicalEmbedder):
    """Same vectors, another name."""

    @property
    def name(self) -> str:
        return "other"


@pytest.fixture
def server() -> Iterator[QdrantServer]:
    with QdrantServer() as running:
        yield running


def opened(server: QdrantServer, folder: Path) -> PageStore:
    return open_page_store(url=server.url, journal_dir=folder, embedder=LexicalEmbedder())


def write(store: PageStore, *pages: object) -> None:
    for item in pages:
        store.submit_write(item).stored.result(30)  # type: ignore[arg-type]


def test_pages_threads_and_searches_are_those_of_their_owner(server: QdrantServer, tmp_path: Path) -> None:
    store = opened(server, tmp_path / "a")
    write(store, page(1, "Two dogs.", ""), page(0, "A walrus.", "Noted."), page(0, "Ben here.", owner=BEN))
    write(store, page(1, "Two dogs and a cat.", "Lovely."))
    store.close()
    # Another process, with a journal of its own.
    store = opened(server, tmp_path / "b")
    assert [item.page.user_text for item in store.load(ANN)] == ["A walrus.", "Two dogs and a cat."]
    vector = LexicalEmbedder().embed(["walrus"])[0]
    hits = store.submit(lambda pages: pages.search(ANN, vector, limit=5)).result(30)
    assert hits[0][0].page.user_text == "A walrus."
    assert {stored.page.owner for stored, _ in hits} == {ANN}
    keeper = ThreadKeeper(owner=ANN, embedder_name="voicectx-lexical-256")
    made = keeper.loaded(store, store.load(ANN)).threads()
    store.flush(30)
    assert {thread.id for thread in store.load_threads(ANN)} == {thread.id for thread in made}
    assert store.load_threads(BEN) == []
    assert store.owners() == [ANN, BEN]
    assert store.erase(ANN) == 2
    assert store.load(ANN) == []
    assert store.load_threads(ANN) == []
    assert store.count(BEN) == 1
    store.close()


def test_more_pages_than_one_answer_holds_come_back_in_several(
    server: QdrantServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qdrant_pages, "_SCROLL", 7)
    store = opened(server, tmp_path)
    write(store, *[page(n) for n in range(20)])
    server.calls.clear()
    assert [item.page.index for item in store.load(ANN)] == list(range(20))
    assert sum(call.endswith("/scroll") for call in server.calls) == 3
    store.close()


def test_what_another_process_wrote_is_seen_because_nothing_of_a_server_is_copied(
    server: QdrantServer, tmp_path: Path
) -> None:
    one, other = opened(server, tmp_path / "a"), opened(server, tmp_path / "b")
    write(one, page(0))
    assert len(other.load(ANN)) == 1
    write(other, page(1))
    assert len(one.load(ANN)) == 2
    one.close()
    other.close()
    assert not list(tmp_path.rglob("*.sqlite"))


def test_a_server_that_is_gone_for_a_while_gets_what_was_said_meanwhile(
    server: QdrantServer, tmp_path: Path
) -> None:
    store = opened(server, tmp_path)
    write(store, page(0))
    server.stop()
    ticket = store.submit_write(page(1, "While it was gone."))
    ticket.journaled.result(30)
    with pytest.raises(UnavailableError):
        ticket.stored.result(30)
    assert store.stats().pending == 1
    server.start()
    write(store, page(2))
    assert [item.page.index for item in store.load(ANN)] == [0, 1, 2]
    assert store.stats().pending == 0
    store.close()


def test_a_server_that_is_not_there_and_one_with_another_embedder_are_refused(
    server: QdrantServer, tmp_path: Path
) -> None:
    opened(server, tmp_path).close()
    with pytest.raises(EmbedderMismatchError, match="other"):
        open_page_store(url=server.url, journal_dir=tmp_path, embedder=Other())
    server.stop()
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1"):
        opened(server, tmp_path)


class Repeats(QdrantServer):
    """Refuses pages, and answers for them, with the words that are on them."""

    def answer(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        if method == "PUT" and path.endswith("/points") and "pumpernickel" in str(body):
            raise ValueError(f"wrong input: {body}")
        if path.endswith("/scroll"):
            return {"points": [{"id": 1.5, "payload": "my door code is pumpernickel"}]}
        return super().answer(method, path, body)


def test_no_word_of_a_page_is_in_an_error_or_a_log_whatever_the_server_repeats(tmp_path: Path) -> None:
    lines: list[str] = []
    sink = logger.add(lambda line: lines.append(str(line)), level=0)
    told: list[str] = []
    try:
        with Repeats() as server:
            store = open_page_store(url=server.url, journal_dir=tmp_path, embedder=LexicalEmbedder())
            for number in range(2):
                ticket = store.submit_write(page(number, "my door code is pumpernickel", "Noted."))
                told.append(str(ticket.stored.exception(20)))
            with pytest.raises(UnavailableError) as refused:
                store.load(ANN)
            told.append(str(refused.value))
            store.close()
    finally:
        logger.remove(sink)
    assert "400" in told[0]
    assert lines
    assert [line for line in [*told, *lines] if "pumpernickel" in line or "door" in line] == []
