"""What others ask the playback ledger: how far turns were heard, and which sentences were."""

from __future__ import annotations

import time

from pipecat_voicectx.playback.action_gate import GateVerdict, judge
from pipecat_voicectx.playback.boundary import PhysicalBoundary, SemanticBoundary, UnheardRemainder
from pipecat_voicectx.playback.heard import HeardTurn
from pipecat_voicectx.playback.ledger import LedgerEntry, TurnLedger
from pipecat_voicectx.playback.proposal import Proposal
from pipecat_voicectx.playback.settlement import TurnSettler
from pipecat_voicectx.playback.spans import SpanRole
from pipecat_voicectx.processors.audio_lane import AudioLane
from pipecat_voicectx.runtimes.cascaded import CascadedTaps

__all__ = ["PlaybackView"]


class PlaybackView(AudioLane):
    """The questions; `PlaybackLedger` keeps what they are about."""

    _ledger: TurnLedger
    _settler: TurnSettler
    _taps: CascadedTaps
    _last_unheard: HeardTurn | None

    @property
    def last_unheard(self) -> HeardTurn | None:
        """The newest interrupted turn with something unheard: for "shall I go on?". Not part of any prompt."""
        return self._last_unheard

    @property
    def unheard(self) -> UnheardRemainder | None:
        """What the newest interrupted turn left unsaid, by sentences; None when nothing was. Not part of any prompt."""
        return self._settler.unheard(self._last_unheard) if self._last_unheard is not None else None

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
        sentences = [
            self._settler.semantic_boundary(entry.turn_id, at_secs)
            for at_secs in (now_secs, self._settler.onset_secs(now_secs))
        ]
        asking = (SpanRole.QUESTION, SpanRole.CONFIRMATION_REQUEST)
        last = self._ledger.spans(entry)[-1:] if entry.closed else []
        if any(span.role in asking and span.start_samples < physical.played_samples for span in last):
            return True
        return any(sentence is not None and sentence.span.role in asking for sentence in sentences)
