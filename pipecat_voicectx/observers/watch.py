"""`SessionWatch`: one pipeline's events, as typed values, to one sink.

A watch subscribes to the event handlers our processors have, and is a Pipecat observer of the frames everybody knows.
Both are fed by tasks and queues of Pipecat's own: the sink is called on the event loop, never between an audio frame
and its next processor. Only the context is copied where it passes, once per request to the model.

While nobody watches there is no watch: `detach` takes every handler off again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    ErrorFrame,
    Frame,
    FunctionCallInProgressFrame,
    InterruptionFrame,
    LLMContextFrame,
    MetricsFrame,
    ServiceMetadataFrame,
    TranscriptionFrame,
    UserStartedSpeakingFrame,
    UserStoppedSpeakingFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.metrics.metrics import ProcessingMetricsData, TTFBMetricsData
from pipecat.observers.base_observer import BaseObserver, FramePushed
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.llm_service import LLMService

from pipecat_voicectx.observers.captures import KnowsFacts, capture_context, capture_facts, capture_threads
from pipecat_voicectx.observers.codec import encode
from pipecat_voicectx.observers.core_taps import CoreCall, CoreTaps
from pipecat_voicectx.observers.events import EventKind, SessionEvent
from pipecat_voicectx.observers.parts import SessionParts
from pipecat_voicectx.private_reads import private
from pipecat_voicectx.processors import frames as our_frames
from pipecat_voicectx.voice_context import VoiceContext

__all__ = ["SessionWatch", "Sink"]

Sink: TypeAlias = Callable[[SessionEvent], None]
Handler: TypeAlias = Callable[..., Awaitable[None]]

_KINDS: dict[str, EventKind] = {
    "on_speaking_rate": EventKind.SPEAKING_RATE,
    "on_network_state": EventKind.NETWORK,
    "on_audio_gap": EventKind.AUDIO_GAP,
    "on_turn_held": EventKind.HELD,
    "on_turn_released": EventKind.RELEASED,
    "on_recall": EventKind.RECALL,
    "on_projected": EventKind.PROJECTED,
    "on_memory_written": EventKind.PAGE,
    "on_directive": EventKind.DIRECTIVE,
    "on_directive_rejected": EventKind.REJECTED,
    "on_heard": EventKind.HEARD,
}
"""Events by name; what `VoiceContext.EVENTS` has beyond them is passed on as `EventKind.OTHER`."""
_TOLD_BY_FRAMES = frozenset({"on_acoustics", "on_affect"})
_OWN_STATE_FRAMES = ("NetworkStateFrame", "SpeakingRateFrame", "DirectiveFrame", "HeardTurnFrame")
# Threads and facts are read this long after a page was kept: vectors, joins and extraction follow it. Chosen.
_MEMORY_SETTLES_SECS = 1.0


class SessionWatch(BaseObserver):
    """Watches one worker's pipeline from `attach` to `detach`."""

    def __init__(
        self,
        worker: PipelineWorker,
        sink: Sink,
        *,
        facts: KnowsFacts | None = None,
        on_call: Callable[[CoreCall], None] | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        """Args:
        worker: Whose pipeline it is; running or not.
        sink: Called with every event, on the event loop. Must return at once and must not raise.
        facts: The facts and persona of the caller, where the bot has them.
        on_call: Gets every call to a pure core, for a recording that can be replayed.
        on_end: Called when the worker lets its observers go: processors may still report while they are cleaned up.
        """
        super().__init__(observe_every_push=False)
        self._worker = worker
        self._sink = sink
        self._facts = facts
        self._on_end = on_end
        self._parts = SessionParts.of(worker)
        self._taps = CoreTaps(on_call) if on_call is not None else None
        self._handlers: list[tuple[Any, str, Handler]] = []
        self._number = 0
        self._speech_ended_secs: float | None = None
        self._threads_due: asyncio.TimerHandle | None = None
        self._attached = False
        self.started_secs = time.monotonic()
        """Monotonic time of `at_secs` 0."""
        self.started_wall_secs = time.time()

    @property
    def parts(self) -> SessionParts:
        """What was found to watch."""
        return self._parts

    def attach(self) -> None:
        """Subscribes, and tells first how things stand. Harmless when repeated."""
        if self._attached:
            return
        self._attached = True
        self._worker.add_observer(self)
        for processor in self._parts.ours:
            self._subscribe(processor, _events_of(processor))
        self._subscribe_holds()
        for llm in self._parts.llms:
            self._add(llm, "on_before_process_frame", self._on_llm_frame)
        if self._taps is not None:
            self._taps.attach(self._parts)
        self._tell_present()

    async def detach(self) -> None:
        """Takes every subscription off. Harmless when repeated."""
        if not self._attached:
            return
        self._attached = False
        for source, name, handler in self._handlers:
            source.remove_event_handler(name, handler)
        self._handlers.clear()
        if self._taps is not None:
            self._taps.detach()
        if self._threads_due is not None:
            self._threads_due.cancel()
            self._threads_due = None
        await self._worker.remove_observer(self)

    async def cleanup(self) -> None:
        """The worker is done with its observers."""
        await super().cleanup()  # type: ignore[no-untyped-call]
        if self._attached and self._on_end is not None:
            self._on_end()

    async def on_push_frame(self, data: FramePushed) -> None:
        """Frames everybody knows, when they are first pushed."""
        frame = data.frame
        # What is broadcast comes both ways; errors only ever go up.
        if data.direction is FrameDirection.UPSTREAM and not isinstance(frame, ErrorFrame):
            return
        match frame:
            case UserStartedSpeakingFrame():
                self._emit(EventKind.USER_TURN, {"phase": "started"})
            case UserStoppedSpeakingFrame():
                self._emit(EventKind.USER_TURN, {"phase": "stopped"})
            case VADUserStartedSpeakingFrame():
                self._speech_ended_secs = None
                self._emit(EventKind.USER_TURN, {"phase": "speech"})
            case VADUserStoppedSpeakingFrame():
                self._speech_ended_secs = time.monotonic() - frame.stop_secs
                self._emit(EventKind.USER_TURN, {"phase": "silence", "stop_secs": frame.stop_secs})
            case TranscriptionFrame():
                self._emit(EventKind.USER_TEXT, {"text": frame.text, "user_id": frame.user_id})
            case BotStartedSpeakingFrame():
                self._bot_started()
            case BotStoppedSpeakingFrame():
                self._emit(EventKind.BOT, {"phase": "stopped"})
            case InterruptionFrame():
                self._emit(EventKind.BOT, {"phase": "interrupted"})
            case MetricsFrame():
                self._metrics(frame)
            case FunctionCallInProgressFrame():
                self._emit(
                    EventKind.CALL, {"name": frame.function_name, "arguments": encode(frame.arguments)}
                )
            case ErrorFrame():
                self._emit(EventKind.ERROR, {"where": type(data.source).__name__, "fatal": frame.fatal})
            case ServiceMetadataFrame():
                # A service may have installed stop strategies of its own.
                asyncio.get_running_loop().call_later(0.1, self._subscribe_holds)
            case _:
                self._other(frame)

    def _other(self, frame: Frame) -> None:
        name = type(frame).__name__
        if type(frame).__module__ == our_frames.__name__ and name not in _OWN_STATE_FRAMES:
            self._emit(EventKind.STATE, {"frame": name, "value": encode(getattr(frame, "state", None))})

    def _bot_started(self) -> None:
        self._emit(EventKind.BOT, {"phase": "started"})
        ended_secs, self._speech_ended_secs = self._speech_ended_secs, None
        if ended_secs is not None:
            self._emit(EventKind.LATENCY, {"secs": round(time.monotonic() - ended_secs, 4)})

    def _metrics(self, frame: MetricsFrame) -> None:
        for data in frame.data:
            if isinstance(data, (TTFBMetricsData, ProcessingMetricsData)) and data.value:
                what = "ttfb" if isinstance(data, TTFBMetricsData) else "processing"
                self._emit(
                    EventKind.METRIC, {"what": what, "where": data.processor, "secs": round(data.value, 5)}
                )

    async def _on_llm_frame(self, llm: FrameProcessor, frame: Frame) -> None:
        if isinstance(frame, LLMContextFrame) and not frame.speculation:
            instruction = _system_instruction(llm)
            self._emit(EventKind.CONTEXT, capture_context(frame.context, system_instruction=instruction))

    # Subscriptions

    def _subscribe(self, source: Any, names: list[str]) -> None:
        for name in names:
            self._add(source, name, self._handler(name))

    def _subscribe_holds(self) -> None:
        if not self._attached:
            return
        known = {id(source) for source, _, _ in self._handlers}
        for strategy in self._parts.turn_holds():
            if id(strategy) not in known:
                self._subscribe(strategy, ["on_turn_held", "on_turn_released"])
        if self._taps is not None:
            self._taps.attach(self._parts)

    def _add(self, source: Any, name: str, handler: Handler) -> None:
        source.add_event_handler(name, handler)
        self._handlers.append((source, name, handler))

    def _handler(self, name: str) -> Handler:
        kind = _KINDS.get(name, EventKind.OTHER)

        async def handle(_source: object, *values: object) -> None:
            if kind is EventKind.OTHER:
                self._emit(kind, {"event": name, "values": [encode(value) for value in values]})
                return
            self._emit(kind, values[0] if values else None)
            if kind in (EventKind.PAGE, EventKind.PROJECTED):
                self._memory_changes()

        return handle

    # The present

    def _tell_present(self) -> None:
        parts = self._parts
        if parts.orchestrator is not None:
            self._emit(EventKind.CONFIG, encode(parts.orchestrator.snapshot))
        if parts.speaking_rate is not None:
            self._emit(EventKind.SPEAKING_RATE, parts.speaking_rate.state)
        if parts.network is not None:
            self._emit(EventKind.NETWORK, parts.network.state)
        self._tell_memory()

    def _memory_changes(self) -> None:
        if self._threads_due is None and self._attached:
            loop = asyncio.get_running_loop()
            self._threads_due = loop.call_later(_MEMORY_SETTLES_SECS, self._tell_memory)

    def _tell_memory(self) -> None:
        self._threads_due = None
        memory = self._parts.memory
        if memory is not None and memory.memory.pages:
            self._emit(EventKind.THREADS, capture_threads(memory.memory, session_id=memory.session_id))
        facts = self._facts
        if facts is None and memory is not None and memory.facts is not None:
            facts = memory.facts.memory
        if facts is not None:
            self._emit(EventKind.FACTS, capture_facts(facts))

    def _emit(self, kind: EventKind, value: object) -> None:
        self._number += 1
        at_secs = time.monotonic() - self.started_secs
        self._sink(SessionEvent(number=self._number, at_secs=at_secs, kind=kind, value=value))


def _events_of(processor: FrameProcessor) -> list[str]:
    """The events of ours that a processor raises; several raise none of some."""
    registered = private(processor, "_event_handlers", {})
    return [name for name in VoiceContext.EVENTS if name in registered and name not in _TOLD_BY_FRAMES]


def _system_instruction(llm: FrameProcessor) -> str:
    if not isinstance(llm, LLMService):
        return ""
    instruction = getattr(private(llm, "_settings"), "system_instruction", None)
    return instruction if isinstance(instruction, str) else ""
