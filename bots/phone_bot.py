"""The travel assistant on a telephone line: Twilio Media Streams at 8 kHz, the caller's number as identity.

    python bots/phone_bot.py -t twilio --proxy your-host.example

and point the number's webhook at https://your-host.example/. Telnyx, Plivo and Exotel work the same way with their
name after -t. A caller's number can be forged: what this bot remembers of somebody should not be worth forging it for.

What a telephone line cannot tell: there are no timestamps, no receiver statistics and no playback acknowledgements.
Turn holding rests on arrival stalls, and what was heard on the write clock; both are marked as such (README).
"""

from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.frames.frames import LLMRunFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMUserAggregatorParams
from pipecat.runner.types import RunnerArguments
from pipecat.runner.utils import create_transport
from pipecat.transports.base_transport import BaseTransport
from pipecat.transports.websocket.fastapi import FastAPIWebsocketParams
from pipecat.workers.runner import WorkerRunner

from pipecat_voicectx import VoiceContext
from pipecat_voicectx.demo.parts import BotSettings, choose_embedder, choose_parts
from pipecat_voicectx.demo.startup import preload
from pipecat_voicectx.demo.trips import FIND_TRIPS, find_trips
from pipecat_voicectx.inspector.mount import mount_on_runner, show
from pipecat_voicectx.sources.caller_id import caller_number

SYSTEM_PROMPT = (
    "You are Ada, the travel assistant of a small agency, on the telephone. Speak in short, plain sentences. "
    "Greet a caller you know by what you remember of the last call. Never read out what you remember unasked."
)
TELEPHONE_RATE_HZ = 8000


def line_params():
    return FastAPIWebsocketParams(audio_in_enabled=True, audio_out_enabled=True)


transport_params = dict.fromkeys(("twilio", "telnyx", "plivo", "exotel"), line_params)


def caller_id(runner_args: RunnerArguments) -> str | None:
    """The number the provider gives; None when it is withheld, and then nothing outlives the call."""
    number = caller_number(runner_args.call_data)
    return f"tel:{number}" if number else None


async def run_bot(transport: BaseTransport, runner_args: RunnerArguments) -> None:
    """Runs one call until somebody hangs up."""
    settings = BotSettings.of_session(runner_args.body)
    parts = choose_parts(settings, transport, system_prompt=SYSTEM_PROMPT)
    parts.llm.register_function("find_trips", find_trips)
    context = LLMContext(tools=ToolsSchema(standard_tools=[FIND_TRIPS]))
    user_id = caller_id(runner_args)
    print(f"  caller  {'known by number' if user_id else 'anonymous'}", flush=True)
    voice = VoiceContext(
        context=context,
        transport=transport,
        stt=parts.stt,
        llm=parts.llm,
        tts=parts.tts,
        user_id=user_id,
        store_path=settings.store_path if user_id else None,
        embedder=choose_embedder(settings),
        user_params=LLMUserAggregatorParams(vad_analyzer=SileroVADAnalyzer()),
    )
    worker = PipelineWorker(
        Pipeline(voice.processors()),
        params=PipelineParams(
            audio_in_sample_rate=TELEPHONE_RATE_HZ,
            audio_out_sample_rate=TELEPHONE_RATE_HZ,
            enable_metrics=True,
        ),
        idle_timeout_secs=runner_args.pipeline_idle_timeout_secs,
    )
    show(worker, title="Ada, on the telephone")

    @transport.event_handler("on_client_connected")
    async def on_client_connected(_transport: BaseTransport, _client: object) -> None:
        context.add_message(
            {"role": "developer", "content": "The caller is on the line. Greet them briefly."}
        )
        await worker.queue_frame(LLMRunFrame())

    @transport.event_handler("on_client_disconnected")
    async def on_client_disconnected(_transport: BaseTransport, _client: object) -> None:
        await worker.cancel()

    runner = WorkerRunner(handle_sigint=runner_args.handle_sigint)
    await runner.add_workers(worker)
    await runner.run()


async def bot(runner_args: RunnerArguments) -> None:
    """Pipecat's runner calls this for each call."""
    await run_bot(await create_transport(runner_args, transport_params), runner_args)


if __name__ == "__main__":
    from pipecat.runner.run import main

    preload(
        transport_params, show=mount_on_runner
    )  # at http://localhost:7860/voicectx; never through the tunnel
    main()
