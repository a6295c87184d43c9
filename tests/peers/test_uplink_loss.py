"""Packets lost on a real aiortc connection: our jitter buffer and statistics source against the truth."""

from __future__ import annotations

import asyncio
import fractions
import time
from typing import Any

import numpy as np
import pytest
from aiortc import MediaStreamTrack, RTCPeerConnection
from av import AudioFrame

from pipecat_voicectx.signals.audio_gaps import PtsGapDetector
from pipecat_voicectx.signals.rtp_stats import RtpStatsSample
from pipecat_voicectx.sources.aiortc_stats import AiortcStatsSource
from pipecat_voicectx.sources.jitter_buffer import AudioHole, install_loss_tolerant_jitter_buffer

pytestmark = pytest.mark.peers

# One isolated packet, then 1.2 s.
LOST = {40, *range(80, 140)}
PACKETS = 190


class Tone(MediaStreamTrack):
    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._n = 0
        self._start: float | None = None

    async def recv(self) -> AudioFrame:
        self._start = self._start or time.monotonic()
        await asyncio.sleep(max(0.0, self._start + self._n * 0.02 - time.monotonic()))
        samples = (4000 * np.sin(np.arange(960) * 0.05)).astype(np.int16)
        frame = AudioFrame.from_ndarray(samples[None, :], layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = 48_000, self._n * 960, fractions.Fraction(1, 48_000)
        self._n += 1
        return frame


class Uplink:
    def __init__(self) -> None:
        self.client, self.server = RTCPeerConnection(), RTCPeerConnection()
        self.pts: list[int] = []
        self.holes: list[AudioHole] = []
        self.sample: RtpStatsSample | None = None

    async def run(self, *, tolerant: bool) -> None:
        sender = self.client.addTransceiver(Tone(), direction="sendonly").sender
        self.server.on("track", self._read)
        await self.client.setLocalDescription(await self.client.createOffer())
        await self.server.setRemoteDescription(self.client.localDescription)
        if tolerant:
            assert install_loss_tolerant_jitter_buffer(self.server, on_hole=self.holes.append) == 1
        await self.server.setLocalDescription(await self.server.createAnswer())
        self._lose(sender.transport)
        await self.client.setRemoteDescription(self.server.localDescription)
        while len(self.pts) < 2 or self.pts[-1] < (PACKETS - 10) * 960:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        self.sample = await AiortcStatsSource(self.server).read()
        await self.client.close()
        await self.server.close()

    def _lose(self, transport: Any) -> None:
        send, first = transport._send_rtp, []

        async def lossy(data: bytes) -> None:
            if not 192 <= data[1] <= 223:
                timestamp = int.from_bytes(data[4:8], "big")
                first.append(timestamp) if not first else None
                if (timestamp - first[0]) % (1 << 32) // 960 in LOST:
                    return
            await send(data)

        transport._send_rtp = lossy

    def _read(self, track: Any) -> None:
        async def read() -> None:
            try:
                while True:
                    self.pts.append((await track.recv()).pts)
            except Exception:  # the connection was closed
                return

        self._task = asyncio.ensure_future(read())

    def missing_secs(self) -> list[float]:
        detector = PtsGapDetector(clock_hz=48_000)
        gaps = [
            detector.add(now_secs=0.0, pts=pts, duration_secs=0.02, sample_rate_hz=48_000) for pts in self.pts
        ]
        return [round(gap.missing_secs, 3) for gap in gaps if gap]


def test_only_what_was_lost_is_missing_and_every_hole_is_reported() -> None:
    """F05"""
    uplink = Uplink()
    asyncio.run(uplink.run(tolerant=True))
    assert uplink.missing_secs() == [0.02, 1.2]
    assert uplink.holes == [
        AudioHole(packets=1, missing_secs=0.02),
        AudioHole(packets=60, missing_secs=pytest.approx(1.2)),
    ]
    assert uplink.sample is not None
    assert uplink.sample.packets_lost == len(LOST)
    assert uplink.sample.jitter_secs is not None
    assert uplink.sample.jitter_secs < 0.2


def test_aiortcs_own_buffer_misses_more_than_was_lost() -> None:
    uplink = Uplink()
    asyncio.run(uplink.run(tolerant=False))
    assert sum(uplink.missing_secs()) > 1.22 + 0.06
