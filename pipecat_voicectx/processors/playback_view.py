"""What others ask the playback ledger: how far turns were heard, and which sentences were."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pipecat_voicectx.playback.action_gate import GateVerdict, judge
from pipecat_voicectx.playback.boundary import PhysicalBoundary, SemanticBoundary, UnheardRemainder
from pipecat_voicectx.playback.heard import HeardTurn
from pipecat_voicectx.playback.ledger import LedgerEntry, TurnLedger
from pipecat_voicectx.playback.proposal import Proposal
from pipecat_voicectx.playback.settlement import TurnSettler
from pipecat_voicectx.playback.spans import Span, question_begun
from pipecat_voicectx.processors.audio_lane import AudioLane
from pipecat_voicectx.runtimes.cascaded import CascadedTaps

__all__ = ["PlaybackView"]


class PlaybackView(AudioLane):
    """The questions; `PlaybackLedger` keeps what they are about."""

    _ledger: TurnLedger
    _settler: TurnSettler
    _taps: CascadedTaps
    _cut_turns: tuple[HeardTurn, ...]

    @property
    def last_unheard(self) -> HeardTurn | None:
        """The newest interrupted turn with something unheard: for "shall I go on?". Not part of any prompt."""
        return self._cut_turns[-1] if self._cut_turns else None

    @property
    def unheard(self) -> UnheardRemainder | None:
        """What the newest interruption left unsaid, by sentences; None when nothing was. Not part of any prompt."""
        rests = [self._settler.unheard(turn) for turn in self._cut_turns]
        if not rests:
            return None
        return UnheardRemainder(
            turn_id=rests[0].turn_id,
            text=" ".join(rest.text for rest in rests),
            spans=tuple(span for rest in rests for span in rest.spans),
        )

    def _note_cut(self, turn: HeardTurn) -> None:
        """One interruption cuts every answer that was still to be played: what leads in to a call, and what follows."""
        others = (
            cut
            for cut in self._cut_turns
            if cut.ended_secs == turn.ended_secs and cut.turn_id != turn.turn_id
        )
        self._cut_turns = tuple(sorted((*others, turn), key=lambda cut: cut.turn_id))

    def would_cut(self) -> bool:
        """Whether an interruption now would find anything to settle: the bot is being heard, or about to be."""
        return self._settler.would_cut(time.monotonic())

    @property
    def turns(self) -> tuple[LedgerEntry, ...]:
        """The turns on record, oldest first."""
        return tuple(self._ledger.turns)

    def physical_boundary(self, turn_id: int) -> PhysicalBoundary | None:
        """How much of a turn was played by now, or by its cut."""
        return self._settler.physical_boundary(turn_id, time.monotonic())

    def semantic_boundary(self, turn_id: int) -> SemanticBoundary | None:
        """The last sentence of a turn that was played whole, by word times."""
        return self._settler.semantic_boundary(turn_id, time.monotonic())

    def played_audio(self, turn_id: int, *, secs: float) -> tuple[bytes, int]:
        """(PCM, rate) of the last `secs` of a settled turn that were played; empty for an unknown turn."""
        return self._settler.played_audio(turn_id, secs=secs)

    def proposals_of(self, tool_call_id: str) -> tuple[Proposal, ...] | None:
        """The sentences a tool call rests on; None before the call has passed the TTS."""
        return self._taps.proposals_of(tool_call_id)

    def judge(self, proposal: Proposal) -> GateVerdict:
        """Whether a sentence was heard, by what no interruption that is going on may still take back."""
        entry = next((entry for entry in self._ledger.turns if entry.turn_id == proposal.turn_id), None)
        sure_secs = self._settler.sure_secs(time.monotonic())
        physical = self._settler.physical_boundary(proposal.turn_id, sure_secs)
        if physical is None or entry is None:
            return GateVerdict.CLOSED
        semantic = self._settler.semantic_boundary(proposal.turn_id, sure_secs)
        return judge(proposal, entry.state, physical=physical, semantic=semantic)

    def has_asked(self) -> bool:
        """Whether the last sentence heard whole, by now or when the user began to speak, is a question.

        So is one that ends the turn and is being asked: who says "yes" over it has understood it.
        """
        now_secs = time.monotonic()
        for entry in reversed(self._ledger.turns):
            physical = self._settler.physical_boundary(entry.turn_id, now_secs)
            if physical is not None and physical.played_samples:
                break
        else:
            return False
        spans = self._ledger.spans(entry)
        if entry.closed and spans and spans[-1].asks and spans[-1].start_samples < physical.played_samples:
            return True
        return any(
            self._asked_by(entry.turn_id, spans, at_secs)
            for at_secs in (now_secs, self._settler.onset_secs(now_secs))
        )

    def _asked_by(self, turn_id: int, spans: Sequence[Span], at_secs: float) -> bool:
        whole = self._settler.semantic_boundary(turn_id, at_secs)
        if whole is not None and whole.span.asks:
            return True
        physical = self._settler.physical_boundary(turn_id, at_secs)
        return physical is not None and question_begun(spans, physical.played_samples)
