"""Without a line changed: Pipecat itself loads the inspector's setup file for a stock bot in its own process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from pipecat_voicectx.inspector import pipecat_setup
from pipecat_voicectx.observers.events import EventKind, read_session
from tests.bots.hosting import calling, hosted, running_bot, without_keys
from tests.bots.readme_diff import STOCK_BOT

SAID = "What is the weather like in Ghent?"


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore:unread_data:DeprecationWarning")  # aiohttp's, of its own form parser
def test_a_stock_bot_is_shown_and_recorded(tmp_path: Path) -> None:
    async def call() -> None:
        server, _ = hosted([SAID])
        async with server:
            environment = without_keys(
                OPENAI_BASE_URL=server.base_url,
                OPENAI_API_KEY="not-a-secret",
                PIPECAT_SETUP_FILES=pipecat_setup.__file__,
                VOICECTX_RECORD_DIR=str(tmp_path / "recordings"),
            )
            running = running_bot(STOCK_BOT, "-t", "webrtc", environment=environment, cwd=tmp_path)
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
    header, events = read_session(recording)
    kinds = {event["k"] for event in events}
    assert header.session_id
    assert {EventKind.USER_TEXT.value, EventKind.BOT.value, EventKind.CONTEXT.value} <= kinds, kinds
