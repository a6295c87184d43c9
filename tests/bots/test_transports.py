"""The local bot on Daily, LiveKit and a plain WebSocket, as far as each goes without its network."""

from __future__ import annotations

import asyncio
import importlib
import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import websockets
from aiohttp import web
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.runner.types import DailyRunnerArguments, LiveKitRunnerArguments
from pipecat.runner.utils import create_transport
from pipecat.transports.base_transport import BaseTransport

from pipecat_voicectx.demo.environment import scripted_environment
from pipecat_voicectx.demo.policy import TripPolicy
from pipecat_voicectx.demo.scenario import load_scenario
from pipecat_voicectx.runtimes.playout_position import WrittenPosition, find_position_source
from pipecat_voicectx.sources.daily_stats import DailyStatsSource
from pipecat_voicectx.states.network import LinkBand
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.testing.openai_server import OpenAIServer
from pipecat_voicectx.testing.scripted_session import PassThrough
from pipecat_voicectx.voice_context import VoiceContext
from tests.bots.hosting import free_port, running_bot, without_keys

# Generated code without types.
frames_pb2: Any = importlib.import_module("pipecat.frames.protobufs.frames_pb2")
BOT = Path(__file__).parents[2] / "bots" / "local_bot.py"


def test_the_bot_says_the_line_and_stops() -> None:
    pytest.importorskip("daily", reason="daily-python is not installed")
    done = subprocess.run(
        [sys.executable, str(BOT), "-t", "daily"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=without_keys(OPENAI_API_KEY="not-a-secret"),
    )
    assert done.returncode == 2
    assert [line[:21] for line in done.stdout.splitlines()] == ["missing DAILY_API_KEY"]


def voice_on(transport: BaseTransport) -> VoiceContext:
    return VoiceContext(
        context=LLMContext(),
        transport=transport,
        stt=PassThrough(),
        llm=PassThrough(),
        tts=PassThrough(),
        embedder=LexicalEmbedder(),
    )


def the_bot_s_transport(arguments: Any) -> BaseTransport:
    params = runpy.run_path(str(BOT))["transport_params"]

    async def create() -> BaseTransport:
        return await create_transport(arguments, params)

    return asyncio.run(create())


@pytest.fixture(scope="module")
def daily_transport() -> BaseTransport:
    """One for all: Daily's library keeps its threads and files for as long as the process lives."""
    pytest.importorskip("daily", reason="daily-python is not installed")
    return the_bot_s_transport(DailyRunnerArguments(room_url="https://x.daily.co/room", token="t"))


def test_on_daily_its_client_s_statistics_are_read_and_playback_is_estimated(
    daily_transport: BaseTransport,
) -> None:
    transport = daily_transport
    assert DailyStatsSource.fits(transport)
    assert isinstance(find_position_source(transport.output()), WrittenPosition)
    voice = voice_on(transport)
    assert voice.processors()[0] is transport.input()
    assert voice.network is not None
    assert voice.network.state.band is LinkBand.UNKNOWN
    # Daily's own client, which has not joined: it has no report yet, and that is no loss.
    assert asyncio.run(DailyStatsSource(transport).read()) is None


def test_on_livekit_arrivals_and_samples_are_all_there_is() -> None:
    pytest.importorskip("livekit.rtc", reason="livekit is not installed")
    arguments = LiveKitRunnerArguments(room_name="room", url="ws://127.0.0.1:1", token="t")
    transport = the_bot_s_transport(arguments)
    assert not DailyStatsSource.fits(transport)
    assert isinstance(find_position_source(transport.output()), WrittenPosition)
    voice = voice_on(transport)
    assert transport.output() in voice.processors()
    assert voice.network is not None
    assert voice.network.state.sources == ()


class DailyApi:
    """Daily's REST service as far as a bot asks it for a room."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    async def __aenter__(self) -> str:
        app = web.Application()
        app.router.add_post("/v1/rooms", self._room)
        app.router.add_post("/v1/meeting-tokens", self._token)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        port = free_port()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        return f"http://127.0.0.1:{port}/v1"

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _room(self, request: web.Request) -> web.Response:
        self.asked.append(("rooms", request.headers.get("Authorization", "")))
        name = (await request.json())["name"]
        room = {"id": "1", "name": name, "api_created": True, "privacy": "public", "config": {}}
        url, created = f"https://127.0.0.1:1/{name}", "2026-01-01T00:00:00.000Z"
        return web.json_response({**room, "url": url, "created_at": created})

    async def _token(self, request: web.Request) -> web.Response:
        self.asked.append(("meeting-tokens", request.headers.get("Authorization", "")))
        return web.json_response({"token": "t"})


@pytest.mark.peers
def test_a_daily_session_is_asked_for_and_built_up_to_the_network(tmp_path: Path) -> None:
    pytest.importorskip("daily", reason="daily-python is not installed")
    import aiohttp

    async def session() -> tuple[list[tuple[str, str]], list[str]]:
        api = DailyApi()
        async with OpenAIServer(TripPolicy(load_scenario(None))) as server, api as daily_url:
            environment = without_keys(
                **scripted_environment(server.base_url),
                DAILY_API_KEY="room-maker",
                DAILY_API_URL=daily_url,
            )
            async with running_bot(BOT, "-t", "daily", environment=environment, cwd=tmp_path) as bot:
                request = {"createDailyRoom": True, "transport": "daily"}
                async with (
                    aiohttp.ClientSession() as http,
                    http.post(f"{bot.url}/start", json=request) as started,
                ):
                    assert started.status == 200, bot.output()
                async with asyncio.timeout(30):
                    while not any("plugin  pipecat-voicectx" in line for line in bot.lines):  # noqa: ASYNC110
                        await asyncio.sleep(0.1)
            return api.asked, bot.lines

    asked, lines = asyncio.run(session())
    assert [route for route, _ in asked] == ["rooms", "meeting-tokens"]
    assert {key for _, key in asked} == {"Bearer room-maker"}
    assert not [line for line in lines if "Traceback" in line], "\n".join(lines[-60:])


def spoken(frame: bytes) -> int:
    parsed = frames_pb2.Frame.FromString(frame)
    return len(parsed.audio.audio) if parsed.WhichOneof("frame") == "audio" else 0


@pytest.mark.peers
def test_on_a_plain_websocket_typed_words_are_answered_aloud(tmp_path: Path) -> None:
    async def session() -> int:
        heard = 0
        async with OpenAIServer(TripPolicy(load_scenario(None))) as server:
            environment = without_keys(**scripted_environment(server.base_url))
            running = running_bot(BOT, "-t", "websocket", environment=environment, cwd=tmp_path)
            async with running as bot, websockets.connect(f"ws://127.0.0.1:{bot.port}/ws-client") as line:
                await line.send(rtvi("client-ready", {"version": "1.2.0", "about": {"library": "test"}}))
                await line.send(rtvi("send-text", {"content": "What can you find for two in October?"}))
                try:
                    async with asyncio.timeout(40):
                        while heard < 48_000:
                            message = await line.recv()
                            assert isinstance(message, bytes)
                            heard += spoken(message)
                except TimeoutError:
                    raise AssertionError(f"{heard} bytes heard\n{bot.output()}") from None
        return heard

    assert asyncio.run(session()) >= 48_000


def rtvi(kind: str, data: dict[str, Any]) -> bytes:
    message = {"label": "rtvi-ai", "type": kind, "id": kind, "data": data}
    frame = frames_pb2.Frame(message=frames_pb2.MessageFrame(data=json.dumps(message)))
    return bytes(frame.SerializeToString())
