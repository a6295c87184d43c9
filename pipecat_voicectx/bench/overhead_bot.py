"""One bot of the overhead bench: real Pipecat aggregators, with our processors or without, in a loop of its own."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from time import perf_counter, process_time, thread_time
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from pipecat.frames.frames import (
    EndFrame,
    Frame,
    InputAudioRawFrame,
    LLMContextFrame,
    TranscriptionFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.workers.runner import WorkerRunner

from pipecat_voicectx.bench.made_pages import BENCH_OWNER, made_page
from pipecat_voicectx.bench.memory_latency import RandomEmbedder
from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.stores.stored_pages import StoredPage
from pipecat_voicectx.testing.scripted_session import PassThrough, default_user_params
from pipecat_voicectx.testing.virtual_time import VirtualTimeLoop
from pipecat_voicectx.voice_context import VoiceContext

__all__ = ["CHUNK_FRAMES", "FRAME_SECS", "BenchBot", "BotSize"]

RATE_HZ = 16_000
FRAME_SECS = 0.02
# One side's piece of a pair: short enough that both halves of a pair meet the same machine.
CHUNK_FRAMES = 25
_WORDS = [f"word{number}" for number in range(4_000)]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class BotSize:
    """How much is measured, and how much this caller has said before."""

    turns: int
    chunks: int
    pages: int


class _Transport:
    """Two ends that do nothing: what a transport costs is not ours."""

    def __init__(self) -> None:
        self._input, self._output = PassThrough(), PassThrough()

    def input(self) -> FrameProcessor:
        return self._input

    def output(self) -> FrameProcessor:
        return self._output


class _Sink(PassThrough):
    """Stands for the LLM: notes when a context arrives, and answers nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived: PathTime | None = None

    def forget(self) -> None:
        """The next turn begins."""
        self.arrived = None

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        if isinstance(frame, LLMContextFrame):
            self.arrived = PathTime(wall_secs=perf_counter(), cpu_secs=thread_time())
            await FrameProcessor.process_frame(self, frame, direction)
            return
        await super().process_frame(frame, direction)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathTime:
    wall_secs: float
    cpu_secs: float


class _Clock(Protocol):
    now_secs: float


class BenchBot:
    """A pipeline in an event loop of its own. The loops share a clock, and each goes on where it had stopped."""

    def __init__(self, clock: _Clock, *, ours: bool, size: BotSize, seed: int) -> None:
        self._clock, self._now_secs = clock, clock.now_secs
        self._rng = random.Random(seed)
        self._ours, self._size = ours, size
        self._context, self._llm = LLMContext(), _Sink()
        self._loop = asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(clock))  # type: ignore[arg-type]
        self._loud = _noise(4.0, seed=seed, level=3_000)
        self._quiet = _noise(4.0, seed=seed + 1, level=30)
        self._left: PathTime | None = None
        self.paths: list[PathTime] = []
        self.chunk_secs: dict[tuple[str, str], list[float]] = {}

    def __enter__(self) -> Self:
        self.do(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.do(self._stop())
        self._loop.close()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a piece of this bot's call, at this bot's time."""
        self._clock.now_secs = self._now_secs
        try:
            return self._loop.run(work)
        finally:
            self._now_secs = self._clock.now_secs

    async def _start(self) -> None:
        processors, pair = _pipeline(
            self._ours, self._context, _Transport(), self._llm, self._size, self._rng
        )
        pair.user().add_event_handler("on_before_push_frame", self._context_left)
        self._worker = PipelineWorker(
            Pipeline(processors),
            params=PipelineParams(audio_in_sample_rate=RATE_HZ, audio_out_sample_rate=24_000),
            idle_timeout_secs=None,
            enable_rtvi=False,
        )
        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(self._worker)
        self._running = asyncio.ensure_future(runner.run())
        # Memory is read meanwhile: that is over when the clock has moved on.
        await asyncio.sleep(1.0)

    async def _stop(self) -> None:
        await self._worker.queue_frame(EndFrame())
        await self._running

    async def _context_left(self, _aggregator: FrameProcessor, frame: Frame) -> None:
        if isinstance(frame, LLMContextFrame):
            self._left = PathTime(wall_secs=perf_counter(), cpu_secs=thread_time())

    async def turn(self, *, measured: bool) -> None:
        """The caller says a sentence; the answer is written to the context as if it had been heard."""
        worker, text = self._worker, _text(12, self._rng)
        self._llm.forget()
        await worker.queue_frame(VADUserStartedSpeakingFrame(start_secs=0.2))
        await self._stream(self._loud[:50], line="webrtc", first=0)
        await worker.queue_frame(VADUserStoppedSpeakingFrame(stop_secs=0.2))
        await worker.queue_frame(TranscriptionFrame(text=text, user_id="u", timestamp="", finalized=True))
        # Between two frames of audio, so that what ends the turn does not fall on one and is charged with it.
        await asyncio.sleep(FRAME_SECS / 3)
        await self._stream(self._quiet[:75], line="webrtc", first=50)
        left, arrived = self._left, self._llm.arrived
        if left is None or arrived is None:
            raise RuntimeError("the bench's turn did not reach its LLM")
        if measured:
            self.paths.append(
                PathTime(
                    wall_secs=arrived.wall_secs - left.wall_secs, cpu_secs=arrived.cpu_secs - left.cpu_secs
                )
            )
        self._context.add_message({"role": "assistant", "content": _text(20, self._rng)})

    async def begin(self, kind: str) -> None:
        """The caller begins to speak, or does not."""
        if kind == "speech":
            await self._worker.queue_frame(VADUserStartedSpeakingFrame(start_secs=0.2))

    async def chunk(self, line: str, kind: str, number: int, *, measured: bool) -> None:
        """Half a second of audio."""
        audio = self._loud if kind == "speech" else self._quiet
        at = number % (len(audio) // CHUNK_FRAMES) * CHUNK_FRAMES
        began_secs = process_time()
        await self._stream(audio[at : at + CHUNK_FRAMES], line=line, first=number * CHUNK_FRAMES)
        cost_secs = process_time() - began_secs
        if measured:
            self.chunk_secs.setdefault((line, kind), []).append(cost_secs)

    async def end(self, kind: str, line: str, *, first: int) -> None:
        """The caller is silent again."""
        if kind == "speech":
            await self._worker.queue_frame(VADUserStoppedSpeakingFrame(stop_secs=0.2))
            await self._stream(self._quiet[:50], line=line, first=first)

    async def _stream(self, frames: Sequence[bytes], *, line: str, first: int) -> None:
        for number, audio in enumerate(frames, first):
            frame = InputAudioRawFrame(audio=audio, sample_rate=RATE_HZ, num_channels=1)
            if line == "webrtc":
                frame.pts = number * 960
            await self._worker.queue_frame(frame)
            await asyncio.sleep(FRAME_SECS)


def _pipeline(
    ours: bool,
    context: LLMContext,
    transport: _Transport,
    llm: FrameProcessor,
    size: BotSize,
    rng: random.Random,
) -> tuple[list[FrameProcessor], LLMContextAggregatorPair]:
    stt, tts = PassThrough(), PassThrough()
    if not ours:
        pair = LLMContextAggregatorPair(context, user_params=default_user_params())
        order = [transport.input(), stt, pair.user(), llm, tts, transport.output(), pair.assistant()]
        return order, pair
    voice = VoiceContext(
        context=context,
        transport=transport,  # type: ignore[arg-type]
        stt=stt,
        llm=llm,
        tts=tts,
        user_id=BENCH_OWNER.user_id,
        embedder=RandomEmbedder(),
        user_params=default_user_params(),
    )
    if voice.memory is not None:
        vectors = np.random.default_rng(1).normal(size=(size.pages, 2, 384)).astype(np.float32)
        voice.memory.memory.preload(
            [StoredPage(_page(n, rng), (vectors[n, 0], vectors[n, 1])) for n in range(size.pages)]
        )
    return voice.processors(), voice.aggregators


def _noise(secs: float, *, seed: int, level: float) -> list[bytes]:
    samples = np.random.default_rng(seed).normal(0, level, round(secs / FRAME_SECS) * 320)
    audio = samples.clip(-32768, 32767).astype("<i2").tobytes()
    return [audio[at : at + 640] for at in range(0, len(audio), 640)]


def _page(number: int, rng: random.Random) -> VoicePage:
    return made_page(number, _text(20, rng), _text(20, rng))


def _text(words: int, rng: random.Random) -> str:
    # Few words are most of what is said.
    return " ".join(_WORDS[min(int(rng.expovariate(1 / 300)), len(_WORDS) - 1)] for _ in range(words))
