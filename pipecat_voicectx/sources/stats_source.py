"""What a source of reception statistics looks like to `NetworkTracker`."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from pipecat_voicectx.signals.rtp_stats import RtpStatsSample
from pipecat_voicectx.states.network import NetworkSource

__all__ = ["StatsSource"]


@runtime_checkable
class StatsSource(Protocol):
    """Reads the counters of the caller's incoming audio. Foreign names and units stop in its implementation."""

    @property
    def source(self) -> NetworkSource:
        """Under which name its measurements are combined with those of others."""

    async def read(self) -> RtpStatsSample | None:
        """The counters now; None while there is no stream. May raise; the tracker counts it and asks again."""
