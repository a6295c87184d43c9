"""Reads statistics sources on behalf of `NetworkTracker` and survives all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from loguru import logger

from pipecat_voicectx.signals.rtp_stats import RtpStatsSample, interval_between
from pipecat_voicectx.sources.stats_source import StatsSource
from pipecat_voicectx.states.network import NetworkEstimator, NetworkSource

__all__ = ["StatsPoller"]

# A report is a few dictionary reads; one that takes longer than two sampling periods is stuck. Chosen.
READ_TIMEOUT_SECS = 0.1
# After this many failures in a row a source is asked only now and then. Chosen.
FAILURES_TO_BACK_OFF = 3
BACK_OFF_SECS = 10.0
# A lost packet of a source that counts packets but not audio: Opus and PCM in WebRTC and telephony both send 20 ms.
PACKET_SECS = 0.02


@dataclass(slots=True)
class _Polled:
    source: StatsSource
    last: RtpStatsSample | None = None
    failures_in_row: int = 0
    asked_again_secs: float = float("-inf")


class StatsPoller:
    """Turns counters into intervals and feeds them to the estimator."""

    def __init__(self, sources: Sequence[StatsSource], estimator: NetworkEstimator) -> None:
        self._polled = [_Polled(source=source) for source in sources]
        self._estimator = estimator
        self.failures = 0

    def add(self, source: StatsSource) -> None:
        """Takes one more source; one that is there already is not taken twice."""
        if all(polled.source is not source for polled in self._polled):
            self._polled.append(_Polled(source=source))

    async def poll(self, now_secs: float) -> None:
        """Asks every source once. Never raises, and no source can hold up the next by more than the timeout."""
        for polled in self._polled:
            if now_secs < polled.asked_again_secs:
                continue
            try:
                async with asyncio.timeout(READ_TIMEOUT_SECS):
                    sample = await polled.source.read()
                if sample is not None:
                    self._fold(polled, sample, now_secs)
                polled.failures_in_row = 0
            except Exception as error:  # A foreign source may raise anything; the line is judged without it.
                self._failed(polled, error, now_secs)

    def _failed(self, polled: _Polled, error: Exception, now_secs: float) -> None:
        self.failures += 1
        polled.failures_in_row += 1
        polled.last = None
        if polled.failures_in_row == 1:
            logger.warning("network statistics ({}): {}", polled.source.source.value, type(error).__name__)
        if polled.failures_in_row >= FAILURES_TO_BACK_OFF:
            polled.asked_again_secs = now_secs + BACK_OFF_SECS

    def _fold(self, polled: _Polled, sample: RtpStatsSample, now_secs: float) -> None:
        earlier, polled.last = polled.last, sample
        self._estimator.add_link_times(jitter_secs=sample.jitter_secs, rtt_secs=sample.rtt_secs)
        source: NetworkSource = polled.source.source
        interval = interval_between(earlier, sample) if earlier is not None else None
        if interval is None:
            return
        self._estimator.add_packets(
            now_secs=now_secs, received=interval.packets_received, lost=interval.packets_lost
        )
        concealed_secs = interval.concealed_secs
        silent_secs = interval.silent_concealed_secs
        if concealed_secs is None:
            concealed_secs = silent_secs = interval.packets_lost * PACKET_SECS
        if concealed_secs > 0.0:
            self._estimator.add_concealed(
                source, now_secs=now_secs, secs=concealed_secs, silent_secs=silent_secs or 0.0
            )
        elif interval.packets_received or interval.packets_lost or interval.concealed_secs is not None:
            self._estimator.add_alive(source, now_secs=now_secs)
