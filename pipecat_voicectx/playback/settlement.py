"""Decides what of each bot turn goes into the conversation, and corrects it when more is known.

A turn's text is committed once, as an assistant message: when its answer ends (everything, since the rest is about to
be played) or when the user interrupts (what was heard). A tool call in the middle divides it: what came before the
call is committed ahead of it, the rest at the end. Afterwards it may be amended:
an interruption during the last written audio shortens a message that was committed whole, and acknowledgements that
arrive later move the boundary of an interrupted one. Both go through `AmendText`.

The boundary of an interruption lies at the onset of the user's speech, not at its detection: the bot talks on for
the detector's start time, and the user hears that without listening. A speech that started and ended without an
interruption (a backchannel) moves nothing.

The settler is fed with what happens and returns what to do, in order. It keeps one record per message; records of
turns that have left the ledger go with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipecat_voicectx.playback.boundary import (
    PhysicalBoundary,
    SemanticBoundary,
    UnheardRemainder,
    semantic_boundary,
)
from pipecat_voicectx.playback.clock import Playhead, PlayoutClock
from pipecat_voicectx.playback.heard import BoundaryEvidence, HeardTurn
from pipecat_voicectx.playback.ledger import LedgerEntry, TurnEvent, TurnLedger, TurnState
from pipecat_voicectx.playback.messages import HeardMessage, MessageBook, TurnPart
from pipecat_voicectx.playback.progress import TurnProgress
from pipecat_voicectx.playback.settlement_events import (
    AmendText,
    CommitText,
    CutReason,
    RevokeAudio,
    Settled,
    SettlementConfig,
    SettlementEvent,
)
from pipecat_voicectx.playback.speech_onset import SpeechOnset

__all__ = [
    "AmendText",
    "CommitText",
    "CutReason",
    "RevokeAudio",
    "Settled",
    "SettlementConfig",
    "SettlementEvent",
    "TurnSettler",
]


@dataclass(slots=True, kw_only=True)
class TurnSettler:
    """See the module's text."""

    ledger: TurnLedger
    clock: PlayoutClock
    config: SettlementConfig = field(default_factory=SettlementConfig)
    fallbacks: int = 0
    """Turns whose unfinished text had to be dropped."""
    _progress: TurnProgress = field(init=False)
    _messages: MessageBook = field(default_factory=MessageBook)
    _settled: dict[int, HeardTurn] = field(default_factory=dict)
    _speech: SpeechOnset = field(init=False)

    def __post_init__(self) -> None:
        self._speech = SpeechOnset(config=self.config)
        self._progress = TurnProgress(ledger=self.ledger, clock=self.clock)

    # The user's speech

    def speech_started(self, onset_secs: float) -> None:
        """The user began to speak at `onset_secs` (detection minus the detector's start time)."""
        self._speech.started(onset_secs)
        # A transcript may start the turn, and its interruption arrive, before the detector reports the speech that
        # caused it. That cut lies where it was noticed; now it is known where the user began. `update` amends it.
        for message in self._messages:
            noticed_only = message.cut_secs is not None and message.cut_secs == message.cut_at_secs
            if noticed_only and 0.0 < message.cut_at_secs - onset_secs <= self.config.late_onset_secs:
                message.cut_secs = onset_secs

    def speech_stopped(self, now_secs: float) -> None:
        """The user fell silent."""
        self._speech.stopped(now_secs)

    def onset_secs(self, now_secs: float) -> float:
        """Where the boundary of an interruption at `now_secs` lies in time."""
        return self._speech.of_cut(now_secs)

    def sure_secs(self, now_secs: float) -> float:
        """Up to when what was played stays played, even if the user turns out to be interrupting right now."""
        return self._speech.sure_secs(now_secs)

    def played_secs(self, now_secs: float) -> dict[int, float]:
        """Seconds played of each utterance at the onset of the speech that interrupts now."""
        playhead = self.clock.playhead(self.onset_secs(now_secs))
        return {number: samples / self.clock.rate_hz for number, samples in playhead.utterances.items()}

    def played_audio(self, turn_id: int, *, secs: float) -> tuple[bytes, int]:
        """(the last `secs` of a settled turn's audio that were played, its rate); empty for an unknown turn."""
        entry = self._progress.find(turn_id)
        settled = self._settled.get(turn_id)
        if entry is None or settled is None or not settled.sample_rate_hz or not entry.audio_rate_hz:
            return b"", 0
        until = settled.played_samples * entry.audio_rate_hz // settled.sample_rate_hz
        return self.ledger.written_audio(entry, until_samples=until, secs=secs), entry.audio_rate_hz

    # Commits

    def uncommitted(self) -> list[LedgerEntry]:
        """Turns with text that is in no message yet, oldest first."""
        return [
            entry
            for entry in self.ledger.turns
            if self._messages.committed_pieces(entry.turn_id) is not None
            and entry.state is not TurnState.REVOKED
        ]

    def commit_through(self, turn_id: int, pieces: int | None = None) -> list[SettlementEvent]:
        """An answer's end or a tool call reached the place of commits: the text up to there goes in whole.

        Args:
            turn_id: The turn it belongs to. Earlier ones that were left open go in with it.
            pieces: How many of the turn's pieces come before the tool call; None at the answer's end.
        """
        entries = [entry for entry in self.uncommitted() if entry.turn_id <= turn_id]
        return self._commit_whole(entries, last={turn_id: pieces})

    def cut(
        self, now_secs: float, reason: CutReason, *, turn_ids: Sequence[int] | None = None
    ) -> list[SettlementEvent]:
        """The bot was stopped. Settles every turn that was not heard to its end by the onset of the user's speech.

        Args:
            now_secs: When.
            reason: Why.
            turn_ids: The turns that were stopped; None for all.
        """
        onset = self.onset_secs(now_secs) if reason is CutReason.INTERRUPTION else now_secs
        playhead = self.clock.playhead(onset)
        concerned = [entry for entry in self.ledger.turns if turn_ids is None or entry.turn_id in turn_ids]
        # What the user cannot stop plays on, but the message being made ends here all the same.
        unstoppable = [entry for entry in self.uncommitted() if entry in concerned and entry.unstoppable]
        events = self._commit_whole(unstoppable, last={})
        stopped = [
            entry for entry in concerned if not entry.unstoppable and self._is_cut(entry, playhead, onset)
        ]
        # The message being made ends here, so what was heard whole but not committed yet goes in too.
        fresh = [entry for entry in self.uncommitted() if entry in concerned]
        for message in self._messages:
            if message.cut_secs is None and any(message.holds(entry.turn_id) for entry in stopped):
                message.cut_secs, message.cut_at_secs, message.cut_epoch = onset, now_secs, self.clock.epoch
                events += self._refresh(message, playhead)
        if fresh and not any(entry in stopped for entry in fresh):
            events += self._commit_whole(fresh, last={})
        elif fresh:
            events += self._commit_cut(fresh, playhead, onset, now_secs)
        for entry in stopped:
            self.ledger.apply(entry, TurnEvent.REVOKED)
            events += self._settled_event(entry, playhead, onset)
        if reason is CutReason.ENDED:
            for entry in concerned:  # heard whole, while its end was still waiting to be acknowledged
                if entry.state in (TurnState.SENT, TurnState.PLAYING) and not entry.unstoppable:
                    self.ledger.apply(entry, TurnEvent.FINISHED)
                    events += self._settled_event(entry, playhead, onset)
        elif stopped:
            self.clock.flushed()
            after = round(playhead.position_samples)
            events.append(RevokeAudio(turn_id=stopped[0].turn_id, after_samples=after, reason=reason))
        self._forget_old()
        return events

    def would_cut(self, now_secs: float) -> bool:
        """Whether an interruption now would find anything to settle. Without: nothing is being played or made."""
        if all(entry.state is TurnState.REVOKED for entry in self.ledger.turns):
            return False
        onset = self.onset_secs(now_secs)
        playhead = self.clock.playhead(onset)
        return any(self._is_cut(entry, playhead, onset) for entry in self.ledger.turns)

    def update(self, now_secs: float) -> list[SettlementEvent]:
        """More is known (an acknowledgement, time): amends boundaries and completes turns."""
        events: list[SettlementEvent] = []
        for message in self._messages:
            open_yet = now_secs <= message.cut_at_secs + self.config.amend_secs
            if message.cut_secs is not None and open_yet and message.cut_epoch == self.clock.epoch:
                events += self._refresh(message, self.clock.playhead(message.cut_secs))
        live = [
            entry for entry in self.ledger.turns if entry.state not in (TurnState.COMPLETE, TurnState.REVOKED)
        ]
        if live:
            playhead = self.clock.playhead(now_secs)
            for entry in live:
                events += self._advance(entry, playhead, now_secs)
        return events

    def is_written(self, turn_id: int) -> bool:
        """Whether a turn's audio was written to its end; also for a turn without any, and one no longer on record."""
        entry = self._progress.find(turn_id)
        return entry is None or not entry.audio_samples or self._progress.is_written(entry)

    def resumed(self, turn_id: int) -> list[SettlementEvent]:
        """The rest of a cut turn is being spoken after all: its message loses the mark of an interruption.

        What was cut stays cut; the rest is a turn of its own.
        """
        events: list[SettlementEvent] = []
        for message in self._messages:
            if message.cut_secs is not None and message.holds(turn_id):
                message.cut_at_secs = -self.config.amend_secs
                if message.text:
                    events.append(AmendText(message=message.number, text=message.text, interrupted=False))
        return events

    def next_deadline(self) -> float | None:
        """When `update` should be called although nothing happens; None when nothing is pending."""
        deadlines = [
            self._end_secs(entry)
            for entry in self.ledger.turns
            if entry.state in (TurnState.SENT, TurnState.PLAYING) and self._progress.is_written(entry)
        ]
        return min(deadlines) if deadlines else None

    # Boundaries

    def physical_boundary(self, turn_id: int, now_secs: float) -> PhysicalBoundary | None:
        """How much of a turn was played by `now_secs`, which may be past (by its cut, if it was cut)."""
        entry = self._progress.find(turn_id)
        if entry is None:
            return None
        settled = self._settled.get(turn_id)
        if settled is not None and (settled.interrupted or settled.ended_secs <= now_secs):
            return PhysicalBoundary(
                turn_id=turn_id,
                played_samples=settled.played_samples,
                sample_rate_hz=settled.sample_rate_hz,
                estimated=settled.estimated,
                complete=not settled.interrupted,
            )
        playhead = self.clock.playhead(now_secs)
        played = self._progress.played(entry, playhead)
        return PhysicalBoundary(
            turn_id=turn_id,
            played_samples=self.ledger.played_samples(entry, played),
            sample_rate_hz=entry.rate_hz,
            estimated=playhead.estimated,
            complete=entry.closed and self._progress.all_played(entry, played),
        )

    def semantic_boundary(self, turn_id: int, now_secs: float) -> SemanticBoundary | None:
        """The last sentence of a turn that was played whole, by word times; None when there is none."""
        physical = self.physical_boundary(turn_id, now_secs)
        entry = self._progress.find(turn_id)
        if physical is None or entry is None:
            return None
        return semantic_boundary(
            self.ledger.spans(entry), physical, epsilon_secs=self.ledger.config.epsilon_secs
        )

    def unheard(self, turn: HeardTurn) -> UnheardRemainder:
        """What a settled turn left unsaid, by sentences; none of those once it has left the record."""
        entry = self._progress.find(turn.turn_id)
        spans = [] if entry is None else self.ledger.spans(entry)
        # A span without a length is one whose place is not known.
        left = tuple(
            span
            for span in spans
            if span.end_samples > turn.played_samples or span.start_samples == span.end_samples
        )
        return UnheardRemainder(turn_id=turn.turn_id, text=turn.unheard_text, spans=left)

    # Inside

    def _commit_whole(
        self, entries: list[LedgerEntry], *, last: dict[int, int | None]
    ) -> list[SettlementEvent]:
        parts = [self._messages.open_part(entry.turn_id, last.get(entry.turn_id)) for entry in entries]
        text = self._text_of(parts, None)
        events: list[SettlementEvent] = []
        if parts and (text or parts[-1].last is None):
            message = self._messages.add(parts, text)
            if text:
                events.append(CommitText(message=message.number, text=text, interrupted=False))
        for entry in entries:
            silent = entry.state is TurnState.GENERATING and not entry.audio_samples
            if silent and last.get(entry.turn_id) is None:
                self.ledger.apply(entry, TurnEvent.FINISHED)
                events += self._settled_event(
                    entry, self.clock.playhead(entry.opened_secs), entry.opened_secs
                )
        self._forget_old()
        return events

    def _commit_cut(
        self, entries: list[LedgerEntry], playhead: Playhead, onset: float, now_secs: float
    ) -> list[SettlementEvent]:
        parts = [self._messages.open_part(entry.turn_id, None) for entry in entries]
        text = self._text_of(parts, playhead)
        message = self._messages.add(parts, text)
        message.cut_secs, message.cut_at_secs, message.cut_epoch = onset, now_secs, self.clock.epoch
        return [CommitText(message=message.number, text=text, interrupted=True)] if text else []

    def _refresh(self, message: HeardMessage, playhead: Playhead) -> list[SettlementEvent]:
        kept = {entry.turn_id for entry in self.ledger.turns}
        if not all(part.turn_id in kept for part in message.parts):
            return []  # part of it has left the ledger: as it stands, it stays
        text = self._text_of(message.parts, playhead)
        events: list[SettlementEvent] = []
        if text != message.text:
            message.text = text
            events.append(AmendText(message=message.number, text=text, interrupted=True))
        for entry in [entry for entry in self.ledger.turns if message.holds(entry.turn_id)]:
            before = self._settled.get(entry.turn_id)
            if before is not None and entry.state is TurnState.REVOKED:
                settled = self._settle(entry, playhead, before.ended_secs)
                if _says(settled.turn) != _says(before):
                    events.append(settled)
        return events

    def _text_of(self, parts: Sequence[TurnPart], playhead: Playhead | None) -> str:
        """The parts' heard text; all of their text without a playhead. Their turns must still be on record."""
        entries = {entry.turn_id: entry for entry in self.ledger.turns}
        texts = []
        for part in parts:
            entry = entries[part.turn_id]
            played = self._progress.played(entry, playhead)
            texts.append(self.ledger.cut(entry, played).text_between(part.first, part.last))
        return " ".join(text for text in texts if text)

    def _advance(self, entry: LedgerEntry, playhead: Playhead, now_secs: float) -> list[SettlementEvent]:
        played = self._progress.played(entry, playhead)
        if entry.state is TurnState.SENT and any(played.values()):
            self.ledger.apply(entry, TurnEvent.HEARD)
        if not self._progress.is_written(entry):
            return []
        acked = not playhead.estimated and self._progress.all_played(entry, played)
        # Half a millisecond of slack: a timer armed for a deadline must find it reached.
        if not acked and now_secs < self._end_secs(entry) - 0.0005:
            return []
        self.ledger.apply(entry, TurnEvent.FINISHED)
        end_secs = min(now_secs, self._end_secs(entry)) if acked else now_secs
        return self._settled_event(entry, playhead, end_secs)

    def _settled_event(
        self, entry: LedgerEntry, playhead: Playhead, end_secs: float
    ) -> list[SettlementEvent]:
        """Settles a turn; a turn that says nothing in the conversation (a tool call, a filler) is not reported."""
        settled = self._settle(entry, playhead, end_secs)
        return [settled] if settled.turn.heard_text or settled.turn.unheard_text else []

    def _settle(self, entry: LedgerEntry, playhead: Playhead, end_secs: float) -> Settled:
        complete = entry.state is TurnState.COMPLETE
        played = self._progress.played(entry, None if complete else playhead)
        cut = self.ledger.cut(entry, played)
        if cut.fallback and entry.turn_id not in self._settled:
            self.fallbacks += 1
        written = entry.first_written_secs
        turn = HeardTurn(
            turn_id=entry.turn_id,
            heard_text=cut.heard_text,
            unheard_text=cut.unheard_text,
            interrupted=not complete,
            evidence=cut.evidence,
            estimated=playhead.estimated or (not complete and cut.evidence is not BoundaryEvidence.WORD),
            played_samples=self.ledger.played_samples(entry, played),
            sample_rate_hz=entry.rate_hz,
            started_secs=entry.opened_secs if written is None else written + self.clock.delay_secs,
            ended_secs=end_secs,
        )
        self._settled[entry.turn_id] = turn
        return Settled(turn=turn)

    def _is_cut(self, entry: LedgerEntry, playhead: Playhead, onset: float) -> bool:
        if entry.state is TurnState.REVOKED:
            return False
        settled = self._settled.get(entry.turn_id)
        if entry.state is TurnState.COMPLETE and (settled is None or settled.ended_secs <= onset):
            return False
        return not (entry.closed and self._progress.all_played(entry, self._progress.played(entry, playhead)))

    def _end_secs(self, entry: LedgerEntry) -> float:
        return self._progress.end_secs(entry, ack_grace_secs=self.config.ack_grace_secs)

    def _forget_old(self) -> None:
        kept = {entry.turn_id for entry in self.ledger.turns}
        self._messages.keep(kept)
        self._settled = {turn_id: turn for turn_id, turn in self._settled.items() if turn_id in kept}
        numbers = [number for entry in self.ledger.turns for number in entry.utterances]
        if numbers:
            self.clock.forget_utterances(min(numbers))


def _says(turn: HeardTurn) -> tuple[str, BoundaryEvidence, bool]:
    """What a reader of a heard turn would act on."""
    return turn.heard_text, turn.evidence, turn.estimated
