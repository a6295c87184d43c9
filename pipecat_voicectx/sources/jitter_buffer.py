"""A jitter buffer for aiortc's audio receivers that loses only what was lost.

aiortc's own buffer (capacity 16, prefetch 4) waits for a missing packet until it is full, then throws away everything
in front of the hole: one lost packet deletes 100 ms of speech, and the first one adds 200 ms of delay that stays for
the rest of the call. This one releases the packet that is `depth` behind the newest: a missing packet is waited for
exactly that long, then skipped, and the delay is the same before and after. What arrived in time is always played.

Audio only: one packet is one frame, as every WebRTC audio codec sends it.

aiortc gives no public way to replace the buffer. The private attribute is the one that Pipecat itself sets for video;
`install` touches it only when it is there and holds the expected type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiortc.jitterbuffer import JitterBuffer, JitterFrame
from loguru import logger

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.private_reads import has_private, private

__all__ = ["AudioHole", "LossTolerantJitterBuffer", "install_loss_tolerant_jitter_buffer"]

_ATTRIBUTE = "_RTCRtpReceiver__jitter_buffer"
# Packets behind the newest at which one is released. Three ride out ordinary reordering; aiortc's four
# prefetched frames delay by 80 ms, these by 60 ms.
DEPTH_PACKETS = 3
# A packet this far from the expected one belongs to another stream (aiortc's own bound is 100; an outage of 60 s
# at 50 packets a second must still count as one).
RESTART_PACKETS = 3_000
_SEQUENCE_NUMBERS = 1 << 16
_TIMESTAMPS = 1 << 32


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioHole:
    """Packets that did not come in time and were skipped."""

    packets: int
    missing_secs: float


class LossTolerantJitterBuffer(JitterBuffer):
    """Drop-in for `aiortc.jitterbuffer.JitterBuffer` on audio."""

    def __init__(
        self,
        *,
        depth_packets: int = DEPTH_PACKETS,
        clock_hz: int = 48_000,
        on_hole: Callable[[AudioHole], None] | None = None,
    ) -> None:
        """Args:
        depth_packets: How long a packet is waited for, in packets.
        clock_hz: RTP clock of the codec.
        on_hole: Called for each hole when it is skipped, from the loop that receives packets.
        """
        super().__init__(capacity=64, prefetch=depth_packets)
        self._depth_packets = depth_packets
        self._clock_hz = clock_hz
        self._on_hole = on_hole
        if depth_packets < 1:
            raise UsageError(f"depth_packets must be at least 1, is {depth_packets}")
        self._waiting: dict[int, Any] = {}
        self._next: int | None = None
        self._newest = 0
        self._last_timestamp: int | None = None
        self._step = 0
        self._skipped = 0
        self.late_packets = 0
        """Packets that came after they had been skipped, or twice."""
        self.lost_packets = 0

    def add(self, packet: Any) -> tuple[bool, JitterFrame | None]:
        """Takes a packet; returns (False, the packet to decode now or None), as the receiver expects."""
        if not has_private(packet, "_data"):
            # aiortc keeps the payload elsewhere now, and an error here would end the connection: as without us.
            result: tuple[bool, JitterFrame | None] = super().add(packet)
            return result
        sequence_number = packet.sequence_number
        if self._next is None:
            self._restart(sequence_number)
        assert self._next is not None
        ahead = _forward(self._next, sequence_number)
        if ahead >= _SEQUENCE_NUMBERS - RESTART_PACKETS:
            self.late_packets += 1
            return False, None
        if ahead > RESTART_PACKETS:
            self._restart(sequence_number)
        elif _forward(self._newest, sequence_number) < RESTART_PACKETS:
            self._newest = sequence_number
        self._waiting.setdefault(sequence_number, packet)
        return False, self._release()

    def _restart(self, sequence_number: int) -> None:
        self._waiting.clear()
        self._next = self._newest = sequence_number
        self._last_timestamp = None
        self._skipped = 0

    def _release(self) -> JitterFrame | None:
        assert self._next is not None
        # Each number is waited for until the newest is `depth` ahead of it, then given up. `_newest` itself always
        # waits here, so this ends.
        while _forward(self._next, self._newest) >= self._depth_packets and self._next not in self._waiting:
            self._next = (self._next + 1) % _SEQUENCE_NUMBERS
            self._skipped += 1
        if _forward(self._next, self._newest) < self._depth_packets:
            return None
        packet = self._waiting.pop(self._next)
        self._next = (self._next + 1) % _SEQUENCE_NUMBERS
        last, self._last_timestamp = self._last_timestamp, packet.timestamp
        elapsed = 0 if last is None else (packet.timestamp - last) % _TIMESTAMPS
        skipped, self._skipped = self._skipped, 0
        if skipped:
            self._report(skipped, elapsed)
        elif 0 < elapsed <= self._clock_hz // 5:
            self._step = elapsed
        return JitterFrame(data=packet._data, timestamp=packet.timestamp)

    def _report(self, skipped: int, elapsed: int) -> None:
        self.lost_packets += skipped
        if self._on_hole is None:
            return
        step = self._step or self._clock_hz // 50
        # The sender's clock knows the length; a packet count is what remains when the clock leapt.
        units = elapsed - step
        if not 0 < units < 2 * skipped * step:
            units = skipped * step
        self._on_hole(AudioHole(packets=skipped, missing_secs=units / self._clock_hz))


def install_loss_tolerant_jitter_buffer(
    peer_connection: Any, *, on_hole: Callable[[AudioHole], None] | None = None
) -> int:
    """Replaces the jitter buffers of the audio receivers of an `RTCPeerConnection`.

    Safe to call again after a renegotiation: receivers that have ours keep it.

    Returns:
        How many audio receivers have a loss-tolerant buffer now; 0 means that nothing could be replaced, which one
        log line has said.
    """
    installed = 0
    for transceiver in peer_connection.getTransceivers():
        if transceiver.kind != "audio":
            continue
        current = private(transceiver.receiver, _ATTRIBUTE)
        if isinstance(current, LossTolerantJitterBuffer):
            installed += 1
        elif type(current) is JitterBuffer:
            setattr(transceiver.receiver, _ATTRIBUTE, LossTolerantJitterBuffer(on_hole=on_hole))
            installed += 1
        else:
            logger.info("aiortc's jitter buffer is not where it was expected; it stays as it is")
    return installed


def _forward(start: int, end: int) -> int:
    """How many steps of a 16-bit sequence number lead from `start` to `end`."""
    return (end - start) % _SEQUENCE_NUMBERS
