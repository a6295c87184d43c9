"""Finds in a pipeline what can be watched, whether `VoiceContext` built it or somebody placed the processors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.aggregators.llm_response_universal import LLMUserAggregator
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.llm_service import LLMService

from pipecat_voicectx.private_reads import private
from pipecat_voicectx.processors.memory_projector import MemoryProjector
from pipecat_voicectx.processors.network_tracker import NetworkTracker
from pipecat_voicectx.processors.orchestrator import Orchestrator
from pipecat_voicectx.processors.playback_ledger import PlaybackLedger
from pipecat_voicectx.processors.speaking_rate_tracker import SpeakingRateTracker
from pipecat_voicectx.processors.turn_hold import TurnHoldStopStrategy

__all__ = ["SessionParts"]

_OUR_PROCESSORS = "pipecat_voicectx.processors."


@dataclass(slots=True, kw_only=True)
class SessionParts:
    """The parts of one pipeline; what is not there is not watched."""

    speaking_rate: SpeakingRateTracker | None = None
    network: NetworkTracker | None = None
    memory: MemoryProjector | None = None
    orchestrator: Orchestrator | None = None
    playback: PlaybackLedger | None = None
    llms: list[FrameProcessor] = field(default_factory=list)
    user_aggregators: list[LLMUserAggregator] = field(default_factory=list)
    ours: list[FrameProcessor] = field(default_factory=list)
    """The processors of this package, in pipeline order."""

    @classmethod
    def of(cls, worker: PipelineWorker) -> SessionParts:
        """Looks through the worker's pipeline, branches included."""
        parts = cls()
        for processor in _walk(worker.pipeline):
            if type(processor).__module__.startswith(_OUR_PROCESSORS):
                parts.ours.append(processor)
            match processor:
                case SpeakingRateTracker():
                    parts.speaking_rate = processor
                case NetworkTracker():
                    parts.network = processor
                case MemoryProjector():
                    parts.memory = processor
                case Orchestrator():
                    parts.orchestrator = processor
                case PlaybackLedger():
                    parts.playback = processor
                case LLMService():
                    parts.llms.append(processor)
                case LLMUserAggregator():
                    parts.user_aggregators.append(processor)
                case _:
                    pass
        return parts

    def turn_holds(self) -> list[TurnHoldStopStrategy]:
        """The wrapped stop strategies as they are now; a service may install others later."""
        found: list[TurnHoldStopStrategy] = []
        for aggregator in self.user_aggregators:
            # Private in Pipecat, as in turn_hold_install: where it moves, holds are not watched.
            controller = private(aggregator, "_user_turn_controller")
            strategies = getattr(getattr(controller, "user_turn_strategies", None), "stop", None) or ()
            found += [strategy for strategy in strategies if isinstance(strategy, TurnHoldStopStrategy)]
        return found


def _walk(processor: FrameProcessor) -> Iterator[FrameProcessor]:
    yield processor
    for inner in processor.processors:
        yield from _walk(inner)
