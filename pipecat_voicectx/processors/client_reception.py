"""What a client says of its own reception, for the network state.

A browser's `inbound-rtp` report is about the bot's audio. Its round-trip time is the line's in both directions; what it
had to conceal is told beside the uplink and never mixed with it.
"""

from __future__ import annotations

import time

from pipecat_voicectx.errors import BadInputError
from pipecat_voicectx.sources.client_messages import (
    ClientStats,
    MessageBudget,
    StatsMessage,
    parse_client_message,
)
from pipecat_voicectx.states.network import NetworkEstimator

__all__ = ["ClientReception"]


class ClientReception:
    """Feeds an estimator with a client's statistics messages."""

    def __init__(self, estimator: NetworkEstimator) -> None:
        self._estimator = estimator
        self._budget = MessageBudget()
        self._last: ClientStats | None = None
        self.refused = 0
        """Messages that were not valid or came too often. Acknowledgements of playback are read elsewhere."""

    def take(self, data: object) -> None:
        """Takes one message; whatever is not a valid report changes nothing."""
        if not isinstance(data, dict) or data.get("t") != "stats":
            return
        if not self._budget.spend(time.monotonic()):
            self.refused += 1
            return
        try:
            message = parse_client_message(data)
        except BadInputError:
            self.refused += 1
            return
        if isinstance(message, StatsMessage):
            self._fold(message.to_stats())

    def _fold(self, stats: ClientStats) -> None:
        self._estimator.add_link_times(jitter_secs=None, rtt_secs=stats.rtt_secs)
        last, self._last = self._last, stats
        if last is None:
            return
        received = (stats.received_samples or 0) - (last.received_samples or 0)
        concealed = (stats.concealed_samples or 0) - (last.concealed_samples or 0)
        # A counter that went backwards is another stream; the next report has a base again.
        if received > 0 and concealed >= 0:
            self._estimator.add_downlink(concealed_ratio=min(1.0, concealed / received))
