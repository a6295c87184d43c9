"""A bot with the real aggregators and the real OpenAI service over a socket, for tests of `Orchestrator`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    Frame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMTextFrame,
    TranscriptionFrame,
    TTSUpdateSettingsFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.services.openai.tts import OpenAITTSSettings
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies
from pipecat.workers.runner import WorkerRunner

from pipecat_voicectx.orchestrator.directives import Directive
from pipecat_voicectx.orchestrator.functions import RejectedCall
from pipecat_voicectx.processors.frames import NetworkStateFrame, SpeakingRateFrame
from pipecat_voicectx.processors.orchestrator import Orchestrator, OrchestratorConfig
from pipecat_voicectx.states.network import LinkBand, NetworkState
from pipecat_voicectx.states.speaking_rate import SpeakingRateState
from pipecat_voicectx.testing.openai_server import ChatRequest, OpenAIServer, Reply
from pipecat_voicectx.testing.virtual_time import run

Policy = Callable[[ChatRequest], Reply]


@dataclass
class ScriptedModel:
    """Answers by a function of the request."""

    answer: Policy

    def reply(self, request: ChatRequest) -> Reply:
        return self.answer(request)


class Voice(FrameProcessor):
    """A voice with OpenAI's settings that speaks each response in no time."""

    Settings = OpenAITTSSettings

    def __init__(self) -> None:
        super().__init__()
        self._settings = OpenAITTSSettings(
            model=None, voice="v", language=None, instructions=None, speed=None
        )
        self.speeds: list[object] = []
        self.spoken: list[str] = []

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSUpdateSettingsFrame) and isinstance(frame.delta, OpenAITTSSettings):
            self.speeds.append(frame.delta.speed)
            return
        if isinstance(frame, LLMTextFrame):
            self.spoken.append(frame.text)
            await self.broadcast_frame(BotStartedSpeakingFrame)
        await self.push_frame(frame, direction)
        if isinstance(frame, (LLMFullResponseEndFrame, InterruptionFrame)):
            await self.broadcast_frame(BotStoppedSpeakingFrame)


class Mute(Voice):
    """A voice without any speed control."""

    Settings = None  # type: ignore[assignment]


@dataclass
class Call:
    worker: PipelineWorker
    server: OpenAIServer
    context: LLMContext
    orchestrator: Orchestrator
    voice: Voice
    directives: list[Directive] = field(default_factory=list)
    rejected: list[RejectedCall] = field(default_factory=list)
    concealed: float = 0.0

    async def speaks(self, text: str, secs: float = 1.0) -> None:
        """One stretch of speech with its transcript."""
        await self.worker.queue_frame(VADUserStartedSpeakingFrame(start_secs=0.2))
        await asyncio.sleep(secs)
        await self.worker.queue_frame(VADUserStoppedSpeakingFrame(stop_secs=0.2))
        await asyncio.sleep(0.05)
        if text:
            await self.worker.queue_frame(
                TranscriptionFrame(text=text, user_id="u", timestamp="t", finalized=True)
            )

    async def says(self, text: str) -> None:
        """A whole turn, and time for the answer."""
        await self.speaks(text)
        await asyncio.sleep(1.0)

    async def rate(self, wpm: float) -> None:
        await self.worker.queue_frame(SpeakingRateFrame(state=SpeakingRateState(rate=wpm, utterances=3)))
        await asyncio.sleep(0.01)

    async def network(self, band: LinkBand, *, lost: float = 0.0) -> None:
        self.concealed += lost
        state = NetworkState(band=band, concealed_total_secs=self.concealed)
        await self.worker.queue_frame(NetworkStateFrame(state=state))
        await asyncio.sleep(0.01)

    @property
    def requests(self) -> int:
        return len(self.server.requests)

    def sent(self, n: int = -1) -> list[Any]:
        """Messages of a request as the service really sent it."""
        return list(self.server.requests[n].messages)

    def texts(self, n: int = -1) -> list[tuple[str, str]]:
        return [(str(message["role"]), str(message.get("content"))) for message in self.sent(n)]

    def block(self, n: int = -1) -> str:
        blocks = [text for _, text in self.texts(n) if text.startswith("<voice_state>")]
        assert len(blocks) <= 1
        return blocks[0] if blocks else ""


def play(
    scene: Callable[[Call], Awaitable[None]],
    policy: Policy,
    *,
    config: OrchestratorConfig | None = None,
    context: LLMContext | None = None,
    voice: Voice | None = None,
    prepare: Callable[[OpenAILLMService], None] | None = None,
) -> Call:
    """Runs a scene on virtual time and returns the call as it was at its end."""

    async def main() -> Call:
        async with OpenAIServer(ScriptedModel(policy)) as server:
            shared = context or LLMContext([{"role": "system", "content": "You plan trips."}])
            llm = OpenAILLMService(api_key="x", base_url=server.base_url)
            if prepare is not None:
                prepare(llm)
            speaker = voice or Voice()
            strategies = UserTurnStrategies(stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0.3)])
            pair = LLMContextAggregatorPair(
                shared,
                user_params=LLMUserAggregatorParams(user_turn_strategies=strategies, empty_user_turn=None),
            )
            orchestrator = Orchestrator(context=shared, llm=llm, tts=speaker, config=config)
            worker = PipelineWorker(
                Pipeline([pair.user(), orchestrator, llm, speaker, pair.assistant()]),
                cancel_on_idle_timeout=False,
                enable_rtvi=False,
            )
            call = Call(worker, server, shared, orchestrator, speaker)
            orchestrator.add_event_handler("on_directive", lambda _o, value: call.directives.append(value))
            orchestrator.add_event_handler(
                "on_directive_rejected", lambda _o, value: call.rejected.append(value)
            )
            runner = WorkerRunner(handle_sigint=False)
            await runner.add_workers(worker)
            running = asyncio.create_task(runner.run())
            await asyncio.sleep(0.2)
            try:
                await scene(call)
            finally:
                await worker.cancel()
                await running
            return call

    return run(main())
