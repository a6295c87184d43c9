"""A travel assistant on WebRTC, Daily, LiveKit, a telephone, a WebSocket or an eval harness, with our plugin or not.

    python bots/local_bot.py              then open http://localhost:7860 and talk
    python bots/local_bot.py -t daily     the same in a Daily room (needs DAILY_API_KEY)
    python bots/local_bot.py -t twilio    the same on the telephone (phone_bot.py is made for it)
    pipecat eval suite bots/evals/suite.yaml              typed conversations, checked (text modality)
    VOICECTX_DEMO_PLUGIN=0 python bots/local_bot.py       the same bot, stock Pipecat

With OPENAI_API_KEY it uses OpenAI; VOICECTX_WHISPER_MODEL (a faster-whisper folder) and OPENAI_BASE_URL (any
compatible server) make it local. `voicectx demo` runs this very file against a recorded caller, without a key.
"""

import asyncio

from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.runner.types import RunnerArguments
from pipecat.runner.utils import create_transport
from pipecat.transports.base_transport import BaseTransport, TransportParams
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies
from pipecat.workers.runner import WorkerRunner

from pipecat_voicectx.demo.instruments import Instruments
from pipecat_voicectx.demo.parts import (
    BotSettings,
    Parts,
    choose_embedder,
    choose_parts,
    user_speech_timeout_secs,
)
from pipecat_voicectx.demo.startup import preload
from pipecat_voicectx.demo.transport_keys import TELEPHONES
from pipecat_voicectx.demo.trips import FIND_TRIPS, find_trips
from pipecat_voicectx.inspector.mount import mount_on_runner, show

SYSTEM_PROMPT = (
    "You are Ada, the travel assistant of a small agency, on the phone. Speak in short, plain sentences without "
    "lists or symbols, because everything you write is read aloud. When the caller wants to see trips, call "
    "find_trips once and then name each option in one sentence. Keep every wish the caller states, and say in "
    "your recommendation which wishes it meets. Never invent a booking."
)


def daily_params():
    from pipecat.transports.daily.transport import DailyParams  # here: an extra that not everybody installs

    return DailyParams(audio_in_enabled=True, audio_out_enabled=True)


def livekit_params():
    from pipecat.transports.livekit.transport import LiveKitParams

    return LiveKitParams(audio_in_enabled=True, audio_out_enabled=True)


def websocket_params():
    from pipecat.serializers.protobuf import ProtobufFrameSerializer
    from pipecat.transports.websocket.fastapi import FastAPIWebsocketParams

    return FastAPIWebsocketParams(
        audio_in_enabled=True, audio_out_enabled=True, serializer=ProtobufFrameSerializer()
    )


def telephone_params():
    from pipecat.transports.websocket.fastapi import FastAPIWebsocketParams

    return FastAPIWebsocketParams(audio_in_enabled=True, audio_out_enabled=True)


def eval_params():
    from pipecat.evals.transport import EvalTransportParams

    return EvalTransportParams(audio_in_enabled=True, audio_out_enabled=True)


transport_params = {
    "webrtc": lambda: TransportParams(audio_in_enabled=True, audio_out_enabled=True),
    "daily": daily_params,
    "livekit": livekit_params,
    "websocket": websocket_params,
    "eval": eval_params,
    **dict.fromkeys(TELEPHONES, telephone_params),
}


async def run_bot(transport: BaseTransport, runner_args: RunnerArguments) -> None:
    """Runs one session until the caller hangs up."""
    settings = BotSettings.of_session(runner_args.body).of_caller(runner_args)
    parts = choose_parts(settings, transport, system_prompt=SYSTEM_PROMPT)
    parts.llm.register_function("find_trips", find_trips)
    context = LLMContext(tools=ToolsSchema(standard_tools=[FIND_TRIPS]))
    user_params = LLMUserAggregatorParams(
        vad_analyzer=SileroVADAnalyzer(),
        user_turn_strategies=UserTurnStrategies(
            stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=user_speech_timeout_secs(settings))]
        ),
    )
    instruments = Instruments.of_demo(settings, transport, parts)
    if settings.plugin:
        embedder = await asyncio.to_thread(choose_embedder, settings)
        voice = with_plugin(transport, parts, context, user_params, settings, embedder)
        instruments.watch(voice)
        processors = voice.processors()
    else:
        processors = stock(transport, parts, context, user_params)

    worker = PipelineWorker(
        Pipeline(processors),
        params=PipelineParams(enable_metrics=True),
        observers=instruments.observers,
        idle_timeout_secs=runner_args.pipeline_idle_timeout_secs,
    )
    if settings.plugin:
        show(worker, title="Ada, the travel assistant")

    @transport.event_handler("on_client_disconnected")
    async def on_client_disconnected(_transport: BaseTransport, _client: object) -> None:
        await worker.cancel()

    runner = WorkerRunner(handle_sigint=runner_args.handle_sigint)
    await runner.add_workers(worker)
    await runner.run()
    instruments.close()


def stock(transport, parts: Parts, context, user_params) -> list:
    """The pipeline of Pipecat's own examples."""
    aggregators = LLMContextAggregatorPair(context, user_params=user_params)
    return [
        transport.input(),
        parts.stt,
        aggregators.user(),
        parts.llm,
        parts.tts,
        transport.output(),
        aggregators.assistant(),
    ]


def with_plugin(transport, parts: Parts, context, user_params, settings: BotSettings, embedder):
    """The same, with our five processors where they belong."""
    from pipecat_voicectx import VoiceContext  # here, so that the stock bot loads no vector store

    return VoiceContext(
        context=context,
        transport=transport,
        stt=parts.stt,
        llm=parts.llm,
        tts=parts.tts,
        user_id=settings.user_id,
        store_path=settings.store_path,
        embedder=embedder,
        user_params=user_params,
    )


async def bot(runner_args: RunnerArguments) -> None:
    """Pipecat's runner calls this for each session."""
    transport = await create_transport(runner_args, transport_params)
    await run_bot(transport, runner_args)


if __name__ == "__main__":
    from pipecat.runner.run import main

    preload(transport_params, show=mount_on_runner)  # what the plugin does, at http://localhost:7860/voicectx
    main()
