"""What the line from the caller to the bot does to the audio."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["LinkBand", "NetworkSource", "NetworkState"]


class LinkBand(Enum):
    """Judgement of the uplink over the window."""

    UNKNOWN = "unknown"
    """Nothing was measured yet, or every source is stale."""
    GOOD = "good"
    """Audio arrives whole, and has for the recovery time."""
    RECOVERING = "recovering"
    """Audio arrives whole again, but not for long enough yet."""
    DEGRADED = "degraded"
    """Some audio of the window was lost, concealed or late."""
    POOR = "poor"
    """So much is missing that words are."""


class NetworkSource(Enum):
    """Who measured."""

    AUDIO_PTS = "audio_pts"
    ARRIVALS = "arrivals"
    AUDIO_PATTERN = "audio_pattern"
    RTP_STATS = "rtp_stats"
    DAILY_STATS = "daily_stats"
    CLIENT_STATS = "client_stats"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkState:
    """The uplink over a rolling window, and since the call began."""

    band: LinkBand = LinkBand.UNKNOWN
    window_secs: float = 1.0
    """Length of the rolling window: the longer of one second and the silence that ends a turn."""
    concealed_secs: float = 0.0
    """Audio of the window that was not received as it was sent: cut out, replaced or invented."""
    silent_concealed_secs: float = 0.0
    """The part of `concealed_secs` that came out as silence (or as nothing at all)."""
    since_concealment_secs: float | None = None
    """Time since audio was last concealed. None: never in this call."""
    concealed_total_secs: float = 0.0
    """Concealed audio since the call began; only ever grows. Readers take differences."""
    stall_secs: float = 0.0
    """How long no audio has arrived at all right now, beyond what is usual. A muted track does not stall."""
    loss_ratio: float | None = None
    """Packets lost / expected in the window, 0..1. None: no source counts packets."""
    jitter_secs: float | None = None
    """Interarrival jitter. None: unknown."""
    rtt_secs: float | None = None
    """Round-trip time. None: unknown."""
    healthy_secs: float | None = None
    """Time since the last impairment of any kind. None: there was none in this call."""
    muted: bool = False
    """The caller's track is muted or sends honest silence; its gaps and zeros are not impairment."""
    sources: tuple[NetworkSource, ...] = ()
    """Who contributed to this state."""

    @property
    def impaired(self) -> bool:
        """Whether audio is being lost, concealed or delayed now."""
        return self.band in (LinkBand.DEGRADED, LinkBand.POOR)

    @property
    def recovered(self) -> bool:
        """Whether the line is healthy and has been for the recovery time. False while nothing is known."""
        return self.band is LinkBand.GOOD
