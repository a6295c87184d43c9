"""OpenTelemetry spans of our parts, as children of Pipecat's turn span.

    worker = PipelineWorker(pipeline, enable_tracing=True)
    SessionTracing.attach(worker)          # before the worker runs; does nothing when tracing is off

    turn
    ├── stt, llm, tts                      Pipecat's
    ├── voicectx.recall                    ranking what is remembered
    ├── voicectx.projection                fitting the window, recall included: time on the response path
    ├── voicectx.decision                  a turn held open until it was let go; a directive; a refused call
    ├── voicectx.repair                    from the onset of a barge-in until the conversation says what was heard
    └── voicectx.commit                    from the end of playback until the answer stands; a page in the journal

Attributes are counts, names and times, never words. `opentelemetry` is optional: Pipecat's `tracing` extra brings it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from pipecat.observers.base_observer import BaseObserver, FramePushed
from pipecat.pipeline.worker import PipelineWorker
from pipecat.utils.tracing.setup import is_tracing_available

from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.memory.ranking import RankedPage
from pipecat_voicectx.observers.parts import SessionParts
from pipecat_voicectx.orchestrator.directives import Directive
from pipecat_voicectx.orchestrator.functions import RejectedCall
from pipecat_voicectx.orchestrator.turn_hold import TurnHeld, TurnReleased
from pipecat_voicectx.playback.heard import HeardTurn
from pipecat_voicectx.processors.memory_projector import Recall
from pipecat_voicectx.projection.report import ProjectionReport

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanContext

__all__ = ["SessionTracing"]

Attributes: TypeAlias = dict[str, "str | bool | int | float"]
Handler: TypeAlias = Callable[..., Awaitable[None]]

_PREFIX = "voicectx"


class SessionTracing(BaseObserver):
    """Makes spans of one worker's session."""

    def __init__(self, worker: PipelineWorker) -> None:
        """See `attach`."""
        super().__init__(observe_every_push=False)
        from opentelemetry import trace

        self._worker = worker
        self._parts = SessionParts.of(worker)
        self._tracer = trace.get_tracer("pipecat_voicectx")
        self._latest_turn: SpanContext | None = None
        self._ranking: tuple[float, float] | None = None
        self._held: TurnHeld | None = None

    @classmethod
    def attach(cls, worker: PipelineWorker) -> SessionTracing | None:
        """Subscribes to a worker's session. None, and nothing done, when Pipecat does not trace it."""
        if not is_tracing_available() or worker.turn_trace_observer is None:
            return None
        tracing = cls(worker)
        tracing._subscribe()
        worker.add_observer(tracing)
        return tracing

    def _subscribe(self) -> None:
        parts = self._parts
        handlers: list[tuple[Any, str, Handler]] = [
            *((hold, "on_turn_held", self._on_held) for hold in parts.turn_holds()),
            *((hold, "on_turn_released", self._on_released) for hold in parts.turn_holds()),
            (parts.orchestrator, "on_directive", self._on_directive),
            (parts.orchestrator, "on_directive_rejected", self._on_rejected),
            (parts.memory, "on_recall", self._on_recall),
            (parts.memory, "on_projected", self._on_projected),
            (parts.memory, "on_memory_written", self._on_written),
            (parts.playback, "on_heard", self._on_heard),
        ]
        for source, name, handler in handlers:
            if source is not None:
                source.add_event_handler(name, handler)
        if parts.memory is not None:
            self._time_ranking(parts.memory.memory)

    async def on_push_frame(self, data: FramePushed) -> None:
        """Remembers the turn: what it caused may be over only after it."""
        self._turn()

    def _time_ranking(self, memory: Any) -> None:
        rank = memory.rank

        def timed(*args: Any, **kwargs: Any) -> list[RankedPage]:
            began = time.perf_counter()
            found: list[RankedPage] = rank(*args, **kwargs)
            self._ranking = (time.time(), time.perf_counter() - began)
            return found

        memory.rank = timed

    # What happened

    async def _on_recall(self, _source: object, recall: Recall) -> None:
        ranking, self._ranking = self._ranking, None
        at_wall_secs, secs = ranking if ranking is not None else (time.time(), 0.0)
        fidelities = [page.fidelity for page in recall.pages]
        self._span(
            "recall",
            secs=secs,
            end_wall_secs=at_wall_secs,
            pages=len(recall.pages),
            by_meaning=recall.by_meaning,
            resumed=recall.resumed,
            **{f"{name}s": fidelities.count(name) for name in sorted(set(fidelities))},
        )

    async def _on_projected(self, _source: object, report: ProjectionReport) -> None:
        tokens = report.tokens
        self._span(
            "projection",
            secs=report.took_secs,
            tokens_total=tokens.total,
            tokens_history=tokens.history,
            tokens_recalled=tokens.recalled,
            candidates=report.candidates,
            omitted=report.omitted,
            kept_exchanges=report.kept_exchanges,
            removed_exchanges=report.removed_exchanges,
        )

    async def _on_held(self, _source: object, held: TurnHeld) -> None:
        self._held = held

    async def _on_released(self, _source: object, released: TurnReleased) -> None:
        held, self._held = self._held, None
        self._span(
            "decision",
            secs=released.held_secs,
            kind="hold",
            reason=held.reason.value if held is not None else "",
            outcome=released.reason.value,
            vouched_secs=released.vouched_secs,
        )

    async def _on_directive(self, _source: object, directive: Directive) -> None:
        self._span(
            "decision", kind=type(directive).__name__, origin=directive.origin.value, outcome="applied"
        )

    async def _on_rejected(self, _source: object, rejected: RejectedCall) -> None:
        self._span("decision", kind=rejected.function, outcome="rejected", reason=rejected.error.value)

    async def _on_heard(self, _source: object, turn: HeardTurn) -> None:
        self._span(
            "repair" if turn.interrupted else "commit",
            secs=max(0.0, time.monotonic() - turn.ended_secs),
            kind="turn",
            turn_id=turn.turn_id,
            heard_words=len(turn.heard_text.split()),
            unheard_words=len(turn.unheard_text.split()),
            evidence=turn.evidence.value,
            estimated=turn.estimated,
        )

    async def _on_written(self, _source: object, page: VoicePage) -> None:
        self._span("commit", kind="page", page_index=page.index)

    # Spans

    def _turn(self) -> SpanContext | None:
        observer = self._worker.turn_trace_observer
        current = observer.get_current_turn_context() if observer is not None else None
        if current is not None:
            self._latest_turn = current
        return self._latest_turn

    def _span(
        self,
        name: str,
        *,
        secs: float = 0.0,
        end_wall_secs: float | None = None,
        **attributes: str | bool | int | float,
    ) -> None:
        """A span that is over. Its end is now, or `end_wall_secs`."""
        end_ns = time.time_ns() if end_wall_secs is None else round(end_wall_secs * 1e9)
        span = self._tracer.start_span(
            f"{_PREFIX}.{name}", context=self._parent(), start_time=end_ns - round(secs * 1e9)
        )
        for key, value in attributes.items():
            span.set_attribute(f"{_PREFIX}.{key}", value)
        span.end(end_ns)

    def _parent(self) -> Context | None:
        from opentelemetry.trace import NonRecordingSpan, set_span_in_context

        turn = self._turn()
        return set_span_in_context(NonRecordingSpan(turn)) if turn is not None else None
