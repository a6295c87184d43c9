"""Four hours of talk, simulated: the window, the tokens and the memory beside the page index stay flat."""

from __future__ import annotations

import asyncio
import gc
import os
import tracemalloc

import pytest
from pipecat.frames.frames import EndFrame, LLMContextFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.workers.runner import WorkerRunner

from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.processors.memory_projector import MemoryProjector
from pipecat_voicectx.projection.report import ProjectionReport
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.testing.virtual_time import run

# An exchange every 24 s.
_TURNS_IN_FOUR_HOURS = 600
_TURNS = _TURNS_IN_FOUR_HOURS if os.environ.get("VOICECTX_SOAK") else 100
_TOPICS = ("garden", "train", "soup", "window", "piano", "ticket", "river", "cousin", "invoice", "winter")


@pytest.mark.soak
def test_four_hours_of_talk_keep_window_tokens_and_memory_flat() -> None:
    reports: list[ProjectionReport] = []
    sizes: list[int] = []
    heap: list[int] = []

    async def main() -> None:
        projector = MemoryProjector(owner=Owner(user_id="long"), embedder=LexicalEmbedder())
        projector.add_event_handler("on_projected", lambda _p, report: reports.append(report))
        worker = PipelineWorker(Pipeline([projector]), cancel_on_idle_timeout=False)
        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(worker)
        running = asyncio.create_task(runner.run())
        await asyncio.sleep(0.5)
        context = LLMContext([{"role": "system", "content": "Be brief."}])
        for number in range(_TURNS):
            topic = _TOPICS[number % len(_TOPICS)]
            context.add_message({"role": "user", "content": f"Question {number} about the {topic}, please."})
            await worker.queue_frame(LLMContextFrame(context=context))
            await asyncio.sleep(24)
            context.add_message({"role": "assistant", "content": f"The {topic} is fine, number {number}."})
            sizes.append(len(context.messages))
            if number % 20 == 19:
                gc.collect()
                heap.append(tracemalloc.get_traced_memory()[0])
        await worker.queue_frame(EndFrame())
        await running

    tracemalloc.start()
    try:
        run(main())
    finally:
        tracemalloc.stop()
    assert len(reports) == _TURNS
    assert max(sizes[20:]) <= max(sizes[:20])
    tokens = [report.tokens.total for report in reports]
    assert max(tokens[-40:]) <= 1.1 * max(tokens[20:60])
    # What grows is the page itself, its row in the index and its thread: some kilobytes a page, and nothing else.
    grown = (heap[-1] - heap[1]) / (20 * (len(heap) - 2))
    assert grown < 15_000
