"""One scripted session of a stock-style bot, bare or with `VoiceContext` in it, on virtual time.

    async def script(session: Session) -> None:
        await session.say("hello there")
        await session.answered()

    outcome = play(script, MyPolicy(), ours=True, tts=EspeakTTSService)

Everything but the hosted model and the microphone is real: the aggregators, the turn controller, `OpenAILLMService`
over a socket, the voice, an output transport that paces its writes. What the host's application can observe is written
down, so that two runs can be compared.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    ErrorFrame,
    Frame,
    InputAudioRawFrame,
    InterruptionFrame,
    TranscriptionFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.observers.base_observer import BaseObserver, FramePushed
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMAssistantAggregatorParams,
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies

from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.testing.openai_server import ChatPolicy, OpenAIServer
from pipecat_voicectx.testing.playback_harness import TrackOutput
from pipecat_voicectx.testing.running import running
from pipecat_voicectx.testing.virtual_time import run
from pipecat_voicectx.voice_context import VoiceContext, VoiceContextConfig

__all__ = [
    "Log",
    "Outcome",
    "PassThrough",
    "Script",
    "Session",
    "Transport",
    "default_user_params",
    "play",
    "play_in_loop",
]

# Three packets at a time: a third of the frames, and still below what counts as a stall.
_FRAME_SECS = 0.06
_RATE_HZ = 16_000
# Quiet noise, so that nothing takes it for a muted microphone; the words come as transcripts.
_ROOM = bytes([3, 0, 252, 255])


class PassThrough(FrameProcessor):
    """Stands where a service stands whose work the script does."""

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        await self.push_frame(frame, direction)


class _PacedOutput(TrackOutput):
    """Paces its writes; a real voice's samples name no words."""

    def note_sent(self, now_secs: float, samples: Any) -> None:
        pass


class Transport:
    """An input that the script feeds, and an output that paces."""

    def __init__(self) -> None:
        self._input = PassThrough()
        self._output = _PacedOutput()

    def input(self) -> FrameProcessor:
        return self._input

    def output(self) -> TrackOutput:
        return self._output


@dataclass
class Log:
    """What the host can observe."""

    events: list[tuple[float, str]] = field(default_factory=list)
    """(seconds since the pipeline started, what)."""
    errors: list[str] = field(default_factory=list)
    start_secs: float = 0.0

    def note(self, what: str) -> None:
        self.events.append((round(time.monotonic() - self.start_secs, 3), what))

    def kinds(self, *names: str) -> list[str]:
        return [what for _, what in self.events if not names or what.split(":")[0] in names]


class _Observer(BaseObserver):
    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log
        self._seen: set[int] = set()

    async def on_push_frame(self, data: FramePushed) -> None:
        frame = data.frame
        if isinstance(frame, ErrorFrame):
            self._log.errors.append(frame.error)
        if not isinstance(frame, BotStartedSpeakingFrame | BotStoppedSpeakingFrame | InterruptionFrame):
            return
        if data.direction is FrameDirection.DOWNSTREAM and frame.id not in self._seen:
            self._seen.add(frame.id)
            self._log.note(type(frame).__name__)


@dataclass
class Session:
    """What a script drives."""

    worker: PipelineWorker
    context: LLMContext
    server: OpenAIServer
    llm: OpenAILLMService
    output: TrackOutput
    log: Log
    voice: VoiceContext | None
    bot_speaking: asyncio.Event
    bot_silent: asyncio.Event
    frame_secs: float = _FRAME_SECS
    """Length of one caller audio frame."""

    async def say(self, text: str, *, secs: float = 1.5, sound: bytes | None = None) -> None:
        """The user speaks; audio and voice activity as a detector reports them, the transcript 0.2 s after.

        `sound` is the audio of one frame, in place of the room's.
        """
        await self.worker.queue_frame(VADUserStartedSpeakingFrame(start_secs=0.2))
        await self.listen(secs, sound=sound)
        await self.worker.queue_frame(VADUserStoppedSpeakingFrame(stop_secs=0.2))
        await self.listen(0.2)
        await self.transcript(text)

    async def transcript(self, text: str) -> None:
        """The speech-to-text service reports final words."""
        frame = TranscriptionFrame(text=text, user_id="u", timestamp="", finalized=True)
        await self.worker.queue_frame(frame)

    async def pause(self, secs: float) -> None:
        """Time passes and nothing arrives."""
        await asyncio.sleep(secs)

    async def listen(self, secs: float, *, sound: bytes | None = None) -> None:
        """Received audio passes for so long."""
        audio = sound or _ROOM * (round(self.frame_secs * _RATE_HZ) // 2)
        for _ in range(round(secs / self.frame_secs)):
            frame = InputAudioRawFrame(audio=audio, sample_rate=_RATE_HZ, num_channels=1)
            await self.worker.queue_frame(frame)
            await asyncio.sleep(self.frame_secs)

    async def answered(self, *, within_secs: float = 30.0) -> None:
        """Until the bot has spoken and is silent again."""
        async with asyncio.timeout(within_secs):
            while not self.bot_speaking.is_set():
                await self.listen(self.frame_secs)
            while not self.bot_silent.is_set():
                await self.listen(self.frame_secs)
        self.bot_speaking.clear()
        await self.listen(0.5)

    async def speaking(self, *, within_secs: float = 30.0) -> None:
        """Until the bot speaks."""
        async with asyncio.timeout(within_secs):
            while not self.bot_speaking.is_set():
                await self.listen(self.frame_secs)

    def sent(self, index: int = -1) -> list[Mapping[str, Any]]:
        """Messages of a request at the socket, without our blocks."""
        return [
            message
            for message in self.server.requests[index].messages
            if not str(message.get("content")).startswith(("<voice_state>", "<recalled_context>"))
        ]


Script = Callable[[Session], Awaitable[None]]


@dataclass(frozen=True)
class Outcome:
    """After a session."""

    log: Log
    requests: Sequence[Any]
    messages: Sequence[Any]
    """The context at the end."""
    session: Session


def play(
    script: Script,
    policy: ChatPolicy,
    *,
    ours: bool,
    tts: Callable[[], FrameProcessor],
    config: VoiceContextConfig | None = None,
    user_params: Callable[[], LLMUserAggregatorParams] | None = None,
    assistant_params: LLMAssistantAggregatorParams | None = None,
    tools: Any = None,
    functions: Mapping[str, Any] | None = None,
) -> Outcome:
    """Runs one session from start to its EndFrame, on virtual time."""
    return run(
        play_in_loop(
            script,
            policy,
            ours=ours,
            tts=tts,
            config=config,
            user_params=user_params,
            assistant_params=assistant_params,
            tools=tools,
            functions=functions,
        )
    )


async def play_in_loop(
    script: Script,
    policy: ChatPolicy,
    *,
    ours: bool,
    tts: Callable[[], FrameProcessor],
    config: VoiceContextConfig | None = None,
    user_params: Callable[[], LLMUserAggregatorParams] | None = None,
    assistant_params: LLMAssistantAggregatorParams | None = None,
    tools: Any = None,
    functions: Mapping[str, Any] | None = None,
    memory: Mapping[str, Any] | None = None,
    frame_secs: float = _FRAME_SECS,
    enable_tracing: bool = False,
) -> Outcome:
    """The same in a running loop, beside other sessions.

    Args:
        memory: Arguments of `VoiceContext` about owner, store and embedder.
        frame_secs: Length of one caller audio frame; 0.02 as WebRTC sends them, longer for quick tests.
        enable_tracing: The worker's own option.
    """
    log = Log()
    transport = Transport()
    context = LLMContext(tools=tools) if tools is not None else LLMContext()
    params = user_params() if user_params else default_user_params()
    async with OpenAIServer(policy) as server:
        stt, voice_service = PassThrough(), tts()
        llm = OpenAILLMService(
            api_key="none",
            base_url=server.base_url,
            settings=OpenAILLMService.Settings(model="m", system_instruction="You are brief."),
        )
        for name, function in (functions or {}).items():
            llm.register_function(name, function)
        voice: VoiceContext | None = None
        if ours:
            voice = VoiceContext(
                context=context,
                transport=transport,  # type: ignore[arg-type]
                stt=stt,
                llm=llm,
                tts=voice_service,
                user_params=params,
                assistant_params=assistant_params,
                position=transport.output(),
                config=config,
                **{"embedder": LexicalEmbedder(), **(memory or {})},
            )
            processors, pair = voice.processors(), voice.aggregators
        else:
            pair = LLMContextAggregatorPair(context, user_params=params, assistant_params=assistant_params)
            processors = [
                transport.input(), stt, pair.user(), llm, voice_service, transport.output(), pair.assistant(),
            ]  # fmt: skip
        worker = PipelineWorker(
            Pipeline(processors),
            params=PipelineParams(audio_in_sample_rate=16_000, audio_out_sample_rate=24_000),
            observers=[_Observer(log)],
            idle_timeout_secs=None,
            enable_tracing=enable_tracing,
        )
        session = Session(
            worker,
            context,
            server,
            llm,
            transport.output(),
            log,
            voice,
            asyncio.Event(),
            asyncio.Event(),
            frame_secs,
        )
        _observe(session, pair)
        async with running(worker):
            log.start_secs = time.monotonic()
            await script(session)
        return Outcome(log, list(server.requests), list(context.messages), session)


def default_user_params() -> LLMUserAggregatorParams:
    """A fixed stop strategy, as the bots of this repository use it."""
    return LLMUserAggregatorParams(
        user_turn_strategies=UserTurnStrategies(
            stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0.6)]
        )
    )


def _observe(session: Session, pair: LLMContextAggregatorPair) -> None:
    log = session.log

    async def on_turn_started(_aggregator: object, _strategy: object) -> None:
        log.note("user_turn_started")

    async def on_turn_stopped(_aggregator: object, _strategy: object, message: Any) -> None:
        log.note(f"user_turn_stopped: {message.content}")

    async def on_assistant(_aggregator: object, message: Any) -> None:
        log.note(f"assistant: {message.content}")

    async def on_output(_output: object, frame: Frame) -> None:
        if isinstance(frame, BotStartedSpeakingFrame):
            session.bot_silent.clear()
            session.bot_speaking.set()
        elif isinstance(frame, BotStoppedSpeakingFrame):
            session.bot_silent.set()

    pair.user().add_event_handler("on_user_turn_started", on_turn_started)
    pair.user().add_event_handler("on_user_turn_stopped", on_turn_stopped)
    pair.assistant().add_event_handler("on_assistant_turn_stopped", on_assistant)
    session.output.add_event_handler("on_before_push_frame", on_output)
