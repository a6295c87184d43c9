"""OpenAI Realtime over a real WebSocket: the server's conversation ends where playback did."""

import asyncio
import itertools
import time
from dataclasses import dataclass
from typing import Any

import pytest
from pipecat.frames.frames import BotStartedSpeakingFrame, Frame, LLMRunFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.workers.runner import WorkerRunner

from pipecat_voicectx.playback.clock import PlayoutClockConfig
from pipecat_voicectx.playback.heard import strip_cut_off_note
from pipecat_voicectx.processors.playback_ledger import PlaybackLedger, PlaybackLedgerConfig
from pipecat_voicectx.testing import virtual_time
from pipecat_voicectx.testing.playback_harness import (
    RATE_HZ,
    Client,
    Script,
    SimulatedClient,
    Top,
    TrackOutput,
)
from pipecat_voicectx.testing.realtime_server import RealtimeServer, ScriptedItem, ServerItem

SCRIPT = Script()


def item(first: int, count: int, **kwargs: Any) -> ScriptedItem:
    """Sentences [first, first + count) of the script as one item."""
    sentences = SCRIPT.sentences[first : first + count]
    skipped = sum(len(sentence.split()) for sentence in SCRIPT.sentences[:first])
    pcm = b""
    for sentence in sentences:
        words = len(sentence.split())
        pcm += SCRIPT.synthesize(skipped, words)[0].tobytes()
        skipped += words
    return ScriptedItem(transcript=" ".join(sentences), pcm=pcm, **kwargs)


@dataclass
class Result:
    items: list[ServerItem]
    truncates: list[dict[str, Any]]
    deletes: list[str]
    errors: list[dict[str, Any]]
    played_ms: float
    """Of the scripted speech, at the onset, at the client."""
    heard_words: int
    text: str


def interrupted(
    script: list[ScriptedItem], at_secs: float, *, client: Client | None = None, stock: bool = False
) -> Result:
    return virtual_time.run(_interrupted(script, at_secs, client or Client(delay_secs=0.25), stock))


async def _interrupted(script: list[ScriptedItem], at_secs: float, client: Client, stock: bool) -> Result:
    async with RealtimeServer(replies=[script]) as server:
        llm = OpenAIRealtimeLLMService(api_key="none", base_url=server.url)
        context = LLMContext([{"role": "user", "content": "Which furniture is there?"}])
        pair, output, top = LLMContextAggregatorPair(context), TrackOutput(), Top()
        config = PlaybackLedgerConfig(clock=PlayoutClockConfig(uplink_delay_secs=0.05))
        ledger = PlaybackLedger(context=context, tts=llm, output=output, position=output, config=config)
        middle = [] if stock else [ledger]
        worker = PipelineWorker(
            Pipeline([top, pair.user(), llm, output, *middle, pair.assistant()]),
            enable_rtvi=False,
            cancel_on_idle_timeout=False,
            enable_turn_tracking=False,
            params=PipelineParams(audio_out_sample_rate=RATE_HZ),
        )
        if stock:
            llm.send_client_event = type(llm).send_client_event.__get__(llm)  # type: ignore[method-assign]
        ready, speaking = asyncio.Event(), asyncio.Event()

        async def on_started(_worker: PipelineWorker, _frame: Frame) -> None:
            ready.set()

        async def on_output(_output: Any, frame: Frame) -> None:
            if isinstance(frame, BotStartedSpeakingFrame):
                speaking.set()

        worker.add_event_handler("on_pipeline_started", on_started)
        output.add_event_handler("on_before_push_frame", on_output)
        simulated = SimulatedClient(client, output, top)

        async def drive() -> Result:
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
            await asyncio.sleep(1.0)
            acking.cancel()
            await simulated.close()
            text = " ".join(
                strip_cut_off_note(str(message["content"]))
                for message in context.get_messages()
                if isinstance(message, dict) and message["role"] == "assistant"
            )
            result = Result(
                items=[held for held in server.items if held.role == "assistant"],
                truncates=server.of("conversation.item.truncate"),
                deletes=[event["item_id"] for event in server.of("conversation.item.delete")],
                errors=list(server.errors),
                played_ms=played / RATE_HZ * 1000,
                heard_words=output.heard_words(SCRIPT, onset),
                text=text,
            )
            await worker.cancel()
            return result

        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(worker)
        driving = asyncio.create_task(drive())
        await runner.run()
        return await driving


def committed_words(text: str) -> int:
    said, words = text.split(), SCRIPT.words
    assert said == words[: len(said)]
    return len(said)


def pauses_ms(heard_words: int) -> int:
    """Silence after the sentences heard whole: it counts for the item, not for the words."""
    ends = itertools.accumulate(len(sentence.split()) for sentence in SCRIPT.sentences)
    return 200 * sum(1 for end in ends if end <= heard_words)


@pytest.mark.parametrize("at_secs", [1.3, 4.0, 7.7])
def test_the_item_is_truncated_where_the_client_was_and_the_message_says_the_same(at_secs: float) -> None:
    result = interrupted([item(0, 8)], at_secs)
    (truncate,) = result.truncates
    assert truncate["audio_end_ms"] == pytest.approx(
        result.played_ms + pauses_ms(result.heard_words), abs=230
    )
    assert abs(committed_words(result.text) - result.heard_words) <= 1
    assert result.errors == []


def test_a_stall_of_the_server_does_not_count_as_playback() -> None:
    script = [item(0, 8, pause_at_secs=2.0, pause_secs=4.0)]
    result = interrupted(script, 5.0)
    (truncate,) = result.truncates
    assert truncate["audio_end_ms"] <= result.played_ms + pauses_ms(result.heard_words) + 30
    assert abs(committed_words(result.text) - result.heard_words) <= 1


def test_of_several_items_the_one_being_played_is_truncated_and_later_ones_are_deleted() -> None:
    result = interrupted([item(0, 2), item(2, 2), item(4, 2)], 5.5)
    assert [held.item_id for held in result.items][:1] == [result.items[0].item_id]
    assert not result.items[0].truncated
    assert result.items[1].truncated
    assert len(result.items) == 2
    assert len(result.deletes) == 1
    assert abs(committed_words(result.text) - result.heard_words) <= 1


def test_an_interruption_before_anything_was_heard_deletes_the_item() -> None:
    result = interrupted([item(0, 8)], 0.1)
    assert result.items == []
    assert result.truncates == []
    assert result.text == ""


def test_f03_more_than_an_item_holds_is_never_asked_for() -> None:
    """A reply shorter than the time since its start: Pipecat's wall clock would exceed it without its own min()."""
    for at_secs in (1.7, 2.0, 2.4):
        result = interrupted([item(0, 1)], at_secs, client=Client(delay_secs=0.4))
        assert result.errors == []
        for truncate in result.truncates:
            assert truncate["audio_end_ms"] <= 2100
        assert abs(committed_words(result.text) - result.heard_words) <= 1


def test_stock_truncates_ahead_of_the_client() -> None:
    """What this fixes, kept so that a Pipecat release that fixes it is noticed."""
    stock = interrupted([item(0, 8)], 4.0, stock=True)
    ours = interrupted([item(0, 8)], 4.0)
    assert stock.truncates[0]["audio_end_ms"] > ours.truncates[0]["audio_end_ms"] + 150
