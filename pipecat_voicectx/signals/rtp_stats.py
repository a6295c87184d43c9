"""Cumulative reception counters, and what happened between two of them.

Counters are kept as they are and differenced. A counter that went backwards, another stream (SSRC), or an older
sample means that the stream restarted: there is no interval, and the newer sample is the new base.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["RtpStatsInterval", "RtpStatsSample", "interval_between"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RtpStatsSample:
    """Counters of one incoming stream at one instant. None: the source does not count that."""

    at_secs: float
    """Our monotonic clock when the report was read."""
    ssrc: int | None = None
    packets_received: int | None = None
    packets_lost: int | None = None
    """May shrink when duplicates arrive (RFC 3550, 6.4.1)."""
    concealed_secs: float | None = None
    """Audio synthesised for lost or late samples since the stream began."""
    silent_concealed_secs: float | None = None
    """The part of `concealed_secs` that is silence or comfort noise."""
    jitter_secs: float | None = None
    rtt_secs: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RtpStatsInterval:
    """What happened between two samples of one stream."""

    length_secs: float
    packets_received: int
    packets_lost: int
    concealed_secs: float | None
    silent_concealed_secs: float | None


def interval_between(earlier: RtpStatsSample, later: RtpStatsSample) -> RtpStatsInterval | None:
    """The interval, or None when the two are not one stream in order."""
    if later.at_secs <= earlier.at_secs or later.ssrc != earlier.ssrc:
        return None
    received = _grown(earlier.packets_received, later.packets_received)
    concealed_secs = _grown(earlier.concealed_secs, later.concealed_secs)
    silent_secs = _grown(earlier.silent_concealed_secs, later.silent_concealed_secs)
    if received is None and earlier.packets_received is not None:
        return None
    if concealed_secs is None and earlier.concealed_secs is not None:
        return None
    lost = (later.packets_lost or 0) - (earlier.packets_lost or 0)
    return RtpStatsInterval(
        length_secs=later.at_secs - earlier.at_secs,
        packets_received=int(received or 0),
        packets_lost=max(0, lost),
        concealed_secs=concealed_secs,
        silent_concealed_secs=silent_secs,
    )


def _grown(earlier: float | None, later: float | None) -> float | None:
    if earlier is None or later is None or not (math.isfinite(earlier) and math.isfinite(later)):
        return None
    return later - earlier if later >= earlier else None
