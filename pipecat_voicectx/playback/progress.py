"""How far a turn was written and heard: the ledger's audio against the playout clock."""

from __future__ import annotations

from dataclasses import dataclass

from pipecat_voicectx.playback.clock import Playhead, PlayoutClock
from pipecat_voicectx.playback.ledger import LedgerEntry, TurnLedger

__all__ = ["TurnProgress"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnProgress:
    """Questions about the turns of one ledger, answered from its clock. Holds nothing of its own."""

    ledger: TurnLedger
    clock: PlayoutClock

    def find(self, turn_id: int) -> LedgerEntry | None:
        """A turn on record; None for one that never was, or has left."""
        return next((entry for entry in self.ledger.turns if entry.turn_id == turn_id), None)

    def played(self, entry: LedgerEntry, playhead: Playhead | None) -> dict[int, int]:
        """Samples played of each utterance, at the utterance's rate; without a playhead, all of them."""
        if playhead is None:
            return {number: utterance.audio_samples for number, utterance in entry.utterances.items()}
        return {
            number: min(
                utterance.audio_samples,
                playhead.utterances.get(number, 0) * utterance.rate_hz // max(1, self.clock.rate_hz),
            )
            for number, utterance in entry.utterances.items()
        }

    @staticmethod
    def all_played(entry: LedgerEntry, played: dict[int, int]) -> bool:
        """Whether that much is all of the turn."""
        # The last word counts from its half on; ten milliseconds of its tail say nothing.
        slack = entry.rate_hz // 100
        return all(
            utterance.closed and played[number] >= utterance.audio_samples - slack
            for number, utterance in entry.utterances.items()
        )

    def is_written(self, entry: LedgerEntry) -> bool:
        """Whether the whole turn was written to the transport."""
        if not entry.closed or not all(utterance.closed for utterance in entry.utterances.values()):
            return False
        return self.end_position(entry) is not None

    def end_position(self, entry: LedgerEntry) -> int | None:
        """Track position of the turn's last sound; None while it is not written, and for a turn without audio."""
        sounding = [item for item in entry.utterances.items() if item[1].audio_samples]
        if not sounding:
            return None
        number, utterance = sounding[-1]
        # A chunk may be missing at the end where the transport cut or resampled; 50 ms decide nothing.
        samples = max(1, utterance.audio_samples - utterance.rate_hz // 20)
        return self.clock.position_of(number, samples * self.clock.rate_hz // utterance.rate_hz)

    def end_secs(self, entry: LedgerEntry, *, ack_grace_secs: float) -> float:
        """When the turn's end is heard at the latest, by the write clock and the grace for acknowledgements."""
        position = self.end_position(entry)
        if position is None:
            return entry.opened_secs
        return self.clock.heard_at_secs(position) + (ack_grace_secs if self.clock.has_acks else 0.0)
