"""What N simultaneous calls cost in one process: CPU, memory, path latency, loop lag; ours against the same bots bare.

Whole bots, each with a real OpenAI client on a socket, a real voice and paced output; what is counted is real CPU time,
after a first call that pays for imports. On virtual time the calls take no longer than their work: good for counting
CPU, but every turn is then worked on beside all the others, as on a core without a free moment. `--real-time` lets the
calls take their time, and the path and the loop wait for what they would wait for in use.

Every count of sessions runs in a process of its own, once bare and once with our processors, and what is reported as
ours is the difference. Callers talk about different things and start at different times.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from loguru import logger
from pipecat.frames.frames import Frame, LLMContextFrame

from pipecat_voicectx.errors import UsageError, VoiceContextError
from pipecat_voicectx.testing import virtual_time
from pipecat_voicectx.testing.openai_server import ChatRequest, Reply
from pipecat_voicectx.testing.scripted_session import Session, play_in_loop

__all__ = ["add_arguments", "run"]

_DEFAULT_SESSIONS, _QUICK_SESSIONS = 8, 4
_DEFAULT_MINUTES, _QUICK_MINUTES = 2.0, 0.5
_MAX_SESSIONS, _MAX_MINUTES = 500, 240.0
# As WebRTC sends them.
_FRAME_SECS = 0.02
# How often the loop is looked at in real time. Chosen.
_LOOK_SECS = 0.01
# Sessions start so far apart that their turns do not fall together. Chosen.
_STAGGER_SECS = 0.37
# The virtual clock replaces time.perf_counter; this one it leaves alone.
_CLOCK = time.CLOCK_MONOTONIC

_TOPICS = (
    "the museum in Ghent",
    "a train to Lyon",
    "the lake in Lucerne",
    "the old harbour of Aarhus",
    "the night market",
    "a table for four on Friday",
    "the parcel from Boston",
    "my router at home",
)
_ANSWER = "It opens at nine in the morning. People say that it is best before noon, and quiet after three."


class _Talkative:
    def reply(self, request: ChatRequest) -> Reply:
        return Reply(text=_ANSWER)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One process: so many sessions, bare or with our processors."""

    cpu_secs: float
    """Real CPU time of the process while the calls ran."""
    call_secs: float
    """Length of one call."""
    rss_mb: float
    """Most memory the process ever held."""
    path_ms: tuple[float, ...]
    lag_ms: tuple[float, ...]
    """How long an event may wait for the loop. Virtual time: what it worked between two looks at its events; real time:
    how late a timer is. Thinned."""
    cpu_growth: float
    """CPU per exchange in the last third of the calls over the first third."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `voicectx bench load`."""
    parser.add_argument("--sessions", type=int, help=f"most simultaneous calls (default {_DEFAULT_SESSIONS})")
    parser.add_argument("--minutes", type=float, help=f"length of a call (default {_DEFAULT_MINUTES:g})")
    parser.add_argument(
        "--processes", type=int, default=1, help="spread the sessions over so many (default 1)"
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick", action="store_true", help=f"{_QUICK_SESSIONS} calls of {_QUICK_MINUTES:g} minutes"
    )
    size.add_argument("--full", action="store_true", help="accepted for uniformity")
    parser.add_argument(
        "--real-time", action="store_true", help="calls take as long as they are, six runs of --minutes"
    )
    parser.add_argument("--seed", type=int, default=1, help="which topics the callers talk about (default 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")
    parser.add_argument("--child", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Runs the bench and prints its figures."""
    logger.remove()
    if args.child:
        sessions, minutes, ours = json.loads(args.child)
        run_calls = _in_real_time if args.real_time else _in_virtual_time
        print(json.dumps(asdict(_measure(sessions, minutes, ours=ours, seed=args.seed, run_calls=run_calls))))
        return 0
    sessions, minutes = args.sessions, args.minutes
    if sessions is None:
        sessions = _QUICK_SESSIONS if args.quick else _DEFAULT_SESSIONS
    if minutes is None:
        minutes = _QUICK_MINUTES if args.quick else _DEFAULT_MINUTES
    if not 1 <= sessions <= _MAX_SESSIONS:
        raise UsageError(f"--sessions is {sessions}; give 1 to {_MAX_SESSIONS}")
    if not 0.2 <= minutes <= _MAX_MINUTES:
        raise UsageError(f"--minutes is {minutes:g}; give 0.2 to {_MAX_MINUTES:g}")
    if not 1 <= args.processes <= sessions:
        raise UsageError(f"--processes is {args.processes}; give 1 to the number of sessions, {sessions}")
    counts = sorted({1, max(1, sessions // 2), sessions})
    rows = {
        str(count): _row(count, minutes, min(args.processes, count), args.seed, real_time=args.real_time)
        for count in counts
    }
    _print(rows)
    if args.json:
        settings: dict[str, object] = {"sessions": sessions, "minutes": minutes, "processes": args.processes}
        settings["time"] = "real" if args.real_time else "virtual"
        report = {
            "version": version("pipecat-voicectx"),
            "seed": args.seed,
            "settings": settings,
            "sessions": rows,
        }
        args.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


def _row(count: int, minutes: float, processes: int, seed: int, *, real_time: bool) -> dict[str, float]:
    bare, ours = (
        _in_processes(count, minutes, processes, ours=ours, seed=seed, real_time=real_time)
        for ours in (False, True)
    )
    call_secs = statistics.fmean(r.call_secs for r in ours)
    own_cpu_secs = sum(r.cpu_secs for r in ours) - sum(r.cpu_secs for r in bare)
    all_cpu_secs = sum(r.cpu_secs for r in ours)
    path = sorted(ms for r in ours for ms in r.path_ms)
    lag = sorted(ms for r in ours for ms in r.lag_ms)
    return {
        "cpu_ms_per_s": round(1000 * own_cpu_secs / call_secs / count, 3),
        "cpu_ms_per_s_whole_bot": round(1000 * all_cpu_secs / call_secs / count, 3),
        "sessions_per_core": round(call_secs * count / all_cpu_secs, 1),
        "cpu_growth": round(statistics.fmean(r.cpu_growth for r in ours), 3),
        "rss_mb": round(sum(r.rss_mb for r in ours) - sum(r.rss_mb for r in bare), 1),
        "path_p50_ms": _quantile(path, 0.5),
        "path_p95_ms": _quantile(path, 0.95),
        "path_p99_ms": _quantile(path, 0.99),
        "loop_lag_p99_ms": _quantile(lag, 0.99),
        "loop_lag_p99_ms_bare": _quantile(sorted(ms for r in bare for ms in r.lag_ms), 0.99),
    }


def _in_processes(
    count: int, minutes: float, processes: int, *, ours: bool, seed: int, real_time: bool
) -> list[_Run]:
    """Runs the sessions in processes of their own, at the same time when there are several."""
    shares = [count // processes + (number < count % processes) for number in range(processes)]
    what = "with our processors" if ours else "bare"
    print(
        f"  {count} call{'s' if count > 1 else ''} of {minutes:g} min, {what} ...",
        file=sys.stderr,
        flush=True,
    )
    children = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "pipecat_voicectx.cli", "bench", "load"),
                *("--seed", str(seed + number), "--child", json.dumps([share, minutes, ours])),
                *(["--real-time"] if real_time else []),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, share in enumerate(shares)
    ]
    runs: list[_Run] = []
    failed = ""
    for child in children:
        out, err = child.communicate()
        if child.returncode == 0 and out.strip():
            runs.append(_Run(**json.loads(out.strip().splitlines()[-1])))
        else:
            failed = err.strip()[-500:] or f"exit code {child.returncode}"
    if failed:
        raise VoiceContextError(f"bench load: a process with {max(shares)} sessions ended early: {failed}")
    return runs


RunCalls = Callable[[Coroutine[Any, Any, float], Callable[[float], None] | None], float]
"""Runs the calls and tells how long an event had to wait for the loop, each time, in seconds."""


def _in_virtual_time(calls: Coroutine[Any, Any, float], on_busy: Callable[[float], None] | None) -> float:
    return virtual_time.run(calls, on_busy=on_busy)


def _in_real_time(calls: Coroutine[Any, Any, float], on_busy: Callable[[float], None] | None) -> float:
    async def watched() -> float:
        watch = asyncio.create_task(_watch_loop(on_busy)) if on_busy is not None else None
        try:
            return await calls
        finally:
            if watch is not None:
                watch.cancel()

    return asyncio.run(watched())


async def _watch_loop(on_busy: Callable[[float], None]) -> None:
    while True:
        due_secs = time.monotonic() + _LOOK_SECS
        await asyncio.sleep(_LOOK_SECS)
        on_busy(max(0.0, time.monotonic() - due_secs))


def _measure(sessions: int, minutes: float, *, ours: bool, seed: int, run_calls: RunCalls) -> _Run:
    """In a process of its own: so many calls at once."""
    from pipecat_voicectx.demo.espeak_tts import EspeakTTSService

    path_ms: list[float] = []
    exchange_cpu_secs: list[list[float]] = [[] for _ in range(sessions)]

    async def call(number: int, folder: Path) -> None:
        async def script(session: Session) -> None:
            if session.voice is not None:
                _watch_path(session, path_ms)
            await session.pause(number * _STAGGER_SECS)
            ends_secs = time.monotonic() + ends_after_secs
            turn = 0
            while turn == 0 or time.monotonic() < ends_secs:
                began = time.process_time()
                topic = _TOPICS[(number + turn + seed) % len(_TOPICS)]
                await session.say(f"please tell me something about {topic}, number {turn}")
                await session.answered()
                session.server.requests[:-1] = []
                session.log.events.clear()
                exchange_cpu_secs[number].append(time.process_time() - began)
                turn += 1

        await play_in_loop(
            script,
            _Talkative(),
            ours=ours,
            tts=EspeakTTSService,
            memory={"user_id": f"caller-{number}", "store_path": folder},
            frame_secs=_FRAME_SECS,
        )

    async def calls(sessions: int) -> float:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="voicectx-load-") as folder:
            await asyncio.gather(*(call(number, Path(folder) / "store") for number in range(sessions)))
        return time.monotonic() - began

    ends_after_secs = 0.0  # a first call of one exchange pays for imports
    run_calls(calls(1), None)
    path_ms.clear()
    exchange_cpu_secs[0].clear()
    ends_after_secs = 60 * minutes
    gc.collect()
    busy_ms = array("d")
    started = time.process_time()
    call_secs = run_calls(calls(sessions), lambda secs: busy_ms.append(1000 * secs))
    cpu_secs = time.process_time() - started
    return _Run(
        cpu_secs=cpu_secs,
        call_secs=call_secs,
        rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        path_ms=tuple(round(ms, 3) for ms in path_ms),
        lag_ms=_thinned(busy_ms),
        cpu_growth=_growth(exchange_cpu_secs),
    )


def _watch_path(session: Session, path_ms: list[float]) -> None:
    """Real milliseconds from a context frame's leaving the user aggregator to its leaving our last processor."""
    voice = session.voice
    assert voice is not None
    assert voice.orchestrator is not None
    entered: dict[int, float] = {}

    def on_enter(_processor: object, frame: Frame) -> None:
        if isinstance(frame, LLMContextFrame):
            entered[frame.id] = time.clock_gettime(_CLOCK)

    def on_leave(_processor: object, frame: Frame) -> None:
        if isinstance(frame, LLMContextFrame) and frame.id in entered:
            path_ms.append(1000 * (time.clock_gettime(_CLOCK) - entered.pop(frame.id)))

    voice.aggregators.user().add_event_handler("on_before_push_frame", on_enter)
    voice.orchestrator.add_event_handler("on_before_push_frame", on_leave)


def _growth(exchanges: Sequence[Sequence[float]]) -> float:
    """CPU of an exchange in the last third of the calls over one in the first; the very first pays for start-up."""
    first: list[float] = []
    last: list[float] = []
    for costs in exchanges:
        settled = costs[1:]
        third = max(1, len(settled) // 3)
        first += settled[:third]
        last += settled[-third:]
    return statistics.fmean(last) / statistics.fmean(first) if first and statistics.fmean(first) else 1.0


def _thinned(values: Sequence[float], most: int = 20_000) -> tuple[float, ...]:
    """Every n-th in order of size, so that quantiles stay what they are."""
    ordered = sorted(values)
    step = max(1, len(ordered) // most)
    return tuple(round(value, 4) for value in ordered[step // 2 :: step])


def _quantile(ordered: Sequence[float], share: float) -> float:
    if not ordered:
        return 0.0
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)


def _print(rows: dict[str, dict[str, float]]) -> None:
    print(
        "calls   CPU ours   whole bot   calls a core   growth   memory ours   path p50/p95/p99      lag p99 (bare)"
    )
    for count, row in rows.items():
        print(
            f"{count:>5}   {row['cpu_ms_per_s']:5.1f} ms/s  {row['cpu_ms_per_s_whole_bot']:5.1f} ms/s   "
            f"{row['sessions_per_core']:8.1f}      {row['cpu_growth']:5.2f}x   {row['rss_mb']:8.1f} MB   "
            f"{row['path_p50_ms']:.1f} / {row['path_p95_ms']:.1f} / {row['path_p99_ms']:.1f} ms   "
            f"{row['loop_lag_p99_ms']:.2f} ms ({row['loop_lag_p99_ms_bare']:.2f})"
        )
    print("CPU per call and second of call, on one core; growth: last third of the calls over the first.")
