"""Network statistics of a Daily call, as daily-python's `CallClient.get_network_stats()` gives them.

Daily reports loss as a ratio over its own sampling interval (two seconds) and counts nothing, so counters are kept
here: each new report adds its share of the packets that were due. That is coarse and late; patterns in the audio are
believed before it. Pipecat's transport does not wrap the call, but its client object can be reached.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from pipecat_voicectx.private_reads import private
from pipecat_voicectx.signals.rtp_stats import RtpStatsSample
from pipecat_voicectx.states.network import NetworkSource

__all__ = ["DailyStatsSource"]

# Opus over WebRTC.
PACKETS_PER_SEC = 50.0
# Between two reports nothing is known; a longer silence than this is not one interval.
LONGEST_INTERVAL_SECS = 10.0


class DailyStatsSource:
    """Reads a Daily `CallClient`, or a Pipecat `DailyTransport` that has one."""

    source = NetworkSource.DAILY_STATS

    @staticmethod
    def fits(transport: Any) -> bool:
        """Whether it is Daily's transport, and its client can be reached."""
        return type(transport).__name__ == "DailyTransport" and _client_of(transport) is not None

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._last_report: object = None
        self._last_secs: float | None = None
        self._received = 0.0
        self._lost = 0.0

    async def read(self) -> RtpStatsSample | None:
        """The counters now; None before the first report or when the client cannot be found."""
        client = _client_of(self._transport)
        if client is None:
            return None
        latest = _latest(client.get_network_stats())
        if latest is None:
            return None
        now_secs = time.monotonic()
        report = latest.get("timestamp")
        if report is None:  # before the first report
            return None
        if report != self._last_report:
            if self._last_secs is not None:
                self._count(latest, now_secs - self._last_secs)
            self._last_report, self._last_secs = report, now_secs
        return RtpStatsSample(
            at_secs=now_secs,
            packets_received=round(self._received),
            packets_lost=round(self._lost),
            jitter_secs=_ratio_or_secs(latest.get("audioRecvJitter")),
            rtt_secs=_ratio_or_secs(latest.get("networkRoundTripTime")),
        )

    def _count(self, latest: Mapping[str, Any], interval_secs: float) -> None:
        loss = _ratio_or_secs(latest.get("audioRecvPacketLoss", latest.get("totalRecvPacketLoss")))
        if loss is None or loss > 1.0:
            return
        due = PACKETS_PER_SEC * min(interval_secs, LONGEST_INTERVAL_SECS)
        self._received += due * (1.0 - loss)
        self._lost += due * loss


def _client_of(transport: Any) -> Any:
    """`CallClient` of a `DailyTransport` (two private attributes deep), or the client itself."""
    found = transport
    for _ in range(3):
        if found is None or callable(getattr(found, "get_network_stats", None)):
            return found
        found = private(found, "_client")
    return None


def _latest(stats: Any) -> Mapping[str, Any] | None:
    inner = stats.get("stats") if isinstance(stats, Mapping) else None
    latest = inner.get("latest") if isinstance(inner, Mapping) else None
    return latest if isinstance(latest, Mapping) else None


def _ratio_or_secs(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and value >= 0.0 else None
