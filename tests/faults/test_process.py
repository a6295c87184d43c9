"""The process is told to stop, killed, or taken down in another order than it was built."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.page_store import open_page_store
from pipecat_voicectx.testing.scripted_session import Session
from tests.faults.calls import call, exchange

BOT = """
import asyncio, sys
from pathlib import Path
from pipecat.frames.frames import LLMContextFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.workers.runner import WorkerRunner
from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.processors.memory_projector import MemoryProjector
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.page_memory import PageStoreConfig

async def main():
    projector = MemoryProjector(
        owner=Owner(user_id="ann"), store=PageStoreConfig(path=Path(sys.argv[1])), embedder=LexicalEmbedder()
    )
    worker = PipelineWorker(Pipeline([projector]), cancel_on_idle_timeout=False)
    runner = WorkerRunner(handle_sigint=True, handle_sigterm=True)
    await runner.add_workers(worker)
    context = LLMContext()

    async def talk():
        await asyncio.sleep(0.5)
        for n in range(3):
            context.add_message({"role": "user", "content": f"question {n}"})
            await worker.queue_frame(LLMContextFrame(context=context))
            await asyncio.sleep(0.2)
            context.add_message({"role": "assistant", "content": f"answer {n}"})
        print("talked", flush=True)

    talking = asyncio.ensure_future(talk())
    await runner.run()
    await talking

asyncio.run(main())
print("ended", flush=True)
"""


def test_sigterm_writes_the_last_exchange_before_the_process_ends(tmp_path: Path) -> None:
    bot = subprocess.Popen(
        [sys.executable, "-c", BOT, str(tmp_path / "m")],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert bot.stdout is not None
    try:
        assert bot.stdout.readline() == "talked\n"
        os.kill(bot.pid, signal.SIGTERM)
        assert bot.communicate(timeout=60)[0] == "ended\n"
    finally:
        bot.kill()
        bot.wait()
    assert bot.returncode == 0
    store = open_page_store(tmp_path / "m", embedder=LexicalEmbedder())
    pages = {each.page.user_text: each.page.bot_text for each in store.load(Owner(user_id="ann"))}
    store.close()
    assert pages == {f"question {n}": f"answer {n}" for n in range(3)}


async def cancelled_then_cleaned_up_backwards_and_again(session: Session) -> None:
    assert session.voice is not None
    parts = session.voice.processors()
    await session.worker.cancel()
    for part in [*reversed(parts), *parts]:
        await part.cleanup()  # type: ignore[no-untyped-call]


async def the_model_before_the_bot(session: Session) -> None:
    await session.server.__aexit__(None, None, None)


async def the_line_before_the_bot(session: Session) -> None:
    session.output.lose(unheard_after_secs=0.0)
    await session.worker.cancel()


@pytest.mark.parametrize(
    "take_down",
    [cancelled_then_cleaned_up_backwards_and_again, the_model_before_the_bot, the_line_before_the_bot],
)
def test_parts_that_go_in_another_order_end_with_the_call_and_lose_nothing_acknowledged(
    take_down: Callable[[Session], Awaitable[None]], tmp_path: Path
) -> None:
    acknowledged: list[str] = []

    async def script(session: Session) -> None:
        async def on_written(_source: object, page: Any) -> None:
            acknowledged.append(page.user_text)

        assert session.voice is not None
        session.voice.add_event_handler("on_memory_written", on_written)
        await exchange(session, "hello there")
        await session.listen(2)
        await session.say("tell me more")
        await session.speaking()
        await take_down(session)

    call(script, user_id="ann", store_path=tmp_path / "m")
    assert "hello there" in acknowledged
    # Opening it again proves that nothing holds on to it.
    store = open_page_store(tmp_path / "m", embedder=LexicalEmbedder())
    kept = [each.page.user_text for each in store.load(Owner(user_id="ann"))]
    store.close()
    assert set(acknowledged) <= set(kept)
    assert len(set(kept)) == len(kept)


def test_a_call_that_ends_in_the_middle_of_everything_ends(tmp_path: Path) -> None:
    async def script(session: Session) -> None:
        await exchange(session, "hello there")
        await session.say("tell me more")
        await session.speaking()

    call(script, user_id="ann", store_path=tmp_path / "m")
