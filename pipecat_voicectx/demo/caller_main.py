"""The caller's process: a WebRTC peer that plays the scenario against a bot behind Pipecat's runner."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from loguru import logger

from pipecat_voicectx.demo.caller import run_caller
from pipecat_voicectx.demo.children import end_with_parent
from pipecat_voicectx.demo.events import EventLog
from pipecat_voicectx.demo.loopback import use_loopback_only
from pipecat_voicectx.demo.pass_files import PassFiles
from pipecat_voicectx.demo.scenario import load_scenario
from pipecat_voicectx.errors import UnavailableError, VoiceContextError

__all__ = ["main"]

# Measured: 7 s from a cold start on two cores (importing Pipecat, loading the VAD).
_BOT_START_SECS = 60.0


async def _run(args: argparse.Namespace) -> None:
    files = PassFiles(args.folder)
    scenario = load_scenario(args.scenario)
    async with aiohttp.ClientSession(base_url=args.url) as http:
        await _ready(http)
        start_secs = time.monotonic()
        beside = files.start.with_suffix(".new")
        beside.write_text(repr(start_secs), encoding="utf-8")
        beside.replace(files.start)

        async def connect(peer: Any, call: int) -> None:
            body = files.session_body(
                plugin=args.plugin == "1", scenario_path=args.scenario, call=call, start_secs=start_secs
            )
            await _signal(http, peer, body)

        await run_caller(
            scenario,
            log=EventLog(files.caller_events, "caller", start_secs),
            new_peer=lambda: RTCPeerConnection(RTCConfiguration(iceServers=[])),
            connect=connect,
        )


async def _ready(http: aiohttp.ClientSession) -> None:
    """Waits until the bot's server answers.

    Raises:
        UnavailableError: It did not start.
    """
    deadline_secs = time.monotonic() + _BOT_START_SECS
    while time.monotonic() < deadline_secs:
        with contextlib.suppress(aiohttp.ClientError):
            async with http.get("/status") as response:
                if response.status == 200:
                    return
        await asyncio.sleep(0.1)
    raise UnavailableError(f"the bot did not start within {_BOT_START_SECS:.0f} s")


async def _signal(http: aiohttp.ClientSession, peer: RTCPeerConnection, body: dict[str, object]) -> None:
    await peer.setLocalDescription(await peer.createOffer())
    offer = peer.localDescription
    request = {"sdp": offer.sdp, "type": offer.type, "request_data": body}
    try:
        async with http.post("/api/offer", json=request) as response:
            response.raise_for_status()
            answer = await response.json()
    except aiohttp.ClientError as error:
        raise UnavailableError(f"the bot did not answer the call: {error}") from error
    await peer.setRemoteDescription(RTCSessionDescription(sdp=answer["sdp"], type=answer["type"]))


def main(argv: list[str] | None = None) -> int:
    """Entry point of the child process; 0 when the script was played to its end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--scenario", type=Path, required=True)
    parser.add_argument("--plugin", choices=("0", "1"), required=True)
    args = parser.parse_args(argv)
    end_with_parent()
    use_loopback_only()
    logger.remove()
    logger.add(sys.stderr, level="WARNING")
    try:
        asyncio.run(_run(args))
    except VoiceContextError as error:
        print(f"voicectx: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
