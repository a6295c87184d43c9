"""False ends of turns under packet loss: stock strategies against the turn hold, on the real turn-taking stack.

A false end is a turn that stopped before the speaker did; latency is the first stop at or after the end of speech,
less the end of speech. The rows `llm` and `both` ask a scripted model over the real protocol.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from loguru import logger

from pipecat_voicectx.bench.loss_audio import (
    LossMask,
    LossPath,
    Utterance,
    built_in_masks,
    choose_traces,
    load_traces,
    load_utterances,
    lost_share,
    packet_mask,
    received,
)
from pipecat_voicectx.bench.loss_speech import synthesized
from pipecat_voicectx.errors import UsageError

__all__ = ["add_arguments", "run"]

# A stop that comes later than this after the end of speech is a turn that was missed.
MISSED_AFTER_SECS = 5.0
# Enough pairs for a minute on two cores, with one utterance that has pauses beside these.
QUICK_UTTERANCES, QUICK_MASKS = 2, 1
DEFAULT_MASKS = 2
FULL_MASKS = 6
# Utterances of our own where no recordings are given.
SYNTHESIZED = 12
CHUNK = 8
WORST_PAIRS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    utterance: Utterance
    mask: LossMask | None
    path: LossPath


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One variant on one pair."""

    utterance: str
    mask: str
    path: str
    variant: str
    lost_share: float
    false_end: bool
    latency_secs: float | None
    """None: missed."""
    first_stop_secs: float | None
    speech_secs: float
    llm_calls: int
    held: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `voicectx bench loss`."""
    parser.add_argument(
        "--utterances",
        type=Path,
        metavar="DIR",
        help="16 kHz WAV files with index.json; without: synthesized ones",
    )
    parser.add_argument("--traces", type=Path, metavar="TSV", help="loss traces; without: built-in masks")
    parser.add_argument(
        "--path", choices=[*(path.value for path in LossPath), "all"], default="all", help="kind of receiver"
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="at most a minute")
    size.add_argument("--full", action="store_true", help="more masks per utterance")
    parser.add_argument("--seed", type=int, default=1, help="chooses traces and masks (default 1)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")


def run(args: argparse.Namespace) -> int:
    """Runs the bench and prints its figures."""
    try:
        if args.jobs < 1:
            raise UsageError("--jobs must be at least 1")
        jobs = list(_jobs(args))
    except UsageError as error:
        print(f"voicectx bench loss: {error}", file=sys.stderr)
        return 2
    rows = _run_jobs(jobs, processes=args.jobs)
    plain = [row for row in rows if not row.utterance.startswith("p")]
    paused = [row for row in rows if row.utterance.startswith("p")]
    result: dict[str, Any] = {
        "version": 1,
        "seed": args.seed,
        "settings": {
            "utterances": len({job.utterance.name for job in jobs}),
            "speech": "recordings" if args.utterances else "eSpeak NG",
            "masks": "traces" if args.traces else "built-in",
            "llm": "scripted",
        },
        "paths": _table(row for row in plain if row.mask),
        "clean": _table(row for row in plain if not row.mask),
        "pauses": {
            "paths": _table(row for row in paused if row.mask),
            "clean": _table(row for row in paused if not row.mask),
        },
    }
    _print_table("under loss", result["paths"])
    _print_table("clean line", result["clean"])
    if paused:
        _print_table("utterances with pauses, under loss", result["pauses"]["paths"])
        _print_table("utterances with pauses, clean line", result["pauses"]["clean"])
    _print_worst(rows)
    if args.json is not None:
        args.json.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    return 0


def _jobs(args: argparse.Namespace) -> Iterator[_Job]:
    utterances = _utterances(args)
    strata = load_traces(args.traces) if args.traces else None
    paths = [path for path in LossPath if args.path in ("all", path.value)]
    each = QUICK_MASKS if args.quick else FULL_MASKS if args.full else DEFAULT_MASKS
    for utterance in utterances:
        if strata is not None:
            masks = choose_traces(strata, utterance.name, seed=args.seed, each=each)
        else:
            masks = built_in_masks(utterance, seed=args.seed)
            masks = masks[::3] if args.quick else masks
        for path in paths:
            # Where nothing is lost there is nothing to conceal: the first concealing receiver stands for all.
            clean = path is LossPath.AIORTC or path is paths[0]
            for mask in (None, *masks) if clean else masks:
                yield _Job(utterance=utterance, mask=mask, path=path)


def _utterances(args: argparse.Namespace) -> list[Utterance]:
    if args.utterances is None:
        return synthesized(seed=args.seed, count=QUICK_UTTERANCES + 1 if args.quick else SYNTHESIZED)
    found = load_utterances(args.utterances)
    if not args.quick:
        return found
    plain = [utterance for utterance in found if not utterance.has_pauses]
    paused = [utterance for utterance in found if utterance.has_pauses]
    return [*plain[:QUICK_UTTERANCES], *paused[:1]]


def _run_jobs(jobs: Sequence[_Job], *, processes: int) -> list[_Row]:
    # Chunks keep an utterance together, whose packets and verdicts are then shared; small ones balance the load.
    chunks = [jobs[i : i + CHUNK] for i in range(0, len(jobs), CHUNK)]
    rows: list[_Row] = []
    done = 0
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=processes, mp_context=context) as pool:
        futures = [pool.submit(_run_chunk, chunk) for chunk in chunks]
        for future in as_completed(futures):
            rows += future.result()
            done += 1
            if sys.stderr.isatty():
                print(f"\r{done * 100 // len(chunks):3d}% of {len(jobs)} pairs", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    rows += _clean_elsewhere(rows, {job.path.value for job in jobs})
    return sorted(rows, key=lambda row: (row.path, row.utterance, row.mask, row.variant))


def _clean_elsewhere(rows: Sequence[_Row], paths: set[str]) -> list[_Row]:
    """Clean rows of concealing receivers that did not run, since they would have heard the very same samples."""
    found = []
    for path in paths - {row.path for row in rows if not row.mask}:
        found += [
            replace(row, path=path) for row in rows if not row.mask and row.path != LossPath.AIORTC.value
        ]
    return found


def _run_chunk(jobs: Sequence[_Job]) -> list[_Row]:
    """One worker's share, on one virtual clock."""
    logger.remove()
    # Heavy imports and the patched clock belong to the worker.
    from pipecat_voicectx.bench.loss_model import ScriptedDecisions
    from pipecat_voicectx.bench.loss_stack import Variant, run_pair
    from pipecat_voicectx.testing import virtual_time
    from pipecat_voicectx.testing.openai_server import OpenAIServer

    stock = [variant for variant in Variant if not variant.ours]
    ours = [variant for variant in Variant if variant.ours]

    async def main() -> list[_Row]:
        rows: list[_Row] = []
        async with OpenAIServer(ScriptedDecisions()) as server:
            for job in jobs:
                lost = packet_mask(job.utterance, job.mask)
                groups = [(True, [*stock, *ours])]
                if job.path is LossPath.AIORTC:
                    groups = [(False, stock), (True, ours)]
                for tolerant, variants in groups:
                    arrivals = received(job.utterance, lost, job.path, tolerant_buffer=tolerant)
                    outcomes = await run_pair(job.utterance, arrivals, lost, job.path, variants, server)
                    share = lost_share(lost[50 : 50 + int(job.utterance.speech_secs * 50)])
                    rows += [
                        _row(job, share, o.variant.value, o.stops_secs, o.llm_calls, o.held) for o in outcomes
                    ]
        return rows

    return virtual_time.run(main())


def _row(
    job: _Job, share: float, variant: str, stops_secs: Sequence[float], llm_calls: int, held: int
) -> _Row:
    end_secs = job.utterance.speech_secs
    after = [at - end_secs for at in stops_secs if at >= end_secs]
    latency = after[0] if after and after[0] <= MISSED_AFTER_SECS else None
    return _Row(
        utterance=job.utterance.name,
        mask=job.mask.name if job.mask else "",
        path=job.path.value,
        variant=variant,
        lost_share=share,
        false_end=any(at < end_secs for at in stops_secs),
        latency_secs=latency,
        first_stop_secs=stops_secs[0] if stops_secs else None,
        speech_secs=end_secs,
        llm_calls=llm_calls,
        held=held,
    )


def _table(rows: Iterable[_Row]) -> dict[str, dict[str, dict[str, Any]]]:
    cells: dict[tuple[str, str], list[_Row]] = defaultdict(list)
    for row in rows:
        cells[row.path, row.variant].append(row)
    table: dict[str, dict[str, dict[str, Any]]] = {}
    for (path, variant), found in cells.items():
        latencies = sorted(row.latency_secs for row in found if row.latency_secs is not None)
        false_ends = sum(row.false_end for row in found)
        table.setdefault(path, {})[variant] = {
            "pairs": len(found),
            "false_ends": false_ends,
            "false_end_rate": round(false_ends / len(found), 4),
            "latency_p50_s": round(statistics.median(latencies), 3) if latencies else None,
            "latency_p95_s": round(latencies[round(0.95 * (len(latencies) - 1))], 3) if latencies else None,
            "missed": sum(row.latency_secs is None for row in found),
            "llm_calls": sum(row.llm_calls for row in found),
        }
    return table


def _print_table(title: str, table: dict[str, dict[str, dict[str, Any]]]) -> None:
    if not table:
        return
    print(f"\n{title}")
    print(
        f"{'path':<9}{'variant':<12}{'pairs':>6}{'false':>7}{'rate':>8}{'p50 s':>8}{'p95 s':>8}{'missed':>8}{'LLM':>6}"
    )
    order = ("stock", "vad0.5", "static3.2", "reflex", "llm", "both", "audio_only")
    for path, variants in table.items():
        for variant in sorted(variants, key=order.index):
            cell = variants[variant]
            latency = [f"{cell[key]:8.2f}" if cell[key] is not None else f"{'-':>8}" for key in _LATENCIES]
            print(
                f"{path:<9}{variant:<12}{cell['pairs']:>6}{cell['false_ends']:>7}{cell['false_end_rate']:>8.1%}"
                f"{latency[0]}{latency[1]}{cell['missed']:>8}{cell['llm_calls']:>6}"
            )


_LATENCIES = ("latency_p50_s", "latency_p95_s")


def _print_worst(rows: Sequence[_Row]) -> None:
    ours = [row for row in rows if row.variant in ("reflex", "both", "audio_only")]
    bad = [row for row in ours if row.false_end or row.latency_secs is None]
    bad += sorted(
        (row for row in ours if row not in bad), key=lambda row: row.latency_secs or 0.0, reverse=True
    )
    print("\nworst pairs of ours")
    for row in bad[:WORST_PAIRS]:
        what = "false end" if row.false_end else "missed" if row.latency_secs is None else "late"
        stop = "-" if row.first_stop_secs is None else f"{row.first_stop_secs:.2f}"
        print(
            f"{row.path:<9}{row.variant:<12}{row.utterance:<6}{row.mask or 'clean':<12}{what:<10}"
            f"first stop {stop} of {row.speech_secs:.2f} s, {row.lost_share:.0%} lost, held {row.held}"
        )
