"""Telling what a request to the LLM is made of: the event, the metrics and the log, after the request has gone on."""

from __future__ import annotations

from loguru import logger
from pipecat.frames.frames import MetricsFrame
from pipecat.processors.frame_processor import FrameProcessor

from pipecat_voicectx.processors.projection_metrics import ProjectionMetricsData, counted, described
from pipecat_voicectx.processors.tool_advertising import tools_tokens
from pipecat_voicectx.processors.window_planner import Projection

__all__ = ["ProjectionReports"]


class ProjectionReports:
    """Reports of one processor, which has registered `on_projected` and `on_recall`."""

    def __init__(self, processor: FrameProcessor) -> None:
        self._processor = processor
        self._tools_cost: tuple[object, int] = (None, 0)

    async def tell(self, projection: Projection, tools: object, took_secs: float) -> None:
        """Counts and tells."""
        processor = self._processor
        report = counted(projection, tools_tokens=self._tokens_of(tools), took_secs=took_secs)
        logger.debug("{}: {}", processor, described(report))
        if processor.metrics_enabled:
            data = ProjectionMetricsData.of(report, processor=processor.name)
            await processor.push_frame(MetricsFrame(data=[data]))
        await processor._call_event_handler("on_projected", report)
        if projection.plan is not None:
            await processor._call_event_handler("on_recall", projection.recall)

    def _tokens_of(self, tools: object) -> int:
        if self._tools_cost[0] is not tools:
            self._tools_cost = (tools, tools_tokens(tools))
        return self._tools_cost[1]
