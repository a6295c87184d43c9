"""Messages from a client: acknowledgements of playback and its own reception statistics.

They arrive as an RTVI client message of type `voicectx` or as a plain transport message. Everything from outside is
checked here, once: shape and types (pydantic, strict), size, rate. What does not fit raises `BadInputError`, is
counted by the caller and goes no further. W3C's names and units stop here as well.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from pipecat_voicectx.errors import BadInputError

__all__ = [
    "RTVI_MESSAGE_TYPE",
    "AckMessage",
    "ClientStats",
    "MessageBudget",
    "StatsMessage",
    "is_client_message",
    "parse_client_message",
    "rtp_to_track_samples",
    "track_to_rtp_samples",
]

RTVI_MESSAGE_TYPE = "voicectx"
"""Type of the RTVI client messages and tag of the server messages."""

# The sizes the protocol promises: at most 2 kB, at most 20 a second.
_MAX_BYTES = 2048
_MAX_PER_SEC = 20.0

# Chosen: nobody talks over a longer way. A client that says so is lying, or counts in milliseconds; believed, it would
# have nothing of what is being said count as heard yet.
_LONGEST_RTT_SECS = 5.0

# RTP clock of Opus (RFC 7587).
_RTP_HZ = 48_000
# aiortc's Opus encoder looks ahead 312 samples at 48 kHz: what it sends first is that much silence. Measured against
# a recording of Chromium's output, 2026-11-30.
_OPUS_LOOKAHEAD_SAMPLES = 312

_Count = Annotated[int, Field(ge=0, le=2**53)]
_Secs = Annotated[float, Field(ge=0, le=1e9)]


class _Message(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, allow_inf_nan=False)

    v: Literal[1]


class AckMessage(_Message):
    """How far playback got, as a client says it."""

    t: Literal["ack"]
    epoch: Annotated[int, Field(ge=0, le=2**31)] = 0
    r: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    """RTP timestamp being heard, 48 kHz."""
    samples: _Count | None = None
    """Samples of `turn` played or, without a turn, the position on the epoch's track."""
    turn: _Count | None = None
    age: Annotated[float, Field(ge=0, le=60_000)] = 0.0
    """Milliseconds since the client read its clock; already in `r`."""
    pd: Annotated[float, Field(ge=0, le=60_000)] = 0.0
    """Milliseconds from the client's jitter buffer to the ear; already in `r`."""
    live: bool = True
    """Whether the user can hear it."""

    @field_validator("r", mode="before")
    @classmethod
    def _whole(cls, value: object) -> object:
        # JavaScript has one number type: 48000.0 means 48000.
        return int(value) if isinstance(value, float) and value.is_integer() else value


class StatsMessage(_Message):
    """A client's `inbound-rtp` record for the bot's audio, under W3C's names."""

    t: Literal["stats"]
    at: Annotated[float, Field(ge=0, le=1e15)]
    packetsReceived: _Count | None = None
    packetsLost: Annotated[int, Field(ge=-(2**53), le=2**53)] | None = None
    jitter: _Secs | None = None
    roundTripTime: _Secs | None = None
    totalSamplesReceived: _Count | None = None
    concealedSamples: _Count | None = None
    silentConcealedSamples: _Count | None = None
    concealmentEvents: _Count | None = None
    jitterBufferDelay: _Secs | None = None
    jitterBufferEmittedCount: _Count | None = None

    @property
    def _credible_rtt_secs(self) -> float | None:
        rtt_secs = self.roundTripTime
        return None if rtt_secs is None or rtt_secs > _LONGEST_RTT_SECS else rtt_secs

    def to_stats(self) -> ClientStats:
        """The same in our names and units."""
        return ClientStats(
            at_secs=self.at / 1000,
            packets_received=self.packetsReceived,
            packets_lost=self.packetsLost,
            jitter_secs=self.jitter,
            rtt_secs=self._credible_rtt_secs,
            received_samples=self.totalSamplesReceived,
            concealed_samples=self.concealedSamples,
            silent_concealed_samples=self.silentConcealedSamples,
            concealment_events=self.concealmentEvents,
            jitter_buffer_delay_secs=self.jitterBufferDelay,
            jitter_buffer_emitted=self.jitterBufferEmittedCount,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientStats:
    """Cumulative reception counters of a client at one instant. None: the browser does not report it."""

    at_secs: float
    """The client's clock."""
    packets_received: int | None
    packets_lost: int | None
    jitter_secs: float | None
    rtt_secs: float | None
    received_samples: int | None
    """Samples received or concealed since the start."""
    concealed_samples: int | None
    silent_concealed_samples: int | None
    concealment_events: int | None
    jitter_buffer_delay_secs: float | None
    """Sum over all emitted samples; divide the difference of two by the difference of `jitter_buffer_emitted`."""
    jitter_buffer_emitted: int | None


_ADAPTER: TypeAdapter[AckMessage | StatsMessage] = TypeAdapter(
    Annotated[AckMessage | StatsMessage, Field(discriminator="t")]
)


def is_client_message(data: Any) -> bool:
    """Whether a plain transport message claims to be one of ours. Others are none of our business."""
    return isinstance(data, dict) and data.get("v") == 1 and data.get("t") in ("ack", "stats")


def parse_client_message(data: Any) -> AckMessage | StatsMessage:
    """Checks one message.

    Raises:
        BadInputError: Not an object of ours, wrong types or ranges, or too long. The message names the fields only.
    """
    if not isinstance(data, dict):
        raise BadInputError(f"client message: expected an object, got {type(data).__name__}")
    try:
        size = len(json.dumps(data, default=str))
        if size > _MAX_BYTES:
            raise BadInputError(f"client message: {size} bytes, at most {_MAX_BYTES} are allowed")
        return _ADAPTER.validate_python(data)
    except ValidationError as error:
        fields = sorted({".".join(map(str, item["loc"])) or "t" for item in error.errors()})
        raise BadInputError(f"client message: invalid {', '.join(fields)[:200]}") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInputError(f"client message: unreadable ({type(error).__name__})") from None


@dataclass(slots=True)
class MessageBudget:
    """At most 20 messages a second, with a second's worth of burst. More are dropped by the caller and counted."""

    per_sec: float = _MAX_PER_SEC
    _tokens: float = _MAX_PER_SEC
    _at_secs: float | None = field(default=None)

    def spend(self, now_secs: float) -> bool:
        """Whether one more message may be looked at."""
        if self._at_secs is not None:
            refill = max(0.0, now_secs - self._at_secs) * self.per_sec
            self._tokens = min(self.per_sec, self._tokens + refill)
        self._at_secs = now_secs
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def rtp_to_track_samples(timestamp: int, *, origin: int, rate_hz: int) -> float:
    """Track position of an RTP timestamp; negative before the track began. Unambiguous for the first 12 hours.

    Args:
        timestamp: From the client, 48 kHz, mod 2^32.
        origin: RTP timestamp of the track's sample 0, mod 2^32.
        rate_hz: The track's sample rate.
    """
    difference = (timestamp - origin) % 2**32
    if difference >= 2**31:
        difference -= 2**32
    return (difference - _OPUS_LOOKAHEAD_SAMPLES) * rate_hz / _RTP_HZ


def track_to_rtp_samples(position_samples: float, *, origin: int, rate_hz: int) -> int:
    """The inverse of `rtp_to_track_samples`."""
    return (math.floor(position_samples * _RTP_HZ / rate_hz) + origin + _OPUS_LOOKAHEAD_SAMPLES) % 2**32
