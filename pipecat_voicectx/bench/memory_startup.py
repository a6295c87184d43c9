"""How long a returning caller's pages take to be searchable when a call starts, from a store on the disk."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipecat_voicectx.bench.made_pages import BENCH_OWNER, made_page
from pipecat_voicectx.bench.memory_latency import RandomEmbedder, made_text
from pipecat_voicectx.stores.page_memory import PageMemory, PageStoreConfig
from pipecat_voicectx.stores.page_store import open_page_store
from pipecat_voicectx.stores.stored_pages import StoredPage

__all__ = ["StartUp", "measure_startup"]

_BATCH = 500
_TURN_WORDS = 20
# Pages of one topic are near each other, as those of real calls are: they make threads.
_PAGES_OF_A_TOPIC = 30
_SPREAD = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class StartUp:
    """Of one start."""

    searchable_secs: float
    """By the clock, until a question finds its page."""
    searchable_cpu_secs: float
    """The same in CPU time of the process, which other processes stretch less."""
    open_secs: float
    """Until the database is open as well, and takes writes."""


def measure_startup(pages: int, *, seed: int) -> tuple[StartUp, StartUp]:
    """The first start after the pages were written by other means, and the second one, which is the usual one."""
    with tempfile.TemporaryDirectory(prefix="voicectx-bench-") as folder:
        _fill(Path(folder), pages, random.Random(seed))
        first, usual = (asyncio.run(_start(Path(folder), pages)) for _ in range(2))
        return first, usual


def _fill(folder: Path, count: int, rng: random.Random) -> None:
    noise = np.random.default_rng(rng.getrandbits(32))
    size = RandomEmbedder.dimension
    topics = noise.normal(size=(max(1, count // _PAGES_OF_A_TOPIC), size))
    store = open_page_store(folder, embedder=RandomEmbedder())
    try:
        for start in range(0, count, _BATCH):
            batch = [
                _stored(number, topics, noise, rng) for number in range(start, min(start + _BATCH, count))
            ]
            store.submit(lambda database, batch=batch: database.upsert(*batch)).result()  # type: ignore[misc]
    finally:
        store.close()


def _stored(number: int, topics: np.ndarray, noise: np.random.Generator, rng: random.Random) -> StoredPage:
    topic = topics[rng.randrange(len(topics))]
    user, bot = (topic + _SPREAD * noise.normal(size=(2, len(topic)))).astype(np.float32)
    page = made_page(number, made_text(_TURN_WORDS, rng), made_text(_TURN_WORDS, rng))
    return StoredPage(page, (user, bot))


async def _start(folder: Path, count: int) -> StartUp:
    memory = PageMemory(
        owner=BENCH_OWNER,
        session_id="now",
        embedder=RandomEmbedder(),
        store=PageStoreConfig(path=folder, load_limit=count),
    )
    began_secs, began_cpu_secs = time.perf_counter(), time.process_time()
    opening = asyncio.ensure_future(memory.open())
    while not memory.rank("word17") and not opening.done():  # noqa: ASYNC110  as a call's turns do
        await asyncio.sleep(0.01)
    searchable_secs, cpu_secs = time.perf_counter() - began_secs, time.process_time() - began_cpu_secs
    await opening
    open_secs = time.perf_counter() - began_secs
    await memory.close()
    return StartUp(searchable_secs=searchable_secs, searchable_cpu_secs=cpu_secs, open_secs=open_secs)
