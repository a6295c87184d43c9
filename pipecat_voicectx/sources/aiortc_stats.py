"""Reception statistics of an aiortc peer connection (Pipecat's SmallWebRTC transport).

aiortc reports jitter in RTP clock units and the remote fraction lost in 1/256, where W3C says seconds and a ratio:
both are converted here. It has no concealment counters, since it conceals nothing: lost audio is simply not there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from pipecat_voicectx.signals.rtp_stats import RtpStatsSample
from pipecat_voicectx.states.network import NetworkSource

__all__ = ["AiortcStatsSource"]

# Opus over RTP runs on a 48 kHz clock whatever the audio is sampled at (RFC 7587, 4.1). Other codecs of a browser
# (PCMU, PCMA) run at 8 kHz; their jitter comes out six times too small here, which is below any threshold of ours.
AUDIO_CLOCK_HZ = 48_000


class AiortcStatsSource:
    """Polls `RTCPeerConnection` receivers and senders of audio. One report costs 10-50 microseconds."""

    source = NetworkSource.RTP_STATS

    def __init__(self, connection: Any) -> None:
        """Args:
        connection: A `SmallWebRTCConnection`, whose peer connection may change when it renegotiates, or an
            `RTCPeerConnection` itself.
        """
        self._connection = connection

    async def read(self) -> RtpStatsSample | None:
        """The counters of the incoming audio now; None before the first packet."""
        reports: list[Any] = []
        for end in _audio_ends(getattr(self._connection, "pc", self._connection)):
            reports.extend((await end.getStats()).values())
        inbound = [report for report in reports if getattr(report, "type", "") == "inbound-rtp"]
        if not inbound:
            return None
        newest = max(inbound, key=lambda report: report.packetsReceived)
        rtts = [
            report.roundTripTime
            for report in reports
            if getattr(report, "type", "") == "remote-inbound-rtp" and report.roundTripTime
        ]
        return RtpStatsSample(
            at_secs=time.monotonic(),
            ssrc=newest.ssrc,
            packets_received=newest.packetsReceived,
            packets_lost=newest.packetsLost,
            jitter_secs=newest.jitter / AUDIO_CLOCK_HZ,
            rtt_secs=rtts[-1] if rtts else None,
        )


def _audio_ends(peer_connection: Any) -> Iterable[Any]:
    for transceiver in peer_connection.getTransceivers():
        if transceiver.kind == "audio":
            yield transceiver.receiver
            yield transceiver.sender
