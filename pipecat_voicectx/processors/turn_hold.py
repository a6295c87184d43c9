"""Turn holding around Pipecat's stop strategies.

`TurnHoldStopStrategy` wraps one strategy and decides, with the machine in `orchestrator.turn_hold`, whether what that
strategy proposes takes effect now. Both of its events are withheld, the one that runs inference and the one that ends
the turn. Everything else reaches the wrapped strategy, and comes from it, unchanged: other event handlers, frames,
set-up, speculative inference. On a clean line the same events come at the same times as without the wrapper.

Voice-activity parameters are not touched: changing them during a pause resets the detector, which ends the turn at
once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any

from loguru import logger
from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    Frame,
    InputAudioRawFrame,
    ProposedUserStartedSpeakingFrame,
    TranscriptionFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.processors.frame_processor import FrameProcessorSetup
from pipecat.turns.types import ProcessFrameResult, UserTurnSpeculation
from pipecat.turns.user_stop import (
    BaseUserTurnStopStrategy,
    ExternalUserTurnCompletionStopStrategy,
    SpeechTimeoutUserTurnStopStrategy,
    TurnAnalyzerUserTurnStopStrategy,
    UserTurnStoppedParams,
)
from pipecat.turns.user_turn_strategies import UserTurnStrategies

from pipecat_voicectx.orchestrator.directives import SetVadSilenceDuration
from pipecat_voicectx.orchestrator.learned_pauses import LearnedPauses
from pipecat_voicectx.orchestrator.turn_hold import TurnHeld, TurnHold, TurnHoldConfig, TurnReleased
from pipecat_voicectx.processors.frames import DirectiveFrame, NetworkStateFrame

__all__ = ["TurnHoldStopStrategy", "wrap_stop_strategies"]

_OWN_EVENTS = frozenset({"on_user_turn_inference_triggered", "on_user_turn_stopped"})
_OUR_EVENTS = frozenset({"on_turn_held", "on_turn_released"})
_MEASURING = (SpeechTimeoutUserTurnStopStrategy, TurnAnalyzerUserTurnStopStrategy)


class TurnHoldStopStrategy(BaseUserTurnStopStrategy):  # type: ignore[no-untyped-call]
    """Withholds the end of a turn while the silence cannot be vouched for.

    Event handlers besides those of every stop strategy: `on_turn_held(strategy, held: TurnHeld)` and
    `on_turn_released(strategy, released: TurnReleased)`.
    """

    def __init__(
        self,
        inner: BaseUserTurnStopStrategy,
        config: TurnHoldConfig | None = None,
        *,
        handlers: Iterable[tuple[str, Callable[..., Any]]] = (),
    ) -> None:
        """Args:
        inner: The strategy that proposes when a turn ends.
        config: Thresholds and deadlines.
        handlers: Event handlers to add, as (event name, handler).
        """
        super().__init__()
        self._inner = inner
        self._config = config or TurnHoldConfig()
        self._hold = TurnHold(self._config)
        self._pauses = None if self._config.pauses is None else LearnedPauses(self._config.pauses)
        self._early: asyncio.Task[None] | None = None
        self._inference_withheld = False
        self._stop_withheld: UserTurnStoppedParams | None = None
        self._timer: asyncio.Task[None] | None = None
        self.failures = 0
        """Frames whose evaluation failed; the wrapped strategy got each of them all the same."""
        for event in _OUR_EVENTS:
            self._register_event_handler(event)
        for event, handler in handlers:
            self.add_event_handler(event, handler)
        inner.add_event_handler("on_user_turn_inference_triggered", self._on_inner_inference)
        inner.add_event_handler("on_user_turn_stopped", self._on_inner_stop)

    @property
    def inner(self) -> BaseUserTurnStopStrategy:
        """The wrapped strategy."""
        return self._inner

    @property
    def held(self) -> bool:
        """Whether the end of the turn is being withheld."""
        return self._hold.held

    @property
    def resolves_proposed_turn_stop_frames(self) -> bool:
        return self._inner.resolves_proposed_turn_stop_frames

    @property
    def wait_for_transcript(self) -> bool:
        """The wrapped strategy's; absent when it has none, as Pipecat's realtime mode expects."""
        return bool(self._inner.wait_for_transcript)  # type: ignore[attr-defined]

    @wait_for_transcript.setter
    def wait_for_transcript(self, value: bool) -> None:
        self._inner.wait_for_transcript = value  # type: ignore[attr-defined]

    def add_event_handler(self, event_name: str, handler: Callable[..., Any]) -> None:
        if event_name in _OWN_EVENTS or event_name in _OUR_EVENTS:
            super().add_event_handler(event_name, handler)
        else:
            self._inner.add_event_handler(event_name, handler)

    def remove_event_handler(self, event_name: str, handler: Callable[..., Any]) -> None:
        if event_name in _OWN_EVENTS or event_name in _OUR_EVENTS:
            super().remove_event_handler(event_name, handler)
        else:
            self._inner.remove_event_handler(event_name, handler)

    async def setup(self, setup: FrameProcessorSetup) -> None:  # type: ignore[override]
        await super().setup(setup)
        await self._inner.setup(setup)

    async def cleanup(self) -> None:
        await super().cleanup()  # type: ignore[no-untyped-call]
        await self._cancel_timer()
        await self._cancel_early()
        await self._inner.cleanup()  # type: ignore[no-untyped-call]

    async def handle_user_turn_started(self) -> None:
        await self._void()
        await self._inner.handle_user_turn_started()  # type: ignore[no-untyped-call]

    async def handle_user_turn_stopped(self) -> None:
        await self._void()
        if self._pauses is not None:
            self._pauses.turn_over(now_secs=time.monotonic())
            await self._pauses_changed()
        await self._inner.handle_user_turn_stopped()  # type: ignore[no-untyped-call]

    async def process_frame(self, frame: Frame) -> ProcessFrameResult | None:
        try:
            await self._observe(frame)
        except (
            Exception
        ) as error:  # The outer edge: the wrapped strategy must get its frame whatever happened here.
            self.failures += 1
            logger.warning("{}: not evaluated ({})", self, type(error).__name__)
        result = await self._inner.process_frame(frame)
        if self._hold.held:
            await self._wake()
        return result

    async def _observe(self, frame: Frame) -> None:
        now_secs = time.monotonic()
        match frame:
            case InputAudioRawFrame():
                bytes_per_sec = frame.sample_rate * frame.num_channels * 2
                if bytes_per_sec > 0 and frame.audio:
                    self._hold.add_audio(now_secs=now_secs, duration_secs=len(frame.audio) / bytes_per_sec)
            case NetworkStateFrame():
                self._hold.add_network(frame.state, now_secs=now_secs)
            case VADUserStartedSpeakingFrame():
                if self._pauses is not None:
                    self._pauses.speech_started(now_secs=now_secs, doubtful=self._hold.doubtful)
                    await self._pauses_changed()
                released = self._hold.speech_started(now_secs=now_secs)
                if released is not None:
                    await self._drop(released)
            case ProposedUserStartedSpeakingFrame():
                released = self._hold.speech_resumed(now_secs=now_secs)
                if released is not None:
                    await self._drop(released)
            case VADUserStoppedSpeakingFrame():
                self._hold.speech_stopped(now_secs=now_secs, stop_secs=frame.stop_secs)
                if self._pauses is not None:
                    self._pauses.speech_stopped(now_secs=now_secs, stop_secs=frame.stop_secs)
                    await self._pauses_changed()
            case TranscriptionFrame() if self._pauses is not None:
                self._pauses.add_text(frame.text, final=frame.finalized)
                await self._pauses_changed()
            case BotStartedSpeakingFrame() if self._pauses is not None:
                self._pauses.bot_heard()
            case DirectiveFrame(directive=SetVadSilenceDuration() as directive):
                self._hold.set_silence(directive.duration_ms, origin=directive.origin, now_secs=now_secs)
            case _:
                pass

    async def _pauses_changed(self) -> None:
        """What was learned, or what of the turn is there, may call for another silence now."""
        if self._pauses is None:
            return
        now_secs = time.monotonic()
        self._hold.set_learned_silence(self._pauses.longer_secs(now_secs=now_secs))
        await self._cancel_early()
        due_secs = self._pauses.due_secs(now_secs=now_secs)
        # Strategies that measure silence can be too slow for a speaker; a service that ends turns knows better.
        if due_secs is not None and isinstance(self._inner, _MEASURING):
            self._early = self.create_task(self._end_early(due_secs - now_secs), "learned_silence")

    async def _end_early(self, wait_secs: float) -> None:
        await asyncio.sleep(max(0.0, wait_secs))
        self._early = None
        if not self._hold.held:
            await self._on_inner_inference(self._inner)
            await self._on_inner_stop(
                self._inner,
                UserTurnStoppedParams(enable_user_speaking_frames=self._enable_user_speaking_frames),
            )

    async def _cancel_early(self) -> None:
        early, self._early = self._early, None
        if early is not None and early is not asyncio.current_task():
            await self.cancel_task(early)

    async def _on_inner_inference(
        self, _inner: BaseUserTurnStopStrategy, speculation: UserTurnSpeculation | None = None
    ) -> None:
        if speculation is not None or not await self._withhold():
            await self.trigger_user_turn_inference_triggered(speculation=speculation)
            return
        # New words after a confirmed speculation: its answer no longer fits.
        await self._withdraw_speculation()
        self._inference_withheld = True

    async def _on_inner_stop(self, _inner: BaseUserTurnStopStrategy, params: UserTurnStoppedParams) -> None:
        if await self._withhold():
            self._stop_withheld = params
            return
        await self._emit_stop(params)

    async def _withhold(self) -> bool:
        """Whether what the wrapped strategy proposes now is withheld; starts withholding if so."""
        if self._hold.held:
            return True
        held = self._hold.boundary(now_secs=time.monotonic())
        if held is None:
            return False
        self._timer = self.create_task(self._wait_for_deadline(), "hold_deadline")
        await self._tell_held(held)
        return True

    async def _wait_for_deadline(self) -> None:
        while (deadline_secs := self._hold.next_deadline()) is not None:
            await asyncio.sleep(max(0.0, deadline_secs - time.monotonic()))
            await self._wake()

    async def _wake(self) -> None:
        released = self._hold.wake(now_secs=time.monotonic())
        if released is None:
            return
        inference, stop = self._take()
        await self._cancel_timer()
        await self._tell_released(released)
        if inference:
            await self.trigger_user_turn_inference_triggered()
        if stop is not None:
            await self._emit_stop(stop)

    async def _void(self) -> None:
        released = self._hold.turn_over(now_secs=time.monotonic())
        if released is not None:
            await self._drop(released)

    async def _drop(self, released: TurnReleased) -> None:
        await self._cancel_timer()
        await self._withdraw_speculation()
        self._take()
        await self._tell_released(released)

    def _take(self) -> tuple[bool, UserTurnStoppedParams | None]:
        inference, stop = self._inference_withheld, self._stop_withheld
        self._inference_withheld, self._stop_withheld = False, None
        return inference, stop

    async def _withdraw_speculation(self) -> None:
        """The wrapped strategy confirmed a speculative answer that will not be the answer."""
        stop = self._stop_withheld
        if stop is not None and stop.confirms_speculation:
            self._stop_withheld = None
            await self._inner.trigger_user_turn_speculation_cancelled()  # type: ignore[no-untyped-call]

    async def _emit_stop(self, params: UserTurnStoppedParams) -> None:
        await self.trigger_user_turn_finalized(
            enable_user_speaking_frames=params.enable_user_speaking_frames,
            confirms_speculation=params.confirms_speculation,
        )

    async def _cancel_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer is not asyncio.current_task():
            await self.cancel_task(timer)

    async def _tell_held(self, held: TurnHeld) -> None:
        logger.debug("{}: turn held ({}, {:.2f} s vouched for)", self, held.reason.value, held.vouched_secs)
        await self._call_event_handler("on_turn_held", held)

    async def _tell_released(self, released: TurnReleased) -> None:
        logger.debug("{}: turn {} after {:.2f} s", self, released.reason.value, released.held_secs)
        await self._call_event_handler("on_turn_released", released)


def wrap_stop_strategies(
    strategies: UserTurnStrategies | None,
    config: TurnHoldConfig | None = None,
    *,
    handlers: Iterable[tuple[str, Callable[..., Any]]] = (),
) -> UserTurnStrategies | None:
    """Wraps every stop strategy of a set in place and returns the set.

    An absent set stays absent, so that a service may still install its own; a wrapped strategy is not wrapped again.
    A strategy that only confirms what the model made of an inference is left alone: the inference was held, and an
    answer to it is on its way.
    """
    if strategies is None:
        return None
    if strategies.stop:
        kept = tuple(handlers)
        strategies.stop = [
            strategy
            if isinstance(strategy, TurnHoldStopStrategy | ExternalUserTurnCompletionStopStrategy)
            else TurnHoldStopStrategy(strategy, config, handlers=kept)
            for strategy in strategies.stop
        ]
    return strategies
