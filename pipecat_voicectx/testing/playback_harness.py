"""A bot that speaks a known text and is interrupted: what was heard, against what the conversation says.

Scripted LLM and TTS, a real Pipecat pipeline with the real aggregators, a real output transport that paces its writes
through SmallWebRTC's `RawAudioTrack`, and a simulated client that plays the audio some time later and acknowledges it
over a slow way. Every sample of speech carries the number of its word, so the audio itself says which words left the
server. Run under `virtual_time.run`: a call of 20 seconds takes a fraction of one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    Frame,
    LLMRunFrame,
    ProposedUserStartedSpeakingFrame,
    VADUserStartedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.turns.user_turn_strategies import ExternalUserTurnStrategies
from pipecat.workers.runner import WorkerRunner

from pipecat_voicectx.playback.heard import HeardTurn, strip_cut_off_note
from pipecat_voicectx.processors.playback_ledger import PlaybackLedger, PlaybackLedgerConfig
from pipecat_voicectx.testing.scripted_client import Client, SimulatedClient, Top, TrackOutput
from pipecat_voicectx.testing.scripted_voice import (
    CODE,
    RATE_HZ,
    STREAMING_SHAPES,
    Script,
    ScriptedLLM,
    ScriptedTTS,
    Shape,
    word_counts,
)

__all__ = [
    "RATE_HZ",
    "Client",
    "Outcome",
    "Script",
    "ScriptedTTS",
    "Shape",
    "SimulatedClient",
    "Top",
    "TrackOutput",
    "run_barge_in",
    "run_scene",
    "word_counts",
]


class Measurement(Protocol):
    """Something that measures a ledger while it works."""

    ms: float | None


@dataclass(kw_only=True)
class Outcome:
    """One interrupted turn."""

    heard: int
    """Words the client had played when the user began to speak."""
    committed: int
    """Words of the assistant messages that match the script from its start."""
    dirty: bool
    """Whether the assistant messages hold anything else."""
    text: str
    """The assistant messages, note taken off, joined."""
    messages: list[Any]
    """The whole conversation."""
    turns: list[HeardTurn] = field(default_factory=list)
    """What the ledger reported."""
    to_client: list[Any] = field(default_factory=list)
    """What was sent to the client."""
    fallbacks: int = 0
    rewritten: int = 0
    interrupted_secs: float = 0.0
    heard_at: tuple[int, ...] = ()
    """`heard` for each of the delays asked for."""
    measured: float | None = None
    """What `measure` found, in milliseconds."""

    @property
    def error(self) -> int:
        """Words too many (positive) or too few."""
        return self.committed - self.heard


@dataclass(kw_only=True)
class Scene:
    """The running pipeline, for scripts that do more than interrupt once."""

    script: Script
    context: LLMContext
    pair: LLMContextAggregatorPair
    tts: ScriptedTTS
    output: TrackOutput
    ledger: PlaybackLedger | None
    worker: PipelineWorker
    top: FrameProcessor
    bot_started: asyncio.Event
    client: Client
    simulated: SimulatedClient
    turns: list[HeardTurn] = field(default_factory=list)

    async def answer(self) -> None:
        """Makes the model answer and waits until the bot is heard to start."""
        self.bot_started.clear()
        await self.worker.queue_frame(LLMRunFrame())
        await self.bot_started.wait()

    async def interrupt(self, *, detection_secs: float = 0.0) -> float:
        """The user starts to speak now, which is detected `detection_secs` later. Returns the onset."""
        onset = time.monotonic()
        if detection_secs:
            await asyncio.sleep(detection_secs)
            await self.worker.queue_frame(
                VADUserStartedSpeakingFrame(start_secs=detection_secs, timestamp=time.time())
            )
        await self.worker.queue_frame(ProposedUserStartedSpeakingFrame())
        return onset

    async def reconnect(self, *, after_secs: float) -> None:
        """The connection breaks and is back some time later. What was on its way to the client is lost."""
        self.output.lose(unheard_after_secs=time.monotonic() - self.client.delay_secs)
        self.simulated.lose()
        await asyncio.sleep(after_secs)
        self.output.reconnect()

    def heard_words(self, onset_secs: float) -> int:
        """Words the client had played at a time."""
        return self.output.heard_words(self.script, onset_secs - self.client.delay_secs)

    def assistant_text(self) -> str:
        """All assistant messages, notes taken off."""
        texts = [
            strip_cut_off_note(str(message["content"]))
            for message in self.context.get_messages()
            if isinstance(message, dict)
            and message["role"] == "assistant"
            and isinstance(message.get("content"), str)
        ]
        return " ".join(texts)

    def outcome(self, onset_secs: float) -> Outcome:
        """The score of what the conversation says now."""
        text = self.assistant_text().replace(CODE, " ")
        said, words = text.split(), self.script.words
        committed = 0
        while committed < min(len(said), len(words)) and said[committed] == words[committed]:
            committed += 1
        return Outcome(
            heard=self.heard_words(onset_secs),
            committed=committed,
            dirty=committed != len(said),
            text=text,
            messages=list(self.context.get_messages()),
            turns=list(self.turns),
            to_client=list(self.output.messages),
            fallbacks=self.ledger.fallbacks if self.ledger else 0,
            rewritten=self.ledger.rewritten if self.ledger else 0,
            interrupted_secs=onset_secs,
        )


async def run_scene(
    shape: Shape,
    play: Callable[[Scene], Any],
    *,
    client: Client | None = None,
    script: Script | None = None,
    stock: bool = False,
    config: PlaybackLedgerConfig | None = None,
    token_secs: float | None = None,
    user_params: LLMUserAggregatorParams | None = None,
    llm: FrameProcessor | None = None,
    before_llm: Callable[[PlaybackLedger], Sequence[FrameProcessor]] | None = None,
    after_ledger: Callable[[PlaybackLedger, LLMContext], Sequence[FrameProcessor]] | None = None,
    before_tts: Sequence[FrameProcessor] = (),
    before_aggregator: Sequence[FrameProcessor] = (),
    around_tts: Callable[[FrameProcessor], FrameProcessor] = lambda tts: tts,
) -> Any:
    """Builds the pipeline, runs the coroutine function `play` on it, tears it down, returns what `play` returned."""
    script, client = script or Script(), client or Client()
    context = LLMContext()
    if user_params is None:
        user_params = LLMUserAggregatorParams(user_turn_strategies=ExternalUserTurnStrategies())
    pair = LLMContextAggregatorPair(context, user_params=user_params)
    if token_secs is None:
        token_secs = 0.025 if shape in STREAMING_SHAPES else 0.004
    llm = llm or ScriptedLLM(script, shape, token_secs=token_secs)
    tts, output, top = ScriptedTTS(script, shape), TrackOutput(), Top()
    placed_tts = around_tts(tts)
    ledger = None
    if not stock:
        ledger = PlaybackLedger(
            context=context, tts=placed_tts, output=output, config=config, position=output
        )
    middle: list[FrameProcessor] = [ledger] if ledger is not None else []
    if ledger is not None and after_ledger is not None:
        middle = [ledger, *after_ledger(ledger, context)]
    ahead = before_llm(ledger) if ledger is not None and before_llm is not None else []
    worker = PipelineWorker(
        Pipeline(
            [
                top,
                pair.user(),
                *ahead,
                llm,
                *before_tts,
                placed_tts,
                output,
                *middle,
                *before_aggregator,
                pair.assistant(),
            ]
        ),
        enable_rtvi=False,
        cancel_on_idle_timeout=False,
        enable_turn_tracking=False,
        params=PipelineParams(audio_out_sample_rate=RATE_HZ),
    )
    ready, bot_started = asyncio.Event(), asyncio.Event()
    scene = Scene(
        script=script,
        context=context,
        pair=pair,
        tts=tts,
        output=output,
        ledger=ledger,
        worker=worker,
        top=top,
        bot_started=bot_started,
        client=client,
        simulated=SimulatedClient(client, output, top),
    )

    async def on_started(_worker: PipelineWorker, _frame: Frame) -> None:
        ready.set()

    async def on_output(_output: FrameProcessor, frame: Frame) -> None:
        if isinstance(frame, BotStartedSpeakingFrame):
            bot_started.set()

    async def on_heard(_ledger: PlaybackLedger, turn: HeardTurn) -> None:
        scene.turns.append(turn)

    worker.add_event_handler("on_pipeline_started", on_started)
    output.add_event_handler("on_before_push_frame", on_output)
    if ledger is not None:
        ledger.add_event_handler("on_heard", on_heard)

    async def drive() -> Any:
        await ready.wait()
        acking = asyncio.create_task(scene.simulated.run())
        try:
            return await play(scene)
        finally:
            acking.cancel()
            await scene.simulated.close()
            await worker.cancel()

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    driving = asyncio.create_task(drive())
    await runner.run()
    return await driving


async def run_barge_in(
    shape: Shape,
    at_secs: float,
    *,
    client: Client | None = None,
    detection_secs: float = 0.0,
    settle_secs: float = 1.0,
    script: Script | None = None,
    stock: bool = False,
    config: PlaybackLedgerConfig | None = None,
    measure: Callable[[PlaybackLedger], Measurement] | None = None,
    delays_secs: Sequence[float] = (),
) -> Outcome:
    """The bot speaks the script; the user cuts in `at_secs` after the bot was first heard to speak."""

    async def play(scene: Scene) -> Outcome:
        measured = measure(scene.ledger) if measure is not None and scene.ledger is not None else None
        await scene.answer()
        await asyncio.sleep(at_secs)
        onset = await scene.interrupt(detection_secs=detection_secs)
        await asyncio.sleep(settle_secs)
        outcome = scene.outcome(onset)
        outcome.heard_at = tuple(
            scene.output.heard_words(scene.script, onset - delay) for delay in delays_secs
        )
        outcome.measured = measured.ms if measured is not None else None
        return outcome

    outcome: Outcome = await run_scene(shape, play, client=client, script=script, stock=stock, config=config)
    return outcome
