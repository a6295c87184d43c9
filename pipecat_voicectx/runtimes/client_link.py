"""The client's side of playback: takes its acknowledgements, makes the messages to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from pipecat.frames.frames import Frame, OutputTransportMessageUrgentFrame
from pipecat.processors.frame_processor import FrameDirection
from pipecat.processors.frameworks.rtvi.frames import RTVIServerMessageFrame

from pipecat_voicectx.errors import BadInputError
from pipecat_voicectx.playback.clock import AckVerdict, PlayoutAck, PlayoutClock
from pipecat_voicectx.playback.ledger import TurnLedger
from pipecat_voicectx.playback.settlement import RevokeAudio
from pipecat_voicectx.runtimes.playout_position import PlayoutPositionSource
from pipecat_voicectx.sources.client_messages import (
    RTVI_MESSAGE_TYPE,
    AckMessage,
    ClientStats,
    MessageBudget,
    StatsMessage,
    parse_client_message,
    rtp_to_track_samples,
    track_to_rtp_samples,
)

__all__ = ["Announcements", "ClientLink"]

# What a device adds behind its jitter buffer, where it does not say: 23-45 ms in Chromium on a laptop, 2026-11-30.
_OUTPUT_DELAY_SECS = 0.04
# A client that lost track of the track says so ten times a second; it is told again at most this often.
_REMIND_SECS = 1.0


class Announcements(Enum):
    """How a client is told about turns and revocations."""

    AUTO = "auto"
    """In the form it uses itself, from its first message on. A client that does not know us hears nothing."""
    RTVI = "rtvi"
    """As RTVI server messages, from the start."""
    PLAIN = "plain"
    """As plain transport messages, from the start."""
    OFF = "off"
    """Never."""


@dataclass(slots=True, kw_only=True)
class ClientLink:
    """One client's messages and what became of them."""

    ledger: TurnLedger
    clock: PlayoutClock
    source: PlayoutPositionSource
    announcements: Announcements
    rtt_secs: float | None = None
    """Round-trip time to the client, where the server measures it (`measured_rtt`). Without it, the client's own
    measurement is used."""
    jitter_buffer_secs: float | None = None
    """How long the client's jitter buffer held audio lately. None: it does not report it."""
    stats: ClientStats | None = None
    """The client's newest reception statistics."""
    taken: int = 0
    """Acknowledgements used."""
    refused: int = 0
    """Messages that were not valid."""
    over_budget: int = 0
    """Messages beyond twenty a second, unread."""
    _budget: MessageBudget = field(default_factory=MessageBudget)
    _form: Announcements | None = None
    _lost_track: bool = False
    _reminded_secs: float = float("-inf")

    @property
    def verdicts(self) -> dict[AckVerdict, int]:
        """What became of the acknowledgements so far."""
        return dict(self.clock.verdicts)

    def take(self, data: object, now_secs: float, *, rtvi: bool) -> bool:
        """Takes one message. True when an acknowledgement moved the clock.

        Raises:
            BadInputError: The message is not valid; it was counted in `refused`.
        """
        if not self._budget.spend(now_secs):
            self.over_budget += 1
            return False
        try:
            message = parse_client_message(data)
        except BadInputError:
            self.refused += 1
            raise
        self._form = Announcements.RTVI if rtvi else Announcements.PLAIN
        match message:
            case AckMessage():
                return self._on_ack(message, now_secs)
            case StatsMessage():
                self._on_stats(message.to_stats())
                return False

    def measured_rtt(self, rtt_secs: float) -> None:
        """The server measured the way to the client and back."""
        self.rtt_secs = rtt_secs
        self._tell_delay()

    def reminder(self, now_secs: float) -> tuple[Frame, FrameDirection] | None:
        """The present turn's message again, for a client that acknowledges another track: it has reconnected."""
        if not self._lost_track or now_secs - self._reminded_secs < _REMIND_SECS:
            return None
        for entry in reversed(self.ledger.turns):
            starts = [self.clock.position_of(number, 1) for number in entry.utterances]
            known = [position for position in starts if position is not None]
            if known:
                self._lost_track, self._reminded_secs = False, now_secs
                return self.turn_started(entry.turn_id, max(0, min(known) - 1))
        return None

    def turn_started(self, turn_id: int, position_samples: int) -> tuple[Frame, FrameDirection] | None:
        """The message that a turn begins at a track position, and the way to send it; None if nobody is told."""
        return self._message(
            {
                "v": 1,
                "t": "turn",
                "turn": turn_id,
                "epoch": self.clock.epoch,
                "start_r": self._rtp(position_samples),
                "start_sample": position_samples,
                "rate": self.clock.rate_hz,
            }
        )

    def revoke(self, event: RevokeAudio) -> tuple[Frame, FrameDirection] | None:
        """The message that audio beyond a position no longer counts."""
        return self._message(
            {
                "v": 1,
                "t": "revoke",
                "turn": event.turn_id,
                "epoch": self.clock.epoch,
                "after_r": self._rtp(event.after_samples),
                "after_sample": event.after_samples,
                "reason": event.reason.value,
            }
        )

    def _on_ack(self, message: AckMessage, now_secs: float) -> bool:
        position = self._position(message)
        if position is None:
            return False
        rtt_secs = self._known_rtt_secs
        uplink = self.clock.config.uplink_delay_secs if rtt_secs is None else rtt_secs / 2
        verdict = self.clock.add_ack(
            PlayoutAck(
                epoch=message.epoch,
                position_samples=position,
                at_secs=now_secs,
                uplink_secs=uplink,
                live=message.live,
            )
        )
        if verdict in (AckVerdict.TAKEN, AckVerdict.DUPLICATE):
            self.taken += 1
            return True
        self._lost_track = self._lost_track or verdict is AckVerdict.FOREIGN
        return False

    @property
    def _known_rtt_secs(self) -> float | None:
        if self.rtt_secs is None and self.stats is not None:
            return self.stats.rtt_secs
        return self.rtt_secs

    def _on_stats(self, stats: ClientStats) -> None:
        before, self.stats = self.stats, stats
        if before is not None:
            self.jitter_buffer_secs = _buffered_secs(before, stats)
        self._tell_delay()

    def _tell_delay(self) -> None:
        """The delay of playback as the statistics have it, for a client that does not acknowledge."""
        rtt_secs, buffered_secs = self._known_rtt_secs, self.jitter_buffer_secs
        if rtt_secs is None and buffered_secs is None:
            return
        at_client = self.clock.config.playout_delay_secs
        if buffered_secs is not None:
            at_client = buffered_secs + _OUTPUT_DELAY_SECS
        self.clock.playout_delay_secs = at_client + (rtt_secs or 0.0) / 2

    def _position(self, message: AckMessage) -> float | None:
        """Track position of an acknowledgement; None when it says nothing (yet) about this track."""
        if message.samples is not None and message.turn is None:
            return float(message.samples)
        if message.samples is not None and message.turn is not None:
            return self._turn_position(message.turn, message.samples)
        origin = self.source.rtp_origin()
        if message.r is None or origin is None:
            return None
        position = rtp_to_track_samples(message.r, origin=origin, rate_hz=self.clock.rate_hz)
        return position if position >= 0 else None

    def _turn_position(self, turn_id: int, samples: int) -> float | None:
        """Track position of a turn's sample (at the track's rate), None for an unknown turn."""
        entry = next((entry for entry in self.ledger.turns if entry.turn_id == turn_id), None)
        if entry is None:
            self.clock.verdicts[AckVerdict.FOREIGN] += 1
            return None
        left = samples
        position: int | None = None
        for number, utterance in entry.utterances.items():
            length = utterance.audio_samples * self.clock.rate_hz // max(1, utterance.rate_hz)
            position = self.clock.position_of(number, max(1, min(left, length)))
            left -= length
            if left <= 0:
                break
        return None if position is None else float(position)

    def _rtp(self, position_samples: int) -> int | None:
        origin = self.source.rtp_origin()
        if origin is None:
            return None
        return track_to_rtp_samples(position_samples, origin=origin, rate_hz=self.clock.rate_hz)

    def _message(self, data: dict[str, int | str | None]) -> tuple[Frame, FrameDirection] | None:
        form = self._form if self.announcements is Announcements.AUTO else self.announcements
        if form is Announcements.RTVI:
            frame = RTVIServerMessageFrame(data={"type": RTVI_MESSAGE_TYPE, "data": data})
            return frame, FrameDirection.DOWNSTREAM
        if form is Announcements.PLAIN:
            # The output transport stands before the ledger.
            return OutputTransportMessageUrgentFrame(message=data), FrameDirection.UPSTREAM
        return None


def _buffered_secs(before: ClientStats, after: ClientStats) -> float | None:
    """Mean time in the jitter buffer between two reports; None without counters, or when they started over."""
    sums = (before.jitter_buffer_delay_secs, after.jitter_buffer_delay_secs)
    counts = (before.jitter_buffer_emitted, after.jitter_buffer_emitted)
    if sums[0] is None or sums[1] is None or counts[0] is None or counts[1] is None:
        return None
    secs, emitted = sums[1] - sums[0], counts[1] - counts[0]
    # No jitter buffer holds more than ten seconds; a report that says so is none.
    return secs / emitted if emitted > 0 and 0 <= secs <= 10 * emitted else None
