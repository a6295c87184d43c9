"""Without a line changed: Pipecat itself loads the inspector's setup file for a stock bot in its own process.

Beside it stands a debugger's setup file in the form of Whisker's README: Whisker itself where `pipecat-ai-whisker` is
installed, else an observer in its place.
"""

from __future__ import annotations

import asyncio
import os
from importlib.util import find_spec
from pathlib import Path

import aiohttp
import pytest

from pipecat_voicectx.inspector import pipecat_setup
from pipecat_voicectx.observers.events import EventKind, read_session
from tests.bots.hosting import calling, hosted, running_bot, without_keys
from tests.bots.readme_diff import STOCK_BOT

SAID = "What is the weather like in Ghent?"
WHISKER = """
from pipecat_whisker import WhiskerFile

whisker = WhiskerFile("seen.whisk")

async def setup_worker_runner(runner):
    await runner.add_workers(whisker)

async def setup_pipeline_worker(worker):
    worker.add_observer(whisker.create_observer(worker))
"""
ANOTHER = """
from pipecat.observers.base_observer import BaseObserver

class Seen(BaseObserver):
    async def on_push_frame(self, data):
        with open("seen.whisk", "a") as file:
            file.write(f"{data.frame.name}\\n")

async def setup_worker_runner(runner):
    pass

async def setup_pipeline_worker(worker):
    worker.add_observer(Seen())
"""


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore:unread_data:DeprecationWarning")  # aiohttp's, of its own form parser
def test_a_stock_bot_is_shown_and_recorded_beside_another_debugger(tmp_path: Path) -> None:
    debugger = tmp_path / "debugger_setup.py"
    bot_file = tmp_path / "bot.py"
    # As Pipecat's own templates end: Whisker's sink is a worker too, which ends with the runner only.
    bot_file.write_text(STOCK_BOT.read_text().replace("await worker.cancel()", "await runner.cancel()"))
    debugger.write_text(WHISKER if find_spec("pipecat_whisker") else ANOTHER)

    async def call() -> None:
        server, _ = hosted([SAID])
        async with server:
            environment = without_keys(
                OPENAI_BASE_URL=server.base_url,
                OPENAI_API_KEY="not-a-secret",
                PIPECAT_SETUP_FILES=f"{debugger}{os.pathsep}{pipecat_setup.__file__}",
                VOICECTX_RECORD_DIR=str(tmp_path / "recordings"),
            )
            running = running_bot(bot_file, "-t", "webrtc", environment=environment, cwd=tmp_path)
            async with running as bot:
                async with calling(bot.url) as caller:
                    await caller.hears(0.5)
                    async with (
                        aiohttp.ClientSession() as http,
                        http.get(f"{bot.url}/voicectx/api/sessions") as listed,
                    ):
                        assert len(await listed.json()) == 1
                    await asyncio.sleep(1.5)
                    await caller.says(SAID)
                    await caller.hears(1.5)
                await asyncio.sleep(1.0)  # the bot notices that the caller hung up
            assert not [line for line in bot.lines if "Traceback" in line], bot.output()

    asyncio.run(call())
    (recording,) = (tmp_path / "recordings").glob("*.jsonl")
    assert b"TranscriptionFrame" in (tmp_path / "seen.whisk").read_bytes()
    header, events = read_session(recording)
    kinds = {event["k"] for event in events}
    assert header.session_id
    assert {EventKind.USER_TEXT.value, EventKind.BOT.value, EventKind.CONTEXT.value} <= kinds, kinds
