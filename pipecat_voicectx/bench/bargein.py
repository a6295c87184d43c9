"""Words the conversation gets wrong after a barge-in: stock Pipecat against the playback ledger.

The bot reads out a list and is cut off. Heard are the words of which the client had played half the samples when the
user began to speak; committed is what the conversation says. Every kind of synthesizer Pipecat has is a shape. Then
108 requests after an interrupted listing are judged at the model's socket: do they hold the item being read out, and
no later one?
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import random
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loguru import logger

from pipecat_voicectx.bench.bargein_listings import load_listings
from pipecat_voicectx.errors import UsageError

if TYPE_CHECKING:
    from pipecat_voicectx.bench.bargein_stack import IdleRequest, Score

__all__ = ["add_arguments", "run"]

SHAPES = (
    "word",
    "word_stall",
    "sentence",
    "token",
    "ws_ahead",
    "slow_tts",
    "multi_context",
    "code_blocks",
    "speak_frame",
    "realtime",
    "reinject",
)
CLIENT_DELAYS_SECS = (0.0, 0.15, 0.25, 0.4)
ACK_DELAYS_SECS: tuple[float | None, ...] = (0.0, 0.05, 0.3, 0.4, None)
# The script is 15.8 s long; the last points lie in its last words.
FIRST_POINT_SECS, LAST_POINT_SECS = 0.3, 15.3
POINTS = {"quick": 4, "default": 20, "full": 100}
GCM_DELAYS_SECS = (12.0, 16.0, 20.0)
GCM_OPERATIONS = ("elaborate", "next", "repeat")
GCM_SHAPES = ("word", "sentence", "ws_ahead")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One call: an interruption of a shape, or a listing (then `listing` is its number)."""

    shape: str
    stock: bool
    at_secs: float
    client_delay_secs: float = 0.15
    ack_delay_secs: float | None = 0.05
    listing: int | None = None
    operation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extra:
    """What is measured once, beside the calls."""

    stock_faults: dict[str, bool]
    idle: list[IdleRequest]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Done:
    job: _Job
    scores: tuple[Score, ...]
    """For stock one per client delay, which only matters for scoring."""
    anchored: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `voicectx bench bargein`."""
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="at most a minute: few points, a few listings")
    size.add_argument("--full", action="store_true", help="100 points per shape")
    parser.add_argument(
        "--shapes", default="all", metavar="LIST", help=f"some of {','.join(SHAPES)} (default all)"
    )
    parser.add_argument("--seed", type=int, default=1, help="pairs points with delays (default 1)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")


def run(args: argparse.Namespace) -> int:
    """Runs the bench and prints its figures."""
    try:
        jobs = _jobs(args)
    except UsageError as error:
        print(f"voicectx bench bargein: {error}", file=sys.stderr)
        return 2
    done, extra = _run_jobs(jobs, processes=args.jobs)
    points = [item for item in done if item.job.listing is None]
    cases = [item for item in done if item.job.listing is not None]
    acked = [item for item in points if item.job.stock or item.job.ack_delay_secs is not None]
    unacked = [item for item in points if not item.job.stock and item.job.ack_delay_secs is None]
    result: dict[str, Any] = {
        "version": 1,
        "seed": args.seed,
        "settings": {
            "points": _points(args),
            "client_delays_s": CLIENT_DELAYS_SECS,
            "ack_delays_s": ACK_DELAYS_SECS,
            "gcm_shapes": GCM_SHAPES,
            "pipecat": {"version": version("pipecat-ai"), "faults": extra.stock_faults},
            "fallback": "runs with a dropped text are counted there and left out of the word figures",
        },
        "variants": _table(acked),
        "no_acks": _table(unacked),
        "gcm": _gcm_table(cases),
        "repair_ms": {**_repair(points), "not_playing": _not_playing(extra.idle)},
    }
    _print(result)
    if args.json is not None:
        args.json.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    return 0


def _points(args: argparse.Namespace) -> int:
    return POINTS["quick" if args.quick else "full" if args.full else "default"]


def _jobs(args: argparse.Namespace) -> list[_Job]:
    if args.jobs < 1:
        raise UsageError("--jobs must be at least 1")
    shapes = SHAPES if args.shapes == "all" else tuple(args.shapes.split(","))
    unknown = [shape for shape in shapes if shape not in SHAPES]
    if unknown:
        raise UsageError(f"unknown shape {unknown[0]!r}; known are {', '.join(SHAPES)}")
    count = _points(args)
    pairs = [(delay, ack) for delay in CLIENT_DELAYS_SECS for ack in ACK_DELAYS_SECS]
    jobs: list[_Job] = []
    for number, shape in enumerate(shapes):
        # Each pair of delays meets each shape once every twenty points, at points that the seed decides.
        order = random.Random(args.seed * 100 + number).sample(pairs, len(pairs))
        for index in range(count):
            at_secs = FIRST_POINT_SECS + index * (LAST_POINT_SECS - FIRST_POINT_SECS) / max(1, count - 1)
            delay_secs, ack_secs = order[index % len(order)]
            at_secs = round(at_secs, 3)
            jobs.append(_Job(shape=shape, stock=True, at_secs=at_secs))
            jobs.append(
                _Job(
                    shape=shape,
                    stock=False,
                    at_secs=at_secs,
                    client_delay_secs=delay_secs,
                    ack_delay_secs=ack_secs,
                )
            )
    if args.shapes == "all":
        jobs += _gcm_jobs(quick=args.quick)
    return jobs


def _gcm_jobs(*, quick: bool) -> list[_Job]:
    listings = range(len(load_listings()))
    return [
        _Job(
            shape=GCM_SHAPES[listing % len(GCM_SHAPES)],
            stock=stock,
            at_secs=delay_secs,
            listing=listing,
            operation=operation,
        )
        for listing in (listings[:: len(GCM_SHAPES) + 1] if quick else listings)
        for delay_secs in (GCM_DELAYS_SECS[:1] if quick else GCM_DELAYS_SECS)
        for operation in GCM_OPERATIONS
        for stock in (True, False)
    ]


def _run_jobs(jobs: Sequence[_Job], *, processes: int) -> tuple[list[_Done], _Extra]:
    chunks = [jobs[start : start + 4] for start in range(0, len(jobs), 4)]
    done: list[_Done] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=processes, mp_context=context, initializer=_start_worker) as pool:
        extra = pool.submit(_run_extra)
        futures = [pool.submit(_run_chunk, chunk) for chunk in chunks]
        for future in as_completed(futures):
            done += future.result()
            if sys.stderr.isatty():
                print(f"\r{len(done) * 100 // len(jobs):3d}% of {len(jobs)} calls", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return sorted(done, key=lambda item: repr(item.job)), extra.result()


def _start_worker() -> None:
    logger.remove()
    # Heavy imports and the patched clock belong to the worker.
    import pipecat_voicectx.bench.bargein_stack  # noqa: F401

    # What is imported stays: looking through it for garbage again and again is a tenth of the time.
    gc.freeze()


def _run_extra() -> _Extra:
    from pipecat_voicectx.bench import bargein_faults, bargein_stack
    from pipecat_voicectx.testing import virtual_time

    return _Extra(
        stock_faults={name: virtual_time.run(fault()) for name, fault in bargein_faults.FAULTS.items()},
        idle=virtual_time.run(bargein_stack.run_idle(5)),
    )


def _run_chunk(jobs: Sequence[_Job]) -> list[_Done]:
    """One worker's share. Each call has a virtual clock of its own."""
    from pipecat_voicectx.bench import bargein_stack
    from pipecat_voicectx.testing import virtual_time
    from pipecat_voicectx.testing.playback_harness import Client

    listings = load_listings()
    done = []
    for job in jobs:
        if job.listing is not None:
            case = bargein_stack.GcmCase(
                listing=listings[job.listing],
                delay_secs=job.at_secs,
                operation=job.operation,
                shape=job.shape,
                stock=job.stock,
            )
            done.append(_Done(job=job, scores=(), anchored=virtual_time.run(bargein_stack.run_gcm(case))))
            continue
        client = Client(delay_secs=job.client_delay_secs, ack_delay_secs=job.ack_delay_secs)
        delays = CLIENT_DELAYS_SECS if job.stock else (job.client_delay_secs,)
        scores = virtual_time.run(
            bargein_stack.run_point(
                job.shape, job.at_secs, client=client, stock=job.stock, delays_secs=delays
            )
        )
        done.append(_Done(job=job, scores=tuple(scores)))
    return done


def _table(done: Iterable[_Done]) -> dict[str, dict[str, dict[str, Any]]]:
    cells: dict[tuple[str, str], list[Score]] = defaultdict(list)
    for item in done:
        cells[item.job.shape, "stock" if item.job.stock else "voicectx"] += item.scores
    table: dict[str, dict[str, dict[str, Any]]] = {}
    for shape in SHAPES:
        for variant in ("stock", "voicectx"):
            scores = cells.get((shape, variant))
            if scores:
                table.setdefault(shape, {})[variant] = _cell(scores)
    return table


def _cell(scores: Sequence[Score]) -> dict[str, Any]:
    placed = [score for score in scores if not score.fallbacks] or list(scores)
    return {
        "points": len(scores),
        "mean_over": round(statistics.fmean(score.over for score in placed), 3),
        "mean_under": round(statistics.fmean(score.under for score in placed), 3),
        "max_over": max(score.over for score in placed),
        "max_under": max(score.under for score in placed),
        "exact": sum(score.over == score.under == 0 for score in scores),
        "dirty": sum(score.dirty for score in scores),
        "fallback": sum(score.fallbacks > 0 for score in scores),
    }


def _gcm_table(cases: Sequence[_Done]) -> dict[str, Any]:
    if not cases:
        return {}
    listings = load_listings()
    ours = [case for case in cases if not case.job.stock]
    names = ("class", "delay", "operation", "shape")
    by: dict[str, Counter[tuple[str, bool]]] = {name: Counter() for name in names}
    sizes: dict[str, Counter[str]] = {name: Counter() for name in names}
    for case in cases:
        assert case.job.listing is not None
        keys = {
            "class": listings[case.job.listing].listing_class,
            "delay": f"{case.job.at_secs:g}",
            "operation": case.job.operation,
            "shape": case.job.shape,
        }
        for name, key in keys.items():
            by[name][key, case.job.stock] += case.anchored
            sizes[name][key] += not case.job.stock
    return {
        "cases": len(ours),
        "anchored_stock": sum(case.anchored for case in cases if case.job.stock),
        "anchored_voicectx": sum(case.anchored for case in ours),
        **{
            f"by_{name}": {
                key: {
                    "cases": size,
                    "anchored_stock": by[name][key, True],
                    "anchored_voicectx": by[name][key, False],
                }
                for key, size in sizes[name].items()
            }
            for name in by
        },
    }


def _repair(done: Iterable[_Done]) -> dict[str, float | None]:
    times = sorted(score.repair_ms for item in done for score in item.scores if score.repair_ms is not None)
    if not times:
        return {"p50": None, "p95": None}
    return {"p50": round(statistics.median(times), 3), "p95": round(times[int(0.95 * (len(times) - 1))], 3)}


def _not_playing(idle: Sequence[IdleRequest]) -> dict[str, Any]:
    """What a request pays while the bot is not heard. Counts are sums over all requests."""
    return {
        "requests": len(idle),
        "edits": sum(request.edits for request in idle),
        "frames": sum(request.frames for request in idle),
        "held": sum(request.held for request in idle),
        "max_ms": round(max(request.ms for request in idle), 3),
    }


def _print(result: dict[str, Any]) -> None:
    columns = (
        ("points", 7),
        ("over", 8),
        ("under", 8),
        ("max", 8),
        ("exact", 7),
        ("dirty", 7),
        ("fallback", 9),
    )
    head = f"{'shape':<14}{'variant':<10}" + "".join(f"{name:>{width}}" for name, width in columns)
    for title, key in (("words wrong after a barge-in", "variants"), ("without acknowledgements", "no_acks")):
        if not result[key]:
            continue
        print(f"\n{title}\n{head}")
        for shape, variants in result[key].items():
            for variant, cell in variants.items():
                worst = f"{cell['max_over']}/{cell['max_under']}"
                print(
                    f"{shape:<14}{variant:<10}{cell['points']:>7}{cell['mean_over']:>8.2f}{cell['mean_under']:>8.2f}"
                    f"{worst:>8}{cell['exact']:>7}{cell['dirty']:>7}{cell['fallback']:>9}"
                )
    if gcm := result["gcm"]:
        print(
            f"\nlistings: {gcm['anchored_voicectx']} of {gcm['cases']} requests anchored at the item heard "
            f"(stock {gcm['anchored_stock']})"
        )
    idle = result["repair_ms"]["not_playing"]
    print(
        f"while the bot is silent: {idle['edits']} edits, {idle['frames']} frames, {idle['held']} held in "
        f"{idle['requests']} requests, {idle['max_ms']} ms at most"
    )
    there = [name for name, present in result["settings"]["pipecat"]["faults"].items() if present]
    print(f"known faults of stock Pipecat still there: {', '.join(there) or 'none'}")
    if result["repair_ms"]["p50"] is not None:
        print(
            f"repair at an interruption: p50 {result['repair_ms']['p50']} ms, p95 {result['repair_ms']['p95']} ms"
        )
