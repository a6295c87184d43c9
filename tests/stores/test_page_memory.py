from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipecat_voicectx.errors import EmbedderMismatchError, UnavailableError, UsageError
from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.stores import page_loading
from pipecat_voicectx.stores.embedders import Embedder, LexicalEmbedder
from pipecat_voicectx.stores.page_memory import PageMemory, PageStoreConfig
from pipecat_voicectx.stores.page_store import open_page_store
from pipecat_voicectx.testing.virtual_time import run
from tests.memory.builders import ANN, page


class CountingEmbedder(LexicalEmbedder):
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[FloatArray]:
        self.asked += texts
        return super().embed(texts)


class BrokenEmbedder(LexicalEmbedder):
    def embed(self, texts: Sequence[str]) -> list[FloatArray]:
        raise UnavailableError("model gone")


class OtherEmbedder(LexicalEmbedder):
    @property
    def name(self) -> str:
        return "other"


def memory(
    folder: Path | None = None, *, embedder: Embedder | None = None, session: str = "s1"
) -> PageMemory:
    store = PageStoreConfig(path=folder) if folder is not None else None
    return PageMemory(owner=ANN, session_id=session, embedder=embedder or LexicalEmbedder(), store=store)


def test_a_page_is_found_before_it_is_written_and_there_after_a_restart(tmp_path: Path) -> None:
    async def first() -> None:
        mine = memory(tmp_path / "m")
        await mine.open()
        write = mine.add(page(0, "I have a dog", "Nice"))
        assert [hit.key for hit in mine.rank("dogs")] == [page(0).id]
        assert await write.journaled()
        await write.settled()
        await mine.close()

    async def second() -> None:
        mine = memory(tmp_path / "m", session="s2")
        assert not mine.status().loaded
        await mine.open()
        assert mine.status().loaded
        assert mine.status().persistent
        assert mine.previous_session is not None
        assert mine.previous_session.pages == (page(0, "I have a dog", "Nice"),)
        assert [hit.key for hit in mine.rank("dogs")] == [page(0).id]
        await mine.close()
        await mine.close()

    run(first())
    run(second())


def test_pages_added_before_the_store_is_open_are_written_once_it_is(tmp_path: Path) -> None:
    async def main() -> list[str]:
        mine = memory(tmp_path / "m")
        writing = asyncio.ensure_future(mine.add(page(0)).journaled())
        await asyncio.sleep(0)
        await mine.open()
        assert await writing
        await mine.close()
        again = memory(tmp_path / "m", session="s2")
        await again.open()
        ids = list(again.pages)
        await again.close()
        return ids

    assert run(main()) == [page(0).id]


def test_partial_words_are_embedded_and_the_latest_wins() -> None:
    async def main() -> tuple[list[str], list[bool]]:
        embedder = CountingEmbedder()
        mine = memory(embedder=embedder)
        first = mine.prepare_query("Which hotel")
        assert first is not None
        assert mine.prepare_query("Which hotel takes") is None
        assert mine.prepare_query("Which hotel takes dogs") is None
        await first()
        found = [
            mine.has_embedding_for(t)
            for t in ("Which hotel takes dogs", "hotel takes dogs and cats", "What time is it")
        ]
        await mine.close()
        return embedder.asked, found

    asked, found = run(main())
    assert asked == ["Which hotel takes dogs"]
    assert found == [True, True, False]


def test_the_same_words_are_not_embedded_twice_and_blanks_not_at_all() -> None:
    async def main() -> list[str]:
        embedder = CountingEmbedder()
        mine = memory(embedder=embedder)
        for _ in range(2):
            embed = mine.prepare_query("Which hotel")
            assert embed is not None
            await embed()
        assert mine.prepare_query("  ") is None
        await mine.close()
        return embedder.asked

    assert run(main()) == ["Which hotel"]


def test_without_a_model_memory_searches_by_words() -> None:
    async def main() -> None:
        mine = memory(embedder=BrokenEmbedder())
        write = mine.add(page(0, "I have a dog"))
        assert await write.journaled() is False
        await write.settled()
        embed = mine.prepare_query("dog")
        assert embed is not None
        await embed()
        assert not mine.has_embedding_for("dog")
        assert [hit.key for hit in mine.rank("dog")] == [page(0).id]
        await mine.close()

    run(main())


def test_a_store_of_another_embedder_is_an_error_and_the_session_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        mine = memory(tmp_path / "m")
        await mine.open()
        await mine.close()
        other = memory(tmp_path / "m", embedder=OtherEmbedder())
        writing = asyncio.ensure_future(other.add(page(0, "I have a dog")).journaled())
        with pytest.raises(EmbedderMismatchError):
            await other.open()
        assert await writing is False
        assert not other.status().persistent
        assert other.rank("dog")
        await other.close()

    run(main())


def test_a_vector_that_arrives_after_its_text_changed_is_not_used() -> None:
    async def main() -> None:
        mine = memory()
        stale = mine.add(page(0, "I have a dog", "Nice"))
        mine.add(page(0, "I have a boat", "Nice"))
        await stale.journaled()
        await stale.settled()
        embed = mine.prepare_query("dog")
        assert embed is not None
        await embed()
        assert max(hit.cosine for hit in mine.rank("dog")) < 0.5
        await mine.close()

    run(main())


def test_two_sessions_of_one_user_share_the_store(tmp_path: Path) -> None:
    async def main() -> int:
        one, two = memory(tmp_path / "m", session="a"), memory(tmp_path / "m", session="b")
        await asyncio.gather(one.open(), two.open())
        await one.add(page(0, session="a")).journaled()
        await one.close()
        await two.add(page(0, session="b")).journaled()
        await two.close()
        three = memory(tmp_path / "m", session="c")
        await three.open()
        count = len(three.pages)
        await three.close()
        return count

    assert run(main()) == 2


def test_the_newest_pages_come_first_and_the_window_is_left_out() -> None:
    async def main() -> list[int]:
        mine = memory()
        for n in range(4):
            await mine.add(page(n)).journaled()
        await mine.close()
        return [p.index for p in mine.latest(2, exclude={page(3).id})]

    assert run(main()) == [2, 1]


def test_pages_of_one_topic_share_a_thread_that_survives_a_restart_and_is_summarized(tmp_path: Path) -> None:
    async def talk() -> list[list[str]]:
        mine = memory(tmp_path / "m")
        await mine.open()
        for n, text in enumerate(["the hotel in Lyon", "the hotel in Lyon again", "taxes and forms"]):
            write = mine.add(page(n, text, text))
            await write.journaled()
            await write.settled()
        threads = [thread.page_ids for thread in mine.threads()]
        assert mine.threads_of(page(1).id)[0].summary.startswith("2 exchanges about hotel")
        await mine.close()
        return threads

    async def look() -> list[list[str]]:
        mine = memory(tmp_path / "m", session="s2")
        await mine.open()
        threads = sorted((thread.page_ids for thread in mine.threads()), key=len, reverse=True)
        assert max(thread.summary for thread in mine.threads())
        await mine.close()
        return threads

    assert run(talk()) == run(look()) == [[page(0).id, page(1).id], [page(2).id]]


def test_erasing_an_owner_erases_its_threads(tmp_path: Path) -> None:
    async def main() -> None:
        mine = memory(tmp_path / "m")
        await mine.open()
        write = mine.add(page(0, "the hotel", "the hotel"))
        await write.journaled()
        await write.settled()
        store = open_page_store(tmp_path / "m", embedder=LexicalEmbedder())
        assert len(store.load_threads(ANN)) == 1
        store.erase(ANN)
        assert store.load_threads(ANN) == []
        store.close()
        await mine.close()

    run(main())


def test_pages_beyond_the_loaded_ones_are_found_by_the_database(tmp_path: Path) -> None:
    async def main() -> None:
        first = memory(tmp_path / "m")
        await first.open()
        for n, text in enumerate(["my walrus sings", "tea", "bread", "rain"]):
            write = first.add(page(n, text, "yes"))
            await write.journaled()
            await write.settled()
        await first.close()
        config = PageStoreConfig(path=tmp_path / "m", load_limit=2)
        mine = PageMemory(owner=ANN, session_id="s2", embedder=LexicalEmbedder(), store=config)
        await mine.open()
        assert page(0).id not in mine.pages
        embed = mine.prepare_query("the walrus")
        assert embed is not None
        await embed()
        assert mine.rank("the walrus")[0].key == page(0).id
        await mine.close()

    run(main())


class SlowToOpen:
    """The store opens once it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.may_open = threading.Event()

        def slow(*args: Any, **options: Any) -> Any:
            assert self.may_open.wait(20)
            return open_page_store(*args, **options)

        monkeypatch.setattr(page_loading, "open_page_store", slow)


def said_on_disk(folder: Path) -> list[str]:
    store = open_page_store(folder, embedder=LexicalEmbedder())
    try:
        return [each.page.user_text for each in store.load(ANN)]
    finally:
        store.close()


def one_page_in(folder: Path) -> None:
    store = open_page_store(folder, embedder=LexicalEmbedder())
    store.submit_write(page(0, "my door code is pumpernickel", "Noted.")).stored.result()
    store.close()


def test_an_erasure_waits_for_a_store_that_is_still_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_page_in(tmp_path)
    slow = SlowToOpen(monkeypatch)

    async def main() -> list[str]:
        mine = memory(tmp_path, session="s2")
        opening = asyncio.ensure_future(mine.open())
        erasing = asyncio.ensure_future(mine.erase())
        await asyncio.sleep(0.05)
        slow.may_open.set()
        await opening
        await erasing
        known = [each.user_text for each in mine.pages.values()]
        await mine.close()
        return known

    assert asyncio.run(main()) in ([], [""])
    assert said_on_disk(tmp_path) == []


def test_an_erasure_that_cannot_reach_earlier_calls_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")

    async def main() -> None:
        mine = memory(tmp_path / "file" / "m", session="s2")
        with pytest.raises(UnavailableError):
            await mine.open()
        mine.add(page(0, "my door code is pumpernickel", "Noted."))
        with pytest.raises(UnavailableError, match="not open"):
            await mine.erase()
        assert [each.user_text for each in mine.pages.values()] == [""], "what is here is gone all the same"
        await mine.close()

    asyncio.run(main())


def test_what_is_forgotten_while_the_store_opens_is_not_written_down_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowToOpen(monkeypatch)

    async def main() -> None:
        mine = memory(tmp_path)
        opening = asyncio.ensure_future(mine.open())
        write = mine.add(page(0, "my door code is pumpernickel", "Noted."))
        writing = asyncio.ensure_future(write.journaled())
        await asyncio.sleep(0.05)
        await mine.redact([page(0).id])
        slow.may_open.set()
        await opening
        assert await writing
        await write.settled()
        await mine.close()

    asyncio.run(main())
    assert said_on_disk(tmp_path) == [""]
    assert not any(b"pumpernickel" in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


def test_pages_of_this_call_are_searchable_after_the_store_has_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_page_in(tmp_path)
    slow = SlowToOpen(monkeypatch)

    async def main() -> set[str]:
        mine = memory(tmp_path, session="s2")
        opening = asyncio.ensure_future(mine.open())
        mine.add(page(1, "I have a dog", "Nice"))
        assert [hit.key for hit in mine.rank("dogs")] == [page(1).id]
        slow.may_open.set()
        await opening
        found = {hit.key for word in ("dogs", "pumpernickel") for hit in mine.rank(word)}
        await mine.close()
        return found

    assert asyncio.run(main()) >= {page(0).id, page(1).id}


def test_an_index_that_could_hold_no_page_is_refused() -> None:
    with pytest.raises(UsageError, match="load_limit must be 1 or more, is -1"):
        PageStoreConfig(load_limit=-1)
