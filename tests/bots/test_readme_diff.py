"""The README's diff, applied to a bot as Pipecat's examples write them: it runs, and the inspector shows its events."""

from __future__ import annotations

import ast
import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.bots.hosting import calling, hosted, running_bot, without_keys
from tests.bots.readme_diff import STOCK_BOT, applied, readme_diff

SAID = ["What is the weather like in Ghent?", "Thank you very much."]


def test_the_diff_is_small_and_fits() -> None:
    diff, stock = readme_diff(), STOCK_BOT.read_text()
    patched = applied(diff, stock)
    ast.parse(patched)
    added = [line for line in diff.splitlines() if line.startswith("+")]
    assert len(added) <= 15
    assert "VoiceContext(" in patched
    assert "LLMContextAggregatorPair(" not in patched


def test_all_but_the_last_hunk_fit_a_bot_that_pipecat_init_wrote(tmp_path: Path) -> None:
    pytest.importorskip("questionary", reason="pip install 'pipecat-ai[cli]': Pipecat's command line")
    words = [
        "init",
        "made",
        "--no-context-hub",
        "--bot-type",
        "web",
        "--transport",
        "smallwebrtc",
        "--mode",
        "cascade",
    ]
    services = ["--stt", "openai_stt", "--llm", "openai_llm", "--tts", "openai_tts"]
    made = subprocess.run(
        [sys.executable, "-c", "from pipecat.cli.main import run; run()", *words, *services],
        capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    hunks = readme_diff().split("@@\n")
    assert "show(worker" in hunks[-1]  # goes below the worker, as the README says
    lines = (tmp_path / "made" / "server" / "bot.py").read_text().splitlines(keepends=True)
    without_comments = "".join(line for line in lines if not line.lstrip().startswith("#"))
    patched = applied("@@\n".join(hunks[:-1]), without_comments)
    ast.parse(patched)
    assert "Pipeline(voice.processors())" in patched
    assert "user_aggregator" not in patched


async def watch(url: str, kinds: Counter[str], errors: list[str], seen: asyncio.Event) -> None:
    """Reads the inspector's feed of the session, as its page does."""
    async with aiohttp.ClientSession(base_url=url) as http:
        sessions: list[dict[str, Any]] = []
        while not sessions:
            async with http.get("/voicectx/api/sessions") as response:
                sessions = await response.json() if response.status == 200 else []
            await asyncio.sleep(0.1)
        assert [session["ended"] for session in sessions] == [False]
        async with http.get(f"/voicectx/api/sessions/{sessions[0]['id']}/events") as feed:
            seen.set()
            async for line in feed.content:
                if line.startswith(b"data: ["):
                    events = json.loads(line[6:])
                    kinds.update(event["k"] for event in events)
                    errors.extend(str(event["v"]) for event in events if event["k"] == "error")


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore:unread_data:DeprecationWarning")  # aiohttp's, of its own form parser
def test_the_patched_bot_talks_and_the_inspector_shows_it(tmp_path: Path) -> None:
    bot = tmp_path / "bot.py"
    bot.write_text(applied(readme_diff(), STOCK_BOT.read_text()))
    kinds: Counter[str] = Counter()
    errors: list[str] = []
    printed: list[str] = []

    async def call() -> list[str]:
        server, audio = hosted(SAID)
        async with server:
            environment = without_keys(OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="not-a-secret")
            running = running_bot(bot, "-t", "webrtc", environment=environment, cwd=tmp_path)
            async with running as started, calling(started.url) as caller:
                watched = asyncio.Event()
                watching = asyncio.create_task(watch(started.url, kinds, errors, watched))
                async with asyncio.timeout(60):
                    await watched.wait()
                await caller.hears(0.8)  # it introduces itself
                await asyncio.sleep(1.5)
                await caller.says(SAID[0])
                await caller.hears(2.0)  # "Let me check on that." and the weather
                await asyncio.sleep(3.0)
                await caller.says(SAID[1])
                await caller.hears(0.4)
                await asyncio.sleep(1.5)
                watching.cancel()
                assert "voicectx inspector" in await text_of(f"{started.url}/voicectx")
            printed.extend(started.lines)
            assert not [line for line in started.lines if "Traceback" in line], started.output()
        assert audio.transcribed == 2
        assert any("seventy five" in text for text in audio.spoken)
        return [str(message.get("content")) for message in server.requests[-1].messages]

    asked = asyncio.run(call())
    assert any("It is nice in Ghent" in text for text in asked), "what was heard must be in the next request"
    for kind in (
        "user_turn",
        "user_text",
        "bot",
        "speaking_rate",
        "network",
        "heard",
        "call",
        "page",
        "context",
    ):
        assert kinds[kind], f"no event {kind!r}: {dict(kinds)}"
    # Where no embedding model is to be had, the bot says so and searches by words; an event of an error holds no text.
    assert [error for error in errors if "MemoryProjector" not in error] == []
    assert not errors or any("embedding model" in line for line in printed)
    assert (tmp_path / "voicectx_store").is_dir()


async def text_of(url: str) -> str:
    async with aiohttp.ClientSession() as http, http.get(url) as response:
        return await response.text()
