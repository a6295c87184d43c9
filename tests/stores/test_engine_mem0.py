"""Mem0 with the network shut and the file system watched, in a process of its own since imports decide."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.mem0_engine import LocalKeywordEncoder, Mem0Engine
from pipecat_voicectx.testing.engine_conformance import answered, make_record, new_owner

_WATCHED = r"""
import asyncio, json, os, sys, tempfile, time
from pathlib import Path

tempfile.gettempdir()  # the standard library tries the folder with a file of its own, once

touched, written = [], []
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

def watch(event, args):
    if event in {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.sendmsg"}:
        touched.append([event, str(args[1:])])
        raise OSError("the network is shut")
    if event == "open" and isinstance(args[0], str):
        mode, flags = args[1], args[2]
        if (isinstance(mode, str) and set(mode) & set("wax+")) or (mode is None and flags & WRITES):
            written.append(os.path.abspath(args[0]))
    if event in {"os.mkdir", "sqlite3.connect"} and isinstance(args[0], (str, bytes)):
        written.append(os.path.abspath(os.fsdecode(args[0])) if os.fsdecode(args[0]) != ":memory:" else ":memory:")

sys.addaudithook(watch)
started = time.monotonic()

from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.mem0_engine import Mem0Engine
from pipecat_voicectx.testing.engine_conformance import answered, make_record, new_owner

async def main():
    owner = new_owner()
    engine = Mem0Engine(embedder=LexicalEmbedder(), path=Path(sys.argv[1]))
    record = make_record(owner, "the user drinks Earl Grey tea in London")
    answered(await engine.add([record]))
    hits = answered(await engine.search(owner, "what does the user drink"))
    answered(await engine.update(record))
    answered(await engine.delete(owner, [record.id]))
    await engine.close()
    import threading
    print(json.dumps({
        "hits": len(hits), "seconds": time.monotonic() - started, "network": touched, "written": written,
        "threads": [t.name for t in threading.enumerate()], "mem0_dir": os.environ.get("MEM0_DIR"),
    }))

asyncio.run(main())
"""


def test_mem0_stays_off_the_network_and_inside_its_folder(tmp_path: Path) -> None:
    home, store = tmp_path / "home", tmp_path / "store"
    home.mkdir()
    env = {
        **{
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("MEM0", "HF_", "FASTEMBED"))
        },
        "HOME": str(home),
        "TMPDIR": str(home),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    env.pop("MEM0_TELEMETRY", None)
    done = subprocess.run(
        [sys.executable, "-c", _WATCHED, str(store)], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["hits"] == 1
    assert report["network"] == []
    allowed = (str(store), "/dev/null", ":memory:")
    assert [path for path in report["written"] if not path.startswith(allowed)] == []
    assert not any(home.rglob("*")), "something was written to the home or temporary folder"
    assert report["seconds"] < 30, "far below the 39 s that mem0 waits for its keyword model"
    assert report["mem0_dir"] is None, "the environment is left as it was"


def test_plain_mem0_reads_what_the_engine_wrote(tmp_path: Path) -> None:
    async def body() -> None:
        owner = new_owner()
        engine = Mem0Engine(embedder=LexicalEmbedder(), path=tmp_path)
        record = make_record(owner, "the user drinks tea")
        answered(await engine.add([record]))
        memory = engine._memory
        listed = memory.get_all(filters={"user_id": owner.user_id})["results"]
        assert [(item["id"], item["memory"]) for item in listed] == [(record.id, record.text)]
        assert memory.get(record.id)["created_at"].startswith("20")
        await engine.close()

    asyncio.run(body())


def test_keywords_count_in_mem0s_ranking(tmp_path: Path) -> None:
    async def body() -> None:
        owner = new_owner()
        engine = Mem0Engine(embedder=LexicalEmbedder(), path=tmp_path)
        answered(await engine.add([make_record(owner, "parcel ABX99 is late"), make_record(owner, "tea")]))
        explained = engine._memory.search(
            "where is ABX99", filters={"user_id": owner.user_id}, explain=True, threshold=0.0
        )["results"]
        assert explained[0]["score_details"]["bm25_score"] > 0
        await engine.close()

    asyncio.run(body())


@pytest.mark.parametrize("text", ["", "the of", "ABX99 ABX99", "犬と猫"])
def test_the_keyword_encoder_takes_any_text(text: str) -> None:
    (vector,) = LocalKeywordEncoder().embed([text])
    assert len(vector.indices) == len(vector.values) == len(set(vector.indices.tolist()))
