"""Embedder, store, engine and disk fail in a whole call: answers come in time, what works is told, nothing is lost."""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipecat_voicectx.errors import UnavailableError
from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.page_memory import PageMemory
from pipecat_voicectx.stores.page_store import open_page_store
from pipecat_voicectx.testing.openai_server import Reply, ToolCall
from pipecat_voicectx.testing.scripted_session import Session
from tests.faults.calls import Steps, call, exchange
from tests.memory.builders import page

ANN = Owner(user_id="ann")


class Fault(Enum):
    RAISES = "raises"
    UNAVAILABLE = "unavailable"
    NONE_BACK = "none back"
    NOT_A_NUMBER = "not a number"
    WRONG_SIZE = "wrong size"


class FaultyEmbedder(LexicalEmbedder):
    """Faulty for its first `times` calls, then well."""

    def __init__(self, fault: Fault, *, times: int) -> None:
        self._fault, self._left = fault, times

    def embed(self, texts: Sequence[str]) -> list[FloatArray]:
        vectors = super().embed(texts)
        if self._left <= 0:
            return vectors
        self._left -= 1
        match self._fault:
            case Fault.RAISES:
                raise RuntimeError("the model's library failed")
            case Fault.UNAVAILABLE:
                raise UnavailableError("the model is gone")
            case Fault.NONE_BACK:
                return []
            case Fault.NOT_A_NUMBER:
                return [vector * np.float32("nan") for vector in vectors]
            case Fault.WRONG_SIZE:
                return [vector[:7] for vector in vectors]


def pages_of(folder: Path) -> set[str]:
    store = open_page_store(folder, embedder=LexicalEmbedder())
    try:
        return {each.page.user_text for each in store.load(ANN)}
    finally:
        store.close()


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("times", [3, 10_000], ids=["comes back", "dead"])
def test_an_embedder_that_fails_costs_meaning_and_neither_answers_nor_pages(
    fault: Fault, times: int, tmp_path: Path
) -> None:
    async def script(session: Session) -> None:
        await exchange(session, "my sister lives in leeds", within_secs=6)
        await exchange(session, "tell me about gardens", within_secs=6)
        await exchange(session, "where does my sister live", within_secs=6)

    faulty = FaultyEmbedder(fault, times=times)
    outcome = call(script, user_id="ann", store_path=tmp_path / "m", embedder=faulty)
    assert len(outcome.requests) == 3
    assert pages_of(tmp_path / "m") == {
        "my sister lives in leeds",
        "tell me about gardens",
        "where does my sister live",
    }


def test_an_embedder_that_hangs_holds_up_no_ranking() -> None:
    release = threading.Event()

    class Hangs(LexicalEmbedder):
        def embed(self, texts: Sequence[str]) -> list[FloatArray]:
            release.wait(20)
            return super().embed(texts)

    async def main() -> None:
        memory = PageMemory(owner=ANN, session_id="s", embedder=Hangs(), store=None)
        opening = asyncio.ensure_future(memory.open())
        write = memory.add(page(0, "I have a dog", "Nice"))
        started = time.perf_counter()
        prepare = memory.prepare_query("dogs")
        preparing = asyncio.ensure_future(prepare()) if prepare is not None else None
        await asyncio.sleep(0.05)
        assert [hit.key for hit in memory.rank("dogs")] == [page(0).id], "by words"
        assert time.perf_counter() - started < 2
        release.set()
        await opening
        if preparing is not None:
            await preparing
        await write.settled()
        await memory.close()

    asyncio.run(main())


def test_a_store_that_is_slow_to_open_is_joined_in_mid_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pipecat_voicectx.stores.page_loading as page_loading

    async def first(session: Session) -> None:
        await exchange(session, "my sister lives in leeds")

    call(first, user_id="ann", store_path=tmp_path / "m")
    real = page_loading.open_page_store

    def slow(*args: Any, **options: Any) -> Any:
        # A thread's own time: half a second by a clock that the call cannot jump over.
        threading.Event().wait(0.5)
        return real(*args, **options)

    monkeypatch.setattr(page_loading, "open_page_store", slow)

    async def second(session: Session) -> None:
        await exchange(session, "hello again")
        await exchange(session, "where does my sister live in")

    outcome = call(second, user_id="ann", store_path=tmp_path / "m")
    assert "leeds" in str(outcome.requests[-1].messages)
    monkeypatch.undo()
    assert "hello again" in pages_of(tmp_path / "m")


def test_a_store_that_cannot_be_opened_is_told_and_the_call_goes_on(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")

    async def script(session: Session) -> None:
        await exchange(session, "hello there")
        assert session.voice is not None
        assert session.voice.memory is not None
        assert not session.voice.memory.status().persistent

    outcome = call(script, user_id="ann", store_path=blocked / "m")
    assert any("memory" in error for error in outcome.log.errors)


def test_a_disk_that_fills_is_told_and_what_was_acknowledged_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pipecat_voicectx.stores.journal as journal

    written: list[str] = []

    async def script(session: Session) -> None:
        async def on_written(_source: object, page: Any) -> None:
            written.append(page.user_text)

        assert session.voice is not None
        session.voice.add_event_handler("on_memory_written", on_written)
        await exchange(session, "this one is written")
        await session.listen(2)
        monkeypatch.setattr(journal.os, "fsync", full)
        await exchange(session, "this one meets a full disk")
        await exchange(session, "so does this one")
        monkeypatch.undo()
        await exchange(session, "there is room again")
        await session.listen(2)

    def full(_fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    outcome = call(script, user_id="ann", store_path=tmp_path / "m")
    assert any("could not be written" in error for error in outcome.log.errors)
    assert {"this one is written", "there is room again"} <= set(written)
    assert set(written) <= pages_of(tmp_path / "m"), "what was acknowledged is there"


def test_a_turn_that_went_on_while_its_answer_was_deferred_is_remembered_once(tmp_path: Path) -> None:
    deferring = Reply(tool_calls=(ToolCall(name="defer_response", arguments={"reason": "words were lost"}),))

    async def script(session: Session) -> None:
        await exchange(session, "hello there")
        await session.say("i want a table")
        await session.listen(0.7)
        session.bot_speaking.clear()
        await session.say("for two please")
        await session.answered()
        await exchange(session, "and a taxi")
        assert session.voice is not None
        assert session.voice.memory is not None
        asked = [page.user_text for page in session.voice.memory.memory.pages.values()]
        assert asked == ["hello there", "i want a table for two please", "and a taxi"]

    outcome = call(script, Steps(Reply(text="Hello."), deferring), user_id="ann", store_path=tmp_path / "m")
    assert "for two" not in str([m for m in outcome.requests[-1].messages if m["role"] == "developer"])
    assert pages_of(tmp_path / "m") == {"hello there", "i want a table for two please", "and a taxi"}


def files_with(folder: Path, text: str) -> list[str]:
    return [
        str(f.relative_to(folder))
        for f in folder.rglob("*")
        if f.is_file() and text.encode() in f.read_bytes()
    ]


def test_what_is_forgotten_in_mid_answer_is_in_no_file_when_the_call_is_over(tmp_path: Path) -> None:
    async def script(session: Session) -> None:
        await exchange(session, "my door code is pumpernickel")
        session.bot_speaking.clear()
        await session.say("i live in quibbleton")
        await session.speaking()
        assert session.voice is not None
        assert session.voice.memory is not None
        await session.voice.memory.forget_everything()
        await session.answered()

    call(script, user_id="ann", store_path=tmp_path / "m")
    assert [files_with(tmp_path / "m", word) for word in ("pumpernickel", "quibbleton")] == [[], []]


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_page_that_was_emptied_is_not_learned_from_when_its_answer_comes(
    interrupted: bool, tmp_path: Path
) -> None:
    async def script(session: Session) -> None:
        await exchange(session, "my door code is pumpernickel")
        await exchange(session, "i like green tea")
        session.bot_speaking.clear()
        await session.say("please forget that my door code is pumpernickel")
        await session.speaking()
        if interrupted:
            await session.listen(0.5)
            session.bot_speaking.clear()
            await session.say("and thank you")
        await session.answered()
        await session.listen(2)

    call(script, user_id="ann", store_path=tmp_path / "m")
    assert files_with(tmp_path / "m", "green tea")
    assert files_with(tmp_path / "m", "pumpernickel") == []


def test_what_is_forgotten_is_not_in_what_earlier_calls_came_to(tmp_path: Path) -> None:
    async def first(session: Session) -> None:
        await exchange(session, "hello there")
        await exchange(session, "my door code is pumpernickel")

    async def second(session: Session) -> None:
        await exchange(session, "hello there")
        await exchange(session, "please forget my door code")
        await session.listen(2)
        await exchange(session, "what is my door code")

    call(first, user_id="ann", store_path=tmp_path / "m")
    assert files_with(tmp_path / "m" / "facts", "pumpernickel")
    outcome = call(second, user_id="ann", store_path=tmp_path / "m")
    assert "pumpernickel" in str(outcome.requests[0].messages), "the last call is known until then"
    assert "pumpernickel" not in str(outcome.requests[-1].messages)
    assert files_with(tmp_path / "m", "pumpernickel") == []
