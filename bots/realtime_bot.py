"""A bot on OpenAI Realtime with the whole layer. Misses one key: OPENAI_API_KEY.

OPENAI_API_KEY=... python bots/realtime_bot.py          then open http://localhost:7860 and talk

OPENAI_REALTIME_URL is another server that speaks the protocol; VOICECTX_STORE the folder in which memory is kept.
"""

import os

from pipecat.frames.frames import LLMRunFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.runner.types import RunnerArguments
from pipecat.runner.utils import create_transport
from pipecat.services.openai.realtime import events
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.transports.base_transport import BaseTransport, TransportParams
from pipecat.workers.runner import WorkerRunner

from pipecat_voicectx import VoiceContext
from pipecat_voicectx.demo.startup import preload_speech
from pipecat_voicectx.inspector.mount import mount_on_runner, show

INSTRUCTIONS = (
    "You are Ada, the travel assistant of a small agency, on the phone. Speak in short, plain sentences."
)

transport_params = {
    "webrtc": lambda: TransportParams(audio_in_enabled=True, audio_out_enabled=True),
}


async def run_bot(transport: BaseTransport, runner_args: RunnerArguments) -> None:
    """Runs one session until the caller hangs up."""
    transcription = events.AudioInput(transcription=events.InputAudioTranscription())
    properties = events.SessionProperties(
        instructions=INSTRUCTIONS, audio=events.AudioConfiguration(input=transcription)
    )
    llm = OpenAIRealtimeLLMService(
        api_key=os.environ["OPENAI_API_KEY"],
        base_url=os.environ.get("OPENAI_REALTIME_URL", "wss://api.openai.com/v1/realtime"),
        settings=OpenAIRealtimeLLMService.Settings(session_properties=properties),
    )
    voice = VoiceContext(
        context=LLMContext(),
        transport=transport,
        llm=llm,
        user_id="local-user",
        store_path=os.environ.get("VOICECTX_STORE", "voicectx_store"),
    )
    worker = PipelineWorker(
        Pipeline(voice.processors()),
        params=PipelineParams(enable_metrics=True),
        idle_timeout_secs=runner_args.pipeline_idle_timeout_secs,
    )
    show(worker, title="Ada, on OpenAI Realtime")

    @transport.event_handler("on_client_connected")
    async def on_client_connected(_transport: BaseTransport, _client: object) -> None:
        await worker.queue_frame(LLMRunFrame())

    @transport.event_handler("on_client_disconnected")
    async def on_client_disconnected(_transport: BaseTransport, _client: object) -> None:
        await worker.cancel()

    runner = WorkerRunner(handle_sigint=runner_args.handle_sigint)
    await runner.add_workers(worker)
    await runner.run()


async def bot(runner_args: RunnerArguments) -> None:
    """Pipecat's runner calls this for each session."""
    transport = await create_transport(runner_args, transport_params)
    await run_bot(transport, runner_args)


if __name__ == "__main__":
    from pipecat.runner.run import main

    preload_speech(transport_params, key="OPENAI_API_KEY", show=mount_on_runner)
    main()
