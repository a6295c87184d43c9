"""kill -9 while facts are written: every acknowledged turn's fact is there afterwards, once.

The writers are forked from a server that has done the imports, so that a round costs what the writing costs.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.fact_memory import FactMemory
from pipecat_voicectx.stores.mem0_engine import Mem0Engine
from pipecat_voicectx.stores.memory_folder import brains_path, facts_path
from pipecat_voicectx.stores.page_store import open_page_store
from tests.faults.fact_writer import OWNER
from tests.killed_writers import ROUNDS_PER_FOLDER, writers


def known_after(root: Path) -> list[str]:
    async def body() -> list[str]:
        store = open_page_store(root, embedder=LexicalEmbedder())
        engine = Mem0Engine(path=facts_path(root), embedder=LexicalEmbedder())
        memory = FactMemory(owner=OWNER, session_id="check", engine=engine, state_dir=brains_path(root))
        try:
            await memory.open([each.page for each in store.load(OWNER)])
            assert memory.status.unwritten == 0
            return [fact.value for fact in memory.facts if fact.current]
        finally:
            await engine.close()
            store.close()

    return asyncio.run(body())


def test_killing_the_process_loses_no_fact_of_an_acknowledged_turn_and_doubles_none(tmp_path: Path) -> None:
    acknowledged: list[str] = []
    with writers("tests.faults.fact_writer") as server:
        for round_number in range(int(os.environ.get("VOICECTX_KILLS", "2"))):
            root = tmp_path / str(round_number // ROUNDS_PER_FOLDER)
            if round_number % ROUNDS_PER_FOLDER == 0:
                acknowledged.clear()
            writer = server.start(root, round_number)
            acknowledged += [server.lines.readline().strip() for _ in range(2 + round_number % 7)]
            os.kill(writer, signal.SIGKILL)
            rest = list(iter(server.lines.readline, f"dead {signal.SIGKILL.value}\n"))
            acknowledged += [line.strip() for line in rest]  # what it had said before it died
            known = known_after(root)
            assert sorted(set(acknowledged) - set(known)) == []
            assert len(known) == len(set(known))
