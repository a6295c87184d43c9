"""A process that writes pages until it is killed; it says each page that the journal has acknowledged.

Run as a program it does its imports once, then forks one writer for every line `folder first` that it reads, so that a
round costs what the writing costs.
"""

from __future__ import annotations

import itertools
import os
import sys

from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.page_store import open_page_store
from tests.memory.builders import ANN, page


def write_until_killed(folder: str, first: int) -> None:
    """Writes one page after the other, from number `first` on, and says its number when it is journaled."""
    store = open_page_store(folder, embedder=LexicalEmbedder())
    store.load(ANN)
    _say("open")
    for number in itertools.count(first):
        store.submit_write(page(number, f"turn {number}")).journaled.result()
        _say(str(number))


def _say(line: str) -> None:
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


def serve() -> None:
    """Forks a writer per line, and says when it is dead."""
    for line in sys.stdin:
        folder, first = line.split()
        writer = os.fork()
        if writer == 0:
            _say(str(os.getpid()))
            write_until_killed(folder, int(first))
        os.waitpid(writer, 0)
        _say("dead")


if __name__ == "__main__":
    serve()
