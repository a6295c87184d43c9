"""What the line from the caller to the bot does to the audio."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from enum import Enum

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.signals.short_holes import LONGEST_FILLED_SECS

__all__ = ["LinkBand", "NetworkConfig", "NetworkEstimator", "NetworkSource", "NetworkState"]


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
    """Steps in the presentation time of frames."""
    ARRIVALS = "arrivals"
    """When frames came."""
    AUDIO_PATTERN = "audio_pattern"
    """Silence and repetition that no microphone makes."""
    JITTER_BUFFER = "jitter_buffer"
    """Holes in the RTP sequence numbers, as our own jitter buffer skipped them."""
    RTP_STATS = "rtp_stats"
    """Packet counters."""
    RECEIVER_STATS = "receiver_stats"
    """Counters of a receiver that conceals and says how much."""
    DAILY_STATS = "daily_stats"
    """Daily's network statistics."""

    # Looked up for every frame of audio, and Enum's own hash is a call of a Python function.
    __hash__ = object.__hash__


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
    downlink_concealed_ratio: float | None = None
    """Share of the bot's audio that the caller's receiver had to invent, over its last report. None: it reports none.
    Says nothing about the caller's own audio, and changes no band."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """What counts as impairment, and for how long."""

    shortest_window_secs: float = 1.0
    """The rolling window is at least this long (LOV, section 4.1: max(1000 ms, silence threshold))."""
    recovery_secs: float = 5.0
    """Healthy for this long is recovered (LOV, section 4.1)."""
    degraded_concealed_secs: float = 0.04
    """Concealed audio in the window that makes the link degraded: two 20 ms packets. One lost packet is inaudible
    and happens on good links."""
    poor_concealed_secs: float = 0.2
    """Concealed audio in the window that makes the link poor: about a syllable."""
    stall_secs: float = 0.15
    """No audio for longer than this is a stall. Gaps between arrivals reach 55 ms on a clean path and 97-276 ms on an
    overloaded host; chosen between the two."""
    discontinuous_stall_secs: float = 0.6
    """The same for a sender that stops sending in silence (DTX), while it is silent: Opus refreshes its comfort noise
    every 400 ms (RFC 6716, 2.1.9)."""
    source_expires_secs: float = 10.0
    """A source that said nothing for this long no longer stands in front of a weaker one."""
    conceal_for_stt_secs: float = 0.0
    """Holes up to this long are filled for the speech-to-text service, 0.06 at most; nobody else hears the filling and
    nothing is measured on it. Needs presentation times. 0: off."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.conceal_for_stt_secs <= LONGEST_FILLED_SECS:
            raise UsageError(
                f"NetworkConfig.conceal_for_stt_secs must be within 0..0.06, is {self.conceal_for_stt_secs}"
            )
        for name in self.__slots__:
            if name != "conceal_for_stt_secs" and not 0.0 < getattr(self, name) <= 60.0:
                raise UsageError(f"NetworkConfig.{name} must be within 0..60 s, is {getattr(self, name)}")


# Who is believed about the same audio. Receivers that count what they concealed know best; holes in the sequence
# numbers and in the sender's clock are exact; lost packets lack the length; patterns in the samples are a hint;
# Daily's ratios over two seconds come too late for the turn that they belong to.
PRECEDENCE = (
    NetworkSource.RECEIVER_STATS,
    NetworkSource.JITTER_BUFFER,
    NetworkSource.AUDIO_PTS,
    NetworkSource.RTP_STATS,
    NetworkSource.AUDIO_PATTERN,
    NetworkSource.DAILY_STATS,
)

# Measurements of one instant come in any order; what is further back is another clock. Chosen.
CLOCK_TOLERANCE_SECS = 1.0


class NetworkEstimator:
    """Folds measurements of one call into a `NetworkState`.

    Several sources see the same loss. They are not added up: at any time only the best source that is alive counts
    concealed audio (see `PRECEDENCE`); packet ratios, jitter and round-trip time come from whoever knows them.
    Arrival stalls stand beside all of them, since no source can report while nothing arrives.

    Feed it in time order; ask `state(now_secs)` at any time.
    """

    def __init__(self, config: NetworkConfig | None = None) -> None:
        self._config = config or NetworkConfig()
        self._expires_secs = self._config.source_expires_secs
        self._silence_threshold_secs = 0.0
        self._alive: dict[NetworkSource, float] = {}
        self._losses: deque[_Loss] = deque(maxlen=4096)
        self._packets: deque[_Packets] = deque(maxlen=4096)
        self._total_secs = 0.0
        self._last_loss_secs: float | None = None
        self._last_impaired_secs: float | None = None
        self._last_audio_secs: float | None = None
        self._first_secs: float | None = None
        self._now_secs = float("-inf")
        self._jitter_secs: float | None = None
        self._rtt_secs: float | None = None
        self._muted = False
        self._discontinuous = False
        self._downlink_ratio: float | None = None

    @property
    def concealed_total_secs(self) -> float:
        """Concealed audio since the call began."""
        return self._total_secs

    def set_silence_threshold(self, secs: float) -> None:
        """The silence that ends a turn now; the window is never shorter."""
        if 0.0 <= secs <= 60.0:
            self._silence_threshold_secs = secs

    def set_muted(self, muted: bool, *, now_secs: float) -> None:
        """The transport or the samples say that the caller's track is muted (or not any more)."""
        if self._muted and not muted:
            self._last_audio_secs = now_secs
        self._muted = muted

    def set_discontinuous(self, silent: bool) -> None:
        """Whether the sender is known to stop sending in silence, and is silent now."""
        self._discontinuous = silent

    def add_downlink(self, *, concealed_ratio: float) -> None:
        """What the caller's receiver says of the bot's audio."""
        if 0.0 <= concealed_ratio <= 1.0:
            self._downlink_ratio = concealed_ratio

    def packets_lost(self, since_secs: float) -> int:
        """Packets that the counters of the transport miss since then."""
        return sum(packets.lost for packets in self._packets if packets.at_secs > since_secs)

    def alive(self, source: NetworkSource, now_secs: float) -> bool:
        """Whether `source` measured lately."""
        heard_secs = self._alive.get(source)
        return heard_secs is not None and now_secs - heard_secs <= self._expires_secs

    def add_audio(self, *, now_secs: float) -> None:
        """A frame of audio arrived."""
        self._follow_clock(now_secs)
        if self._first_secs is None:
            self._first_secs = now_secs
        if self._stall(now_secs) > 0.0:
            self._last_impaired_secs = now_secs
        self._last_audio_secs = now_secs

    def add_alive(self, source: NetworkSource, *, now_secs: float) -> None:
        """`source` measured, and found nothing wrong."""
        self._alive[source] = now_secs

    def add_concealed(
        self, source: NetworkSource, *, now_secs: float, secs: float, silent_secs: float
    ) -> bool:
        """`source` says that audio was cut out or invented. Returns whether it is the one that is believed."""
        self._alive[source] = now_secs
        if not 0.0 < secs < 3600.0 or self.counting_source(now_secs) is not source:
            return False
        silent_secs = min(max(silent_secs, 0.0), secs)
        self._losses.append(_Loss(at_secs=now_secs, secs=secs, silent_secs=silent_secs))
        self._total_secs += secs
        self._last_loss_secs = now_secs
        return True

    def add_packets(self, *, now_secs: float, received: int, lost: int) -> None:
        """Packets of one interval."""
        self._packets.append(_Packets(at_secs=now_secs, received=received, lost=lost))

    def add_link_times(self, *, jitter_secs: float | None, rtt_secs: float | None) -> None:
        """Jitter and round-trip time, where the source knows them."""
        if jitter_secs is not None and 0.0 <= jitter_secs < 60.0:
            self._jitter_secs = jitter_secs
        if rtt_secs is not None and 0.0 <= rtt_secs < 60.0:
            self._rtt_secs = rtt_secs

    def counting_source(self, now_secs: float) -> NetworkSource | None:
        """The source whose concealed audio counts now."""
        oldest_secs = now_secs - self._expires_secs
        for source in PRECEDENCE:
            if self._alive.get(source, -math.inf) >= oldest_secs:
                return source
        return None

    def uneventful(self, now_secs: float) -> bool:
        """Whether audio arrives, and nothing was wrong for longer than any state remembers: the band is GOOD."""
        impaired_secs = self._last_impaired_secs
        return (
            not self._losses
            and not self._muted
            and self._first_secs is not None
            and self._stall(now_secs) == 0.0
            and (impaired_secs is None or now_secs - impaired_secs >= self._config.recovery_secs)
        )

    def state(self, now_secs: float) -> NetworkState:
        """The link now."""
        window_secs = max(self._config.shortest_window_secs, self._silence_threshold_secs)
        since_secs = now_secs - window_secs
        # The window may widen when the silence threshold does, so a little more than the window is kept.
        oldest_secs = now_secs - 60.0
        while self._losses and self._losses[0].at_secs < oldest_secs:
            self._losses.popleft()
        while self._packets and self._packets[0].at_secs < oldest_secs:
            self._packets.popleft()
        recent = [loss for loss in self._losses if loss.at_secs > since_secs]
        concealed_secs = min(window_secs, sum(loss.secs for loss in recent))
        silent_secs = min(window_secs, sum(loss.silent_secs for loss in recent))
        stall_secs = self._stall(now_secs)
        worst = self._worst_band(concealed_secs, stall_secs)
        if worst is not None:
            self._last_impaired_secs = now_secs
        healthy_secs = None if self._last_impaired_secs is None else now_secs - self._last_impaired_secs
        return NetworkState(
            band=worst or self._healthy_band(healthy_secs),
            window_secs=window_secs,
            concealed_secs=concealed_secs,
            silent_concealed_secs=silent_secs,
            since_concealment_secs=None if self._last_loss_secs is None else now_secs - self._last_loss_secs,
            concealed_total_secs=self._total_secs,
            stall_secs=stall_secs,
            loss_ratio=self._loss_ratio(since_secs),
            jitter_secs=self._jitter_secs,
            rtt_secs=self._rtt_secs,
            downlink_concealed_ratio=self._downlink_ratio,
            healthy_secs=healthy_secs,
            muted=self._muted,
            sources=self._sources(now_secs),
        )

    def _follow_clock(self, now_secs: float) -> None:
        """A clock that went back would leave losses in the future: everything happened by now."""
        if now_secs < self._now_secs - CLOCK_TOLERANCE_SECS:
            self._losses.clear()
            self._packets.clear()
            self._alive = dict.fromkeys(self._alive, now_secs)
            for name in ("_last_loss_secs", "_last_impaired_secs", "_last_audio_secs"):
                if getattr(self, name) is not None:
                    setattr(self, name, now_secs)
            self._now_secs = now_secs
        self._now_secs = max(self._now_secs, now_secs)

    def _stall(self, now_secs: float) -> float:
        if self._muted or self._last_audio_secs is None:
            return 0.0
        waited_secs = now_secs - self._last_audio_secs
        config = self._config
        usual_secs = config.discontinuous_stall_secs if self._discontinuous else config.stall_secs
        return waited_secs if waited_secs > usual_secs else 0.0

    def _worst_band(self, concealed_secs: float, stall_secs: float) -> LinkBand | None:
        missing_secs = max(concealed_secs, stall_secs - self._config.stall_secs) + 1e-9
        if missing_secs >= self._config.poor_concealed_secs:
            return LinkBand.POOR
        if stall_secs > 0.0 or missing_secs >= self._config.degraded_concealed_secs:
            return LinkBand.DEGRADED
        return None

    def _healthy_band(self, healthy_secs: float | None) -> LinkBand:
        if self._first_secs is None and not self._alive:
            return LinkBand.UNKNOWN
        if healthy_secs is not None and healthy_secs < self._config.recovery_secs:
            return LinkBand.RECOVERING
        return LinkBand.GOOD

    def _loss_ratio(self, since_secs: float) -> float | None:
        received = lost = 0
        for packets in self._packets:
            if packets.at_secs > since_secs:
                received += packets.received
                lost += packets.lost
        return lost / (received + lost) if received + lost else None

    def _sources(self, now_secs: float) -> tuple[NetworkSource, ...]:
        counting = self.counting_source(now_secs)
        arrivals = (NetworkSource.ARRIVALS,) if self._first_secs is not None else ()
        return (counting, *arrivals) if counting else arrivals


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loss:
    at_secs: float
    secs: float
    silent_secs: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Packets:
    at_secs: float
    received: int
    lost: int
