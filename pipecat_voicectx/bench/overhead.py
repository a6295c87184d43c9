"""What our processors cost: on the response path, for each frame of audio, and while nobody speaks.

The same pipeline of real Pipecat aggregators runs with and without them, on virtual time; the services are stand-ins
that cost the same on both sides. Latency is wall time from the context frame leaving the user aggregator to its arrival
at the LLM. CPU time is the process's own, over many pieces of half a second, and ours is the difference; run it on a
machine that does nothing else. `webrtc` is audio with presentation times, `plain` audio without (telephony,
websockets), where samples are looked at for concealment as well.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from loguru import logger
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

from pipecat_voicectx.bench.memory_latency import RandomEmbedder
from pipecat_voicectx.memory.pages import BotTextSource, Owner, VoicePage, page_id
from pipecat_voicectx.memory.summary import summarize_exchange
from pipecat_voicectx.stores.qdrant_pages import StoredPage
from pipecat_voicectx.testing import virtual_time
from pipecat_voicectx.testing.scripted_session import PassThrough, default_user_params
from pipecat_voicectx.voice_context import VoiceContext

__all__ = ["add_arguments", "run"]

RATE_HZ = 16_000
FRAME_SECS = 0.02
PAGES = 10_000
# CPU time is taken over half a second of audio at a time: short enough that some of it runs without another process in
# between, whose traces in the caches would be counted as ours. The lower quartile of the pieces is reported.
CHUNK_FRAMES = 25
UNDISTURBED_PERCENTILE = 25
# The first turns warm caches and pay for imports.
WARM_UP_TURNS = 3
_OWNER = Owner(user_id="bench")
_WORDS = [f"word{number}" for number in range(4_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    turns: int
    audio_secs: float
    rounds: int
    pages: int


# Ten thousand pages take longer to make than to measure.
_QUICK = _Size(turns=15, audio_secs=5.0, rounds=3, pages=2_000)
_DEFAULT = _Size(turns=60, audio_secs=20.0, rounds=5, pages=PAGES)
_FULL = _Size(turns=200, audio_secs=60.0, rounds=7, pages=PAGES)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `voicectx bench overhead`."""
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a fraction of the turns; under a minute")
    size.add_argument("--full", action="store_true", help="more turns and rounds")
    parser.add_argument("--seed", type=int, default=1, help="of the texts and the noise")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")


def run(args: argparse.Namespace) -> int:
    """Runs the bench and prints its figures."""
    size = _QUICK if args.quick else _FULL if args.full else _DEFAULT
    logger.remove()
    logger.add(sys.stderr, level="WARNING")
    rows = _measure(size, args.seed)
    result = {"version": 1, "seed": args.seed, "settings": {"pages": size.pages, "turns": size.turns}, **rows}
    _print(result)
    if args.json is not None:
        args.json.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    return 0


def _measure(size: _Size, seed: int) -> dict[str, Any]:
    # Both sides take turns within each round, so that a machine that slows down slows both.
    sides: dict[bool, _Side] = {True: _Side(), False: _Side()}
    for number in range(size.rounds):
        for ours, side in sides.items():
            if sys.stderr.isatty():
                print(f"round {number + 1}/{size.rounds} {'with' if ours else 'without'} ", file=sys.stderr)
            turns = size.turns if number == 0 else 0
            virtual_time.run(_session(ours, side, size, turns=turns, seed=seed))
    with_ours, without = sides[True].rows(), sides[False].rows()
    lines = {
        f"{line}_{kind}": round(with_ours["audio_us"][line, kind] - without["audio_us"][line, kind], 1)
        for line, kind in with_ours["audio_us"]
    }
    idle = {
        line: with_ours["audio_us"][line, "silence"] - without["audio_us"][line, "silence"]
        for line in ("webrtc", "plain")
    }
    frames_per_sec = 1.0 / FRAME_SECS
    return {
        "per_turn": with_ours["per_turn"],
        "per_audio_frame_us": max(lines.values()),
        "idle_cpu_share": round(max(idle.values()) * frames_per_sec / 1e6, 5),
        "audio_frame_us_by_line": lines,
        "with": _flat(with_ours, frames_per_sec),
        "without": _flat(without, frames_per_sec),
    }


def _flat(rows: dict[str, Any], frames_per_sec: float) -> dict[str, Any]:
    audio = {f"{line}_{kind}": round(cost, 1) for (line, kind), cost in rows["audio_us"].items()}
    idle = max(cost for (_, kind), cost in rows["audio_us"].items() if kind == "silence")
    return {
        "per_turn": rows["per_turn"],
        "per_audio_frame_us": max(audio.values()),
        "idle_cpu_share": round(idle * frames_per_sec / 1e6, 5),
    }


def _print(result: dict[str, Any]) -> None:
    for name in ("without", "with"):
        row = result[name]
        print(
            f"{name:<8} turn p50 {row['per_turn']['p50_ms']:.2f} ms  p95 {row['per_turn']['p95_ms']:.2f} ms  "
            f"audio frame {row['per_audio_frame_us']:.0f} us  idle {row['idle_cpu_share']:.2%} of a core"
        )
    print(
        f"ours     audio frame {result['per_audio_frame_us']:.0f} us at most  "
        f"idle {result['idle_cpu_share']:.2%} of a core"
    )
    by_line = (f"{name} {cost:.0f}" for name, cost in result["audio_frame_us_by_line"].items())
    print(f"         us a frame: {', '.join(by_line)}")


@dataclass
class _Side:
    """What was measured on one side, over all rounds."""

    path_secs: list[float] = field(default_factory=list)
    audio_secs: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def rows(self) -> dict[str, Any]:
        path = sorted(self.path_secs)
        return {
            "per_turn": {
                "p50_ms": round(1000 * statistics.median(path), 3),
                "p95_ms": round(1000 * path[min(len(path) - 1, round(0.95 * len(path)))], 3),
            },
            "audio_us": {key: 1e6 * _undisturbed(costs) for key, costs in self.audio_secs.items()},
        }


def _undisturbed(costs: Sequence[float]) -> float:
    return float(np.percentile(costs, UNDISTURBED_PERCENTILE))


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
        self.arrived_secs: list[float] = []

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        if isinstance(frame, LLMContextFrame):
            self.arrived_secs.append(perf_counter())
            await FrameProcessor.process_frame(self, frame, direction)
            return
        await super().process_frame(frame, direction)


async def _session(ours: bool, side: _Side, size: _Size, *, turns: int, seed: int) -> None:
    rng = random.Random(seed)
    context, transport, llm = LLMContext(), _Transport(), _Sink()
    processors, pair = _pipeline(ours, context, transport, llm, size, rng if turns else None)
    left_secs: list[float] = []

    async def on_push(_aggregator: FrameProcessor, frame: Frame) -> None:
        if isinstance(frame, LLMContextFrame):
            left_secs.append(perf_counter())

    pair.user().add_event_handler("on_before_push_frame", on_push)
    worker = PipelineWorker(
        Pipeline(processors),
        params=PipelineParams(audio_in_sample_rate=RATE_HZ, audio_out_sample_rate=24_000),
        idle_timeout_secs=None,
        enable_rtvi=False,
    )
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    running = asyncio.ensure_future(runner.run())
    await asyncio.sleep(1.0)
    for number in range(turns and turns + WARM_UP_TURNS):
        await _turn(worker, context, rng)
        if number >= WARM_UP_TURNS:
            side.path_secs.append(llm.arrived_secs[-1] - left_secs[-1])
    await _audio(worker, side, size.audio_secs, seed)
    await worker.queue_frame(EndFrame())
    await running


def _pipeline(
    ours: bool,
    context: LLMContext,
    transport: _Transport,
    llm: FrameProcessor,
    size: _Size,
    pages: random.Random | None,
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
        user_id=_OWNER.user_id,
        embedder=RandomEmbedder(),
        user_params=default_user_params(),
    )
    if pages is not None and voice.memory is not None:
        vectors = np.random.default_rng(1).normal(size=(size.pages, 2, 384)).astype(np.float32)
        voice.memory.memory.preload(
            [StoredPage(_page(n, pages), (vectors[n, 0], vectors[n, 1])) for n in range(size.pages)]
        )
    return voice.processors(), voice.aggregators


async def _turn(worker: PipelineWorker, context: LLMContext, rng: random.Random) -> None:
    """The caller says a sentence; the answer is written to the context as if it had been heard."""
    text = _text(12, rng)
    await worker.queue_frame(VADUserStartedSpeakingFrame(start_secs=0.2))
    await _stream(worker, _noise(2.0, seed=1, level=3_000), line="webrtc", first=0)
    await worker.queue_frame(VADUserStoppedSpeakingFrame(stop_secs=0.2))
    await worker.queue_frame(TranscriptionFrame(text=text, user_id="u", timestamp="", finalized=True))
    await _stream(worker, _noise(2.0, seed=2, level=30), line="webrtc", first=100)
    context.add_message({"role": "assistant", "content": _text(20, rng)})


async def _audio(worker: PipelineWorker, side: _Side, secs: float, seed: int) -> None:
    """CPU time for each frame of audio, caller speaking and not, on both kinds of line."""
    loud, quiet = _noise(secs, seed=seed, level=3_000), _noise(secs, seed=seed + 1, level=30)
    for line in ("webrtc", "plain"):
        for kind, frames in (("silence", quiet), ("speech", loud)):
            if kind == "speech":
                await worker.queue_frame(VADUserStartedSpeakingFrame(start_secs=0.2))
            # The first second settles: clocks are recognised, sources come alive.
            settle = round(1.0 / FRAME_SECS)
            await _stream(worker, frames[:settle], line=line, first=0)
            costs = side.audio_secs.setdefault((line, kind), [])
            for first in range(settle, len(frames) - CHUNK_FRAMES + 1, CHUNK_FRAMES):
                started_secs = time.process_time()
                await _stream(worker, frames[first : first + CHUNK_FRAMES], line=line, first=first)
                costs.append((time.process_time() - started_secs) / CHUNK_FRAMES)
            if kind == "speech":
                await worker.queue_frame(VADUserStoppedSpeakingFrame(stop_secs=0.2))
                await _stream(worker, quiet[:settle], line=line, first=len(frames))


async def _stream(worker: PipelineWorker, frames: Sequence[bytes], *, line: str, first: int) -> None:
    for number, audio in enumerate(frames, first):
        frame = InputAudioRawFrame(audio=audio, sample_rate=RATE_HZ, num_channels=1)
        if line == "webrtc":
            frame.pts = number * 960
        await worker.queue_frame(frame)
        await asyncio.sleep(FRAME_SECS)


def _noise(secs: float, *, seed: int, level: float) -> list[bytes]:
    samples = np.random.default_rng(seed).normal(0, level, round(secs / FRAME_SECS) * 320)
    audio = samples.clip(-32768, 32767).astype("<i2").tobytes()
    return [audio[at : at + 640] for at in range(0, len(audio), 640)]


def _page(number: int, rng: random.Random) -> VoicePage:
    session, index = f"s{number // 30:06}", number % 30
    user, bot = _text(20, rng), _text(20, rng)
    return VoicePage(
        id=page_id(_OWNER, session, index),
        owner=_OWNER,
        session_id=session,
        index=index,
        started_wall_secs=20.0 * number,
        ended_wall_secs=20.0 * number + 15,
        user_text=user,
        bot_text=bot,
        bot_text_source=BotTextSource.HEARD,
        summary=summarize_exchange(user, bot),
    )


def _text(words: int, rng: random.Random) -> str:
    # Few words are most of what is said.
    return " ".join(_WORDS[min(int(rng.expovariate(1 / 300)), len(_WORDS) - 1)] for _ in range(words))
