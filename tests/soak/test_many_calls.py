"""Many short calls, one after the other in one process: nothing of a call stays behind but its page in the store.

`make soak` makes a thousand (VOICECTX_SOAK_CALLS); by default a few dozen.
"""

from __future__ import annotations

import gc
import os
import shutil
from pathlib import Path

import pytest

from pipecat_voicectx.demo.espeak_tts import EspeakTTSService
from pipecat_voicectx.testing.openai_server import ChatRequest, Reply
from pipecat_voicectx.testing.scripted_session import Session, play_in_loop
from pipecat_voicectx.testing.virtual_time import run
from tests.leaks import open_descriptors

CALLS = int(os.environ.get("VOICECTX_SOAK_CALLS", "60"))
CALLERS = 7
# What a page may take on disk: its text, its vector of 256 numbers, its rows in SQLite. Measured: see docs/scaling.md.
PAGE_BYTES = 20_000
# Objects that Python's collector knows of; a call makes about 100,000.
OBJECTS_PER_CALL = 100
# The second half of the calls may grow the process by the allocator's noise and this much each. Embedded Qdrant holds
# the whole store in memory while it is open: 55 kB a page, as a fresh process that opens it shows. 1,000 calls: 74 kB.
RSS_NOISE_BYTES = 15_000_000
RSS_BYTES_PER_CALL = 60_000 + 20_000


class Curt:
    def reply(self, request: ChatRequest) -> Reply:
        return Reply(text="At nine.")


def rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


# The OpenAI client that Pipecat makes leaves its socket to the collector, whose warning would become an exception that
# pytest keeps, and with it everything the collection happened to interrupt. Open sockets are counted below.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.soak
def test_after_many_short_calls_there_is_one_page_each_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    at: list[int] = []
    objects: list[int] = []
    rss: list[int] = []
    disk: list[int] = []
    descriptors: list[int] = []
    call_secs: list[float] = []

    async def one(number: int) -> None:
        async def script(session: Session) -> None:
            await session.say(f"question {number}, when does it open")
            await session.answered()

        outcome = await play_in_loop(
            script,
            Curt(),
            ours=True,
            tts=EspeakTTSService,
            memory={"user_id": f"caller-{number % CALLERS}", "store_path": folder},
        )
        assert outcome.log.errors == []
        assert len(outcome.requests) == 1
        call_secs.append(outcome.log.events[-1][0])

    async def main() -> None:
        for number in range(CALLS):
            await one(number)
            if number % max(1, CALLS // 12) == 0 or number == CALLS - 1:
                gc.collect()
                at.append(number)
                objects.append(len(gc.get_objects()))
                rss.append(rss_bytes())
                disk.append(folder_bytes(folder))
                descriptors.append(len(open_descriptors()))
                print(f"{number + 1} of {CALLS} calls, {rss[-1] // 2**20} MB", flush=True)  # noqa: T201

    run(main())
    # The first third pays for imports, caches and pools.
    third = len(at) // 3
    calls = at[-1] - at[third]
    grown = {
        "objects": (objects[-1] - objects[third]) / calls,
        "RSS": (rss[-1] - rss[third]) / calls,
        "disk": (disk[-1] - disk[third]) / calls,
    }
    print(f"{CALLS} calls; grown per call: {grown}; open: {descriptors}; RSS: {[r // 2**20 for r in rss]} MB")  # noqa: T201
    assert grown["objects"] < OBJECTS_PER_CALL, objects
    half = len(at) // 2
    assert rss[-1] - rss[half] < RSS_NOISE_BYTES + RSS_BYTES_PER_CALL * (at[-1] - at[half]), rss
    assert grown["disk"] < PAGE_BYTES, disk
    assert len(set(descriptors[third:])) == 1, descriptors
    assert max(call_secs[-5:]) < 1.2 * max(call_secs[:5]), "a call takes no longer"
    shutil.rmtree(folder)
