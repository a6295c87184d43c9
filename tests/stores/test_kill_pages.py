"""kill -9 while pages are written: every acknowledged page is there afterwards, once, in the copy and in the database.

The writers are forked from a server that has done the imports. `VOICECTX_SOAK=1` kills two hundred of them.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.page_store import open_page_store
from tests.memory.builders import ANN

# A new folder after so many rounds: opening reads everything that earlier rounds wrote.
_ROUNDS_PER_FOLDER = 20


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
    with subprocess.Popen(
        [sys.executable, "-m", "tests.stores.page_writer"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for number in range(rounds):
            folder = tmp_path / str(number // _ROUNDS_PER_FOLDER)
            if number % _ROUNDS_PER_FOLDER == 0:
                acknowledged = -1
            server.stdin.write(f"{folder} {acknowledged + 1}\n")
            server.stdin.flush()
            writer = int(server.stdout.readline())
            assert server.stdout.readline() == "open\n"
            last = acknowledged + chance.randrange(1, 25)
            for line in server.stdout:
                if line == "dead\n":
                    break
                acknowledged = max(acknowledged, int(line))
                if acknowledged >= last:
                    os.kill(writer, signal.SIGKILL)
            found = numbers_after(folder)
            assert found == list(range(len(found))), "each once"
            assert len(found) > acknowledged, "none is lost"
            acknowledged = len(found) - 1
        server.stdin.close()
