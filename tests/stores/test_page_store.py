from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from pipecat_voicectx.errors import (
    EmbedderMismatchError,
    StoreLockedError,
    UnavailableError,
    UsageError,
)
from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.memory.pages import Owner, emptied_page
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.page_store import PageStore, known_stores, open_page_store, reembed
from tests.memory.builders import ANN, page

BEN = Owner(user_id="ben")


class OtherEmbedder(LexicalEmbedder):
    """Same vectors, another name."""

    @property
    def name(self) -> str:
        return "other"


class FailingEmbedder(LexicalEmbedder):
    """Fails while told to."""

    failing = True

    def embed(self, texts: Sequence[str]) -> list[FloatArray]:
        if self.failing:
            raise UnavailableError("model gone")
        return super().embed(texts)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[PageStore]:
    opened = open_page_store(tmp_path / "m", embedder=LexicalEmbedder())
    yield opened
    opened.close()


def write(store: PageStore, *pages: object) -> None:
    for item in pages:
        ticket = store.submit_write(item)  # type: ignore[arg-type]
        ticket.journaled.result(10)
        ticket.stored.result(10)


def test_pages_come_back_with_their_vectors_oldest_first(store: PageStore) -> None:
    pages = [page(n, f"I have {n} dogs", "Lovely") for n in (2, 0, 1)]
    write(store, *pages)
    loaded = store.load(ANN)
    assert [item.page for item in loaded] == sorted(pages, key=lambda p: p.index)
    user, bot = loaded[0].vectors
    assert user is not None
    assert bot is not None
    assert np.linalg.norm(user) == pytest.approx(1, abs=1e-3)


def test_writing_a_page_again_replaces_it(store: PageStore) -> None:
    write(store, page(0, "List", ""), page(0, "List", "One is red."))
    assert [item.page.bot_text for item in store.load(ANN)] == ["One is red."]
    assert store.count(ANN) == 1


def test_an_owner_sees_only_pages_of_both_its_names(store: PageStore) -> None:
    other_agent = Owner(user_id="ann", agent_id="other")
    write(store, page(0), page(0, owner=BEN), page(0, owner=other_agent))
    assert {item.page.owner for item in store.load(ANN)} == {ANN}
    assert store.owners() == sorted([ANN, BEN, other_agent], key=lambda o: (o.user_id, o.agent_id))
    vector = LexicalEmbedder().embed(["Hello there."])[0]
    hits = store.submit(lambda database: database.search(BEN, vector, limit=5)).result(10)
    assert [hit.page.owner for hit, _ in hits] == [BEN]
    foreign = page(0, owner=BEN).id
    assert store.submit(lambda database: database.get(ANN, foreign)).result(10) is None


def test_a_hit_of_another_owner_is_dropped_and_counted(store: PageStore) -> None:
    write(store, page(0, owner=BEN))

    def lie(database: object) -> object:
        payload = {"page": json.dumps(page(0, owner=BEN).to_json()), "vectors": "."}
        return database._stored(ANN, payload)  # type: ignore[attr-defined]

    assert store.submit(lie).result(10) is None
    assert store.stats().refused_owner == 1


def test_the_newest_pages_are_loaded_when_there_are_too_many(store: PageStore) -> None:
    write(store, *[page(n) for n in range(6)])
    assert [item.page.index for item in store.load(ANN, limit=2)] == [4, 5]


def test_export_holds_everything_and_erase_leaves_no_trace_in_any_file(
    tmp_path: Path, store: PageStore
) -> None:
    write(store, page(0, "my secret walrus", "noted"), page(0, "ben stays", "yes", owner=BEN))
    (exported,) = store.export(ANN)
    assert exported["user_text"] == "my secret walrus"
    json.dumps(exported)
    assert store.erase(ANN) == 1
    assert store.load(ANN) == []
    assert store.count(BEN) == 1
    assert b"walrus" not in (tmp_path / "m" / "journal.jsonl").read_bytes()


def test_F16_the_same_path_is_one_store_and_closes_with_its_last_user(tmp_path: Path) -> None:
    first = open_page_store(tmp_path / "m", embedder=LexicalEmbedder())
    second = open_page_store(tmp_path / "m", embedder=LexicalEmbedder())
    assert first is second
    first.close()
    write(second, page(0))
    second.close()
    assert str(tmp_path / "m") not in known_stores()
    with pytest.raises(UnavailableError):
        second.submit_write(page(1)).journaled.result(10)


def test_F15_another_embedder_is_refused_with_the_way_out_and_reembed_is_that_way(tmp_path: Path) -> None:
    store = open_page_store(tmp_path / "m", embedder=LexicalEmbedder())
    write(store, page(0), page(0, owner=BEN))
    with pytest.raises(UsageError, match="open in this process"):
        open_page_store(tmp_path / "m", embedder=OtherEmbedder())
    store.close()
    with pytest.raises(EmbedderMismatchError, match=r"voicectx-lexical-256.*'other'.*reembed"):
        open_page_store(tmp_path / "m", embedder=OtherEmbedder())
    assert reembed(tmp_path / "m", LexicalEmbedder(), OtherEmbedder()) == 2
    store = open_page_store(tmp_path / "m", embedder=OtherEmbedder())
    assert [item.page for item in store.load(ANN)] == [page(0)]
    assert store.load(ANN)[0].vectors[0] is not None
    store.close()


def test_wrong_arguments_are_errors_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        open_page_store(embedder=LexicalEmbedder())
    with pytest.raises(UsageError, match="journal_dir"):
        open_page_store(url="http://localhost:1", embedder=LexicalEmbedder())


def test_a_server_that_does_not_answer_is_unavailable_and_leaves_no_lock(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(UnavailableError, match=r"failed|does not open"):
            open_page_store(url="http://127.0.0.1:9", journal_dir=tmp_path, embedder=LexicalEmbedder())


def test_pages_whose_embedding_failed_are_stored_by_their_words(tmp_path: Path) -> None:
    store = open_page_store(tmp_path / "m", embedder=FailingEmbedder())
    write(store, page(0))
    assert store.stats().unembedded == 1
    assert store.load(ANN)[0].vectors == (None, None)
    store.close()


def test_a_database_that_fails_once_gets_the_page_with_the_next_write(store: PageStore) -> None:
    database = store._pages
    upsert, failures = database.upsert, [UnavailableError("away")]

    def flaky(stored: object) -> None:
        if failures:
            raise failures.pop()
        upsert(stored)  # type: ignore[arg-type]

    database.upsert = flaky  # type: ignore[method-assign, assignment]
    ticket = store.submit_write(page(0))
    ticket.journaled.result(10)
    with pytest.raises(UnavailableError):
        ticket.stored.result(10)
    assert [item.page.index for item in store.load(ANN)] == [0]
    assert store.stats().pending == 1
    write(store, page(1))
    assert store.count(ANN) == 2
    assert store.stats().pending == 0


def test_an_earlier_version_that_the_database_did_not_take_never_comes_over_a_later_one(
    store: PageStore,
) -> None:
    # Of a kind that tests/properties/test_page_store_life.py looks for in any order.
    database = store._pages
    upsert, failures = database.upsert, [UnavailableError("away"), UnavailableError("away")]

    def flaky(stored: object) -> None:
        if failures:
            raise failures.pop()
        upsert(stored)  # type: ignore[arg-type]

    database.upsert = flaky  # type: ignore[method-assign, assignment]
    store.submit_write(page(0, "List", "")).journaled.result(10)
    write(store, page(0, "List", "One is red."))
    assert failures == [], "both the write and its repetition before the next one have failed"
    assert [item.page.bot_text for item in store.load(ANN)] == ["One is red."]
    write(store, page(1, "And now?", "Two."))
    assert [item.page.bot_text for item in store.load(ANN)] == ["One is red.", "Two."]


def test_an_owner_who_is_erased_while_their_pages_are_loaded_is_in_no_file(
    tmp_path: Path, store: PageStore
) -> None:
    # Of a kind that tests/properties/test_page_store_life.py looks for in any order.
    write(store, page(0, "my secret walrus", "noted"))
    # What is left to be done of the load is queued behind the erasure.
    store._thread.submit(lambda: (store._load(ANN, 10), store._erase(ANN))).result(10)
    store.flush(10)
    assert store.load(ANN) == []
    files = [path for path in (tmp_path / "m").rglob("*") if path.is_file()]
    assert [path.name for path in files if b"walrus" in path.read_bytes()] == []


def test_what_is_redacted_in_an_outage_is_in_no_file_once_the_database_is_back(
    tmp_path: Path, store: PageStore
) -> None:
    # Of a kind that tests/properties/test_page_store_life.py looks for in any order.
    spoken = page(0, "my secret walrus", "noted")
    write(store, spoken)
    database = store._pages
    upsert = database.upsert

    def away(_stored: object) -> None:
        raise UnavailableError("away")

    database.upsert = away  # type: ignore[method-assign, assignment]
    with pytest.raises(UnavailableError):
        store.redact([emptied_page(spoken)])
    database.upsert = upsert  # type: ignore[method-assign]
    write(store, page(1))
    assert [item.page.user_text for item in store.load(ANN)] == ["", "Hello there."]
    files = [path for path in (tmp_path / "m").rglob("*") if path.is_file()]
    assert [path.name for path in files if b"walrus" in path.read_bytes()] == []


def test_a_page_the_database_always_refuses_is_set_aside_and_the_others_go_on(
    tmp_path: Path, store: PageStore
) -> None:
    database = store._pages
    upsert = database.upsert

    def picky(stored: object) -> None:
        if stored.page.index == 0:  # type: ignore[attr-defined]
            raise UnavailableError("bad point")
        upsert(stored)  # type: ignore[arg-type]

    database.upsert = picky  # type: ignore[method-assign, assignment]
    store.submit_write(page(0)).journaled.result(10)
    for n in range(1, 5):
        write(store, page(n))
    assert store.stats().poisoned == 1
    assert store.stats().pending == 0
    assert page(0).id in (tmp_path / "m" / "poison.jsonl").read_text()


def test_a_damaged_journal_tail_is_cut_and_the_store_opens(tmp_path: Path) -> None:
    store = open_page_store(tmp_path / "m", embedder=LexicalEmbedder())
    write(store, page(0))
    store.close()
    with (tmp_path / "m" / "journal.jsonl").open("ab") as file:
        file.write(b'deadbeef {"seq": 99, "bo')
    store = open_page_store(tmp_path / "m", embedder=LexicalEmbedder())
    assert store.stats().torn == 1
    assert store.count(ANN) == 1
    store.close()


def test_a_damaged_database_is_a_clear_error_and_pages_stay_in_the_journal(tmp_path: Path) -> None:
    opened = open_page_store(tmp_path / "m", embedder=LexicalEmbedder())
    write(opened, page(0, "A walrus."))
    opened.load(ANN)
    opened.close()
    (tmp_path / "m" / "qdrant" / "meta.json").write_text("{not json")
    opened = open_page_store(tmp_path / "m", embedder=LexicalEmbedder())
    try:
        assert [item.page.user_text for item in opened.load(ANN)] == ["A walrus."], "from the copy"
        with pytest.raises(UnavailableError, match="does not open"):
            opened.ready()
        ticket = opened.submit_write(page(1, "A zebra."))
        ticket.journaled.result(10)
        with pytest.raises(UnavailableError, match="does not open"):
            ticket.stored.result(10)
        assert [item.page.user_text for item in opened.load(ANN)] == ["A walrus.", "A zebra."]
    finally:
        opened.close()
    (tmp_path / "m" / "pages.sqlite").unlink()
    with pytest.raises(UnavailableError, match="does not open"):
        open_page_store(tmp_path / "m", embedder=LexicalEmbedder())


_WRITER = """
import sys
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.page_store import open_page_store
from tests.memory.builders import page
store = open_page_store(sys.argv[1], embedder=LexicalEmbedder())
print("open", flush=True)
for n in range(100_000):
    store.submit_write(page(n, f"turn {n}")).journaled.result()
    print(n, flush=True)
"""


def start_writer(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def test_F16_a_second_process_on_the_path_gets_a_clear_error_until_the_first_is_gone(tmp_path: Path) -> None:
    writer = start_writer(tmp_path / "m")
    assert writer.stdout is not None
    assert writer.stdout.readline() == "open\n"
    with pytest.raises(StoreLockedError, match=r"another process.*server"):
        open_page_store(tmp_path / "m", embedder=LexicalEmbedder())
    writer.kill()
    writer.stdout.close()
    writer.wait(10)
    open_page_store(tmp_path / "m", embedder=LexicalEmbedder()).close()
