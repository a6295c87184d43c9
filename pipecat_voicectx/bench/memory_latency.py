"""How long the response path takes with N pages and N facts stored, and how long an engine's own search would.

Path: from a context frame leaving the processor in front of ours to its arrival at the one behind, event loop and
queues included; the query's embedding is ready, as it is when transcripts come before the turn's end. Texts are made of
random words with natural frequencies and vectors are random, which no time depends on.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pipecat.frames.frames import (
    EndFrame,
    Frame,
    LLMContextFrame,
    TranscriptionFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.workers.runner import WorkerRunner

from pipecat_voicectx.bench.made_pages import BENCH_OWNER, made_page
from pipecat_voicectx.memory.facts import USER, Assertion, Fact, fact_id
from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.memory.reconcile import Add
from pipecat_voicectx.memory.records import MemoryHit, MemoryRecord, record_id
from pipecat_voicectx.processors.memory_projector import MemoryProjector
from pipecat_voicectx.stores.blocking_engine import Embedded, SearchRequest
from pipecat_voicectx.stores.embedders import Embedder
from pipecat_voicectx.stores.engine import AddReport
from pipecat_voicectx.stores.fact_session import FactsConfig
from pipecat_voicectx.stores.fact_writer import FactWriter
from pipecat_voicectx.stores.mem0_engine import Mem0Engine
from pipecat_voicectx.stores.memory_folder import facts_path
from pipecat_voicectx.stores.stored_pages import StoredPage

__all__ = ["RandomEmbedder", "made_text", "measure_engine", "measure_path"]

_WORDS = [f"word{n}" for n in range(8_000)]
_CUMULATIVE = list(itertools.accumulate(1 / (n + 1) for n in range(8_000)))
_TURN_WORDS = 20
_QUERY_WORDS = 12
_FACT_WORDS = 6
# Pipecat's default from the end of speech to the end of the turn, at the least.
_TURN_STOP_SECS = 0.2
_ATTRIBUTES = ("like", "have", "want", "take", "plan", "use")
# The engine is asked so often; its times are far from each other's noise. A query over 10,000 records takes a second.
_ENGINE_QUERIES = 9


class RandomEmbedder:
    """A vector that depends on the text alone, and means nothing."""

    name = "random-384"
    dimension = 384

    def embed(self, texts: Sequence[str]) -> list[FloatArray]:
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> FloatArray:
        seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
        return np.random.default_rng(seed).normal(size=self.dimension).astype(np.float32)


class _Stamp(FrameProcessor):
    """Notes when context frames pass."""

    def __init__(self) -> None:
        super().__init__()
        self.times_secs: list[float] = []

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, LLMContextFrame):
            self.times_secs.append(time.perf_counter())
        await self.push_frame(frame, direction)


class _SlowMem0(Mem0Engine):
    """Mem0 that takes its time for every search and every write."""

    slow_secs = 0.0

    def _search_now(self, request: SearchRequest) -> Sequence[MemoryHit]:
        time.sleep(self.slow_secs)
        return super()._search_now(request)

    def _add_now(self, embedded: Embedded) -> AddReport:
        time.sleep(self.slow_secs)
        return super()._add_now(embedded)


def measure_path(
    pages: int, *, turns: int, seed: int, facts: bool = True, engine_secs: float | None = None
) -> tuple[list[float], list[float]]:
    """Seconds on the path for each of `turns` turns: with the event loop, and the projector's own part.

    With `facts`, the caller has as many facts as pages in the default engine, and each turn recalls from both.
    With `engine_secs` the engine is asked when speech stops, as in a call, and takes that much longer for each search
    and each write.
    """
    with tempfile.TemporaryDirectory(prefix="voicectx-bench-") as folder:
        kept = Path(folder) if facts else None
        return asyncio.run(_path(pages, turns, random.Random(seed), kept, engine_secs))


async def _path(
    count: int, turns: int, rng: random.Random, folder: Path | None, engine_secs: float | None
) -> tuple[list[float], list[float]]:
    before, after = _Stamp(), _Stamp()
    config = None
    if folder is not None:
        await _store_facts(folder, count, rng)
        config = FactsConfig(engine=lambda _, embedder: _slow_engine(folder, embedder, engine_secs or 0.0))
    projector = MemoryProjector(
        owner=BENCH_OWNER, embedder=RandomEmbedder(), stt=before, session_id="now", facts=config
    )
    own: list[float] = []
    projector.add_event_handler("on_projected", lambda _p, report: own.append(report.took_secs))
    worker = PipelineWorker(Pipeline([before, projector, after]), cancel_on_idle_timeout=False)
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    running = asyncio.create_task(runner.run())
    await asyncio.sleep(0.3)
    known = projector.facts.memory if projector.facts is not None else None
    while known is not None and known.size < count:  # noqa: ASYNC110  loaded while a call connects
        await asyncio.sleep(0.05)
    vectors = np.random.default_rng(1).normal(size=(count, 2, 384)).astype(np.float32)
    projector.memory.preload(
        [StoredPage(_page(n, rng), (vectors[n, 0], vectors[n, 1])) for n in range(count)]
    )
    context = LLMContext([{"role": "system", "content": "You are a helpful voice agent."}])
    for number in range(turns + 3):
        text = made_text(_QUERY_WORDS, rng)
        if engine_secs is not None:
            await worker.queue_frame(VADUserStartedSpeakingFrame())
            await worker.queue_frame(VADUserStoppedSpeakingFrame())
            await asyncio.sleep(_TURN_STOP_SECS)
        await worker.queue_frame(TranscriptionFrame(text=text, user_id="u", timestamp="t"))
        await asyncio.sleep(0.06)
        context.add_message({"role": "user", "content": text})
        await worker.queue_frame(LLMContextFrame(context=context))
        while len(after.times_secs) <= number:  # noqa: ASYNC110  measured outside this loop
            await asyncio.sleep(0.002)
        context.add_message({"role": "assistant", "content": made_text(_TURN_WORDS, rng)})
    await worker.queue_frame(EndFrame())
    await running
    path = [b - a for a, b in zip(before.times_secs, after.times_secs, strict=True)]
    # The first turns warm caches and pay for imports.
    return path[3:], own[3:]


def _slow_engine(folder: Path, embedder: Embedder, slow_secs: float) -> Mem0Engine:
    engine = _SlowMem0(embedder=embedder, path=facts_path(folder), timeout_secs=600)
    engine.slow_secs = slow_secs
    return engine


def _default_engine(folder: Path, embedder: Embedder) -> Mem0Engine:
    return Mem0Engine(embedder=embedder, path=facts_path(folder), timeout_secs=600)


async def _store_facts(folder: Path, count: int, rng: random.Random) -> None:
    engine = _default_engine(folder, RandomEmbedder())
    writer = FactWriter(BENCH_OWNER, engine)
    try:
        for start in range(0, count, 500):
            writer.apply(Add(fact=_fact(n, rng)) for n in range(start, min(start + 500, count)))
            await writer.write()
    finally:
        await engine.close()


def _fact(number: int, rng: random.Random) -> Fact:
    value = made_text(_FACT_WORDS, rng)
    said = Assertion(subject=USER, attribute=rng.choice(_ATTRIBUTES), value=value, statement="")
    return Fact(
        id=fact_id(said, began_wall_secs=20.0 * number),
        subject=said.subject,
        attribute=said.attribute,
        value=value,
        statement=f"The user has {said.attribute} {value}.",
        valid_from_wall_secs=20.0 * number,
        source_turns=(str(number),),
        last_said_wall_secs=20.0 * number,
    )


def measure_engine(records: int, *, seed: int) -> list[float]:
    """Seconds of one search of the default engine (Mem0 on embedded Qdrant) over `records` records of one owner."""
    with tempfile.TemporaryDirectory(prefix="voicectx-bench-") as folder:
        return asyncio.run(_engine(Path(folder), records, random.Random(seed)))


async def _engine(folder: Path, count: int, rng: random.Random) -> list[float]:
    engine = Mem0Engine(embedder=RandomEmbedder(), path=folder, timeout_secs=600)
    try:
        for start in range(0, count, 500):
            batch = [_record(n, rng) for n in range(start, min(start + 500, count))]
            await engine.add(batch)
        times: list[float] = []
        for _ in range(_ENGINE_QUERIES):
            started = time.perf_counter()
            await engine.search(BENCH_OWNER, made_text(_QUERY_WORDS, rng), limit=5)
            times.append(time.perf_counter() - started)
        return times
    finally:
        await engine.close()


def _record(number: int, rng: random.Random) -> MemoryRecord:
    return MemoryRecord(
        id=record_id(BENCH_OWNER, str(number)),
        owner=BENCH_OWNER,
        text=made_text(2 * _TURN_WORDS, rng),
        created_wall_secs=number,
        valid_from_wall_secs=number,
    )


def _page(number: int, rng: random.Random) -> VoicePage:
    return made_page(number, made_text(_TURN_WORDS, rng), made_text(_TURN_WORDS, rng))


def made_text(words: int, rng: random.Random) -> str:
    """Random words with natural frequencies."""
    return " ".join(rng.choices(_WORDS, cum_weights=_CUMULATIVE, k=words))
