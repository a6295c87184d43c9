"""Whose memory a call is: who may become whom, while stores open slowly, twice, and when the call is over already."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.processors.memory_projector import MemoryProjector
from pipecat_voicectx.stores.embedders import Embedder, LexicalEmbedder
from pipecat_voicectx.stores.engine import MemoryEngine
from pipecat_voicectx.stores.fact_session import FactsConfig, mem0_in_folder
from pipecat_voicectx.stores.folder_lock import lock_folder, unlock
from pipecat_voicectx.stores.page_memory import PageStoreConfig
from pipecat_voicectx.stores.page_store import known_stores, open_page_store
from pipecat_voicectx.testing.memory_call import MemoryCall, in_calls
from pipecat_voicectx.testing.virtual_time import run
from tests.processors.test_memory_tools import projector

ANN, BOB = Owner(user_id="ann"), Owner(user_id="bob")
NOBODY = Owner(user_id="anonymous-1")


class SlowEmbedder(LexicalEmbedder):
    """Its name is read when a store opens: it keeps the store waiting until `let_go`."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()

    @property
    def name(self) -> str:
        if threading.current_thread().name.startswith("voicectx-store"):
            self.let_go.wait(30)
        return super().name


def plant(folder: Path, owner: Owner, text: str) -> None:
    async def says(call: MemoryCall) -> None:
        await call.say(text)

    in_calls(lambda session: projector(folder, session_id=session, owner=owner), says)


def test_a_call_of_one_caller_becomes_nobody_else_s_while_its_store_still_opens(tmp_path: Path) -> None:
    plant(tmp_path, ANN, "my secret word is pumpernickel")

    async def main() -> tuple[MemoryProjector, list[Any]]:
        memory = projector(tmp_path, session_id="second", owner=ANN)
        opening = asyncio.ensure_future(memory._open())
        await asyncio.sleep(0)
        becoming = memory.identify(BOB, store=PageStoreConfig(path=tmp_path))
        said = list(await asyncio.gather(becoming, return_exceptions=True))
        await opening
        await memory.memory.close()
        assert memory.facts is not None
        await memory.facts.close(timeout_secs=3)
        return memory, said

    memory, said = run(main())
    assert isinstance(said[0], UsageError)
    assert {page.owner for page in memory.memory.pages.values()} == {ANN}
    assert known_stores() == []


def test_of_two_identities_at_once_one_is_taken_and_the_other_refused(tmp_path: Path) -> None:
    plant(tmp_path, ANN, "my secret word is pumpernickel")
    said: list[Any] = []

    async def both(call: MemoryCall) -> None:
        assert isinstance(call.memory, MemoryProjector)
        store = PageStoreConfig(path=tmp_path)
        await call.say("i like green tea")
        said.extend(
            await asyncio.gather(
                call.memory.identify(BOB, store=store),
                call.memory.identify(ANN, store=store),
                return_exceptions=True,
            )
        )
        await call.say("what is my secret word")
        assert "pumpernickel" not in call.sent()
        assert {page.owner for page in call.memory.memory.pages.values()} == {BOB}

    (call,) = in_calls(lambda session: projector(None, session_id=session, owner=NOBODY), both)
    assert said[0] is None
    assert isinstance(said[1], UsageError)
    assert call.errors == []
    assert known_stores() == []


def test_a_caller_identified_again_is_the_same_caller_and_opens_no_second_store(tmp_path: Path) -> None:
    plant(tmp_path, ANN, "my secret word is pumpernickel")

    async def twice(call: MemoryCall) -> None:
        assert isinstance(call.memory, MemoryProjector)
        await call.say("i like green tea")
        await call.memory.identify(ANN, store=PageStoreConfig(path=tmp_path))
        await call.memory.identify(ANN, store=PageStoreConfig(path=str(tmp_path)))
        await call.memory.identify(ANN)
        assert "pumpernickel" in await call.say("what is my secret word")
        with pytest.raises(UsageError, match="another store"):
            await call.memory.identify(ANN, store=PageStoreConfig(path=tmp_path / "other"))

    (call,) = in_calls(lambda session: projector(None, session_id=session, owner=NOBODY), twice)
    assert call.errors == []
    assert known_stores() == []
    assert list((tmp_path / "brains").iterdir()), (
        "an identity without a store takes the brains' file away from none"
    )


def test_who_was_identified_without_a_store_is_nobody_else_later(tmp_path: Path) -> None:
    async def first_ann(call: MemoryCall) -> None:
        assert isinstance(call.memory, MemoryProjector)
        await call.memory.identify(ANN)
        await call.say("my secret word is pumpernickel")
        with pytest.raises(UsageError, match="another owner"):
            await call.memory.identify(BOB, store=PageStoreConfig(path=tmp_path))
        await call.memory.identify(ANN, store=PageStoreConfig(path=tmp_path))
        await call.say("what is my secret word")

    (call,) = in_calls(lambda session: projector(None, session_id=session, owner=NOBODY), first_ann)
    assert call.errors == []
    store = open_page_store(tmp_path, embedder=LexicalEmbedder())
    assert store.owners() == [ANN]
    store.close()


def test_a_call_that_ends_while_its_store_opens_leaves_the_folder_to_others(tmp_path: Path) -> None:
    embedder = SlowEmbedder()

    async def ends(call: MemoryCall) -> None:
        await call.say("hello there")
        threading.Timer(4.0, embedder.let_go.set).start()

    def make(session: str) -> MemoryProjector:
        return MemoryProjector(
            owner=ANN, store=PageStoreConfig(path=tmp_path), embedder=embedder, session_id=session
        )

    in_calls(make, ends, clock=asyncio.run)
    _wait_until_free(tmp_path)


def test_a_call_that_ends_while_its_engine_opens_closes_the_engine(tmp_path: Path) -> None:
    let_go, made = threading.Event(), threading.Event()

    def slow(folder: Path | None, embedder: Embedder) -> MemoryEngine | None:
        let_go.wait(30)
        engine = mem0_in_folder(folder, embedder)
        made.set()
        return engine

    async def ends(call: MemoryCall) -> None:
        await call.say("hello there")
        threading.Timer(4.0, let_go.set).start()

    facts = FactsConfig(engine=slow)
    in_calls(
        lambda session: projector(tmp_path, session_id=session, owner=ANN, facts=facts),
        ends,
        clock=asyncio.run,
    )
    assert made.wait(30)
    _wait_until_free(tmp_path / "facts")


def _wait_until_free(folder: Path) -> None:
    """Another process could take the folder, within a few seconds."""
    for _ in range(100):
        try:
            unlock(lock_folder(folder))
        except Exception:
            threading.Event().wait(0.1)
        else:
            return
    pytest.fail(f"{folder.name} is still held")
