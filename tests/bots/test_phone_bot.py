"""The telephone bot behind its providers' own media-stream protocols: 8 kHz frames, a known number."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import websockets

from pipecat_voicectx.demo.environment import scripted_environment
from pipecat_voicectx.demo.policy import TripPolicy
from pipecat_voicectx.demo.scenario import load_scenario
from pipecat_voicectx.testing.openai_server import OpenAIServer, RequestRecord
from tests.bots.hosting import running_bot, without_keys

BOT = Path(__file__).parents[2] / "bots" / "phone_bot.py"
NUMBER = "+49 151 2345678"
_FRAME_SECS = 0.02
_HEARD_SECS = 1.0

Message = Mapping[str, Any]


class Line:
    """One provider's protocol, seen from the provider."""

    def __init__(self, handshake: list[Message], media: Message, *, pcm: bool = False) -> None:
        self.handshake = handshake
        self._media = media
        self.bytes_per_sec = 16_000 if pcm else 8_000
        self._silence = (b"\x00" if pcm else b"\xff") * int(self.bytes_per_sec * _FRAME_SECS)

    def frame(self) -> str:
        payload = base64.b64encode(self._silence).decode()
        return json.dumps({**self._media, "media": {**self._media.get("media", {}), "payload": payload}})

    def audio_bytes(self, message: Message) -> int:
        """How much of the bot's audio a message carries. Plivo calls it playAudio."""
        if message.get("event") not in ("media", "playAudio"):
            return 0
        return len(base64.b64decode(message["media"]["payload"]))


def twilio(number: str | None) -> Line:
    custom = {"from_number": number} if number else {}
    start = {"streamSid": "MZ1", "callSid": "CA1", "accountSid": "AC0", "customParameters": custom}
    connected = {"event": "connected", "protocol": "Call", "version": "1.0.0"}
    return Line(
        [connected, {"event": "start", "streamSid": "MZ1", "start": start}],
        {"event": "media", "streamSid": "MZ1"},
    )


def telnyx(number: str | None) -> Line:
    start = {
        "call_control_id": "v3:1",
        "from": number or "anonymous",
        "to": "+4930123456",
        "media_format": {"encoding": "PCMU", "sample_rate": 8000, "channels": 1},
    }
    return Line(
        [
            {"event": "connected", "version": "1.0.0"},
            {"event": "start", "sequence_number": "1", "stream_id": "S1", "start": start},
        ],
        {"event": "media", "stream_id": "S1", "media": {"track": "inbound"}},
    )


def exotel(number: str | None) -> Line:
    start = {"stream_sid": "S1", "call_sid": "C1", "account_sid": "A1", "from": number or "", "to": "0"}
    return Line(
        [{"event": "connected"}, {"event": "start", "stream_sid": "S1", "start": start}],
        {"event": "media", "stream_sid": "S1"},
        pcm=True,
    )


def plivo(_number: str | None) -> Line:
    start = {"event": "start", "start": {"streamId": "S1", "callId": "C1"}}
    return Line([start, {"event": "media", "media": {"payload": ""}}], {"event": "media"})


CALLS = [
    ("twilio", twilio, NUMBER, "number"),
    ("twilio, withheld", twilio, None, "anonymous"),
    ("telnyx", telnyx, NUMBER, "number"),
    ("telnyx, withheld", telnyx, None, "anonymous"),
    ("exotel", exotel, NUMBER, "number"),
    ("plivo says no number", plivo, None, "anonymous"),
]


async def greeting_secs(port: int, line: Line) -> float:
    """Calls, listens to the first second of the greeting, hangs up."""
    heard = 0
    async with websockets.connect(f"ws://127.0.0.1:{port}/ws") as socket:
        for message in line.handshake:
            await socket.send(json.dumps(message))

        async def talk() -> None:
            while True:
                await socket.send(line.frame())
                await asyncio.sleep(_FRAME_SECS)

        talking = asyncio.create_task(talk())
        try:
            while heard < _HEARD_SECS * line.bytes_per_sec:
                heard += line.audio_bytes(json.loads(await asyncio.wait_for(socket.recv(), 60)))
            await socket.send(json.dumps({"event": "stop"}))
        finally:
            talking.cancel()
    return heard / line.bytes_per_sec


@pytest.mark.peers
def test_every_provider_s_caller_is_greeted_and_known_by_number_unless_it_is_withheld(tmp_path: Path) -> None:
    requests: list[RequestRecord] = []

    async def calls() -> list[str]:
        server = OpenAIServer(TripPolicy(load_scenario(None)), on_request=requests.append)
        async with server:
            environment = without_keys(
                **scripted_environment(server.base_url),
                VOICECTX_STORE=str(tmp_path / "store"),
                TWILIO_ACCOUNT_SID="AC" + "0" * 32,
                TWILIO_AUTH_TOKEN="not-a-secret",
                TELNYX_API_KEY="not-a-secret",
                PLIVO_AUTH_ID="not-a-secret",
                PLIVO_AUTH_TOKEN="not-a-secret",
            )
            # Without -t the runner takes calls of every provider.
            async with running_bot(BOT, environment=environment, cwd=tmp_path) as bot:
                for name, provider, number, _ in CALLS:
                    try:
                        assert await greeting_secs(bot.port, provider(number)) >= _HEARD_SECS
                    except (TimeoutError, websockets.ConnectionClosed):
                        raise AssertionError(f"{name}:\n{bot.output()}") from None
                async with (
                    aiohttp.ClientSession() as http,
                    http.get(f"{bot.url}/voicectx/api/sessions") as listed,
                ):
                    assert {s["title"] for s in await listed.json()} <= {"Ada, on the telephone"}
                proxied = {"X-Forwarded-For": "203.0.113.9"}  # as a tunnel hands it on
                async with (
                    aiohttp.ClientSession() as http,
                    http.get(f"{bot.url}/voicectx", headers=proxied) as shut,
                ):
                    assert shut.status == 403
            return bot.lines

    lines = asyncio.run(calls())
    callers = [line.split()[-1] for line in lines if line.strip().startswith("caller")]
    assert callers == [known for _, _, _, known in CALLS], "\n".join(lines[-40:])
    assert len(requests) >= len(CALLS)
    assert (tmp_path / "store").is_dir()
    assert not [line for line in lines if "Traceback" in line], "\n".join(lines[-80:])


@pytest.mark.peers
def test_the_local_bot_takes_a_telephone_call_too(tmp_path: Path) -> None:
    async def call() -> list[str]:
        async with OpenAIServer(TripPolicy(load_scenario(None))) as server:
            environment = without_keys(
                **scripted_environment(server.base_url),
                VOICECTX_STORE=str(tmp_path / "store"),
                TWILIO_ACCOUNT_SID="AC" + "0" * 32,
                TWILIO_AUTH_TOKEN="not-a-secret",
            )
            bot_file = BOT.with_name("local_bot.py")
            async with (
                running_bot(bot_file, "-t", "twilio", environment=environment, cwd=tmp_path) as bot,
                websockets.connect(f"ws://127.0.0.1:{bot.port}/ws") as socket,
                aiohttp.ClientSession() as http,
            ):
                line = twilio(NUMBER)
                for message in line.handshake:
                    await socket.send(json.dumps(message))
                async with asyncio.timeout(40):
                    titles: list[str] = []
                    while not titles:
                        await socket.send(line.frame())
                        await asyncio.sleep(_FRAME_SECS)
                        async with http.get(f"{bot.url}/voicectx/api/sessions") as listed:
                            titles = [session["title"] for session in await listed.json()]
                assert titles == ["Ada, the travel assistant"]
                await socket.send(json.dumps({"event": "stop"}))
            return bot.lines

    lines = asyncio.run(call())
    assert not [line for line in lines if "Traceback" in line], "\n".join(lines[-80:])


@pytest.mark.parametrize("bot", ["local_bot.py", "phone_bot.py"])
def test_a_bot_without_a_key_says_in_one_line_what_it_misses(bot: str) -> None:
    done = subprocess.run(
        [sys.executable, str(BOT.with_name(bot))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=without_keys(),
    )
    assert done.returncode == 2
    assert len(done.stdout.splitlines()) == 1
    assert "OPENAI_API_KEY" in done.stdout
