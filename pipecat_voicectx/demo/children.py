"""Child processes that never outlive the demo: their own process group, killed on every way out."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path

__all__ = ["Child", "Group", "end_with_parent", "interruptions_deferred"]

_PARENT_ENV = "VOICECTX_DEMO_PARENT"
# Chosen: time for a bot to close its connection before it is killed.
_GRACE_SECS = 3.0
_POLL_SECS = 0.5


class Group(Enum):
    """Which process group a child joins."""

    OWN = "own"
    """A new one, which is killed as a whole with the child."""
    PARENT = "parent"
    """The one of the process that starts it."""


class Child:
    """A Python module running as a child, output to a file."""

    def __init__(
        self,
        module: str,
        args: Sequence[str],
        *,
        output: Path,
        group: Group,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.module = module
        self._group = group
        self._output = output.open("ab")
        environment = {**os.environ, **(env or {}), _PARENT_ENV: str(os.getpid()), "PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *args],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=group is Group.OWN,
        )

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """Ends the child and whatever it started; safe to call twice."""
        if self._process.poll() is None:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_SECS)
        if not self._output.closed:  # the second time its number may be somebody else's
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._output.close()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self._group is Group.OWN:
                os.killpg(self._process.pid, number)
            else:
                self._process.send_signal(number)


@contextlib.contextmanager
def interruptions_deferred() -> Iterator[None]:
    """Lets SIGINT, SIGTERM and SIGHUP wait for the end of the block, so that a child being started is not lost."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    saved = {
        number: signal.signal(number, lambda number, _frame: caught.append(number)) for number in numbers
    }
    try:
        yield
    finally:
        for number, handler in saved.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if caught:
            signal.raise_signal(caught[0])


def end_with_parent() -> None:
    """In a child: ends this process when the one that started it is gone, killed included."""
    parent = os.environ.get(_PARENT_ENV)
    if parent is None:
        return
    expected = int(parent)

    def watch() -> None:
        while os.getppid() == expected:
            time.sleep(_POLL_SECS)
        os._exit(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()
