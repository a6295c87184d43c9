"""The telephone bot behind Twilio's media-stream protocol: a caller's socket, mu-law frames, a known number."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import websockets

from pipecat_voicectx.demo.llm_host import SCRIPTED_LLM_ENV
from pipecat_voicectx.demo.policy import TripPolicy
from pipecat_voicectx.demo.scenario import load_scenario
from pipecat_voicectx.testing.openai_server import OpenAIServer, RequestRecord

BOT = Path(__file__).parents[2] / "bots" / "phone_bot.py"
FRAME_BYTES = 160  # 20 ms of mu-law at 8 kHz
SILENCE = base64.b64encode(b"\xff" * FRAME_BYTES).decode()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def running_bot(base_url: str, store: Path) -> AsyncIterator[tuple[int, list[str]]]:
    port, lines = free_port(), []
    environment = {
        **os.environ,
        "OPENAI_BASE_URL": base_url,
        "OPENAI_API_KEY": "",
        SCRIPTED_LLM_ENV: "1",
        "VOICECTX_STORE": str(store),
        "TWILIO_ACCOUNT_SID": "AC" + "0" * 32,
        "TWILIO_AUTH_TOKEN": "not-a-secret",
        "PYTHONUNBUFFERED": "1",
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(BOT), "-t", "twilio", "--proxy", "bot.example", "--port", str(port)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment,
        cwd=store.parent,
    )

    async def read() -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            lines.append(line.decode(errors="replace").rstrip())

    reader = asyncio.create_task(read())
    try:
        for _ in range(600):
            if process.returncode is not None:
                break
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                break
        yield port, lines
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.wait(), 20)
        await reader


async def greeting_bytes(port: int, number: str | None) -> int:
    """Calls, listens to the first second of the greeting, hangs up."""
    custom = {"from_number": number} if number else {}
    start = {"streamSid": "MZ1", "callSid": "CA1", "accountSid": "AC0", "customParameters": custom}
    heard = 0
    async with websockets.connect(f"ws://127.0.0.1:{port}/ws") as line:
        await line.send(json.dumps({"event": "connected", "protocol": "Call", "version": "1.0.0"}))
        await line.send(json.dumps({"event": "start", "streamSid": "MZ1", "start": start}))

        async def talk() -> None:
            while True:
                await line.send(
                    json.dumps({"event": "media", "streamSid": "MZ1", "media": {"payload": SILENCE}})
                )
                await asyncio.sleep(0.02)

        talking = asyncio.create_task(talk())
        try:
            while heard < 50 * FRAME_BYTES:
                message = json.loads(await asyncio.wait_for(line.recv(), 60))
                if message["event"] == "media":
                    heard += len(base64.b64decode(message["media"]["payload"]))
            await line.send(json.dumps({"event": "stop", "streamSid": "MZ1"}))
        finally:
            talking.cancel()
    return heard


@pytest.mark.peers
def test_a_caller_is_greeted_in_mu_law_and_known_by_number_unless_it_is_withheld(tmp_path: Path) -> None:
    requests: list[RequestRecord] = []

    async def calls() -> list[str]:
        server = OpenAIServer(TripPolicy(load_scenario(None)), on_request=requests.append)
        async with server, running_bot(server.base_url, tmp_path / "store") as (port, lines):
            assert await greeting_bytes(port, "+49 151 2345678") >= 50 * FRAME_BYTES
            assert await greeting_bytes(port, None) >= 50 * FRAME_BYTES
            return lines

    lines = asyncio.run(calls())
    callers = [line.split()[-1] for line in lines if line.strip().startswith("caller")]
    assert callers == ["number", "anonymous"], "\n".join(lines[-40:])
    assert len(requests) >= 2
    assert (tmp_path / "store").is_dir()
    assert not [line for line in lines if "Traceback" in line]


@pytest.mark.parametrize("bot", ["local_bot.py", "phone_bot.py"])
def test_a_bot_without_a_key_says_in_one_line_what_it_misses(bot: str) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("OPENAI_API_KEY", "OPENAI_BASE_URL")}
    done = subprocess.run(
        [sys.executable, str(BOT.with_name(bot))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )
    assert done.returncode == 2
    assert len(done.stdout.splitlines()) == 1
    assert "OPENAI_API_KEY" in done.stdout
