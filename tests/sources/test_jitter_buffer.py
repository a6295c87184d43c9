from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiortc.jitterbuffer import JitterBuffer
from aiortc.rtp import RtpPacket
from hypothesis import given
from hypothesis import strategies as st

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.sources.jitter_buffer import (
    AudioHole,
    LossTolerantJitterBuffer,
    install_loss_tolerant_jitter_buffer,
)

STEP = 960


def packet(number: int, *, first: int = 0) -> RtpPacket:
    made = RtpPacket(
        payload_type=96,
        sequence_number=(first + number) & 0xFFFF,
        timestamp=(first * STEP + number * STEP) & 0xFFFFFFFF,
    )
    made._data = number.to_bytes(4, "big")  # type: ignore[attr-defined]
    return made


def play(
    order: list[int], *, first: int = 0, buffer: LossTolerantJitterBuffer | None = None
) -> tuple[list[int], list[AudioHole], list[int]]:
    """Returns the packets that came out, the holes, and at each output how many packets had come in."""
    holes: list[AudioHole] = []
    buffer = buffer or LossTolerantJitterBuffer(on_hole=holes.append)
    out, at = [], []
    for count, number in enumerate(order, start=1):
        _, frame = buffer.add(packet(number, first=first))
        if frame is not None:
            out.append(int.from_bytes(frame.data, "big"))
            at.append(count)
    return out, holes, at


def test_on_a_clean_line_every_packet_comes_out_three_later() -> None:
    out, holes, at = play(list(range(20)))
    assert out == list(range(17))
    assert at == [n + 4 for n in out]
    assert holes == []


def test_one_lost_packet_deletes_20_ms_and_adds_no_delay() -> None:
    """F05"""
    out, holes, at = play([n for n in range(40) if n != 10])
    assert out == [n for n in range(37) if n != 10]
    assert holes == [AudioHole(packets=1, missing_secs=0.02)]
    # Three behind the newest before the loss and ever after; one more only while the hole itself passes through.
    arrived = [n for n in range(40) if n != 10]
    behind = [arrived[count - 1] - number for count, number in zip(at, out, strict=True)]
    assert behind == [3] * 7 + [4] * 3 + [3] * 26


def test_aiortcs_own_buffer_deletes_five_frames_for_that_one_packet() -> None:
    """F05: why ours exists; when this fails, aiortc has mended it."""
    own = JitterBuffer(capacity=16, prefetch=4)
    out = []
    for number in range(60):
        if number != 10:
            _, frame = own.add(packet(number))
            if frame is not None:
                out.append(int.from_bytes(frame.data, "big"))
    deleted = sorted(set(range(max(out))) - set(out))
    assert len(deleted) == 5


def test_a_two_second_outage_is_one_hole_of_two_seconds() -> None:
    out, holes, _ = play([*range(50), *range(150, 200)])
    assert out == [*range(50), *range(150, 197)]
    assert holes == [AudioHole(packets=100, missing_secs=2.0)]


def test_reordered_packets_within_the_depth_come_out_in_order() -> None:
    out, holes, _ = play([0, 1, 3, 2, 4, 7, 5, 6, 8, 9, 10, 11])
    assert out == list(range(9))
    assert holes == []


def test_a_packet_later_than_the_depth_is_counted_and_dropped() -> None:
    buffer = LossTolerantJitterBuffer()
    out, _, _ = play([0, 1, 2, 4, 5, 6, 7, 3, 8, 9, 10], buffer=buffer)
    assert out == [0, 1, 2, 4, 5, 6, 7]
    assert (buffer.late_packets, buffer.lost_packets) == (1, 1)


def test_duplicates_come_out_once() -> None:
    out, holes, _ = play([0, 0, 1, 1, 2, 3, 3, 2, 4, 5, 6, 0])
    assert out == [0, 1, 2, 3]
    assert holes == []


def test_sequence_numbers_and_timestamps_wrap() -> None:
    for first in (65_530, (1 << 32) // STEP - 5):
        out, holes, _ = play([n for n in range(20) if n != 7], first=first)
        assert out == [n for n in range(17) if n != 7]
        assert holes == [AudioHole(packets=1, missing_secs=0.02)]


def test_another_stream_starts_over_without_a_hole() -> None:
    buffer = LossTolerantJitterBuffer()
    play(list(range(10)), buffer=buffer)
    out, _, _ = play(list(range(20)), first=30_000, buffer=buffer)
    assert out == list(range(17))
    assert buffer.lost_packets == 0


def test_a_sender_that_is_silent_without_losing_leaves_no_hole() -> None:
    holes: list[AudioHole] = []
    buffer = LossTolerantJitterBuffer(on_hole=holes.append)
    for number in range(20):
        made = packet(number)
        if number >= 10:
            made.timestamp += 20 * STEP  # discontinuous transmission: the clock leaps, the numbers do not
        buffer.add(made)
    assert holes == []


@given(st.lists(st.booleans(), min_size=30, max_size=300), st.integers(0, 65_535))
def test_what_arrived_in_order_always_comes_out_and_holes_are_what_was_lost(
    lost: list[bool], first: int
) -> None:
    # Each hole leaves one packet waiting per packet lost until it has passed, so the line is clean at the end.
    arrived = [n for n, gone in enumerate([False, *lost, *[False] * 10]) if not gone]
    out, holes, _ = play(arrived, first=first)
    assert out == arrived[:-3]
    assert sum(hole.packets for hole in holes) == sum(lost)


def test_a_depth_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError):
        LossTolerantJitterBuffer(depth_packets=0)


def connection(*buffers: Any, kind: str = "audio") -> Any:
    receivers = [SimpleNamespace(_RTCRtpReceiver__jitter_buffer=buffer) for buffer in buffers]
    transceivers = [SimpleNamespace(kind=kind, receiver=receiver) for receiver in receivers]
    return SimpleNamespace(getTransceivers=lambda: transceivers, receivers=receivers)


def test_only_the_expected_buffer_is_replaced_and_only_once() -> None:
    peer = connection(JitterBuffer(capacity=16, prefetch=4))
    assert install_loss_tolerant_jitter_buffer(peer) == 1
    ours = peer.receivers[0]._RTCRtpReceiver__jitter_buffer
    assert isinstance(ours, LossTolerantJitterBuffer)
    assert install_loss_tolerant_jitter_buffer(peer) == 1
    assert peer.receivers[0]._RTCRtpReceiver__jitter_buffer is ours


@pytest.mark.parametrize("buffer", [None, object()])
def test_anything_else_is_left_alone(buffer: object) -> None:
    peer = connection(buffer)
    assert install_loss_tolerant_jitter_buffer(peer) == 0
    assert peer.receivers[0]._RTCRtpReceiver__jitter_buffer is buffer


def test_video_is_none_of_our_business() -> None:
    buffer = JitterBuffer(capacity=16)
    peer = connection(buffer, kind="video")
    assert install_loss_tolerant_jitter_buffer(peer) == 0
    assert peer.receivers[0]._RTCRtpReceiver__jitter_buffer is buffer
