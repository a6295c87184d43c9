"""Threads in which sessions wait for a disk, a model or a database, apart from the event loop's own few.

The loop's default executor has as many threads as the machine has cores, and four, and others need them: aiortc
encodes the bot's audio there. While an embedding model is fetched for the first time, waiting there silenced the bot.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

__all__ = ["in_background", "opened_in_background"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# Chosen: a waiting thread costs 60 kB; what comes beyond waits its turn, behind what it waits for anyway.
_MAX_WAITING = 64
_threads = ThreadPoolExecutor(max_workers=_MAX_WAITING, thread_name_prefix="waits-for-memory")


async def in_background(call: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """The result of a call that may take long, without any thread that others count on."""
    return await asyncio.get_running_loop().run_in_executor(_threads, call, *arguments)


async def opened_in_background(call: Callable[[*Ts], T], *arguments: *Ts, undo: Callable[[T], object]) -> T:
    """As `in_background`, for what must be closed again: `undo` gets what is open when nobody waits for it any more."""
    lock = threading.Lock()
    opened: list[T] = []
    left = False

    def work() -> T:
        result = call(*arguments)
        with lock:
            opened.append(result)
            unwanted = left
        if unwanted:
            undo(result)
        return result

    try:
        return await in_background(work)
    except asyncio.CancelledError:
        with lock:
            left = True
            open_now = list(opened)
        for result in open_now:
            _threads.submit(undo, result)
        raise
