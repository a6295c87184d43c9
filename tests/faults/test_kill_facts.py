"""kill -9 while facts are written: every acknowledged turn's fact is there afterwards, once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.fact_memory import FactMemory
from pipecat_voicectx.stores.mem0_engine import Mem0Engine
from pipecat_voicectx.stores.memory_folder import brains_path, facts_path
from pipecat_voicectx.stores.page_store import open_page_store

OWNER = Owner(user_id="ann")
# A turn is acknowledged when its page is journaled; its fact is written behind that.
WRITER = """
import asyncio, itertools, sys
from pathlib import Path
from pipecat_voicectx.memory.pages import Owner, VoicePage, page_id
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.fact_memory import FactMemory
from pipecat_voicectx.stores.fact_turns import FactTurn
from pipecat_voicectx.stores.mem0_engine import Mem0Engine
from pipecat_voicectx.stores.memory_folder import brains_path, facts_path
from pipecat_voicectx.stores.page_store import open_page_store

root, session = Path(sys.argv[1]), sys.argv[2]
owner = Owner(user_id="ann")
letters = "bcdfghjklmnprstvwz"

async def main():
    store = open_page_store(root, embedder=LexicalEmbedder())
    engine = Mem0Engine(path=facts_path(root), embedder=LexicalEmbedder())
    memory = FactMemory(owner=owner, session_id=session, engine=engine, state_dir=brains_path(root))
    await memory.open([each.page for each in store.load(owner)])
    print("open", flush=True)
    for n in itertools.count():
        # A name that no number can be mistaken in: digits would read as a newer value of the same thing.
        name = "".join(letters[int(d)] + "a" for d in session.removeprefix("s") + str(n))
        page = VoicePage(
            id=page_id(owner, session, n), owner=owner, session_id=session, index=n,
            started_wall_secs=1e9 + 1000 * int(session.removeprefix("s")) + n, ended_wall_secs=1e9 + n,
            user_text=f"i like {name}",
        )
        store.submit_write(page).journaled.result()
        print(name, flush=True)
        await memory.add_turn(FactTurn.from_page(page))
        if n % 4 == 3:
            await memory.end_session(now_wall_secs=1e9)  # saves what was handled

asyncio.run(main())
"""


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
    for round_number in range(int(os.environ.get("VOICECTX_KILLS", "2"))):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), f"s{round_number}"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        for seen, line in enumerate(writer.stdout):
            acknowledged.append(line.strip())
            if seen == 1 + round_number % 7:
                os.kill(writer.pid, signal.SIGKILL)
                break
        acknowledged += writer.stdout.read().split()
        writer.wait(10)
        known = known_after(tmp_path)
        assert sorted(set(acknowledged) - set(known)) == []
        assert len(known) == len(set(known))
