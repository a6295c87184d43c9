"""kill -9 while pages are written: every acknowledged page is there afterwards, once, in the copy and in the database.

The writers are forked from a server that has done the imports. `VOICECTX_SOAK=1` kills two hundred of them.
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.page_store import open_page_store
from tests.killed_writers import ROUNDS_PER_FOLDER, writers
from tests.memory.builders import ANN


def numbers_after(folder: Path) -> list[int]:
    """The pages that are there after a kill, once the copy and the database were found to agree on them."""
    store = open_page_store(folder, embedder=LexicalEmbedder())
    try:
        first_sight = [item.page.index for item in store.load(ANN)]
        store.ready()
        database = store.submit(lambda pages: pages.load(ANN, limit=100_000)).result(60)
        assert [item.page for item in store.load(ANN)] == [item.page for item in database]
        assert [item.page.index for item in database] == first_sight
        assert store.stats().pending == 0
        return first_sight
    finally:
        store.close()


def test_killing_the_process_loses_no_page_that_was_acknowledged(tmp_path: Path) -> None:
    chance = random.Random(1)
    rounds = 200 if os.environ.get("VOICECTX_SOAK") else 3
    acknowledged = -1
    with writers("tests.stores.page_writer") as server:
        for number in range(rounds):
            folder = tmp_path / str(number // ROUNDS_PER_FOLDER)
            if number % ROUNDS_PER_FOLDER == 0:
                acknowledged = -1
            writer = server.start(folder, acknowledged + 1)
            last = acknowledged + chance.randrange(1, 25)
            for line in iter(server.lines.readline, f"dead {signal.SIGKILL.value}\n"):
                acknowledged = max(acknowledged, int(line))
                if acknowledged >= last:
                    os.kill(writer, signal.SIGKILL)
            found = numbers_after(folder)
            assert found == list(range(len(found))), "each once"
            assert len(found) > acknowledged, "none is lost"
            acknowledged = len(found) - 1
