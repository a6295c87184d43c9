"""The RTP clock of a real aiortc sender against Pipecat's track, as a browser's acknowledgement needs it."""

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from aiortc import RTCPeerConnection
from pipecat.transports.smallwebrtc.transport import RawAudioTrack

from pipecat_voicectx.runtimes.playout_position import (
    SmallWebRTCPosition,
    WrittenPosition,
    find_position_source,
)
from pipecat_voicectx.sources.client_messages import rtp_to_track_samples

pytestmark = pytest.mark.peers

RATE_HZ = 24_000


class _Peers:
    """A server that sends a track and a client that notes at which RTP time each burst comes out of its decoder."""

    def __init__(self) -> None:
        self.server, self.client = RTCPeerConnection(), RTCPeerConnection()
        self.decoded: list[tuple[int, np.ndarray[Any, Any]]] = []
        self.first_timestamps: list[int] = []
        self._reader: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        self.client.addTransceiver("audio", direction="sendrecv")
        self.client.on("track", self._on_track)
        await self.client.setLocalDescription(await self.client.createOffer())
        await self.server.setRemoteDescription(self.client.localDescription)
        for transceiver in self.server.getTransceivers():
            transceiver.direction = "sendrecv"
        await self.server.setLocalDescription(await self.server.createAnswer())
        await self.client.setRemoteDescription(self.server.localDescription)
        while self.server.connectionState != "connected":  # noqa: ASYNC110 - aiortc's event comes too early
            await asyncio.sleep(0.02)
        self.sender = self.server.getTransceivers()[0].sender
        transport = self.sender.transport
        send = transport._send_rtp

        async def noting(data: bytes) -> None:
            if not 192 <= data[1] <= 223:
                self.first_timestamps.append(int.from_bytes(data[4:8], "big"))
            await send(data)

        transport._send_rtp = noting

    def _on_track(self, track: Any) -> None:
        async def read() -> None:
            try:
                while True:
                    frame = await track.recv()
                    self.decoded.append((frame.pts, frame.to_ndarray().reshape(-1)[::2].copy()))
            except Exception:  # the connection was closed
                return

        self._reader = asyncio.ensure_future(read())

    async def close(self) -> None:
        await self.client.close()
        await self.server.close()
        if self._reader is not None:
            await self._reader


def test_an_rtp_time_the_client_plays_translates_to_the_sample_that_was_written() -> None:
    async def run() -> list[float]:
        peers = _Peers()
        await peers.connect()
        track = RawAudioTrack(RATE_HZ)
        peers.sender.replaceTrack(track)
        connection = SimpleNamespace(pc=peers.server)
        output = SimpleNamespace(
            _client=SimpleNamespace(_audio_output_track=track, _webrtc_connection=connection)
        )
        source = find_position_source(output)  # type: ignore[arg-type]
        assert isinstance(source, SmallWebRTCPosition)
        assert source.rtp_origin() is None
        tone = (8000 * np.sin(np.arange(RATE_HZ * 40 // 1000) * 2 * np.pi * 1000 / RATE_HZ)).astype(np.int16)
        onsets = []
        for _ in range(5):
            await asyncio.sleep(0.3)
            await track.add_audio_bytes(tone.tobytes())
            position = source.position_samples()
            assert position is not None
            onsets.append(position - len(tone))
            for _ in range(4):
                source.rtp_origin()
                await asyncio.sleep(0.013)
        await asyncio.sleep(0.5)
        origin = source.rtp_origin()
        assert origin is not None
        await peers.close()
        signal = np.concatenate([samples for _, samples in peers.decoded])
        times = np.concatenate([pts + np.arange(len(samples)) for pts, samples in peers.decoded])
        loud = np.flatnonzero(np.abs(signal.astype(int)) > 1500)
        starts = [
            loud[0],
            *[after for before, after in itertools.pairwise(loud) if after - before > 4800],
        ]
        # aiortc's receiver counts from its first packet.
        heard = [int(times[index]) + peers.first_timestamps[0] for index in starts]
        return [
            rtp_to_track_samples(timestamp % 2**32, origin=origin, rate_hz=RATE_HZ) - onset
            for timestamp, onset in zip(heard, onsets, strict=True)
        ]

    errors = asyncio.run(asyncio.wait_for(run(), 30))
    assert max(abs(error) for error in errors) <= RATE_HZ * 0.011


def test_a_transport_without_a_track_is_counted_from_its_writes() -> None:
    source = find_position_source(SimpleNamespace())  # type: ignore[arg-type]
    assert isinstance(source, WrittenPosition)
    assert (source.epoch, source.position_samples(), source.rtp_origin()) == (0, None, None)


def test_a_transport_whose_insides_moved_is_no_error() -> None:
    output = SimpleNamespace(_client=SimpleNamespace(_audio_output_track=object(), _webrtc_connection=None))
    source = SmallWebRTCPosition(output)  # type: ignore[arg-type]
    assert (source.epoch, source.position_samples(), source.rtp_origin()) == (0, None, None)


def test_a_replaced_track_is_a_new_epoch_with_an_origin_of_its_own() -> None:
    sender = SimpleNamespace(_RTCRtpSender__rtp_timestamp=100_000)
    peer = SimpleNamespace(getTransceivers=lambda: [SimpleNamespace(kind="audio", sender=sender)])
    client = SimpleNamespace(
        _audio_output_track=SimpleNamespace(_timestamp=24_000, _sample_rate=RATE_HZ),
        _webrtc_connection=SimpleNamespace(pc=peer),
    )
    source = SmallWebRTCPosition(SimpleNamespace(_client=client))  # type: ignore[arg-type]
    assert (source.epoch, source.rtp_origin()) == (0, 100_000 - 48_000 + 1440)
    client._audio_output_track = SimpleNamespace(_timestamp=240, _sample_rate=RATE_HZ)
    assert (source.epoch, source.rtp_origin()) == (1, None)
