"""The real turn-taking stack under a lossy line, on a virtual clock. Part of `voicectx bench loss`.

All variants of one pair hear the same frames in one loop. A variant that has ended its turn after the speech hears no
more: what it would do later is in no figure.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from pipecat.frames.frames import Frame
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy, TurnAnalyzerUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies

from pipecat_voicectx.bench.loss_audio import LEAD_SECS, Arrival, LossPath, Mask, Utterance
from pipecat_voicectx.bench.loss_hearing import Ear, ReceiverStats, Recogniser, SharedEar, SmartTurn
from pipecat_voicectx.bench.loss_line import AudioEnds, CallLine
from pipecat_voicectx.bench.loss_model import Answers, SharedClientLLM
from pipecat_voicectx.orchestrator.modes import ControlMode
from pipecat_voicectx.orchestrator.turn_hold import TurnHeld, TurnHoldConfig, TurnReleased
from pipecat_voicectx.processors.network_tracker import NetworkTracker
from pipecat_voicectx.processors.orchestrator import Orchestrator, OrchestratorConfig
from pipecat_voicectx.processors.turn_hold_install import install_turn_hold
from pipecat_voicectx.testing.openai_server import OpenAIServer

__all__ = ["PairOutcome", "Variant", "run_pair"]

WATCHDOG_SECS = TurnHoldConfig().cap_secs + 1.0


class Variant(Enum):
    """What decides that a turn is over."""

    STOCK = "stock"
    VAD_HALF = "vad0.5"
    STATIC = "static3.2"
    REFLEX = "reflex"
    LLM = "llm"
    BOTH = "both"
    AUDIO_ONLY = "audio_only"

    @property
    def ours(self) -> bool:
        return self in (Variant.REFLEX, Variant.LLM, Variant.BOTH, Variant.AUDIO_ONLY)

    @property
    def asks_llm(self) -> bool:
        return self in (Variant.LLM, Variant.BOTH)

    @property
    def mode(self) -> ControlMode:
        if self is Variant.LLM:
            return ControlMode.LLM
        return ControlMode.BOTH if self is Variant.BOTH else ControlMode.REFLEX


@dataclass(slots=True)
class PairOutcome:
    """When one variant ended the turn, in seconds since speech began."""

    variant: Variant
    stops_secs: list[float] = field(default_factory=list)
    llm_calls: int = 0
    held: int = 0
    seen: tuple[str, ...] = ()
    """What the turn hold did and why, with its time."""


class _Stack:
    """One variant's pipeline."""

    def __init__(
        self,
        variant: Variant,
        ear: SharedEar,
        stats: ReceiverStats,
        recogniser: Recogniser,
        server: OpenAIServer | None,
    ) -> None:
        self.variant = variant
        self.stop_times: list[float] = []
        self.request_times: list[float] = []
        self.held = 0
        self.seen: list[tuple[float, str]] = []
        self.answers = Answers()
        watchdogs = {}
        if variant.ours:
            watchdogs = {"audio_idle_timeout": WATCHDOG_SECS, "user_turn_stop_timeout": WATCHDOG_SECS}
        pair = LLMContextAggregatorPair(
            LLMContext(),
            user_params=LLMUserAggregatorParams(
                vad_analyzer=Ear(ear),
                user_turn_strategies=_strategies(variant),
                empty_user_turn=None,
                **watchdogs,  # type: ignore[arg-type]
            ),
        )
        pair.user().add_event_handler("on_user_turn_stopped", self._stopped)
        front: list[FrameProcessor] = [recogniser]
        back: list[FrameProcessor] = []
        if variant.ours:
            front.append(NetworkTracker(stats=() if variant is Variant.AUDIO_ONLY else (stats,)))
            mode = variant.mode
            install_turn_hold(
                pair.user(),
                TurnHoldConfig(mode=mode),
                handlers=[("on_turn_held", self._held), ("on_turn_released", self._released)],
            )
            if variant.asks_llm and server is not None:
                llm = SharedClientLLM(api_key="scripted", base_url=server.base_url)
                llm.add_event_handler("on_before_process_frame", self._asked)
                back = [Orchestrator(llm=llm, config=OrchestratorConfig(mode=mode)), llm]
        self.line = CallLine(
            [*front, pair.user(), AudioEnds(), *back, self.answers, pair.assistant()],
        )

    def decided(self, since_secs: float) -> bool:
        """Whether the turn has ended at or after this time."""
        return any(at >= since_secs for at in self._stops())

    async def _stopped(self, *_: object) -> None:
        self.stop_times.append(time.monotonic())

    async def _held(self, _strategy: object, held: TurnHeld) -> None:
        self.held += 1
        vouched = f"{held.vouched_secs:.2f} of {held.needed_secs:.2f} s vouched for"
        self.seen.append((held.at_secs, f"held, {held.reason.value}, {vouched}"))

    async def _released(self, _strategy: object, released: TurnReleased) -> None:
        self.seen.append((released.at_secs, f"let go, {released.reason.value}"))

    async def _asked(self, _llm: object, frame: Frame) -> None:
        if type(frame).__name__ == "LLMContextFrame":
            self.request_times.append(time.monotonic())

    def _stops(self) -> list[float]:
        if not self.variant.asks_llm:
            return self.stop_times
        # A boundary takes effect when the model answers it; the time is that of the request it answered.
        stops = []
        for answered in self.answers.times:
            asked = [at for at in self.request_times if at <= answered]
            if asked:
                stops.append(asked[-1])
        return stops

    def outcome(self, origin_secs: float) -> PairOutcome:
        return PairOutcome(
            variant=self.variant,
            stops_secs=[round(at - origin_secs, 3) for at in self._stops()],
            llm_calls=len(self.request_times),
            held=self.held,
            seen=tuple(f"{at - origin_secs:.2f} {what}" for at, what in self.seen),
        )


def _strategies(variant: Variant) -> UserTurnStrategies:
    if variant is Variant.VAD_HALF:
        return UserTurnStrategies(stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0.3)])
    if variant is Variant.STATIC:
        return UserTurnStrategies(stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=3.0)])
    return UserTurnStrategies(stop=[TurnAnalyzerUserTurnStopStrategy(turn_analyzer=SmartTurn())])


async def run_pair(
    utterance: Utterance,
    arrivals: Sequence[Arrival],
    lost: Mask,
    path: LossPath,
    variants: Sequence[Variant],
    server: OpenAIServer | None,
) -> list[PairOutcome]:
    """Plays what a receiver handed out to every variant at once."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    ear = SharedEar()
    start_secs = time.monotonic() + 0.3
    stats = ReceiverStats(lost, path, start_secs)
    origin_secs = start_secs + LEAD_SECS
    stacks = [_Stack(variant, ear, stats, Recogniser(utterance, origin_secs), server) for variant in variants]
    for stack in stacks:
        await stack.line.start()
    end_secs = origin_secs + utterance.speech_secs
    live, stopping = list(stacks), []
    for arrival in arrivals:
        await asyncio.sleep(max(0.0, start_secs + arrival.at_secs - time.monotonic()))
        for stack in live:
            await stack.line.hear(arrival)
        if time.monotonic() >= end_secs:
            decided = [stack for stack in live if stack.decided(end_secs)]
            live = [stack for stack in live if stack not in decided]
            # Beside the line: tearing a pipeline down takes some of its time.
            stopping += [asyncio.create_task(stack.line.stop()) for stack in decided]
        if not live:
            break
    else:
        await asyncio.sleep(1.0)
    stopping += [asyncio.create_task(stack.line.stop()) for stack in live]
    outcomes = [stack.outcome(origin_secs) for stack in stacks]
    await asyncio.gather(*stopping)
    return outcomes
