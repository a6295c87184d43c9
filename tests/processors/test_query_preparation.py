"""What is done while the caller speaks is not done again when the turn ends."""

from __future__ import annotations

import asyncio

import pytest

from pipecat_voicectx.memory.ranking import RankedPage, rank_pages
from pipecat_voicectx.processors.memory_projector import MemoryProjector
from pipecat_voicectx.projection import recall_plans
from pipecat_voicectx.projection.recall import RecallPlan, plan_recall
from pipecat_voicectx.stores import query_search
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.stored_pages import StoredPage
from pipecat_voicectx.testing.memory_call import MemoryCall, in_calls
from tests.memory.builders import ANN, page

EARLIER = [page(n, f"I saw house number {n} with a garden.", "How was it?", session="s0") for n in range(30)]


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Rankings and plans, as they are made."""
    done: list[str] = []

    def ranked(*args, **options) -> list[RankedPage]:  # type: ignore[no-untyped-def]
        done.append("rank")
        return rank_pages(*args, **options)

    def planned(*args, **options) -> RecallPlan:  # type: ignore[no-untyped-def]
        done.append("plan")
        return plan_recall(*args, **options)

    monkeypatch.setattr(query_search, "rank_pages", ranked)
    monkeypatch.setattr(recall_plans, "plan_recall", planned)
    return done


def test_a_turn_that_ends_as_it_was_heard_neither_ranks_nor_plans_on_the_response_path(
    work: list[str],
) -> None:
    at_the_end: list[list[str]] = []

    def make(session_id: str) -> MemoryProjector:
        memory = MemoryProjector(owner=ANN, embedder=LexicalEmbedder(), session_id=session_id)
        memory.memory.preload([StoredPage(each, (None, None)) for each in EARLIER])
        memory.add_event_handler("on_projected", lambda *_: at_the_end.append(list(work)))
        return memory

    async def script(call: MemoryCall) -> None:
        for text in ("Good morning, it is about the houses.", "Which of the houses had a garden?"):
            before = len(call.server.requests)
            speaking = asyncio.ensure_future(call.say(text))
            while "plan" not in work:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert len(call.server.requests) == before, "planned before the request went out"
            work.clear()
            assert "house number" in await speaking
            assert at_the_end[-1] == [], "nothing was left to do"
            work.clear()

    [call] = in_calls(make, script)
    assert not call.errors
