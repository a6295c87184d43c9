"""A bare pipeline that hears a caller: no transport, no voice, nothing that listens to audio behind the aggregator."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pipecat.frames.frames import Frame, InputAudioRawFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.frame_processor import FrameCallback, FrameDirection, FrameProcessor
from pipecat.workers.runner import WorkerRunner

from pipecat_voicectx.bench.loss_audio import RATE_HZ, Arrival

__all__ = ["AudioEnds", "CallLine"]


class AudioEnds(FrameProcessor):
    """Nothing behind the aggregator listens to the caller's audio; passing it on is a third of the bench's work."""

    async def queue_frame(
        self,
        frame: Frame,
        direction: FrameDirection = FrameDirection.DOWNSTREAM,
        callback: FrameCallback | None = None,
    ) -> None:
        if not isinstance(frame, InputAudioRawFrame):
            await super().queue_frame(frame, direction, callback)

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        await self.push_frame(frame, direction)


class CallLine:
    """The pipeline and what runs it. The first processor has the place of a transport."""

    def __init__(self, processors: Sequence[FrameProcessor]) -> None:
        self._first = processors[0]
        self._worker = PipelineWorker(
            Pipeline(list(processors)),
            params=PipelineParams(audio_in_sample_rate=RATE_HZ),
            enable_rtvi=False,
            idle_timeout_secs=None,
            cancel_on_idle_timeout=False,
            check_dangling_tasks=False,
            enable_turn_tracking=False,
        )
        self._runner = WorkerRunner(handle_sigint=False)
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._runner.add_workers(self._worker)
        started = asyncio.Event()
        self._worker.add_event_handler("on_pipeline_started", lambda *_: started.set())
        self._running = asyncio.create_task(self._runner.run())
        await started.wait()

    async def stop(self) -> None:
        await self._runner.cancel()
        if self._running is not None:
            await self._running

    async def hear(self, arrival: Arrival) -> None:
        frame = InputAudioRawFrame(audio=arrival.audio, sample_rate=RATE_HZ, num_channels=1)
        frame.pts = arrival.pts
        await self._first.push_frame(frame)
