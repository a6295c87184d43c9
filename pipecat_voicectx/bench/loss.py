"""False ends of turns under packet loss: stock strategies against the turn hold, on the real turn-taking stack.

A false end is a turn that stopped before the speaker did; latency is the first stop at or after the end of speech,
less the end of speech. Utterances that stock ends early without any loss, at a pause or because the end-of-turn model
takes the speaker for done, are reported apart: what a loss does there cannot be told. The rows `llm` and `both` ask a
scripted model over the real protocol.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from pipecat_voicectx.bench.loss_speech import SPEAKERS, synthesized
from pipecat_voicectx.bench.loss_tables import (
    PairRow,
    TurnEnd,
    cut_without_loss,
    failures,
    pause_table,
    print_pause_table,
    print_table,
    print_worst,
    table_of,
)
from pipecat_voicectx.errors import UsageError

if TYPE_CHECKING:
    from pipecat_voicectx.bench.loss_stack import PairOutcome

__all__ = ["add_arguments", "run"]

# A stop that comes later than this after the end of speech is a turn that was missed.
MISSED_AFTER_SECS = 5.0
# Enough pairs for a minute on two cores, with one utterance that has pauses beside these; of the masks every other one.
QUICK_UTTERANCES, QUICK_MASKS = 2, 1
DEFAULT_MASKS = 2
FULL_MASKS = 6
# Utterances of our own where no recordings are given.
SYNTHESIZED = 12
CHUNK = 5
# Calls of each kind of speaker for the pause profile.
DEFAULT_CALLS, FULL_CALLS = 2, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    utterance: Utterance
    mask: LossMask | None
    path: LossPath


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
    calls = [] if args.quick else _pause_calls(args.seed, FULL_CALLS if args.full else DEFAULT_CALLS)
    rows, pause_profile = _run_jobs(jobs, calls, processes=args.jobs)
    pausing = {job.utterance.name for job in jobs if job.utterance.has_pauses}
    cut = cut_without_loss(rows)
    apart = {row for row in rows if row.utterance in pausing or (row.path, row.utterance) in cut}
    plain, paused = [row for row in rows if row not in apart], [row for row in rows if row in apart]
    result: dict[str, Any] = {
        "version": 1,
        "seed": args.seed,
        "settings": {
            "utterances": len({job.utterance.name for job in jobs}),
            "speech": "recordings" if args.utterances else "eSpeak NG",
            "masks": "traces" if args.traces else "built-in",
            "llm": "scripted",
            "cut_without_loss": sorted({name for _, name in cut} - pausing),
        },
        "paths": table_of(row for row in plain if row.mask),
        "clean": table_of(row for row in plain if not row.mask),
        "pauses": {
            "paths": table_of(row for row in paused if row.mask),
            "clean": table_of(row for row in paused if not row.mask),
        },
        "pause_profile": pause_profile,
        "failures": [asdict(row) for row in failures(plain)],
    }
    print_table("under loss", result["paths"])
    print_table("clean line", result["clean"])
    if result["settings"]["cut_without_loss"]:
        print(
            "\nended early by stock on a clean line, so counted with the pauses: "
            f"{', '.join(result['settings']['cut_without_loss'])}"
        )
    if paused:
        print_table("utterances with pauses, under loss", result["pauses"]["paths"])
        print_table("utterances with pauses, clean line", result["pauses"]["clean"])
    print_pause_table(pause_profile)
    print_worst(plain)
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
            masks = masks[1::2] or masks if args.quick else masks
        else:
            masks = built_in_masks(utterance, seed=args.seed)
            masks = masks[1::4] or masks if args.quick else masks
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


def _pause_calls(seed: int, count: int) -> list[tuple[str, int]]:
    """Calls for the pause profile, which speaks by itself."""
    if find_spec("espeakng_loader") is None:
        print("pause profile: left out, espeakng-loader is not installed", file=sys.stderr)
        return []
    return [(speaker, seed + i) for speaker in SPEAKERS for i in range(count)]


def _run_jobs(
    jobs: Sequence[_Job], calls: Sequence[tuple[str, int]], *, processes: int
) -> tuple[list[PairRow], dict[str, Any]]:
    # Chunks keep an utterance together, whose packets and verdicts are then shared; small ones balance the load.
    chunks = [jobs[i : i + CHUNK] for i in range(0, len(jobs), CHUNK)]
    rows: list[PairRow] = []
    done = 0
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=processes, mp_context=context) as pool:
        learned = {call: pool.submit(_run_call, *call) for call in calls}
        futures = [pool.submit(_run_chunk, chunk) for chunk in chunks]
        for future in as_completed(futures):
            rows += future.result()
            done += 1
            if sys.stderr.isatty():
                print(f"\r{done * 100 // len(chunks):3d}% of {len(jobs)} pairs", end="", file=sys.stderr)
        turns = {call: future.result() for call, future in learned.items()}
    if sys.stderr.isatty():
        print(file=sys.stderr)
    rows += _clean_elsewhere(rows, {job.path.value for job in jobs})
    return sorted(rows, key=lambda row: (row.path, row.utterance, row.mask, row.variant)), pause_table(turns)


def _clean_elsewhere(rows: Sequence[PairRow], paths: set[str]) -> list[PairRow]:
    """Clean rows of concealing receivers that did not run, since they would have heard the very same samples."""
    found = []
    for path in paths - {row.path for row in rows if not row.mask}:
        found += [
            replace(row, path=path) for row in rows if not row.mask and row.path != LossPath.AIORTC.value
        ]
    return found


def _run_call(speaker: str, seed: int) -> dict[str, list[TurnEnd]]:
    logger.remove()
    from pipecat_voicectx.bench.loss_pauses import pause_rows
    from pipecat_voicectx.testing import virtual_time

    return virtual_time.run(pause_rows(speaker, seed=seed))


def _run_chunk(jobs: Sequence[_Job]) -> list[PairRow]:
    """One worker's share, on one virtual clock."""
    logger.remove()
    # Heavy imports and the patched clock belong to the worker.
    from pipecat_voicectx.bench.loss_model import ScriptedDecisions
    from pipecat_voicectx.bench.loss_stack import Variant, run_pair
    from pipecat_voicectx.testing import virtual_time
    from pipecat_voicectx.testing.openai_server import OpenAIServer

    stock = [variant for variant in Variant if not variant.ours]
    ours = [variant for variant in Variant if variant.ours]

    async def main() -> list[PairRow]:
        rows: list[PairRow] = []
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
                    rows += [_row(job, share, outcome) for outcome in outcomes]
        return rows

    return virtual_time.run(main())


def _row(job: _Job, share: float, outcome: PairOutcome) -> PairRow:
    end_secs, stops_secs = job.utterance.speech_secs, outcome.stops_secs
    after = [at - end_secs for at in stops_secs if at >= end_secs]
    latency = after[0] if after and after[0] <= MISSED_AFTER_SECS else None
    return PairRow(
        utterance=job.utterance.name,
        mask=job.mask.name if job.mask else "",
        path=job.path.value,
        variant=outcome.variant.value,
        lost_share=share,
        false_end=any(at < end_secs for at in stops_secs),
        latency_secs=latency,
        first_stop_secs=stops_secs[0] if stops_secs else None,
        speech_secs=end_secs,
        llm_calls=outcome.llm_calls,
        held=outcome.held,
        seen=outcome.seen,
    )
