"""A whole call with a realtime service: `VoiceContext` as in a bot, the scripted server behind a real WebSocket.

    async def script(call: RealtimeCall) -> None:
        await call.say("Which furniture is there?")
        await call.answered()

    call = play_call(script, RealtimeServer(replies=[[spoken("A desk.")]]))

On virtual time. The microphone sends audio all the time; what the user says is told to the server's turn detection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    Frame,
    InputAudioRawFrame,
    LLMRunFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService, OpenAIRealtimeLLMSettings

from pipecat_voicectx.processors.frames import NetworkStateFrame
from pipecat_voicectx.processors.realtime_link import RealtimeLink
from pipecat_voicectx.states.network import LinkBand, NetworkState
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.testing.realtime_script import ScriptedItem
from pipecat_voicectx.testing.realtime_server import RealtimeServer
from pipecat_voicectx.testing.running import running
from pipecat_voicectx.testing.scripted_session import Transport
from pipecat_voicectx.testing.virtual_time import run
from pipecat_voicectx.voice_context import VoiceContext, VoiceContextConfig

__all__ = ["RealtimeCall", "play_call", "spoken"]

_RATE_HZ = 24_000
_FRAME_SECS = 0.06
# Quiet noise, so that nothing takes it for a muted microphone.
_ROOM = bytes([3, 0, 252, 255] * int(_RATE_HZ * _FRAME_SECS / 2))


def spoken(text: str, *, words_per_minute: float = 180.0) -> ScriptedItem:
    """An item that says `text`, in a voice of steps."""
    words = text.split()
    samples = int(_RATE_HZ * 60 / words_per_minute)
    parts = [np.full(samples, 4000 + 16 * number, np.int16) for number in range(len(words))]
    parts.append(np.zeros(_RATE_HZ // 5, np.int16))
    return ScriptedItem(transcript=text, pcm=np.concatenate(parts).tobytes())


@dataclass
class RealtimeCall:
    """What a script drives."""

    worker: PipelineWorker
    server: RealtimeServer
    context: LLMContext
    llm: OpenAIRealtimeLLMService
    voice: VoiceContext
    errors: list[str] = field(default_factory=list)
    bot_speaking: asyncio.Event = field(default_factory=asyncio.Event)
    bot_silent: asyncio.Event = field(default_factory=asyncio.Event)
    microphone: bool = True
    """Off: nothing arrives."""

    @property
    def link(self) -> RealtimeLink:
        """Ours in front of the service."""
        (link,) = (one for one in self.voice.speech_to_speech if isinstance(one, RealtimeLink))
        return link

    async def begin(self) -> None:
        """The bot has the first word."""
        await self.worker.queue_frame(LLMRunFrame())

    async def say(self, transcript: str, *, secs: float = 1.0) -> None:
        """The user speaks, and is silent for as long as the server's turn detection wants."""
        await asyncio.sleep(0.2)
        await self.server.user_speaks(ago_secs=0.2)
        await asyncio.sleep(max(0.0, secs - 0.2))
        await self.silence()
        await self.server.user_stops(transcript)

    async def silence(self) -> None:
        """As long as the turn detection wants."""
        await asyncio.sleep((self.server.turn_detection.get("silence_duration_ms") or 500) / 1000)

    async def answered(self, *, within_secs: float = 30.0) -> None:
        """Until the bot has spoken and is silent again."""
        async with asyncio.timeout(within_secs):
            await self.bot_speaking.wait()
            await self.bot_silent.wait()
        self.bot_speaking.clear()
        await asyncio.sleep(0.3)

    async def line(self, *, good: bool) -> None:
        """What the network tracker says of the line."""
        band = LinkBand.GOOD if good else LinkBand.POOR
        state = NetworkState(band=band, concealed_total_secs=self._lost_secs(good=good))
        await self.worker.queue_frame(NetworkStateFrame(state=state))
        await asyncio.sleep(0.1)

    def _lost_secs(self, *, good: bool) -> float:
        self._concealed_secs = getattr(self, "_concealed_secs", 0.0) + (0.0 if good else 0.3)
        return self._concealed_secs


Script = Callable[[RealtimeCall], Awaitable[None]]


def play_call(
    script: Script,
    server: RealtimeServer,
    *,
    config: VoiceContextConfig | None = None,
    context: LLMContext | None = None,
    settings: OpenAIRealtimeLLMSettings | None = None,
    functions: Mapping[str, Any] | None = None,
) -> RealtimeCall:
    """Runs one call from start to its end."""
    return run(_play(script, server, config, context or LLMContext(), settings, functions or {}))


async def _play(
    script: Script,
    server: RealtimeServer,
    config: VoiceContextConfig | None,
    context: LLMContext,
    settings: OpenAIRealtimeLLMSettings | None,
    functions: Mapping[str, Any],
) -> RealtimeCall:
    async with server:
        llm = OpenAIRealtimeLLMService(api_key="none", base_url=server.url, settings=settings)
        for name, function in functions.items():
            llm.register_function(name, function)
        transport = Transport()
        voice = VoiceContext(
            context=context,
            transport=transport,  # type: ignore[arg-type]
            llm=llm,
            embedder=LexicalEmbedder(),
            position=transport.output(),
            config=config,
        )
        worker = PipelineWorker(
            Pipeline(voice.processors()),
            enable_rtvi=False,
            cancel_on_idle_timeout=False,
            params=PipelineParams(audio_in_sample_rate=_RATE_HZ, audio_out_sample_rate=_RATE_HZ),
        )
        call = RealtimeCall(worker, server, context, llm, voice)
        _observe(call, transport)
        async with running(worker):
            pumping = asyncio.create_task(_pump(call))
            try:
                await asyncio.sleep(0.2)
                await script(call)
            finally:
                pumping.cancel()
        return call


async def _pump(call: RealtimeCall) -> None:
    while True:
        if call.microphone:
            frame = InputAudioRawFrame(audio=_ROOM, sample_rate=_RATE_HZ, num_channels=1)
            await call.worker.queue_frame(frame)
        await asyncio.sleep(_FRAME_SECS)


def _observe(call: RealtimeCall, transport: Transport) -> None:
    async def on_error(_worker: object, frame: Any) -> None:
        call.errors.append(str(frame.error))

    async def on_output(_output: object, frame: Frame) -> None:
        if isinstance(frame, BotStartedSpeakingFrame):
            call.bot_silent.clear()
            call.bot_speaking.set()
        elif isinstance(frame, BotStoppedSpeakingFrame):
            call.bot_silent.set()

    call.worker.add_event_handler("on_pipeline_error", on_error)
    transport.output().add_event_handler("on_before_push_frame", on_output)
