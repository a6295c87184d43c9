"""Where the bot's outgoing track stands: the server's half of the playout clock.

`PlayoutPositionSource` is the interface a transport of your own can provide. For SmallWebRTC one is found by itself:
the track's own sample count and, for acknowledgements in RTP time, the sender's RTP origin. Both are private there
(Pipecat keeps the track, aiortc the timestamp); they are read with a guard, and when they move the ledger falls back
to counting what it sees written, which is exact while audio flows and stands still in pauses.
"""

from __future__ import annotations

from typing import Any, Protocol

from pipecat.processors.frame_processor import FrameProcessor

from pipecat_voicectx.private_reads import has_private, private

__all__ = ["PlayoutPositionSource", "SmallWebRTCPosition", "WrittenPosition", "find_position_source"]

_RTP_HZ = 48_000
# What aiortc's sender lags behind the track when a packet has just left: the packet's own 20 ms and 10 ms that its
# resampler looks ahead. Measured on aiortc 1.16; tests/peers/test_playout_position.py watches it.
_SEND_LAG = 1440
# Before this much of a track was pulled, the sender may still hold the timestamp of the one before.
_SETTLED_SECS = 0.2


class PlayoutPositionSource(Protocol):
    """The state of an outgoing audio track."""

    @property
    def epoch(self) -> int:
        """Number of the present track: 0 for the first, one more for each that replaced it."""

    def position_samples(self) -> int | None:
        """Samples handed to the network on the present track, silence included. None: not known, count writes."""

    def rtp_origin(self) -> int | None:
        """RTP timestamp (48 kHz, mod 2^32) of the track's sample 0. None: not an RTP track, or not known yet."""


class WrittenPosition:
    """No track to ask: the ledger counts what is written."""

    epoch = 0

    def position_samples(self) -> int | None:
        """None, always."""
        return None

    def rtp_origin(self) -> int | None:
        """None, always."""
        return None


class SmallWebRTCPosition:
    """The `RawAudioTrack` behind a SmallWebRTC output transport and its RTP sender."""

    def __init__(self, output: FrameProcessor) -> None:
        """Initialize the source.

        Args:
            output: The transport's output processor (`transport.output()`).
        """
        self._output = output
        self._track: object | None = None
        self._epoch = -1
        self._origin: int | None = None

    @staticmethod
    def fits(output: FrameProcessor) -> bool:
        """Whether `output` looks like SmallWebRTC's."""
        client = private(output, "_client")
        return has_private(client, "_audio_output_track", "_webrtc_connection")

    @property
    def epoch(self) -> int:
        """See `PlayoutPositionSource`."""
        self._present_track()
        return max(0, self._epoch)

    def position_samples(self) -> int | None:
        """See `PlayoutPositionSource`."""
        position = private(self._present_track(), "_timestamp")
        return position if isinstance(position, int) else None

    def rtp_origin(self) -> int | None:
        """See `PlayoutPositionSource`."""
        track = self._present_track()
        position = private(track, "_timestamp")
        rate_hz = private(track, "_sample_rate")
        timestamp = private(self._sender(), "_RTCRtpSender__rtp_timestamp")
        if not (isinstance(position, int) and isinstance(rate_hz, int) and isinstance(timestamp, int)):
            return None
        if timestamp and rate_hz > 0 and position >= _SETTLED_SECS * rate_hz:
            candidate = (timestamp - position * _RTP_HZ // rate_hz + _SEND_LAG) % 2**32
            # The track runs ahead of the last packet by 30 to 50 ms; at its least, the candidate is the origin.
            if self._origin is None or 0 < (candidate - self._origin) % 2**32 < 2**31:
                self._origin = candidate
        return self._origin

    def _present_track(self) -> object | None:
        track: object | None = private(private(self._output, "_client"), "_audio_output_track")
        if track is not None and track is not self._track:
            self._track = track
            self._epoch += 1
            self._origin = None
        return track

    def _sender(self) -> Any:
        connection = private(private(self._output, "_client"), "_webrtc_connection")
        peer = getattr(connection, "pc", None)
        transceivers = peer.getTransceivers() if peer is not None else []
        return next((item.sender for item in transceivers if getattr(item, "kind", None) == "audio"), None)


def find_position_source(output: FrameProcessor) -> PlayoutPositionSource:
    """The best source for an output transport."""
    return SmallWebRTCPosition(output) if SmallWebRTCPosition.fits(output) else WrittenPosition()
