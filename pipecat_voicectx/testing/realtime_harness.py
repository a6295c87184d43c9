"""An OpenAI Realtime bot that is interrupted, over a real WebSocket to the scripted server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipecat.frames.frames import BotStartedSpeakingFrame, Frame, LLMRunFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.workers.runner import WorkerRunner

from pipecat_voicectx.playback.heard import strip_cut_off_note
from pipecat_voicectx.processors.playback_ledger import PlaybackLedger, PlaybackLedgerConfig
from pipecat_voicectx.testing.playback_harness import (
    RATE_HZ,
    Client,
    Script,
    SimulatedClient,
    Top,
    TrackOutput,
)
from pipecat_voicectx.testing.realtime_script import ScriptedItem, ServerItem
from pipecat_voicectx.testing.realtime_server import RealtimeServer

__all__ = ["RealtimeOutcome", "run_realtime", "scripted_item"]


def scripted_item(script: Script, first: int, count: int, **stall: float) -> ScriptedItem:
    """Sentences [first, first + count) of the script as one item."""
    sentences = script.sentences[first : first + count]
    word = sum(len(sentence.split()) for sentence in script.sentences[:first])
    pcm = b""
    for sentence in sentences:
        words = len(sentence.split())
        pcm += script.synthesize(word, words)[0].tobytes()
        word += words
    return ScriptedItem(transcript=" ".join(sentences), pcm=pcm, **stall)


@dataclass(kw_only=True)
class RealtimeOutcome:
    """One interrupted reply."""

    items: list[ServerItem]
    """The assistant's items in the server's conversation."""
    truncates: list[dict[str, Any]]
    deletes: list[str]
    errors: list[dict[str, Any]]
    played_ms: float
    """Of the scripted speech, without silence, at the client, at the onset."""
    heard: int
    """Words the client had played."""
    text: str
    """The assistant messages, notes taken off."""
    fallbacks: int
    heard_at: tuple[int, ...]
    """`heard` for each of the delays asked for."""


async def run_realtime(
    script: Script,
    items: Sequence[ScriptedItem],
    at_secs: float,
    *,
    client: Client,
    stock: bool = False,
    config: PlaybackLedgerConfig | None = None,
    delays_secs: Sequence[float] = (),
) -> RealtimeOutcome:
    """The bot speaks the items; the server's turn detection fires `at_secs` after it was first heard."""
    async with RealtimeServer(replies=[items]) as server:
        llm = OpenAIRealtimeLLMService(api_key="none", base_url=server.url)
        context = LLMContext([{"role": "user", "content": "Which furniture is there?"}])
        pair, output, top = LLMContextAggregatorPair(context), TrackOutput(), Top()
        ledger = None
        if not stock:
            ledger = PlaybackLedger(context=context, tts=llm, output=output, position=output, config=config)
        middle = [ledger] if ledger is not None else []
        worker = PipelineWorker(
            Pipeline([top, pair.user(), llm, output, *middle, pair.assistant()]),
            enable_rtvi=False,
            cancel_on_idle_timeout=False,
            enable_turn_tracking=False,
            params=PipelineParams(audio_out_sample_rate=RATE_HZ),
        )
        ready, speaking = asyncio.Event(), asyncio.Event()

        async def on_started(_worker: PipelineWorker, _frame: Frame) -> None:
            ready.set()

        async def on_output(_output: Any, frame: Frame) -> None:
            if isinstance(frame, BotStartedSpeakingFrame):
                speaking.set()

        worker.add_event_handler("on_pipeline_started", on_started)
        output.add_event_handler("on_before_push_frame", on_output)
        simulated = SimulatedClient(client, output, top)

        async def drive() -> RealtimeOutcome:
            await ready.wait()
            acking = asyncio.create_task(simulated.run())
            await worker.queue_frame(LLMRunFrame())
            await speaking.wait()
            await asyncio.sleep(at_secs)
            onset = time.monotonic() - client.delay_secs
            played = sum(
                sum(counts.values()) for sent_secs, counts in output.words_sent if sent_secs <= onset
            )
            await server.user_speaks()
            await asyncio.sleep(1.2)
            acking.cancel()
            await simulated.close()
            texts = [
                strip_cut_off_note(str(message["content"]))
                for message in context.get_messages()
                if isinstance(message, dict) and message["role"] == "assistant" and "content" in message
            ]
            outcome = RealtimeOutcome(
                items=[held for held in server.items if held.role == "assistant"],
                truncates=server.of("conversation.item.truncate"),
                deletes=[event["item_id"] for event in server.of("conversation.item.delete")],
                errors=list(server.errors),
                played_ms=played / RATE_HZ * 1000,
                heard=output.heard_words(script, onset),
                text=" ".join(texts),
                fallbacks=ledger.fallbacks if ledger is not None else 0,
                heard_at=tuple(
                    output.heard_words(script, onset + client.delay_secs - delay) for delay in delays_secs
                ),
            )
            await worker.cancel()
            return outcome

        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(worker)
        driving = asyncio.create_task(drive())
        await runner.run()
        return await driving
