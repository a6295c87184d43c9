"""The speech-to-speech bots: each says which key it misses, and holds a call with a server that speaks the protocol."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import aiohttp
import numpy as np
import pytest

from pipecat_voicectx.demo.espeak import synthesize
from pipecat_voicectx.testing.gemini_server import GeminiServer
from pipecat_voicectx.testing.realtime_script import ScriptedItem
from pipecat_voicectx.testing.realtime_server import RealtimeServer
from tests.bots.hosting import RunningBot, calling, running_bot, without_keys

BOTS = Path(__file__).parents[2] / "bots"
GREETING = "Good morning, this is Ada, how may I help you today?"


def ended(name: str, *, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A bot that stops before it serves."""
    return subprocess.run(
        [sys.executable, str(BOTS / name)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=cwd,
        env=without_keys(),
    )


@pytest.mark.parametrize(
    ("name", "key"), [("realtime_bot.py", "OPENAI_API_KEY"), ("gemini_bot.py", "GOOGLE_API_KEY")]
)
def test_the_bot_names_the_key_it_misses_in_one_line(name: str, key: str) -> None:
    if name == "gemini_bot.py":
        pytest.importorskip("google.genai", reason="google-genai is not installed")
    done = ended(name)
    assert done.returncode == 2
    assert done.stdout.splitlines() == [f"missing {key}; without a key there is `voicectx demo`"]


@pytest.mark.parametrize(
    ("name", "key"), [("realtime_bot.py", "OPENAI_API_KEY"), ("gemini_bot.py", "GOOGLE_API_KEY")]
)
def test_the_bot_finds_its_key_in_a_dotenv_file(name: str, key: str, tmp_path: Path) -> None:
    if name == "gemini_bot.py":
        pytest.importorskip("google.genai", reason="google-genai is not installed")
    # A setting that stops the bot once the key was found.
    (tmp_path / ".env").write_text(f"{key}=not-a-secret\nVOICECTX_DEMO_PLUGIN=7\n")
    done = ended(name, cwd=tmp_path)
    assert [line[:25] for line in done.stdout.splitlines()] == ["VOICECTX_DEMO_PLUGIN is '"]


def voice(text: str) -> bytes:
    return synthesize(text, words_per_minute=180, sample_rate_hz=24_000).samples.astype(np.int16).tobytes()


async def shown(bot: RunningBot) -> list[str]:
    async with aiohttp.ClientSession() as http, http.get(f"{bot.url}/voicectx/api/sessions") as response:
        return [session["title"] for session in await response.json()]


async def until(condition: Callable[[], bool], within_secs: float = 20.0) -> None:
    async with asyncio.timeout(within_secs):
        while not condition():  # noqa: ASYNC110  # the server has no event for it
            await asyncio.sleep(0.05)


@pytest.mark.peers
def test_the_realtime_bot_greets_listens_and_is_shown(tmp_path: Path) -> None:
    async def call() -> None:
        server = RealtimeServer(replies=[[ScriptedItem(transcript=GREETING, pcm=voice(GREETING))]])
        async with server:
            environment = without_keys(OPENAI_API_KEY="not-a-secret", OPENAI_REALTIME_URL=server.url)
            running = running_bot(
                BOTS / "realtime_bot.py", "-t", "webrtc", environment=environment, cwd=tmp_path
            )
            async with running as bot, calling(bot.url) as caller:
                await caller.hears(1.5)
                assert await shown(bot) == ["Ada, on OpenAI Realtime"]
                heard_ms = server.received_ms
                await caller.says("I would like to see the sea.")
                await until(lambda: server.received_ms > heard_ms + 1000)
                assert not [line for line in bot.lines if "Traceback" in line], bot.output()
        assert server.violations == []
        assert "set_response_speed" in str(server.session.get("tools")), (
            "our functions are tools of the session"
        )
        assert (tmp_path / "voicectx_store").is_dir()

    asyncio.run(call())


@pytest.mark.peers
def test_the_gemini_bot_speaks_listens_and_is_shown(tmp_path: Path) -> None:
    pytest.importorskip("google.genai", reason="google-genai is not installed")

    async def call() -> None:
        async with GeminiServer() as server:
            certificate = tmp_path / "server.pem"
            certificate.write_bytes(server.certificate)
            environment = without_keys(
                GOOGLE_API_KEY="not-a-secret",
                GOOGLE_GEMINI_BASE_URL=server.url,
                SSL_CERT_FILE=str(certificate),
            )
            running = running_bot(
                BOTS / "gemini_bot.py", "-t", "webrtc", environment=environment, cwd=tmp_path
            )
            async with running as bot, calling(bot.url) as caller:
                try:
                    await until(lambda: bool(server.setups))
                except TimeoutError:
                    raise AssertionError(bot.output()) from None
                server.speak(GREETING, voice(GREETING))
                await caller.hears(1.5)
                assert await shown(bot) == ["Ada, on Gemini Live"]
                await caller.says("I would like to see the sea.")
                await until(lambda: len(server.pcm) > 16_000)
                assert not [line for line in bot.lines if "Traceback" in line], bot.output()
        assert server.violations == []

    asyncio.run(call())
