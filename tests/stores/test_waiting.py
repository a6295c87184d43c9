"""A model that takes minutes to come takes no thread that others need: aiortc encodes the bot's audio in those."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.fact_session import mem0_in_folder
from pipecat_voicectx.stores.page_memory import PageMemory, PageStoreConfig
from pipecat_voicectx.stores.waiting import in_background
from tests.memory.builders import ANN, page


class FetchedSlowly(LexicalEmbedder):
    """A model that is still on its way."""

    def __init__(self) -> None:
        self.here = threading.Event()

    def embed(self, texts: Sequence[str]) -> list[FloatArray]:
        self.here.wait()
        return super().embed(texts)


def test_the_loop_s_own_threads_stay_free_while_a_model_is_fetched(tmp_path: Path) -> None:
    async def call() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(2))
        embedder = FetchedSlowly()
        mine = PageMemory(
            owner=ANN, session_id="s1", embedder=embedder, store=PageStoreConfig(path=tmp_path / "pages")
        )
        await mine.open()
        engine = asyncio.create_task(in_background(mem0_in_folder, tmp_path, embedder))
        writes = [mine.add(page(n, f"Question {n}", "Answer")) for n in range(4)]
        settling = [asyncio.create_task(write.settled()) for write in writes]
        assert all([await write.journaled() for write in writes])
        for _ in range(4):
            assert await asyncio.wait_for(loop.run_in_executor(None, sum, (1, 2)), 5) == 3
        assert not any(task.done() for task in settling)
        embedder.here.set()
        await asyncio.gather(*settling)
        made = await engine
        if made is not None:
            await made.close()
        await mine.close()

    asyncio.run(call())
