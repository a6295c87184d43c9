"""What a test leaves behind: tasks of its event loops, threads, and open files and sockets."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["Leftovers", "open_descriptors"]

# Threads that live as long as the process on purpose, by the beginning of their names.
_KEPT_THREADS = (
    "pytest",  # pytest-timeout and pytest-xdist
    "tqdm_monitor",  # fastembed's progress bars; one per process
    "waits-for-memory",  # stores/waiting.py: one bounded pool per process, which idles between calls
)
# Files that stay open on purpose, by a part of their path.
_KEPT_FILES = (
    ".hypothesis",  # its database of failing examples
    "/dev/urandom",  # opened once by OpenSSL
    "/proc/",  # the listing of descriptors itself
)
# A thread that was told to end may need a moment to do so; the same goes for what it closes.
_GRACE_SECS = 2.0
_sleep, _monotonic = time.sleep, time.monotonic


def open_descriptors() -> set[tuple[int, str]]:
    """(number, target) of every open file and socket of this process."""
    found: set[tuple[int, str]] = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue  # the listing's own descriptor
        if not any(kept in target for kept in _KEPT_FILES):
            found.add((int(number), target))
    return found


# Threads of ours that a process may end without waiting for, and a session may not.
_OUR_DAEMONS = ("voicectx", "session-recorder")


def _threads() -> set[threading.Thread]:
    return {
        thread
        for thread in threading.enumerate()
        if not thread.name.startswith(_KEPT_THREADS)
        and (not thread.daemon or thread.name.startswith(_OUR_DAEMONS))
    }


@dataclass
class Leftovers:
    """Compares what is there after a test with what was there before it."""

    tasks: list[str] = field(default_factory=list)
    """Tasks that were still going when their event loop ended, which cancels them and so hides them."""
    _threads: set[threading.Thread] = field(default_factory=_threads)
    _descriptors: set[tuple[int, str]] = field(default_factory=open_descriptors)

    def watching(self, cancel_all: Callable[[asyncio.AbstractEventLoop], None]) -> Callable[..., None]:
        """In place of what `asyncio.Runner` does with the tasks that are left: takes them down first."""

        def take_down(loop: asyncio.AbstractEventLoop) -> None:
            self.tasks += [f"{task.get_name()}: {task.get_coro()}" for task in asyncio.all_tasks(loop)]
            cancel_all(loop)

        return take_down

    def found(self, *, only: str = "") -> list[str]:
        """What is left and begins with `only`. Waits a moment for what is just ending."""
        deadline_secs = _monotonic() + _GRACE_SECS
        while (left := self._left(only)) and _monotonic() < deadline_secs:
            gc.collect()
            _sleep(0.02)
        return left

    def _left(self, only: str) -> list[str]:
        left = [f"task {task}" for task in self.tasks]
        left += [f"thread {thread.name}" for thread in _threads() - self._threads]
        left += [f"open: {target}" for _, target in sorted(open_descriptors() - self._descriptors)]
        return [each for each in left if each.startswith(only)]
