"""Virtual time for asyncio: a loop whose clock jumps to the next timer as soon as nothing else is runnable.

Pipelines under test then take milliseconds instead of seconds and do not depend on the machine's load. While
`run` is active, `time.time`, `time.monotonic`, `time.perf_counter` and their `_ns` twins follow the loop, in the
whole process: Pipecat, aiortc and loguru read those, not the loop's clock.

Real work stays real. Sockets are polled before the clock moves, so a client and a server in the same loop exchange
bytes without time passing; jobs in an executor are waited for in real time before the clock may jump, and cost no
virtual time. What this cannot do: another process, or a thread that sleeps, does not follow this clock.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, TypeVar

__all__ = ["VirtualTimeLoop", "advance", "jump_wall_clock", "run", "virtual_clock"]

T = TypeVar("T")
OnBusy = Callable[[float], None]
"""Called with the real seconds that the loop worked between two looks at its events: what an event may wait for it."""

# Chosen: any fixed start works; a round one is easy to subtract when reading a trace.
_START_SECS = 1_000_000.0
_CLOCK_NAMES = ("time", "monotonic", "perf_counter")
_real_monotonic = time.monotonic
# Chosen: timer jumps after the last socket event during which bytes may still be in flight.
_PATIENT_LOOKS = 32


class _Clock:
    def __init__(self) -> None:
        self.now_secs = _START_SECS
        self.wall_jump_secs = 0.0

    def wall_secs(self) -> float:
        return self.now_secs + self.wall_jump_secs


class _JumpingSelector(selectors.DefaultSelector):
    """Polls for real events; without any, moves the clock by the time asyncio wanted to sleep."""

    def __init__(self, clock: _Clock, on_busy: OnBusy | None = None) -> None:
        super().__init__()
        self._clock = clock
        self._patient_looks = 0
        self._on_busy = on_busy
        self._woke_secs = _real_monotonic()
        self.pending_jobs = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._on_busy is None:
            return self._look(timeout)
        self._on_busy(_real_monotonic() - self._woke_secs)
        events = self._look(timeout)
        self._woke_secs = _real_monotonic()
        return events

    def _look(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.pending_jobs:
            # A thread works for the loop: wait for it in real time, in slices so that a missed wake-up cannot hang.
            return super().select(0.02 if timeout is None or timeout > 0 else 0)
        events = super().select(0)
        if events:
            self._patient_looks = _PATIENT_LOOKS
            return events
        if timeout is None:
            return super().select(0.05)
        if timeout > 0:
            # Loopback bytes in flight become readable without our doing; while sockets are in use, give the kernel
            # one look before moving time. epoll rounds it up to 1 ms, so a quiet pipeline must not pay for it.
            if self._patient_looks > 0:
                self._patient_looks -= 1
                events = super().select(0.0002)
                if events:
                    return events
            self._clock.now_secs += timeout
        return events


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop on a `virtual_clock`. Use `run` unless a framework wants a loop factory."""

    def __init__(self, clock: _Clock, on_busy: OnBusy | None = None) -> None:
        self._clock = clock
        self._jumping_selector = _JumpingSelector(clock, on_busy)
        super().__init__(self._jumping_selector)

    def time(self) -> float:
        return self._clock.now_secs

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._jumping_selector.pending_jobs += 1
        future.add_done_callback(self._job_done)
        return future

    def _job_done(self, _future: asyncio.Future[Any]) -> None:
        self._jumping_selector.pending_jobs -= 1


_active: list[_Clock] = []


@contextmanager
def virtual_clock() -> Iterator[_Clock]:
    """Patches the `time` module's clocks for the duration. Not re-entrant; the main thread's business only."""
    if _active:
        raise RuntimeError("a virtual clock is already active in this process")
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("a virtual clock must be started from the main thread")
    clock = _Clock()
    saved = {name: getattr(time, name) for base in _CLOCK_NAMES for name in (base, f"{base}_ns")}
    _active.append(clock)
    try:
        for base in _CLOCK_NAMES:
            setattr(time, base, lambda: clock.now_secs)
            setattr(time, f"{base}_ns", lambda: round(clock.now_secs * 1e9))
        time.time = clock.wall_secs
        time.time_ns = lambda: round(clock.wall_secs() * 1e9)
        yield clock
    finally:
        _active.pop()
        for name, function in saved.items():
            setattr(time, name, function)


def advance(secs: float) -> None:
    """Moves the active virtual clock without running anything: a CPU-bound slice that blocks the loop.

    Raises:
        RuntimeError: No virtual clock is active.
    """
    if not _active:
        raise RuntimeError("no virtual clock is active")
    _active[-1].now_secs += secs


def jump_wall_clock(secs: float) -> None:
    """Sets the time of day forward or back, as an administrator or NTP does; the monotonic clocks go on.

    Raises:
        RuntimeError: No virtual clock is active.
    """
    if not _active:
        raise RuntimeError("no virtual clock is active")
    _active[-1].wall_jump_secs += secs


def run(main: Coroutine[Any, Any, T], *, on_busy: OnBusy | None = None) -> T:
    """Runs `main` to its end on a fresh virtual-time loop and returns its result."""
    with (
        virtual_clock() as clock,
        asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(clock, on_busy)) as runner,
    ):
        return runner.run(main)
