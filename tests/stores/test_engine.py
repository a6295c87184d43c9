"""How engines answer when their client is slow, dead, flapping or wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.stores.blocking_engine import EngineWorker
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.engine import Unavailable, UnavailableReason, erase_owner
from pipecat_voicectx.testing.engine_conformance import answered, make_record, new_owner
from pipecat_voicectx.testing.memory_engines import EngineFault, FaultyEngine, InMemoryEngine


class PickyEmbedder(LexicalEmbedder):
    """Fails on a batch that holds a marked text, and makes a short vector of another."""

    def embed(self, texts: Sequence[str]) -> list[FloatArray]:
        if any("\ufffd" in text for text in texts):
            raise ValueError("bad text")
        return [np.zeros(3, np.float32) if "short" in text else self._embed(text) for text in texts]


def test_a_hanging_client_answers_unavailable_in_time_and_recovers() -> None:
    async def body() -> None:
        owner = new_owner()
        engine = FaultyEngine(plan=[EngineFault.HANG], timeout_secs=0.05)
        async with asyncio.timeout(2):
            first = await engine.search(owner, "tea")
        assert isinstance(first, Unavailable)
        assert first.reason is UnavailableReason.TIMEOUT
        engine.release()
        assert answered(await engine.search(owner, "tea")) == ()
        assert engine.counters.timeouts == 1
        await engine.close()

    asyncio.run(body())


def test_a_dead_client_is_never_mistaken_for_no_memories() -> None:
    async def body() -> None:
        owner = new_owner()
        engine = FaultyEngine(otherwise=EngineFault.RAISE)
        for result in (
            await engine.search(owner, "tea"),
            await engine.list_by_owner(owner),
            await engine.add([make_record(owner, "tea")]),
            await erase_owner(engine, owner),
        ):
            assert result == Unavailable(reason=UnavailableReason.FAILED, detail="ConnectionError")
        assert engine.counters.failures == 4
        await engine.close()

    asyncio.run(body())


def test_a_client_that_raises_once_answers_the_next_call() -> None:
    async def body() -> None:
        owner = new_owner()
        engine = FaultyEngine(plan=[EngineFault.RAISE])
        record = make_record(owner, "tea with milk")
        assert isinstance(await engine.add([record]), Unavailable)
        assert answered(await engine.add([record])).stored == (record.id,)
        await engine.close()

    asyncio.run(body())


def test_more_calls_than_fit_the_queue_are_turned_away_at_once() -> None:
    async def body() -> None:
        worker = EngineWorker(name="test", max_pending=2)
        loop = asyncio.get_running_loop()
        gate = asyncio.Event()

        def wait() -> None:
            asyncio.run_coroutine_threadsafe(gate.wait(), loop).result()

        calls = [asyncio.create_task(worker.run(wait, timeout_secs=5)) for _ in range(2)]
        await asyncio.sleep(0)
        assert await worker.run(lambda: 1, timeout_secs=5) == Unavailable(reason=UnavailableReason.BUSY)
        gate.set()
        await asyncio.gather(*calls)
        assert answered(await worker.run(lambda: 1, timeout_secs=5)) == 1
        await asyncio.to_thread(worker.join)

    asyncio.run(body())


def test_hits_of_another_owner_are_dropped_and_counted() -> None:
    async def body() -> None:
        mine, other = new_owner(), new_owner()
        engine = FaultyEngine()
        answered(await engine.add([make_record(mine, "mine"), make_record(other, "theirs")]))
        engine.otherwise = EngineFault.FOREIGN_HITS
        hits = answered(await engine.search(mine, "anything"))
        assert [hit.record.text for hit in hits] == ["mine"]
        assert engine.counters.foreign_hits == 1
        await engine.close()

    asyncio.run(body())


def test_duplicate_hits_are_one_hit() -> None:
    async def body() -> None:
        owner = new_owner()
        engine = FaultyEngine()
        answered(await engine.add([make_record(owner, "tea"), make_record(owner, "coffee")]))
        engine.otherwise = EngineFault.DUPLICATE_HITS
        hits = answered(await engine.search(owner, "tea", limit=3))
        assert sorted(hit.record.text for hit in hits) == ["coffee", "tea"]
        await engine.close()

    asyncio.run(body())


def test_F14_one_text_that_cannot_be_embedded_does_not_take_the_others_with_it() -> None:
    async def body() -> None:
        owner = new_owner()
        engine = InMemoryEngine(embedder=PickyEmbedder())
        good, bad, short = (make_record(owner, text) for text in ("good text", "bad \ufffd text", "short"))
        report = answered(await engine.add([good, bad, short]))
        assert report.stored == (good.id,)
        assert set(report.failed) == {bad.id, short.id}
        assert engine.counters.unembedded == 2
        await engine.close()

    asyncio.run(body())


def test_a_bulk_load_is_written_in_parts_and_whole() -> None:
    async def body() -> None:
        owner = new_owner()
        engine = InMemoryEngine()
        records = [make_record(owner, f"fact {n}") for n in range(200)]
        assert len(answered(await engine.add(records)).stored) == 200
        assert engine.counters.calls > 1
        assert answered(await erase_owner(engine, owner)) == 200
        await engine.close()

    asyncio.run(body())


def test_a_wrong_argument_is_the_callers_error_and_not_an_answer() -> None:
    async def body() -> None:
        engine = InMemoryEngine()
        with pytest.raises(UsageError):
            await engine.search(new_owner(), "tea", limit=0)
        with pytest.raises(UsageError):
            await engine.list_by_owner(new_owner(), limit=0)
        await engine.close()

    asyncio.run(body())
