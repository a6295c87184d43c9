"""A whole call with Gemini Live: `VoiceContext` as in a bot, Pipecat's service, the real client, a scripted server.

On virtual time. The microphone sends audio all the time; voice activity comes from the script, as from a local
detector.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    Frame,
    InputAudioRawFrame,
    LLMRunFrame,
    VADUserStartedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.services.google.gemini_live.llm import GeminiLiveLLMService

from pipecat_voicectx.processors.forward_gate import ForwardGate
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.testing.gemini_server import GeminiServer
from pipecat_voicectx.testing.playback_harness import Script, TrackOutput
from pipecat_voicectx.testing.running import running
from pipecat_voicectx.testing.virtual_time import run
from pipecat_voicectx.voice_context import VoiceContext, VoiceContextConfig

__all__ = ["USER_LEVEL", "GeminiCall", "play_gemini"]

_INPUT_RATE_HZ = 16_000
_OUTPUT_RATE_HZ = 24_000
_FRAME_SECS = 0.06
USER_LEVEL = 77
"""Every sample of the microphone."""


class _Transport:
    """An input that the script feeds and an output whose samples name the words."""

    def __init__(self) -> None:
        from pipecat_voicectx.testing.scripted_session import PassThrough

        self._input, self._output = PassThrough(), TrackOutput()

    def input(self) -> Any:
        return self._input

    def output(self) -> TrackOutput:
        return self._output


@dataclass
class GeminiCall:
    """What a script drives."""

    worker: PipelineWorker
    server: GeminiServer
    context: LLMContext
    output: TrackOutput
    voice: VoiceContext
    errors: list[str] = field(default_factory=list)
    bot_speaking: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def gate(self) -> ForwardGate:
        """Ours in front of the service."""
        (gate,) = (one for one in self.voice.speech_to_speech if isinstance(one, ForwardGate))
        return gate

    def heard_words(self, script: Script) -> int:
        """Words that have left by now."""
        return self.output.heard_words(script, time.monotonic())

    async def interrupt(self) -> None:
        """The user speaks over the bot: a detector and the server's own turn detection notice."""
        await self.worker.queue_frame(VADUserStartedSpeakingFrame(start_secs=0.0))
        await self.server.interrupted()


Play = Callable[[GeminiCall], Awaitable[None]]


def play_gemini(
    script: Play, server: GeminiServer, *, config: VoiceContextConfig | None = None
) -> GeminiCall:
    """Runs one call from start to its end."""
    return run(_play(script, server, config))


async def _play(script: Play, server: GeminiServer, config: VoiceContextConfig | None) -> GeminiCall:
    async with server:
        llm = GeminiLiveLLMService(api_key="none", http_options=server.http_options)
        context, transport = (
            LLMContext([{"role": "user", "content": "Which furniture is there?"}]),
            _Transport(),
        )
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
            params=PipelineParams(audio_in_sample_rate=_INPUT_RATE_HZ, audio_out_sample_rate=_OUTPUT_RATE_HZ),
        )
        call = GeminiCall(worker, server, context, transport.output(), voice)
        _observe(call)
        async with running(worker):
            await worker.queue_frame(LLMRunFrame())
            pumping = asyncio.create_task(_pump(worker))
            try:
                await asyncio.sleep(0.5)
                await script(call)
            finally:
                pumping.cancel()
        return call


async def _pump(worker: PipelineWorker) -> None:
    pcm = np.full(int(_INPUT_RATE_HZ * _FRAME_SECS), USER_LEVEL, np.int16).tobytes()
    while True:
        await worker.queue_frame(InputAudioRawFrame(audio=pcm, sample_rate=_INPUT_RATE_HZ, num_channels=1))
        await asyncio.sleep(_FRAME_SECS)


def _observe(call: GeminiCall) -> None:
    async def on_error(_worker: object, frame: Any) -> None:
        call.errors.append(str(frame.error))

    async def on_output(_output: object, frame: Frame) -> None:
        if isinstance(frame, BotStartedSpeakingFrame):
            call.bot_speaking.set()
        elif isinstance(frame, BotStoppedSpeakingFrame):
            call.bot_speaking.clear()

    call.worker.add_event_handler("on_pipeline_error", on_error)
    call.output.add_event_handler("on_before_push_frame", on_output)
