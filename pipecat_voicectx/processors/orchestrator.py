"""`Orchestrator`: shows the voice states to the serving LLM and carries out what it decides.

Place it directly in front of the LLM. With each new turn it puts the states behind the history, where a prompt cache
keeps its prefix, and only when there is something to act on; it advertises four functions beside the application's
own tools, validates every call, and executes it. A turn in which the model calls nothing costs no extra request.

Speculative inference is shown the same states and changes nothing here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from loguru import logger
from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    CancelFrame,
    EndFrame,
    Frame,
    FunctionCallResultProperties,
    LLMContextFrame,
    SpeechControlParamsFrame,
    StartFrame,
    UserStartedSpeakingFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.llm_service import FunctionCallParams

from pipecat_voicectx.errors import InvalidTransitionError
from pipecat_voicectx.orchestrator.deferral import Continuation, Deferral, DeferralConfig, longer_silence_ms
from pipecat_voicectx.orchestrator.directives import (
    DeferResponse,
    Directive,
    DirectiveOrigin,
    SetResponseInstruction,
    SetResponseSpeed,
    SetVadSilenceDuration,
)
from pipecat_voicectx.orchestrator.functions import (
    CallError,
    RejectedCall,
    advertised_functions,
    parse_call,
)
from pipecat_voicectx.orchestrator.modes import ControlMode
from pipecat_voicectx.orchestrator.state_text import GUIDING_PRINCIPLE, RenderConfig, render_state
from pipecat_voicectx.processors.audio_lane import AudioLane
from pipecat_voicectx.processors.call_results import CallResults, accepted
from pipecat_voicectx.processors.frames import (
    AcousticsFrame,
    AffectFrame,
    DirectiveFrame,
    HeardTurnFrame,
    NetworkStateFrame,
    SpeakingRateFrame,
)
from pipecat_voicectx.processors.response_speed import ResponseSpeed
from pipecat_voicectx.processors.state_block import StateBlock
from pipecat_voicectx.processors.tool_advertising import advertise, warn_of_taken_names
from pipecat_voicectx.runtimes.llm_tap import LLMTap
from pipecat_voicectx.runtimes.speed import SpeedActuator
from pipecat_voicectx.states.acoustics import AcousticState
from pipecat_voicectx.states.affect import AffectState
from pipecat_voicectx.states.network import LinkBand, NetworkState
from pipecat_voicectx.states.snapshot import VoiceSnapshot
from pipecat_voicectx.states.speaking_rate import SpeakingRateState
from pipecat_voicectx.stores.voice_speeds import VoiceSpeeds

__all__ = ["Orchestrator", "OrchestratorConfig"]

# Pipecat's detector waits this long for silence until it says otherwise.
DEFAULT_VAD_STOP_SECS = 0.2
# Appended when a deferred response is given after all.
_ANSWER_NOW = "Answer now with what was heard, or ask the caller to repeat."
_ONCE = "nothing was changed; call each of these functions at most once in a response"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorConfig:
    """What the orchestrator may do."""

    mode: ControlMode = ControlMode.BOTH
    """Who decides about an unreliable line; `OFF` advertises and shows nothing."""
    deferral: DeferralConfig = field(default_factory=DeferralConfig)
    """Deadlines of a deferred response."""
    render: RenderConfig = field(default_factory=RenderConfig)
    """When a state is worth its tokens."""


class Orchestrator(AudioLane):
    """Event handlers: `on_directive(orchestrator, directive: Directive)` when one took effect,
    `on_directive_rejected(orchestrator, rejected: RejectedCall)` when a call changed nothing.
    """

    def __init__(
        self,
        *,
        context: LLMContext | None = None,
        llm: FrameProcessor | None = None,
        tts: FrameProcessor | None = None,
        speed: SpeedActuator | None = None,
        voice_speeds: VoiceSpeeds | None = None,
        config: OrchestratorConfig | None = None,
        name: str | None = None,
    ) -> None:
        """Args:
        context: The conversation. None: taken from the first inference.
        llm: The serving LLM, which runs the functions.
        tts: The voice, whose speed control is looked up.
        speed: A speed control of your own, instead of the one of `tts`.
        voice_speeds: Where what is learned of a voice's tempo is kept between calls. None: with the call it is gone.
        config: Mode, deadlines and thresholds.
        """
        super().__init__(name=name)
        self._config = config or OrchestratorConfig()
        self._context = context
        self._speed = ResponseSpeed(tts, speed, voice_speeds)
        self._functions = advertised_functions(self._config.mode)
        self._names = frozenset(spec.name for spec in self._functions)
        self._deferral = Deferral(self._config.deferral)
        self._rate = SpeakingRateState(rate=None)
        self._network = NetworkState()
        self._acoustics = AcousticState()
        self._affect = AffectState()
        self._vad_stop_secs = DEFAULT_VAD_STOP_SECS
        self._longer_silence_ms: int | None = None
        self._speech_ended_secs: float | None = None
        self._lost_before_turn_secs = 0.0
        self._response_pending = False
        self._asked_secs = 0.0
        self._merge = False
        self._block = StateBlock()
        self._calls = CallResults()
        self._timer: asyncio.Task[None] | None = None
        self.rejected_calls = 0
        """Calls that changed nothing."""
        self.failures = 0
        """Frames whose evaluation failed; each was forwarded all the same."""
        for event in ("on_directive", "on_directive_rejected"):
            self._register_event_handler(event)
        self._tap = LLMTap(llm, on_response=self._on_response)
        warn_of_taken_names(self, llm, self._names)

    @property
    def snapshot(self) -> VoiceSnapshot:
        """All states and the running configuration now."""
        return VoiceSnapshot(
            speaking_rate=self._rate,
            network=self._network,
            acoustics=self._acoustics,
            affect=self._affect,
            response_speed_wpm=self._speed.delivered_wpm,
            vad_silence_ms=self._longer_silence_ms,
            pending_deferral=self._deferral.reason,
        )

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, LLMContextFrame) and direction is FrameDirection.DOWNSTREAM:
            await self._guarded(self._prepare_inference, frame)
            await self.push_frame(frame, direction)
            return
        await self.push_frame(frame, direction)
        await self._guarded(self._observe, frame)

    async def cleanup(self) -> None:
        await super().cleanup()  # type: ignore[no-untyped-call]
        self._deferral.cancel()
        await self._speed.keep()
        await self._cancel_timer()
        self._tap.detach()

    async def _guarded(self, step: Callable[[Any], Any], frame: Frame) -> None:
        try:
            await step(frame)
        except Exception as error:  # The outer edge: a call goes on without us.
            self.failures += 1
            await self.push_error(f"orchestration failed: {type(error).__name__}", exception=error)

    # States

    async def _observe(self, frame: Frame) -> None:
        match frame:
            case NetworkStateFrame():
                await self._network_changed(frame.state)
            case SpeakingRateFrame():
                self._rate = frame.state
            case AcousticsFrame():
                self._acoustics = frame.state
            case AffectFrame():
                self._affect = frame.state
            case VADUserStartedSpeakingFrame():
                await self._speech_started(time.monotonic() - frame.start_secs)
            case VADUserStoppedSpeakingFrame():
                self._speech_ended_secs = time.monotonic() - frame.stop_secs
                self._deferral.speech_stopped(now_secs=time.monotonic())
                self._arm()
            case UserStartedSpeakingFrame():
                if not self._merge:
                    self._lost_before_turn_secs = self._network.concealed_total_secs
            case HeardTurnFrame():
                self._speed.add_heard(frame.turn)
            case BotStartedSpeakingFrame():
                self._response_pending = False
            case SpeechControlParamsFrame() if frame.vad_params is not None:
                self._vad_stop_secs = frame.vad_params.stop_secs
            case StartFrame():
                await self._speed.recall()
            case EndFrame() | CancelFrame():
                self._deferral.cancel()
                await self._cancel_timer()
            case _:
                pass

    async def _network_changed(self, state: NetworkState) -> None:
        self._network = state
        self._deferral.network(impaired=state.impaired)
        if state.recovered:
            self._longer_silence_ms = None
        self._arm()

    async def _speech_started(self, started_secs: float) -> None:
        ended_secs = self._speech_ended_secs
        gap_secs = 0.0 if ended_secs is None else started_secs - ended_secs
        silence_ms = float(self._longer_silence_ms or 1000.0 * self._vad_stop_secs)
        continuation = self._deferral.speech_started(gap_secs=gap_secs, vad_silence_ms=silence_ms)
        if continuation is None:
            continuation = self._premature_boundary(gap_secs, silence_ms)
        if continuation is None:
            return
        self._merge = True
        self._arm()
        self._longer_silence_ms = continuation.silence_ms
        await self._announce(
            SetVadSilenceDuration(duration_ms=continuation.silence_ms, origin=DirectiveOrigin.DEFERRAL)
        )

    def _premature_boundary(self, gap_secs: float, silence_ms: float) -> Continuation | None:
        """Speech before anything of the response was heard, on a line that is or just was bad."""
        unreliable = self._network.impaired or self._network.band is LinkBand.RECOVERING
        if not (self._response_pending and unreliable and self._config.mode.model_judges_line):
            return None
        self._response_pending = False
        return Continuation(
            gap_secs=gap_secs,
            silence_ms=longer_silence_ms(
                vad_silence_ms=silence_ms, gap_secs=gap_secs, config=self._config.deferral
            ),
        )

    # Inference

    async def _prepare_inference(self, frame: LLMContextFrame) -> None:
        if self._config.mode is ControlMode.OFF:
            return
        if frame.speculation:
            # A copy of the conversation for an answer that may never be given.
            self._block.place(frame.context, self._state_text(), remember=False)
            return
        self._context = frame.context
        merge, self._merge = self._merge, False
        self._deferral.turn_answered()
        await self._cancel_timer()
        self._edit(frame.context, merge=merge)
        advertise(frame.context, self._functions, handler=self._on_call)
        self._block.place(frame.context, self._state_text())
        self._response_due()

    def _response_due(self) -> None:
        self._response_pending = True
        self._asked_secs = time.monotonic()

    def _edit(self, context: LLMContext, *, merge: bool) -> None:
        self._block.take_out(context, functions=self._names, merge=merge)

    def _state_text(self) -> str | None:
        lost_secs = self._network.concealed_total_secs - self._lost_before_turn_secs
        text = render_state(self.snapshot, lost_in_turn_secs=lost_secs, config=self._config.render)
        return None if text is None else f"{GUIDING_PRINCIPLE}\n{text}"

    # Functions

    def _on_response(self) -> None:
        self._calls.restart()
        # Something else made the model answer (a tool of the application): nothing waits any more.
        self._deferral.cancel()

    async def _on_call(self, params: FunctionCallParams) -> None:
        call_id, function = params.tool_call_id, params.function_name
        result = self._calls.get(call_id, function)
        if result is None:
            result = await self._execute(function, params.arguments)
            self._calls.add(call_id, function, result)
        self._calls.answered()
        await params.result_callback(
            result, properties=FunctionCallResultProperties(run_llm=self._run_after())
        )

    def _run_after(self) -> bool | None:
        """Whether the model runs again for this result; None leaves it to Pipecat."""
        return False if self._deferral.reason is not None else self._calls.run_after(self._tap, self._names)

    async def _execute(self, name: str, arguments: object) -> dict[str, Any]:
        parsed = parse_call(name, arguments) if name in self._names else parse_call("", arguments)
        if self._calls.contradictory(self._tap, self._names):
            parsed = RejectedCall(function=name, error=CallError.REPEATED, detail=_ONCE)
        rejected = parsed if isinstance(parsed, RejectedCall) else await self._apply(parsed)
        if rejected is None:
            return accepted(parsed, self._speed.delivered_wpm)
        self.rejected_calls += 1
        logger.debug("{}: call rejected ({} {})", self, rejected.function, rejected.error.value)
        await self._call_event_handler("on_directive_rejected", rejected)
        return dict(rejected.as_result())

    async def _apply(self, directive: Directive) -> RejectedCall | None:
        """Carries a directive out; returns why not, if it cannot be."""
        match directive:
            case SetResponseSpeed():
                rejected = await self._apply_speed(directive)
            case DeferResponse():
                rejected = self._apply_deferral(directive)
            case SetVadSilenceDuration():
                self._longer_silence_ms, rejected = directive.duration_ms, None
            case SetResponseInstruction():
                # The call stays in the context for the response that follows, and leaves with the next turn.
                rejected = None
        if rejected is None:
            await self._announce(directive)
            self._block.refresh(self._context, self._state_text())
        return rejected

    async def _apply_speed(self, directive: SetResponseSpeed) -> RejectedCall | None:
        change = self._speed.change(directive.words_per_minute)
        if isinstance(change, RejectedCall):
            return change
        await self.push_frame(change)
        return None

    def _apply_deferral(self, directive: DeferResponse) -> RejectedCall | None:
        detail = "answer now; a response can be deferred once per turn and before any of it"
        rejected = RejectedCall(function="defer_response", error=CallError.NOT_NOW, detail=detail)
        if self._tap.spoken or not self._deferral.available:
            return rejected
        try:
            # The caller has been waiting since the turn's end, not since the model made up its mind.
            self._deferral.defer(directive.reason, now_secs=self._asked_secs)
        except InvalidTransitionError:
            return rejected
        self._arm()
        return None

    async def _announce(self, directive: Directive) -> None:
        logger.debug("{}: {} ({})", self, type(directive).__name__, directive.origin.value)
        await self.broadcast_frame(DirectiveFrame, directive=directive)
        await self._call_event_handler("on_directive", directive)

    # The deferred response

    def _arm(self) -> None:
        """Starts the timer when something waits; a running one looks at the deadline anew."""
        if self._deferral.next_deadline() is not None and (self._timer is None or self._timer.done()):
            self._timer = self.create_task(self._wait(), "deferral")

    async def _wait(self) -> None:
        while (deadline_secs := self._deferral.next_deadline()) is not None:
            # Deadlines move in both directions (the line recovers, the caller goes on); 50 ms is one network sample.
            await asyncio.sleep(min(0.05, max(0.0, deadline_secs - time.monotonic())))
            reason = self._deferral.wake(now_secs=time.monotonic())
            if reason is not None:
                await self._answer_deferred()
                return

    async def _answer_deferred(self) -> None:
        context = self._context
        if context is None:
            return
        merge, self._merge = self._merge, False
        self._edit(context, merge=merge)
        text = self._state_text() or GUIDING_PRINCIPLE
        self._block.place(context, f"{text}\n{_ANSWER_NOW}")
        self._response_pending = True
        await self.push_frame(LLMContextFrame(context=context))

    async def _cancel_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer is not asyncio.current_task():
            await self.cancel_task(timer)
