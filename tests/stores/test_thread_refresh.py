"""Threads are refreshed by one worker of the process; what became stale meanwhile is done by the same run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from pipecat_voicectx.memory.pages import Owner, VoicePage
from pipecat_voicectx.memory.threads import summarize_thread
from pipecat_voicectx.stores import thread_keeper
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.page_memory import PageMemory
from tests.memory.builders import page

_CALLS = 4
_PAGES = 12


@pytest.fixture
def refreshed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Every summary that was made: in which thread of the process, and of how many pages."""
    made: list[tuple[str, int]] = []
    running = threading.Lock()

    def summarized(pages: Sequence[VoicePage]) -> str:
        assert running.acquire(blocking=False), "one after the other"
        try:
            made.append((threading.current_thread().name, len(pages)))
            return summarize_thread(pages)
        finally:
            running.release()

    monkeypatch.setattr(thread_keeper, "summarize_thread", summarized)
    return made


def test_several_sessions_share_one_worker_and_coalesce_what_is_stale(
    refreshed: list[tuple[str, int]],
) -> None:
    async def main() -> list[PageMemory]:
        memories = [
            PageMemory(
                owner=Owner(user_id=f"caller-{n}"), session_id="s1", embedder=LexicalEmbedder(), store=None
            )
            for n in range(_CALLS)
        ]
        writes = [
            memory.add(page(n, "My old dog and the garden.", f"Your old dog and garden, {n}.", owner=owner))
            for n in range(_PAGES)
            for memory, owner in ((each, each._owner) for each in memories)
        ]
        for write in writes:
            await write.journaled()
        await asyncio.gather(*(write.settled() for write in writes))
        for memory in memories:
            await memory.close()
        return memories

    memories = asyncio.run(main())
    assert {name.rsplit("_", 1)[0] for name, _ in refreshed} == {"voicectx-embed"}
    assert len({name for name, _ in refreshed}) == 1
    assert len(refreshed) < _CALLS * _PAGES, "not one for each page"
    for memory in memories:
        (thread,) = memory.threads()
        assert thread.summarized_pages == len(thread.page_ids) == _PAGES, (
            "the last state of every thread is there"
        )
