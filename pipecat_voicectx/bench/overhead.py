"""What our processors cost: on the response path, for each frame of audio, and while nobody speaks.

Two bots run side by side, one of real Pipecat aggregators alone and one with our processors; the services are stand-ins
that cost the same on both sides. Each has an event loop of its own on virtual time, and they take turns: half a second
of the same audio for one, then for the other, in changing order. Ours is the median of the differences within the
pairs, in CPU time of the process, so that a machine that does something else meanwhile disturbs both or is outvoted.

Latency is the time from the context frame leaving the user aggregator to its arrival at the LLM, by the clock, and as
`cpu_p50_ms` in CPU time of the loop's thread, which other processes stretch less. `webrtc` is audio with presentation
times, `plain` audio without (telephony, websockets), where samples are looked at for concealment as well.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
from loguru import logger

from pipecat_voicectx.bench.overhead_bot import CHUNK_FRAMES, FRAME_SECS, BenchBot, BotSize
from pipecat_voicectx.testing.virtual_time import virtual_clock

__all__ = ["add_arguments", "run"]

PAGES = 10_000
# The first turns warm caches and pay for imports; the first pieces settle: clocks are recognised, sources come alive.
WARM_UP_TURNS = 3
WARM_UP_CHUNKS = 2
LINES = ("webrtc", "plain")
KINDS = ("silence", "speech")
# What our processors may cost together. Per turn: half a percent of the second after which an answer feels slow, and
# one frame of audio; per frame: a quarter of a percent of its length.
BUDGETS = {"p50_ms": 2.0, "p95_ms": 10.0, "per_audio_frame_us": 50.0, "idle_cpu_share": 0.02}

# Ten thousand pages take longer to make than to measure.
_QUICK = BotSize(turns=12, chunks=32, pages=1_000)
_DEFAULT = BotSize(turns=60, chunks=120, pages=PAGES)
_FULL = BotSize(turns=200, chunks=400, pages=PAGES)


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


def _measure(size: BotSize, seed: int) -> dict[str, Any]:
    with (
        virtual_clock() as clock,
        BenchBot(clock, ours=False, size=size, seed=seed) as without,
        BenchBot(clock, ours=True, size=size, seed=seed) as ours,
    ):
        for number in range(size.turns + WARM_UP_TURNS):
            for bot in (without, ours):
                bot.do(bot.turn(measured=number >= WARM_UP_TURNS))
            _progress(f"turn {number + 1}/{size.turns + WARM_UP_TURNS}")
        for line in LINES:
            for kind in KINDS:
                _pairs(without, ours, line, kind, size)
                _progress(f"audio: {line}, {kind}")
    return _figures(without, ours)


def _pairs(without: BenchBot, ours: BenchBot, line: str, kind: str, size: BotSize) -> None:
    for bot in (without, ours):
        bot.do(bot.begin(kind))
    for number in range(size.chunks + WARM_UP_CHUNKS):
        for bot in (without, ours) if number % 2 else (ours, without):
            bot.do(bot.chunk(line, kind, number, measured=number >= WARM_UP_CHUNKS))
    for bot in (without, ours):
        bot.do(bot.end(kind, line, first=(size.chunks + WARM_UP_CHUNKS) * CHUNK_FRAMES))


def _figures(without: BenchBot, ours: BenchBot) -> dict[str, Any]:
    lines, spread = {}, {}
    for key, costs in ours.chunk_secs.items():
        more = 1e6 * (np.array(costs) - np.array(without.chunk_secs[key])) / CHUNK_FRAMES
        name = "_".join(key)
        lines[name] = round(float(np.median(more)), 1)
        # Half of the pairs lie within this: how far the figure is to be believed.
        spread[name] = [round(float(np.percentile(more, share)), 1) for share in (25, 75)]
    idle_us = max(cost for name, cost in lines.items() if name.endswith("silence"))
    row: dict[str, Any] = {
        "per_turn": _turn_row(ours),
        "per_audio_frame_us": max(lines.values()),
        "idle_cpu_share": round(idle_us / 1e6 / FRAME_SECS, 5),
    }
    found: dict[str, float] = {**row, **row["per_turn"]}
    return {
        **row,
        "audio_frame_us_by_line": lines,
        "audio_frame_us_quartiles": spread,
        "missed_budgets": [name for name, most in BUDGETS.items() if found[name] > most],
        "with": _side_row(ours),
        "without": _side_row(without),
    }


def _side_row(bot: BenchBot) -> dict[str, Any]:
    audio = {key: 1e6 * statistics.median(costs) / CHUNK_FRAMES for key, costs in bot.chunk_secs.items()}
    idle_us = max(cost for (_, kind), cost in audio.items() if kind == "silence")
    return {
        "per_turn": _turn_row(bot),
        "per_audio_frame_us": round(max(audio.values()), 1),
        "idle_cpu_share": round(idle_us / 1e6 / FRAME_SECS, 5),
    }


def _turn_row(bot: BenchBot) -> dict[str, float]:
    wall, cpu = np.array([(path.wall_secs, path.cpu_secs) for path in bot.paths]).T * 1000
    return {
        "p50_ms": round(float(np.percentile(wall, 50)), 3),
        "p95_ms": round(float(np.percentile(wall, 95)), 3),
        "cpu_p50_ms": round(float(np.percentile(cpu, 50)), 3),
        "cpu_p95_ms": round(float(np.percentile(cpu, 95)), 3),
    }


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:<40}", end="", file=sys.stderr)


def _print(result: dict[str, Any]) -> None:
    for name in ("without", "with"):
        row, turn = result[name], result[name]["per_turn"]
        print(
            f"{name:<8} turn p50 {turn['p50_ms']:.2f} ms  p95 {turn['p95_ms']:.2f} ms  "
            f"(CPU {turn['cpu_p50_ms']:.2f}, {turn['cpu_p95_ms']:.2f})  "
            f"audio frame {row['per_audio_frame_us']:.0f} us  idle {row['idle_cpu_share']:.2%} of a core"
        )
    print(
        f"ours     audio frame {result['per_audio_frame_us']:.0f} us at most  "
        f"idle {result['idle_cpu_share']:.2%} of a core"
    )
    for name, cost in result["audio_frame_us_by_line"].items():
        low, high = result["audio_frame_us_quartiles"][name]
        print(f"         {name:<15} {cost:5.0f} us a frame (half of the pairs: {low:.0f} to {high:.0f})")
    missed = result["missed_budgets"]
    print(f"budgets  {'missed: ' + ', '.join(missed) if missed else 'all kept'}")
