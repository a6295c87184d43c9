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
    """Round-trip time to the client, where the server measures it; half of it is taken off an acknowledgement.
    Without it, the client's own measurement is used."""
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
                self.stats = message.to_stats()
                return False

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
        rtt_secs = self.rtt_secs
        if rtt_secs is None and self.stats is not None:
            rtt_secs = self.stats.rtt_secs
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
        return False

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
