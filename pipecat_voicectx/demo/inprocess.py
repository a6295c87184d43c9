"""Two WebRTC peers in one process: aiortc's own Opus, RTP, RTCP and jitter buffers, without ICE, DTLS and sockets.

`--fast` plays the call on a virtual clock, where another process and a real socket handshake would not follow.
What carries the media is aiortc's `RTCRtpSender` and `RTCRtpReceiver`, unchanged; only their transport is a queue
with a fixed one-way delay. Decoding happens in the loop instead of in a thread, so that a run is repeatable.
`InProcessConnection` stands where Pipecat's `SmallWebRTCConnection` stands, `pc` included.
"""

from __future__ import annotations

import asyncio
import queue
import time
import uuid
from collections.abc import Callable
from typing import Any

from aiortc import RTCStatsReport
from aiortc.codecs import get_decoder
from aiortc.mediastreams import MediaStreamTrack
from aiortc.rtcrtpparameters import (
    RTCRtcpParameters,
    RTCRtpCodecParameters,
    RTCRtpReceiveParameters,
    RTCRtpSendParameters,
)
from aiortc.rtcrtpreceiver import RemoteStreamTrack, RTCRtpReceiver
from aiortc.rtcrtpsender import RTCRtpSender
from aiortc.rtp import HeaderExtensionsMap, RtcpPacket, RtpPacket, is_rtcp
from pipecat.transports.smallwebrtc.connection import SmallWebRTCConnection
from pyee.asyncio import AsyncIOEventEmitter

__all__ = ["InProcessConnection", "InProcessPeer", "connect"]

# Chosen: a domestic path, and the value the measured data channel and media shared on loopback is far below it.
_ONE_WAY_SECS = 0.020
_OPUS = RTCRtpCodecParameters(mimeType="audio/opus", clockRate=48_000, channels=2, payloadType=96)


class _Wire:
    """What aiortc's sender and receiver see as their DTLS transport: packets reach the other side in order."""

    state = "connected"

    def __init__(self) -> None:
        self._stats_id = f"transport_{id(self)}"
        self._queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        self._receiver: RTCRtpReceiver | None = None
        self._sender: RTCRtpSender | None = None
        self._task: asyncio.Task[None] | None = None
        self.other: _Wire | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def _register_rtp_receiver(self, receiver: RTCRtpReceiver, _parameters: object) -> None:
        self._receiver = receiver

    def _unregister_rtp_receiver(self, _receiver: RTCRtpReceiver) -> None:
        self._receiver = None

    def _register_rtp_sender(self, sender: RTCRtpSender, _parameters: object) -> None:
        self._sender = sender

    def _unregister_rtp_sender(self, _sender: RTCRtpSender) -> None:
        self._sender = None

    def _get_stats(self) -> RTCStatsReport:
        return RTCStatsReport()

    async def _send_rtp(self, data: bytes) -> None:
        if self.other is not None:
            self.other._queue.put_nowait((time.monotonic() + _ONE_WAY_SECS, data))

    async def _run(self) -> None:
        while True:
            due_secs, data = await self._queue.get()
            wait_secs = due_secs - time.monotonic()
            if wait_secs > 0:
                await asyncio.sleep(wait_secs)
            if is_rtcp(data):
                for report in RtcpPacket.parse(data):
                    for end in (self._sender, self._receiver):
                        if end is not None:
                            await end._handle_rtcp_packet(report)
            elif self._receiver is not None:
                packet = RtpPacket.parse(data, HeaderExtensionsMap())
                await self._receiver._handle_rtp_packet(packet, arrival_time_ms=round(time.time() * 1000))


class _InlineDecoder:
    """Stands for the receiver's decoder queue and does the thread's work at once."""

    def __init__(self, track_queue: asyncio.Queue[Any], thread_queue: queue.Queue[Any]) -> None:
        self._track_queue = track_queue
        self._thread_queue = thread_queue
        self._decoder: Any = None

    def put(self, task: tuple[RTCRtpCodecParameters, Any] | None) -> None:
        if task is None:
            self._thread_queue.put(None)  # ends the thread, which ends the track
            return
        codec, encoded = task
        if self._decoder is None:
            self._decoder = get_decoder(codec)
        for frame in self._decoder.decode(encoded):
            self._track_queue.put_nowait(frame)


class _Transceiver:
    kind = "audio"
    mid = "0"

    def __init__(self, wire: _Wire, track: MediaStreamTrack | None) -> None:
        self.direction = "sendrecv"
        self.sender = RTCRtpSender(track or "audio", wire)  # type: ignore[arg-type]
        self.receiver = RTCRtpReceiver("audio", wire)  # type: ignore[arg-type]
        self.track = RemoteStreamTrack("audio", str(uuid.uuid4()))
        self.receiver._track = self.track

    async def start(self) -> None:
        rtcp = RTCRtcpParameters(cname="voicectx", mux=True)
        await self.receiver.receive(RTCRtpReceiveParameters(codecs=[_OPUS], rtcp=rtcp))
        self.receiver._set_rtcp_ssrc(self.sender._ssrc)
        name = "_RTCRtpReceiver__decoder_queue"
        setattr(self.receiver, name, _InlineDecoder(self.track._queue, getattr(self.receiver, name)))
        await self.sender.send(RTCRtpSendParameters(codecs=[_OPUS], rtcp=rtcp))


class _Channel(AsyncIOEventEmitter):
    """One end of a data channel."""

    def __init__(self, label: str) -> None:
        super().__init__()
        self.label = label
        self.readyState = "connecting"
        self.other: _Channel | None = None

    def send(self, data: str) -> None:
        other = self.other
        if self.readyState == "open" and other is not None:
            asyncio.get_running_loop().call_later(_ONE_WAY_SECS, other._receive, data)

    def _receive(self, data: str) -> None:
        if self.readyState == "open":
            self.emit("message", data)


class InProcessPeer(AsyncIOEventEmitter):
    """The part of `RTCPeerConnection` that Pipecat, the caller and the trackers use."""

    def __init__(self) -> None:
        super().__init__()
        self.connectionState = "new"
        self.iceConnectionState = "new"
        self.iceGatheringState = "complete"
        self._wire = _Wire()
        self._transceivers: list[_Transceiver] = []
        self._channel: _Channel | None = None
        self._other: InProcessPeer | None = None

    def addTransceiver(
        self, track_or_kind: MediaStreamTrack | str, direction: str = "sendrecv"
    ) -> _Transceiver:
        track = track_or_kind if isinstance(track_or_kind, MediaStreamTrack) else None
        self._transceivers.append(_Transceiver(self._wire, track))
        return self._transceivers[-1]

    def getTransceivers(self) -> list[_Transceiver]:
        return list(self._transceivers)

    def createDataChannel(self, label: str) -> _Channel:
        self._channel = _Channel(label)
        return self._channel

    async def getStats(self) -> RTCStatsReport:
        report = RTCStatsReport()
        for transceiver in self._transceivers:
            report.update(await transceiver.sender.getStats())
            report.update(await transceiver.receiver.getStats())
        return report

    def _set_state(self, state: str) -> None:
        if self.connectionState != state:
            self.connectionState = self.iceConnectionState = state
            self.emit("connectionstatechange")

    async def close(self) -> None:
        """Ends the call on both sides, as DTLS's close does."""
        if self.connectionState == "closed":
            return
        self.connectionState = "closed"
        if self._channel is not None:
            self._channel.readyState = "closed"
        for transceiver in self._transceivers:
            await transceiver.receiver.stop()
            await transceiver.sender.stop()
        await self._wire.stop()
        self.emit("connectionstatechange")
        other, self._other = self._other, None
        if other is not None:
            asyncio.get_running_loop().call_later(_ONE_WAY_SECS, other._on_remote_close)

    def _on_remote_close(self) -> None:
        if self.connectionState != "closed":
            self._closing = asyncio.ensure_future(self.close())


class InProcessConnection(SmallWebRTCConnection):
    """A `SmallWebRTCConnection` whose peer is an `InProcessPeer`."""

    def _initialize(self) -> None:
        super()._initialize()  # type: ignore[no-untyped-call]
        self._pc.remove_all_listeners()
        self._pc = InProcessPeer()  # type: ignore[assignment]
        self._setup_listeners()  # type: ignore[no-untyped-call]


async def connect(
    caller: InProcessPeer,
    connection: InProcessConnection,
    start_bot: Callable[[], None],
    setup_secs: float = 0.2,
) -> None:
    """Connects a caller's peer with a bot's connection; `start_bot` runs once the offer would have been answered.

    Args:
        caller: With its transceiver and data channel.
        connection: An `InProcessConnection`.
        start_bot: Starts the bot on `connection` in the background.
        setup_secs: What ICE and DTLS would take.
    """
    bot: Any = connection.pc
    bot.addTransceiver("audio")
    caller._wire.other, bot._wire.other = bot._wire, caller._wire
    caller._other, bot._other = bot, caller
    start_bot()
    await asyncio.sleep(setup_secs)
    for peer in (bot, caller):
        peer._wire.start()
        for transceiver in peer.getTransceivers():
            await transceiver.start()
    bot._set_state("connected")
    caller._set_state("connected")
    caller.emit("track", caller.getTransceivers()[0].track)
    if caller._channel is not None:
        bot._channel = _Channel(caller._channel.label)
        bot._channel.other, caller._channel.other = caller._channel, bot._channel
        for channel in (bot._channel, caller._channel):
            channel.readyState = "open"
        bot.emit("datachannel", bot._channel)
        caller._channel.emit("open")
