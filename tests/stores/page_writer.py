"""A process that writes pages until it is killed; it says each page that the journal has acknowledged.

Run as a program it does its imports once, then forks one writer for every line `folder first` that it reads, so that a
round costs what the writing costs.
"""

from __future__ import annotations

import itertools

from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.page_store import open_page_store
from tests.killed_writers import say, serve
from tests.memory.builders import ANN, page


def write_until_killed(folder: str, first: int) -> None:
    """Writes one page after the other, from number `first` on, and says its number when it is journaled."""
    store = open_page_store(folder, embedder=LexicalEmbedder())
    store.load(ANN)
    say("open")
    for number in itertools.count(first):
        store.submit_write(page(number, f"turn {number}")).journaled.result()
        say(str(number))


if __name__ == "__main__":
    serve(write_until_killed)
