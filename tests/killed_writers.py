"""Writers that are killed: both sides of a server that has done its imports and forks one writer for every round.

A round then costs what the writing costs, and the kill is a real one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

__all__ = ["ROUNDS_PER_FOLDER", "Writers", "say", "serve", "writers"]

# A new folder after so many rounds: opening reads everything that earlier rounds wrote.
ROUNDS_PER_FOLDER = 20


def say(line: str) -> None:
    """Tells the test a line, at once."""
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


def serve(write_until_killed: Callable[[str, int], None]) -> None:
    """Forks a writer for every line `folder number`, and says when it is dead and of which signal."""
    for line in sys.stdin:
        folder, number = line.split()
        writer = os.fork()
        if writer == 0:
            say(str(os.getpid()))
            write_until_killed(folder, int(number))
        _, status = os.waitpid(writer, 0)
        say(f"dead {os.WTERMSIG(status)}")


class Writers:
    """The test's side."""

    def __init__(self, requests: IO[str], lines: IO[str]) -> None:
        self._requests = requests
        self.lines = lines
        """What the writer says, up to `dead SIGNAL`."""

    def start(self, folder: Path, number: int) -> int:
        """Forks a writer and waits until it has opened its store. Returns its process id."""
        self._requests.write(f"{folder} {number}\n")
        self._requests.flush()
        writer = int(self.lines.readline())
        assert self.lines.readline() == "open\n"
        return writer


@contextmanager
def writers(module: str) -> Iterator[Writers]:
    """Runs a module whose main part is `serve`."""
    with subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield Writers(server.stdin, server.stdout)
        server.stdin.close()
