"""Holds Python's garbage collector off while thousands of objects are made that are all going to be kept.

A full collection stops every thread, the one with the audio too: a third of a second where 10,000 pages are being
loaded, and there it happens two or three times, for nothing, since none of them is garbage. Mercurial does the same
when it builds its big tables (`util.nogc`).
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["no_collections"]


class _Pause:
    def __init__(self) -> None:
        # A collection may begin in here, and what it finalizes may come here again.
        self._lock = threading.RLock()
        self._held = 0
        self._was_enabled = False

    def begin(self) -> None:
        with self._lock:
            if not self._held:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._held += 1

    def end(self) -> None:
        with self._lock:
            self._held -= 1
            if not self._held and self._was_enabled:
                gc.enable()


_pause = _Pause()


@contextmanager
def no_collections() -> Iterator[None]:
    """For a second or two of bulk work, in any thread; what others leave behind meanwhile is collected afterwards.

    Not around a wait: a server that hangs would keep the collector off for as long.
    """
    _pause.begin()
    try:
        yield
    finally:
        _pause.end()
