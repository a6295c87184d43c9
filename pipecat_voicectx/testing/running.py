"""A pipeline from its start to its EndFrame, around whatever a test does with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pipecat.frames.frames import EndFrame, StartFrame
from pipecat.pipeline.worker import PipelineWorker
from pipecat.workers.runner import WorkerRunner

__all__ = ["running"]


@asynccontextmanager
async def running(worker: PipelineWorker) -> AsyncIterator[None]:
    """Entered when the pipeline has started. It ends in order even when the body failed, whose failure is raised."""
    started = asyncio.Event()

    async def on_started(_worker: object, _frame: StartFrame) -> None:
        started.set()

    worker.add_event_handler("on_pipeline_started", on_started)
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    ended = asyncio.ensure_future(runner.run())
    try:
        await started.wait()
        yield
    finally:
        await worker.queue_frame(EndFrame())
        await ended
