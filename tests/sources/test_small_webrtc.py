"""The link to a SmallWebRTC connection, over real aiortc peer connections that are renegotiated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("aiortc")

from aiortc import RTCPeerConnection
from aiortc.jitterbuffer import JitterBuffer

from pipecat_voicectx.sources.jitter_buffer import LossTolerantJitterBuffer
from pipecat_voicectx.sources.small_webrtc import SmallWebRTCLink

BUFFER = "_RTCRtpReceiver__jitter_buffer"


class Emitter:
    """Handlers by event, as Pipecat's transport and connection keep them."""

    def __init__(self) -> None:
        self.handlers: dict[str, list[Callable[..., Any]]] = {}

    def add_event_handler(self, event: str, handler: Callable[..., Any]) -> None:
        self.handlers.setdefault(event, []).append(handler)

    def remove_event_handler(self, event: str, handler: Callable[..., Any]) -> None:
        self.handlers[event].remove(handler)

    async def emit(self, event: str, *values: object) -> None:
        for handler in self.handlers.get(event, []):
            await handler(self, *values)


class Connection(Emitter):
    def __init__(self) -> None:
        super().__init__()
        self.pc = peer()


def peer() -> RTCPeerConnection:
    pc = RTCPeerConnection()
    pc.addTransceiver("audio", direction="recvonly")
    return pc


def buffer(pc: RTCPeerConnection) -> JitterBuffer:
    return getattr(pc.getTransceivers()[0].receiver, BUFFER)  # type: ignore[no-any-return]


def test_a_renegotiated_connection_gets_its_buffer_again() -> None:
    async def main() -> None:
        transport, connection = Emitter(), Connection()
        link = SmallWebRTCLink(transport, on_hole_secs=lambda secs: None)
        await transport.emit("on_client_connected", connection)
        assert isinstance(buffer(connection.pc), LossTolerantJitterBuffer)
        first, connection.pc = connection.pc, peer()
        assert type(buffer(connection.pc)) is JitterBuffer
        assert link.watch()
        assert isinstance(buffer(connection.pc), LossTolerantJitterBuffer)
        assert link.stats is not None
        assert await link.stats.read() is None, "nothing was received yet"
        for pc in (first, connection.pc):
            await pc.close()

    asyncio.run(main())


def test_another_client_takes_the_place_of_the_first() -> None:
    async def main() -> None:
        transport, clients = Emitter(), [Connection(), Connection()]
        link = SmallWebRTCLink(transport, on_hole_secs=lambda secs: None)
        stats = []
        for client in clients:
            await transport.emit("on_client_connected", client)
            stats.append(link.stats)
        assert stats[0] is not stats[1]
        assert isinstance(buffer(clients[1].pc), LossTolerantJitterBuffer)
        for client in clients:
            await client.pc.close()

    asyncio.run(main())


def test_only_the_microphones_track_mutes() -> None:
    async def main() -> None:
        transport, connection = Emitter(), Connection()
        link = SmallWebRTCLink(transport, on_hole_secs=lambda secs: None)
        await transport.emit("on_client_connected", connection)
        await connection.emit("track-status", 1, False)
        assert not link.muted
        await connection.emit("track-status", 0, False)
        assert link.muted
        link.detach()
        await connection.emit("track-status", 0, True)
        assert link.muted, "nobody listens any more"
        await connection.pc.close()

    asyncio.run(main())


def test_a_receiver_without_the_expected_buffer_is_left_alone() -> None:
    async def main() -> None:
        transport, connection = Emitter(), Connection()
        setattr(connection.pc.getTransceivers()[0].receiver, BUFFER, "something new")
        link = SmallWebRTCLink(transport, on_hole_secs=lambda secs: None)
        await transport.emit("on_client_connected", connection)
        assert not link.watch()
        assert buffer(connection.pc) == "something new"
        await connection.pc.close()

    asyncio.run(main())
