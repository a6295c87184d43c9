from __future__ import annotations

import asyncio

import numpy as np
import pytest

pytest.importorskip("aiortc", reason="pip install 'pipecat-voicectx[webrtc]'")

from aiortc.rtp import RtpPacket

from pipecat_voicectx.demo.microphone import FRAME_SAMPLES, LossGate, Microphone
from pipecat_voicectx.testing import virtual_time


class _Transport:
    def __init__(self) -> None:
        self.sent: list[int] = []

    async def _send_rtp(self, data: bytes) -> None:
        self.sent.append(RtpPacket.parse(data).sequence_number)


async def _gated(numbers: range, lost: set[int], losses: list[int]) -> list[int]:
    gate, transport = LossGate(lambda _start, _end, packets: losses.append(packets)), _Transport()
    gate.install(transport)
    for number in lost:
        gate.drop(number)
    for number in numbers:
        timestamp = (4_294_967_000 + number * FRAME_SAMPLES) % (1 << 32)  # wraps after the first
        packet = RtpPacket(payload_type=96, sequence_number=number, timestamp=timestamp, payload=b"x")
        await transport._send_rtp(packet.serialize())
        await asyncio.sleep(0.02)
    assert await gate.first_timestamp(1.0) == 4_294_967_000
    return transport.sent


def test_exactly_the_masked_packets_are_lost_and_each_run_is_told_once() -> None:
    losses: list[int] = []
    sent = virtual_time.run(_gated(range(20), {5, 6, 7, 12}, losses))
    assert sent == [0, 1, 2, 3, 4, 8, 9, 10, 11, *range(13, 20)]
    assert losses == [3, 1]


def test_without_a_packet_the_first_timestamp_times_out() -> None:
    async def wait() -> None:
        await LossGate(lambda *_: None).first_timestamp(1.0)

    with pytest.raises(TimeoutError):
        virtual_time.run(wait())


def test_a_recording_starts_at_a_frame_boundary_over_a_noise_floor() -> None:
    async def speak() -> tuple[int, list[int]]:
        microphone = Microphone()
        peaks = []
        started = None
        for number in range(12):
            if number == 3:
                started = microphone.speak(np.full(FRAME_SAMPLES * 4, 8000, np.int16))
            frame = await microphone.recv()
            assert frame.pts == number * FRAME_SAMPLES
            peaks.append(int(np.abs(frame.to_ndarray().astype(int)).max()))
        assert started is not None
        return started.result()[0], peaks

    first, peaks = virtual_time.run(speak())
    assert first == 3
    assert [peak > 7000 for peak in peaks] == [False] * 3 + [True] * 4 + [False] * 5
    assert all(peak > 0 for peak in peaks)
