"""A process that writes facts until it is killed; it says each turn that the journal has acknowledged.

Run as a program it does its imports once, then forks one writer for every line `folder round` that it reads, so that a
round costs what the writing costs.
"""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

from pipecat_voicectx.memory.pages import Owner, VoicePage, page_id
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.fact_memory import FactMemory
from pipecat_voicectx.stores.fact_turns import FactTurn
from pipecat_voicectx.stores.mem0_engine import Mem0Engine
from pipecat_voicectx.stores.memory_folder import brains_path, facts_path
from pipecat_voicectx.stores.page_store import open_page_store
from tests.killed_writers import say, serve

OWNER = Owner(user_id="ann")
# No digits in what is said: those would read as a newer value of the same thing.
_LETTERS = "bcdfghjklmnprstvwz"


async def write_until_killed(root: Path, round_number: int) -> None:
    """Writes one turn after the other and says its value when its page is journaled."""
    session = f"s{round_number}"
    store = open_page_store(root, embedder=LexicalEmbedder())
    engine = Mem0Engine(path=facts_path(root), embedder=LexicalEmbedder())
    memory = FactMemory(owner=OWNER, session_id=session, engine=engine, state_dir=brains_path(root))
    await memory.open([each.page for each in store.load(OWNER)])
    say("open")
    for index in itertools.count():
        name = "".join(_LETTERS[int(digit)] + "a" for digit in f"{round_number}{index}")
        wall_secs = 1e9 + 1000 * round_number + index
        page = VoicePage(
            id=page_id(OWNER, session, index), owner=OWNER, session_id=session, index=index,
            started_wall_secs=wall_secs, ended_wall_secs=wall_secs, user_text=f"i like {name}x{'yz'[index % 2]}",
        )  # fmt: skip
        store.submit_write(page).journaled.result()
        say(f"{name}x{'yz'[index % 2]}")
        await memory.add_turn(FactTurn.from_page(page))
        if index % 4 == 3:
            await memory.end_session(now_wall_secs=1e9)  # saves what was handled


if __name__ == "__main__":
    serve(lambda folder, number: asyncio.run(write_until_killed(Path(folder), number)))
