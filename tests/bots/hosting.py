"""What a bot on one OpenAI key needs, on loopback: chat, transcription and speech over HTTP, and a caller over WebRTC.

The voice is eSpeak NG. The recogniser is scripted: it answers each recording it is sent with the next line.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from aiohttp import web
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription

from pipecat_voicectx.demo.espeak import synthesize
from pipecat_voicectx.demo.microphone import RATE_HZ, Microphone
from pipecat_voicectx.testing.openai_server import ChatRequest, OpenAIServer, Reply, ToolCall

_SPEECH_RATE_HZ = 24_000
_START_SECS = 90.0


class WeatherPolicy:
    """Asked about the weather, it calls the function; with a result, it says it; else it says how much it was given."""

    def reply(self, request: ChatRequest) -> Reply:
        last = request.messages[-1]
        if last.get("role") == "tool":
            return Reply(
                text="It is nice in Ghent today, seventy five degrees, and it stays so until Friday."
            )
        said = [str(m.get("content")) for m in request.messages if m.get("role") == "user"]
        if said and "weather" in said[-1] and "get_current_weather" in request.tool_names:
            arguments = {"location": "Ghent", "format": "fahrenheit"}
            return Reply(tool_calls=(ToolCall(name="get_current_weather", arguments=arguments),))
        return Reply(text="Hello, I am your assistant." if not said else "You are welcome.")


class Audio:
    """OpenAI's two audio routes."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = list(lines)
        self.transcribed = 0
        self.spoken: list[str] = []

    @property
    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/audio/transcriptions", self._transcribe),
            web.post("/v1/audio/speech", self._speak),
        ]

    async def _transcribe(self, request: web.Request) -> web.Response:
        form = await request.post()
        assert isinstance(form["file"], web.FileField)
        assert form["file"].file.read(4) == b"RIFF"
        self.transcribed += 1
        return web.json_response({"text": self._lines.pop(0) if self._lines else ""})

    async def _speak(self, request: web.Request) -> web.Response:
        asked = await request.json()
        assert asked["response_format"] == "pcm"
        self.spoken.append(asked["input"])
        speech = await asyncio.to_thread(
            synthesize, asked["input"], words_per_minute=190, sample_rate_hz=_SPEECH_RATE_HZ
        )
        return web.Response(body=speech.samples.tobytes(), content_type="audio/pcm")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def without_keys(**more: str) -> dict[str, str]:
    """The environment less every key and setting a bot reads."""
    prefixes = (
        *("OPENAI_", "GOOGLE_", "DAILY_", "LIVEKIT_", "TWILIO_", "TELNYX_", "PLIVO_"),
        *("VOICECTX_", "PIPECAT_"),
    )
    return {**{k: v for k, v in os.environ.items() if not k.startswith(prefixes)}, **more}


class RunningBot:
    """A bot's process."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.lines: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def output(self) -> str:
        return "\n".join(self.lines[-60:])


@asynccontextmanager
async def running_bot(
    bot: Path, *arguments: str, environment: Mapping[str, str], cwd: Path
) -> AsyncIterator[RunningBot]:
    """`python BOT --port N ARGUMENTS`, as a user starts it; ended with SIGTERM. Its ICE stays on loopback."""
    running = RunningBot(free_port())
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pipecat_voicectx.demo.bot_host", str(bot)),
        *("--port", str(running.port), *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**environment, "PYTHONUNBUFFERED": "1"},
        cwd=cwd,
    )

    async def read() -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            running.lines.append(line.decode(errors="replace").rstrip())

    reader = asyncio.create_task(read())
    try:
        async with asyncio.timeout(_START_SECS):
            while process.returncode is None:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", running.port)
                    writer.close()
                    break
                await asyncio.sleep(0.1)
        assert process.returncode is None, f"the bot ended by itself:\n{running.output()}"
        yield running
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 20)
        except TimeoutError:
            process.kill()
            raise AssertionError(f"the bot did not end on SIGTERM:\n{running.output()}") from None
        finally:
            await reader


class Caller:
    """A WebRTC peer of SmallWebRTC that speaks sentences and counts what it hears."""

    def __init__(self) -> None:
        self.microphone = Microphone()
        self.heard_secs = 0.0
        self._peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._listening: asyncio.Task[None] | None = None

    async def connect(self, url: str) -> None:
        connected = asyncio.Event()
        self._peer.addTransceiver(self.microphone, direction="sendrecv")
        self._peer.createDataChannel("rtvi")
        self._peer.on("track", self._on_track)

        def on_state() -> None:
            if self._peer.connectionState == "connected":
                connected.set()

        self._peer.on("connectionstatechange", on_state)
        await self._peer.setLocalDescription(await self._peer.createOffer())
        offer = {"sdp": self._peer.localDescription.sdp, "type": self._peer.localDescription.type}
        async with aiohttp.ClientSession() as http, http.post(f"{url}/api/offer", json=offer) as response:
            response.raise_for_status()
            answer = await response.json()
        await self._peer.setRemoteDescription(RTCSessionDescription(sdp=answer["sdp"], type=answer["type"]))
        async with asyncio.timeout(30):
            await connected.wait()

    async def says(self, text: str) -> None:
        """Speaks until the sentence is over."""
        speech = await asyncio.to_thread(synthesize, text, words_per_minute=170, sample_rate_hz=RATE_HZ)
        await self.microphone.speak(speech.samples)
        await asyncio.sleep(len(speech.samples) / RATE_HZ)

    async def hears(self, more_secs: float, *, within_secs: float = 40.0) -> None:
        """Until that much more of the bot was heard."""
        wanted_secs = self.heard_secs + more_secs
        async with asyncio.timeout(within_secs):
            while self.heard_secs < wanted_secs:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def close(self) -> None:
        await self._peer.close()
        if self._listening is not None:
            self._listening.cancel()

    def _on_track(self, track: object) -> None:
        self._listening = asyncio.ensure_future(self._listen(track))

    async def _listen(self, track: object) -> None:
        with contextlib.suppress(Exception):  # the track's end is an exception of aiortc's
            while True:
                frame = await track.recv()  # type: ignore[attr-defined]
                if abs(frame.to_ndarray()).max() > 300:
                    self.heard_secs += frame.samples / frame.sample_rate


@asynccontextmanager
async def calling(url: str) -> AsyncIterator[Caller]:
    caller = Caller()
    try:
        await caller.connect(url)
        yield caller
    finally:
        await caller.close()


def hosted(lines: Sequence[str]) -> tuple[OpenAIServer, Audio]:
    """One host with OpenAI's chat and audio, for `async with`."""
    audio = Audio(lines)
    return OpenAIServer(WeatherPolicy(), routes=audio.routes), audio
