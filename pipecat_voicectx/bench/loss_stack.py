"""The real turn-taking stack under a lossy line, on a virtual clock. Part of `voicectx bench loss`.

All variants of one pair hear the same frames in one loop. What only depends on the audio is worked out once: voice
activity by window, the end-of-turn model's verdict by the audio it is asked about.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
from pipecat.audio.turn.smart_turn.base_smart_turn import BaseSmartTurn
from pipecat.audio.turn.smart_turn.local_smart_turn_v3 import LocalSmartTurnAnalyzerV3
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.audio.vad.vad_analyzer import VADAnalyzer, VADParams, VADState
from pipecat.frames.frames import (
    Frame,
    InputAudioRawFrame,
    LLMTextFrame,
    TranscriptionFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy, TurnAnalyzerUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies
from pipecat.workers.runner import WorkerRunner

from pipecat_voicectx.bench.loss_audio import (
    LEAD_SECS,
    PACKET_SECS,
    RATE_HZ,
    Arrival,
    LossPath,
    Mask,
    Utterance,
)
from pipecat_voicectx.orchestrator.modes import ControlMode
from pipecat_voicectx.orchestrator.turn_hold import TurnHoldConfig
from pipecat_voicectx.processors.network_tracker import NetworkTracker
from pipecat_voicectx.processors.orchestrator import Orchestrator, OrchestratorConfig
from pipecat_voicectx.processors.turn_hold_install import install_turn_hold
from pipecat_voicectx.signals.rtp_stats import RtpStatsSample
from pipecat_voicectx.states.network import NetworkSource
from pipecat_voicectx.testing.openai_server import ChatRequest, OpenAIServer, Reply, ToolCall

__all__ = ["PairOutcome", "ScriptedDecisions", "Variant", "run_pair"]

# Chosen: what a fast streaming recogniser takes for a final after the end of speech.
STT_DELAY_SECS = 0.2
# LOV, section 5: one decision of the serving LLM.
DECISION_SECS = 0.79
HOLD = TurnHoldConfig()
WATCHDOG_SECS = HOLD.cap_secs + 1.0


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


@dataclass(slots=True)
class PairOutcome:
    """When one variant ended the turn, in seconds since speech began."""

    variant: Variant
    stops_secs: list[float] = field(default_factory=list)
    llm_calls: int = 0
    held: int = 0


class _SharedEar:
    """Voice activity of one stream: each window is looked at once, whoever asks first."""

    def __init__(self) -> None:
        self.analyzer = SileroVADAnalyzer(sample_rate=RATE_HZ, params=VADParams())
        self.analyzer.set_sample_rate(RATE_HZ)
        self.windows: list[tuple[float, float]] = []
        self._volume = 0.0

    def window(self, number: int, audio: bytes) -> tuple[float, float]:
        """Confidence and smoothed volume of a window."""
        if number == len(self.windows):
            confidence = float(np.asarray(self.analyzer.voice_confidence(audio)).item())
            volume = self.analyzer._get_smoothed_volume(audio)
            self.analyzer._prev_volume = volume
            self.windows.append((confidence, volume))
        return self.windows[number]


class _Ear(VADAnalyzer):
    """Pipecat's analyzer with its own state machine, over the shared windows."""

    def __init__(self, shared: _SharedEar) -> None:
        super().__init__(params=VADParams())
        self._shared = shared
        self._window = 0
        self._volume = 0.0

    def num_frames_required(self) -> int:
        return self._shared.analyzer.num_frames_required()

    async def analyze_audio(self, buffer: bytes) -> VADState:
        # In place: a thread per frame costs more than the model.
        return self._run_analyzer(buffer)

    def voice_confidence(self, buffer: bytes) -> float:
        confidence, self._volume = self._shared.window(self._window, buffer)
        self._window += 1
        return confidence

    def _get_smoothed_volume(self, _audio: bytes) -> float:
        return self._volume


_verdicts: dict[bytes, dict[str, Any]] = {}


_model: list[LocalSmartTurnAnalyzerV3] = []


class _SmartTurn(BaseSmartTurn):
    """The bundled end-of-turn model, loaded once per process: it keeps no state between questions."""

    def _predict_endpoint(self, audio_array: npt.NDArray[np.float32]) -> dict[str, Any]:
        if not _model:
            _model.append(LocalSmartTurnAnalyzerV3())
        key = hashlib.blake2b(audio_array.tobytes(), digest_size=16).digest()
        if key not in _verdicts:
            if len(_verdicts) > 20_000:
                _verdicts.clear()
            _verdicts[key] = _model[0]._predict_endpoint(audio_array)
        return _verdicts[key]


class _Recogniser(FrameProcessor):
    """A final transcript after each stop of voice activity, with the words that were spoken by then.

    Words are spread evenly over the utterance, so that a model can tell a finished sentence from one that is not.
    """

    def __init__(self, utterance: Utterance, origin_secs: float) -> None:
        super().__init__()
        self._words = utterance.text.split()
        self._speech_secs = utterance.speech_secs
        self._origin_secs = origin_secs
        self._given = 0

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, VADUserStoppedSpeakingFrame):
            self.create_task(self._later(time.monotonic() - frame.stop_secs - self._origin_secs))
        await self.push_frame(frame, direction)

    async def _later(self, spoken_secs: float) -> None:
        await asyncio.sleep(STT_DELAY_SECS)
        # Detectors hear the last word's end a little early.
        share = min(1.0, (spoken_secs + 0.25) / self._speech_secs)
        upto = max(self._given, int(share * len(self._words)))
        text = " ".join(self._words[self._given : upto]) or "mm"
        self._given = upto
        await self.push_frame(TranscriptionFrame(text=text, user_id="u", timestamp="", finalized=True))


class _AudioEnds(FrameProcessor):
    """Nothing behind the aggregator listens to the caller's audio; passing it on is half the bench's work."""

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if not isinstance(frame, InputAudioRawFrame):
            await self.push_frame(frame, direction)


class _Answers(FrameProcessor):
    """Notes when an answer begins."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, LLMTextFrame):
            self.times.append(time.monotonic())
        await self.push_frame(frame, direction)


class _ReceiverStats:
    """Counters as such a receiver has them: lost packets are known once they were due, or once a later one came."""

    def __init__(self, lost: Mask, path: LossPath, start_secs: float) -> None:
        self.source = NetworkSource.RTP_STATS if path is LossPath.AIORTC else NetworkSource.RECEIVER_STATS
        self._path = path
        self._start_secs = start_secs
        self._lost = np.concatenate([[0], np.cumsum(lost)])
        run, silent = 0, []
        for gone in lost:
            run = run + 1 if gone else 0
            # Concealment has faded to silence after four packets; zeros and comfort noise are silence at once.
            silent.append(bool(gone) and (path is not LossPath.FADE or run > 4))
        self._silent = np.concatenate([[0], np.cumsum(silent)])
        received = np.flatnonzero(~lost)
        self._received = received

    async def read(self) -> RtpStatsSample | None:
        now_secs = time.monotonic()
        due = min(len(self._lost) - 1, max(0, int((now_secs - self._start_secs) / PACKET_SECS)))
        if self._path is LossPath.AIORTC:
            before = self._received[self._received < due]
            due = int(before[-1]) + 1 if len(before) else 0
        lost = int(self._lost[due])
        conceals = self._path is not LossPath.AIORTC
        return RtpStatsSample(
            at_secs=now_secs,
            ssrc=1,
            packets_received=due - lost,
            packets_lost=lost,
            concealed_secs=lost * PACKET_SECS if conceals else None,
            silent_concealed_secs=int(self._silent[due]) * PACKET_SECS if conceals else None,
        )


class ScriptedDecisions:
    """Defers when audio was lost and the caller's sentence is not finished. Scripted: it understands full stops."""

    def reply(self, request: ChatRequest) -> Reply:
        texts = [(message.get("role"), str(message.get("content"))) for message in request.messages]
        state = next((text for _, text in reversed(texts) if text.startswith("<voice_state>")), "")
        said = next((text for role, text in reversed(texts) if role == "user"), "")
        unfinished = not said.rstrip().endswith((".", "?", "!"))
        doubtful = "audio" in state and "Answer now" not in state
        rejected = any(role == "tool" and "not_now" in text for role, text in texts)
        if doubtful and unfinished and not rejected and "defer_response" in request.tool_names:
            call = ToolCall(name="defer_response", arguments={"reason": "audio is being lost"})
            return Reply(tool_calls=(call,), first_token_secs=DECISION_SECS)
        return Reply(text="Okay.", first_token_secs=DECISION_SECS)


_clients: dict[str, Any] = {}


class _SharedClientLLM(OpenAILLMService):
    """One HTTP client for all calls of a process: each takes a third of a second to make."""

    def create_client(self, *args: Any, **kwargs: Any) -> Any:
        key = str(kwargs.get("base_url"))
        if key not in _clients:
            _clients.clear()
            _clients[key] = super().create_client(*args, **kwargs)  # type: ignore[no-untyped-call]
        return _clients[key]


class _Stack:
    """One variant's pipeline."""

    def __init__(
        self,
        variant: Variant,
        ear: _SharedEar,
        stats: _ReceiverStats,
        recogniser: _Recogniser,
        server: OpenAIServer | None,
    ) -> None:
        self.variant = variant
        self.stop_times: list[float] = []
        self.request_times: list[float] = []
        self.held = 0
        self.answers = _Answers()
        watchdogs = {}
        if variant.ours:
            watchdogs = {"audio_idle_timeout": WATCHDOG_SECS, "user_turn_stop_timeout": WATCHDOG_SECS}
        pair = LLMContextAggregatorPair(
            LLMContext(),
            user_params=LLMUserAggregatorParams(
                vad_analyzer=_Ear(ear),
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
            mode = ControlMode.LLM if variant is Variant.LLM else ControlMode.BOTH
            install_turn_hold(
                pair.user(),
                TurnHoldConfig(mode=mode),
                handlers=[("on_turn_held", self._held)],
            )
            if variant.asks_llm and server is not None:
                llm = _SharedClientLLM(api_key="scripted", base_url=server.base_url)
                llm.add_event_handler("on_before_process_frame", self._asked)
                back = [Orchestrator(llm=llm, config=OrchestratorConfig(mode=mode)), llm]
        self.worker = PipelineWorker(
            Pipeline([*front, pair.user(), _AudioEnds(), *back, self.answers, pair.assistant()]),
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
        await self._runner.add_workers(self.worker)
        started = asyncio.Event()
        self.worker.add_event_handler("on_pipeline_started", lambda *_: started.set())
        self._running = asyncio.create_task(self._runner.run())
        await started.wait()

    async def stop(self) -> None:
        await self._runner.cancel()
        if self._running is not None:
            await self._running

    async def hear(self, arrival: Arrival) -> None:
        frame = InputAudioRawFrame(audio=arrival.audio, sample_rate=RATE_HZ, num_channels=1)
        frame.pts = arrival.pts
        await self.worker.queue_frame(frame)

    async def _stopped(self, *_: object) -> None:
        self.stop_times.append(time.monotonic())

    async def _held(self, *_: object) -> None:
        self.held += 1

    async def _asked(self, _llm: object, frame: Frame) -> None:
        if type(frame).__name__ == "LLMContextFrame":
            self.request_times.append(time.monotonic())

    def outcome(self, origin_secs: float) -> PairOutcome:
        stops = self.stop_times
        if self.variant.asks_llm:
            # A boundary takes effect when the model answers it; the time is that of the request it answered.
            stops = []
            for answered in self.answers.times:
                asked = [at for at in self.request_times if at <= answered]
                if asked:
                    stops.append(asked[-1])
        return PairOutcome(
            variant=self.variant,
            stops_secs=[round(at - origin_secs, 3) for at in stops],
            llm_calls=len(self.request_times),
            held=self.held,
        )


def _strategies(variant: Variant) -> UserTurnStrategies:
    if variant is Variant.VAD_HALF:
        return UserTurnStrategies(stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0.3)])
    if variant is Variant.STATIC:
        return UserTurnStrategies(stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=3.0)])
    return UserTurnStrategies(stop=[TurnAnalyzerUserTurnStopStrategy(turn_analyzer=_SmartTurn())])


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
    ear = _SharedEar()
    start_secs = time.monotonic() + 0.3
    stats = _ReceiverStats(lost, path, start_secs)
    origin_secs = start_secs + LEAD_SECS
    stacks = [
        _Stack(variant, ear, stats, _Recogniser(utterance, origin_secs), server) for variant in variants
    ]
    for stack in stacks:
        await stack.start()
    for arrival in arrivals:
        await asyncio.sleep(max(0.0, start_secs + arrival.at_secs - time.monotonic()))
        for stack in stacks:
            await stack.hear(arrival)
    await asyncio.sleep(1.0)
    outcomes = [stack.outcome(origin_secs) for stack in stacks]
    for stack in stacks:
        await stack.stop()
    return outcomes
