"""A bot that speaks a known text and is interrupted: what was heard, against what the conversation says.

Scripted LLM and TTS, a real Pipecat pipeline with the real aggregators, a real output transport that paces its writes
through SmallWebRTC's `RawAudioTrack`, and a simulated client that plays the audio some time later and acknowledges it
over a slow way. Every sample of speech carries the number of its word, so the audio itself says which words left the
server. Run under `virtual_time.run`: a call of 20 seconds takes a fraction of one.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import numpy as np
from pipecat.frames.frames import (
    AggregatedTextFrame,
    BotStartedSpeakingFrame,
    ErrorFrame,
    Frame,
    InputTransportMessageFrame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMRunFrame,
    LLMTextFrame,
    OutputAudioRawFrame,
    OutputTransportMessageFrame,
    OutputTransportMessageUrgentFrame,
    ProposedUserStartedSpeakingFrame,
    StartFrame,
    TTSAudioRawFrame,
    TTSSpeakFrame,
    TTSStoppedFrame,
    VADUserStartedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.tts_service import TextAggregationMode, TTSService
from pipecat.transports.base_output import BaseOutputTransport
from pipecat.transports.base_transport import TransportParams
from pipecat.transports.smallwebrtc.transport import RawAudioTrack
from pipecat.turns.user_turn_strategies import ExternalUserTurnStrategies
from pipecat.utils.text.base_text_aggregator import TextType
from pipecat.workers.runner import WorkerRunner

from pipecat_voicectx.playback.heard import HeardTurn, strip_cut_off_note
from pipecat_voicectx.processors.playback_ledger import PlaybackLedger, PlaybackLedgerConfig

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

RATE_HZ = 24_000
_CODE = "```\nprint('hello')\n```"
# A word's sample value is _BASE + _STEP * its number: loud enough to count as voice, far enough apart to read back.
_BASE, _STEP = 4000, 16


class Shape(Enum):
    """How text and audio relate in the synthesizer."""

    WORD = "word"
    """Word times."""
    WORD_STALL = "word_stall"
    """Word times; the model pauses for 2.9 s after the first sentence."""
    SENTENCE = "sentence"
    """A sentence's text after its audio (request and response)."""
    TOKEN = "token"
    """Streaming, fed token by token, no word times."""
    WS_AHEAD = "ws_ahead"
    """Streaming, whole sentences, text far ahead of the audio, no word times."""
    SLOW_TTS = "slow_tts"
    """Word times; audio is made at 0.9 of real time, so playback starves."""
    SLOW_SENTENCE = "slow_sentence"
    """As SLOW_TTS, with sentence-level text."""
    MULTI_CONTEXT = "multi_context"
    """Streaming without word times, a context for each sentence."""
    CODE_BLOCKS = "code_blocks"
    """Sentence-level text with a code block after every second sentence that is never spoken."""
    SPEAK_FRAME = "speak_frame"
    """The application speaks the sentences with `TTSSpeakFrame`s, without a model."""


_STREAMING = (Shape.TOKEN, Shape.WS_AHEAD, Shape.MULTI_CONTEXT)
_WORD_TIMES = (Shape.WORD, Shape.WORD_STALL, Shape.SLOW_TTS)
_SLOW = (Shape.SLOW_TTS, Shape.SLOW_SENTENCE)


@dataclass(frozen=True)
class Script:
    """What the bot says, and how long each word takes."""

    sentences: tuple[str, ...] = (
        "First is the Alder desk with drawers.",
        "Second is the Birch lamp in copper.",
        "Third is the Cedar chair without arms.",
        "Fourth is the Durian shelf for books.",
        "Fifth is the Elm stool painted green.",
        "Sixth is the Fir table for eight.",
        "Seventh is the Gum bench with cushions.",
        "Eighth is the Hazel bed with storage.",
    )
    seed: int = 7
    tail_secs: float = 0.2
    """Silence after each sentence."""
    stall_secs: float = 2.9
    """How long the model pauses in WORD_STALL."""

    @property
    def words(self) -> list[str]:
        """All words in order."""
        return [word for sentence in self.sentences for word in sentence.split()]

    @property
    def durations(self) -> list[int]:
        """Samples of each word: 60 ms + 45 ms a letter, varied by a fifth."""
        rng = random.Random(self.seed)
        return [int(RATE_HZ * (0.06 + 0.045 * len(word)) * rng.uniform(0.8, 1.25)) for word in self.words]

    @property
    def secs(self) -> float:
        """Length of the speech."""
        return sum(self.durations) / RATE_HZ + len(self.sentences) * self.tail_secs

    def synthesize(
        self, first: int, count: int
    ) -> tuple[np.ndarray[Any, np.dtype[np.int16]], list[tuple[str, float]]]:
        """(PCM, [(word, start)]) of `count` words from number `first` on, with the silence after them."""
        words, durations = self.words, self.durations
        parts: list[np.ndarray[Any, np.dtype[np.int16]]] = []
        times: list[tuple[str, float]] = []
        at = 0
        for number in range(first, min(first + count, len(words))):
            times.append((words[number], at / RATE_HZ))
            parts.append(np.full(durations[number], _BASE + _STEP * number, np.int16))
            at += durations[number]
        parts.append(np.zeros(int(self.tail_secs * RATE_HZ), np.int16))
        return np.concatenate(parts), times


def word_counts(pcm: np.ndarray[Any, np.dtype[np.int16]]) -> dict[int, int]:
    """{word number: samples} of a piece of scripted speech."""
    if len(pcm) <= RATE_HZ // 100 and pcm[0] == pcm[-1]:  # 10 ms: within one word, or within silence
        return {int(pcm[0] - _BASE) // _STEP: len(pcm)} if pcm[0] else {}
    values, counts = np.unique(pcm[pcm != 0], return_counts=True)
    return {int(value - _BASE) // _STEP: int(count) for value, count in zip(values, counts, strict=True)}


class ScriptedLLM(FrameProcessor):
    """Answers every context with the script, token by token."""

    def __init__(self, script: Script, shape: Shape, *, token_secs: float = 0.004) -> None:
        super().__init__()
        self._script, self._shape, self._token_secs = script, shape, token_secs
        self._answering: asyncio.Task[None] | None = None

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, LLMContextFrame) and direction is FrameDirection.DOWNSTREAM:
            await self._answer()
        else:
            await self.push_frame(frame, direction)

    async def _answer(self) -> None:
        if self._shape is Shape.SPEAK_FRAME:
            for sentence in self._script.sentences:
                await self.push_frame(TTSSpeakFrame(sentence))
            return
        await self.push_frame(LLMFullResponseStartFrame())
        for number, sentence in enumerate(self._script.sentences):
            if self._shape is Shape.CODE_BLOCKS:
                await self.push_frame(AggregatedTextFrame(sentence, TextType.SENTENCE))
                if number % 2:
                    await self.push_frame(AggregatedTextFrame(_CODE.strip("`\n"), "code", raw_text=_CODE))
                await asyncio.sleep(self._token_secs)
                continue
            for index, word in enumerate(sentence.split()):
                if index == 1 and number == 1 and self._shape is Shape.WORD_STALL:
                    await asyncio.sleep(self._script.stall_secs)
                await self.push_frame(LLMTextFrame(("" if number == index == 0 else " ") + word))
                await asyncio.sleep(self._token_secs)
        await self.push_frame(LLMFullResponseEndFrame())


class ScriptedTTS(TTSService):
    """Synthesizes the script in one of the shapes."""

    def __init__(self, script: Script, shape: Shape, *, first_audio_secs: float = 0.12) -> None:
        super().__init__(
            push_text_frames=shape not in _WORD_TIMES,
            push_stop_frames=shape not in _STREAMING,
            push_start_frame=True,
            sample_rate=RATE_HZ,
            stop_frame_timeout_s=6.0,
            text_aggregation_mode=TextAggregationMode.TOKEN
            if shape is Shape.TOKEN
            else TextAggregationMode.SENTENCE,
            reuse_context_id_within_turn=shape is not Shape.MULTI_CONTEXT,
            skip_text_types=["code"],
        )
        self._script, self._shape, self._first_audio_secs = script, shape, first_audio_secs
        self._speed = 0.9 if shape in _SLOW else 8.0
        self.fail_at_word: int | None = None
        """Dies before this word."""
        self._next_word = 0
        self._said_secs = 0.0
        self._requests: asyncio.Queue[tuple[str | None, str | None]] | None = None
        self._receiver: asyncio.Task[None] | None = None
        self._buffer = ""

    def can_generate_metrics(self) -> bool:
        return False

    def rewind(self) -> None:
        """Starts the script over, for another turn."""
        self._next_word, self._said_secs, self._buffer = 0, 0.0, ""

    def read_from(self, text: str) -> None:
        """Goes on with the script's tail that has as many words as `text`."""
        self._next_word, self._said_secs, self._buffer = len(self._script.words) - len(text.split()), 0.0, ""

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame | None, None]:
        if self._shape in _STREAMING:
            if self._requests is None:
                self._requests = asyncio.Queue()
                self._receiver = self.create_task(self._receive(self._requests))
            await self._requests.put((text, context_id))
            yield None
            return
        pcm, times = self._synthesize(len(text.split()))
        await asyncio.sleep(self._first_audio_secs)
        if self.fail_at_word is not None and self._next_word > self.fail_at_word:
            said = len(times) - (self._next_word - self.fail_at_word)
            pcm, times = (
                pcm[: round(times[said][1] * RATE_HZ)] if said > 0 else pcm[:0],
                times[: max(0, said)],
            )
        if self._shape in _WORD_TIMES:
            await self.add_word_timestamps([(word, self._said_secs + at) for word, at in times], context_id)
        self._said_secs += len(pcm) / RATE_HZ
        async for frame in self._paced(pcm, context_id):
            yield frame
        if self.fail_at_word is not None and self._next_word > self.fail_at_word:
            yield ErrorFrame("the scripted voice has failed")

    async def flush_audio(self, context_id: str | None = None) -> None:
        if self._requests is not None:
            await self._requests.put((None, context_id))

    async def on_audio_context_interrupted(self, context_id: str) -> None:
        if self._receiver is not None:
            await self.cancel_task(self._receiver)
            self._receiver, self._requests = None, None

    async def cleanup(self) -> None:
        await super().cleanup()  # type: ignore[no-untyped-call]
        if self._receiver is not None:
            await self.cancel_task(self._receiver)
            self._receiver = None

    def _synthesize(self, count: int) -> tuple[np.ndarray[Any, np.dtype[np.int16]], list[tuple[str, float]]]:
        first, self._next_word = self._next_word, self._next_word + count
        return self._script.synthesize(first, count)

    async def _paced(
        self, pcm: np.ndarray[Any, np.dtype[np.int16]], context_id: str
    ) -> AsyncGenerator[Frame, None]:
        step = RATE_HZ // 5
        for start in range(0, len(pcm), step):
            chunk = pcm[start : start + step]
            yield TTSAudioRawFrame(chunk.tobytes(), RATE_HZ, 1, context_id=context_id)
            await asyncio.sleep(len(chunk) / RATE_HZ / self._speed)

    async def _receive(self, requests: asyncio.Queue[tuple[str | None, str | None]]) -> None:
        """The provider's side: speaks whole sentences, in order, whatever pieces they came in."""
        while True:
            text, context_id = await requests.get()
            if context_id is None:
                continue
            if text is None:
                await self._end_context(context_id)
                continue
            self._buffer += text + ("" if self._shape is Shape.TOKEN else " ")
            if self._shape is Shape.TOKEN and not self._buffer.rstrip().endswith("."):
                continue
            count, self._buffer = len(self._buffer.split()), ""
            await asyncio.sleep(self._first_audio_secs)
            async for frame in self._paced(self._synthesize(count)[0], context_id):
                await self.append_to_audio_context(context_id, frame)
            if self._shape is Shape.MULTI_CONTEXT:
                await self._end_context(context_id)

    async def _end_context(self, context_id: str) -> None:
        if self.audio_context_available(context_id):
            await self.append_to_audio_context(context_id, TTSStoppedFrame(context_id=context_id))
            await self.remove_audio_context(context_id)


class TrackOutput(BaseOutputTransport):
    """An output transport that paces its writes as SmallWebRTC does. Also the ledger's `PlayoutPositionSource`."""

    def __init__(self) -> None:
        self.epoch = 0
        super().__init__(TransportParams(audio_out_enabled=True, audio_out_sample_rate=RATE_HZ))
        self.track: RawAudioTrack | None = None
        self.words_sent: list[tuple[float, dict[int, int]]] = []
        """(time, {word number: samples}) of each 10 ms that left."""
        self.sinks: list[Callable[[float, int], None]] = []
        """Called with time and track position after each 10 ms."""
        self.messages: list[Any] = []
        """Messages to the client."""
        self._sender: asyncio.Task[None] | None = None

    def position_samples(self) -> int | None:
        """See `PlayoutPositionSource`."""
        return None if self.track is None else self.track._timestamp

    def rtp_origin(self) -> int | None:
        """See `PlayoutPositionSource`."""
        return None

    async def start(self, frame: StartFrame) -> None:
        await super().start(frame)
        self.track = RawAudioTrack(self.sample_rate)
        self._sender = self.create_task(self._send(self.track))
        await self.set_transport_ready(frame)

    def reconnect(self) -> None:
        """The client came back: a new track that counts from zero; what was queued on the old one is lost."""
        old, self.track = self.track, RawAudioTrack(self.sample_rate)
        self.epoch += 1
        if self._sender is not None:
            self._sender.cancel()
        self._sender = self.create_task(self._send(self.track))
        if old is not None:
            for _, waiting in old._chunk_queue:
                if waiting is not None and not waiting.done():
                    waiting.set_result(True)

    async def write_audio_frame(self, frame: OutputAudioRawFrame) -> bool:
        assert self.track is not None
        await self.track.add_audio_bytes(frame.audio)
        return True

    async def send_message(
        self, frame: OutputTransportMessageFrame | OutputTransportMessageUrgentFrame
    ) -> None:
        self.messages.append(frame.message)

    async def cleanup(self) -> None:
        if self._sender is not None:
            await self.cancel_task(self._sender)
            self._sender = None
        await super().cleanup()  # type: ignore[no-untyped-call]

    def note_sent(self, now_secs: float, samples: np.ndarray[Any, np.dtype[np.int16]]) -> None:
        """Reads the words off 10 ms that left. For voices whose samples say nothing, override it."""
        counts = word_counts(samples)
        if counts:
            self.words_sent.append((now_secs, counts))

    async def _send(self, track: RawAudioTrack) -> None:
        while True:
            sent = await track.recv()  # type: ignore[no-untyped-call]
            now_secs = time.monotonic()
            self.note_sent(now_secs, sent.to_ndarray()[0])
            for sink in self.sinks:
                sink(now_secs, track._timestamp)

    def word_at(self, at_secs: float) -> int:
        """Number of the word that was leaving, or had left last, at a time; -1 before the first."""
        last = -1
        for sent_secs, counts in self.words_sent:
            if sent_secs <= at_secs:
                last = max(counts)
        return last

    def heard_words(self, script: Script, at_secs: float) -> int:
        """Words of which at least half had left by `at_secs`, counted from the first."""
        totals: dict[int, int] = {}
        for sent_secs, counts in self.words_sent:
            if sent_secs <= at_secs:
                for number, count in counts.items():
                    totals[number] = totals.get(number, 0) + count
        durations = script.durations
        heard = 0
        while heard < len(durations) and totals.get(heard, 0) >= durations[heard] / 2:
            heard += 1
        return heard


class Measurement(Protocol):
    """Something that measures a ledger while it works."""

    ms: float | None


@dataclass(frozen=True, kw_only=True)
class Client:
    """Who listens: plays `delay_secs` after the audio left, acknowledges every `period_secs`."""

    delay_secs: float = 0.15
    ack_delay_secs: float | None = 0.05
    """How long an acknowledgement is under way. None: it sends none."""
    ack_jitter_secs: float = 0.0
    period_secs: float = 0.1
    seed: int = 3
    stops_after_secs: float | None = None
    """Stops acknowledging this long after the bot began to speak."""


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


class Top(FrameProcessor):
    """First in the pipeline; client messages enter here, as from an input transport."""

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        await self.push_frame(frame, direction)


class SimulatedClient:
    def __init__(self, client: Client, output: TrackOutput, top: Top) -> None:
        self._client, self._top = client, top
        self._arrivals: list[tuple[float, int]] = []
        self._rng = random.Random(client.seed)
        self._sends: set[asyncio.Task[None]] = set()
        output.sinks.append(
            lambda now_secs, position: self._arrivals.append((now_secs + client.delay_secs, position))
        )

    async def run(self) -> None:
        if self._client.ack_delay_secs is None:
            return
        played, index, started = 0, 0, time.monotonic()
        while True:
            await asyncio.sleep(self._client.period_secs)
            now_secs = time.monotonic()
            while index < len(self._arrivals) and self._arrivals[index][0] <= now_secs:
                played = self._arrivals[index][1]
                index += 1
            stops = self._client.stops_after_secs
            if played and (stops is None or now_secs - started < stops):
                task = asyncio.create_task(self._send(played))
                self._sends.add(task)
                task.add_done_callback(self._sends.discard)

    async def _send(self, samples: int) -> None:
        delay_secs = (self._client.ack_delay_secs or 0.0) + self._rng.uniform(0, self._client.ack_jitter_secs)
        await asyncio.sleep(delay_secs)
        message = {"v": 1, "t": "ack", "epoch": 0, "r": None, "samples": samples, "turn": None, "live": True}
        await self._top.push_frame(InputTransportMessageFrame(message=message))

    async def close(self) -> None:
        for task in list(self._sends):
            task.cancel()


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
        text = self.assistant_text().replace(_CODE, " ")
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
) -> Any:
    """Builds the pipeline, runs the coroutine function `play` on it, tears it down, returns what `play` returned."""
    script, client = script or Script(), client or Client()
    context = LLMContext()
    if user_params is None:
        user_params = LLMUserAggregatorParams(user_turn_strategies=ExternalUserTurnStrategies())
    pair = LLMContextAggregatorPair(context, user_params=user_params)
    if token_secs is None:
        token_secs = 0.025 if shape in _STREAMING else 0.004
    llm = llm or ScriptedLLM(script, shape, token_secs=token_secs)
    tts, output, top = ScriptedTTS(script, shape), TrackOutput(), Top()
    ledger = None
    if not stock:
        ledger = PlaybackLedger(context=context, tts=tts, output=output, config=config, position=output)
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
                tts,
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
    simulated = SimulatedClient(client, output, top)

    async def drive() -> Any:
        await ready.wait()
        acking = asyncio.create_task(simulated.run())
        try:
            return await play(scene)
        finally:
            acking.cancel()
            await simulated.close()
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
