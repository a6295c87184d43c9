"""Whole calls on paper: turns, interruptions, withdrawn answers, tool calls, acknowledgements, new tracks.

Every word of a turn has a name of its own, so that what a conversation holds can be read off: nothing twice, nothing
out of order, nothing that was never said.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pipecat_voicectx.playback.clock import PlayoutAck, PlayoutClock, PlayoutClockConfig, SentAudio
from pipecat_voicectx.playback.heard import HeardTurn
from pipecat_voicectx.playback.ledger import LedgerEntry, TurnLedger, TurnState
from pipecat_voicectx.playback.settlement import (
    AmendText,
    CommitText,
    CutReason,
    RevokeAudio,
    Settled,
    SettlementEvent,
    TurnSettler,
)
from tests.playback.helpers import Call

RATE = 1000
WORD_SAMPLES = 400
CHUNK_SECS = 0.05


class PaperCall(RuleBasedStateMachine):
    """One call. Audio is written in real time; the client hears it a little later and may say so."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = TurnLedger()
        config = PlayoutClockConfig(playout_delay_secs=0.2, uplink_delay_secs=0.0)
        self.clock = PlayoutClock(rate_hz=RATE, config=config)
        self.settler = TurnSettler(ledger=self.ledger, clock=self.clock)
        self.now_secs = 10.0
        self.track_began_secs = 0.0
        self.epoch = 0
        self.turn: LedgerEntry | None = None
        self.number = 0
        self.written_samples = 0
        self.order: list[str] = []
        self.words: dict[int, list[str]] = {}
        self.messages: dict[int, str] = {}
        self.heard: dict[int, HeardTurn] = {}

    # What happens

    @rule(count=st.integers(1, 6))
    def the_bot_answers(self, count: int) -> None:
        self._answer_ends()
        self.turn = self.ledger.open_turn(self.now_secs)
        self.number = self.ledger.open_utterance(self.turn, "c", rate_hz=RATE)
        words = [f"t{self.turn.turn_id}w{index}" for index in range(count)]
        self.words[self.turn.turn_id] = words
        self.order += words
        utterance = self.turn.utterances[self.number]
        utterance.announce(self.number, " ".join(words))
        for index, word in enumerate(words):
            utterance.mark_word(self.number, word, index * WORD_SAMPLES / RATE)
            utterance.add_pcm(np.full(WORD_SAMPLES, 5000, np.int16).tobytes())
        self.written_samples = 0

    @rule(chunks=st.integers(1, 40))
    def time_passes(self, chunks: int) -> None:
        for _ in range(chunks):
            self.now_secs += CHUNK_SECS
            self._write()
            deadline_secs = self.settler.next_deadline()
            if deadline_secs is not None and deadline_secs <= self.now_secs:
                self._take(self.settler.update(self.now_secs))

    @precondition(lambda self: self.turn is not None)
    @rule()
    def the_answer_is_whole(self) -> None:
        self._answer_ends()

    @precondition(lambda self: self.turn is not None)
    @rule(pieces=st.integers(0, 6))
    def a_tool_is_called(self, pieces: int) -> None:
        assert self.turn is not None
        committed = self.settler._messages.committed_pieces(self.turn.turn_id)
        if committed is not None and committed <= pieces <= len(self.words[self.turn.turn_id]):
            self._take(self.settler.commit_through(self.turn.turn_id, pieces))

    @rule(ago_secs=st.floats(0.0, 1.0))
    def the_caller_interrupts(self, ago_secs: float) -> None:
        self.settler.speech_started(self.now_secs - ago_secs)
        self._take(self.settler.cut(self.now_secs, CutReason.INTERRUPTION))
        self._silenced()

    @rule()
    def the_application_interrupts(self) -> None:
        self._take(self.settler.cut(self.now_secs, CutReason.INTERRUPTION))
        self._silenced()

    @precondition(lambda self: self.turn is not None)
    @rule()
    def the_answer_is_withdrawn(self) -> None:
        assert self.turn is not None
        self._take(self.settler.cut(self.now_secs, CutReason.INTERRUPTION, turn_ids=[self.turn.turn_id]))
        self._silenced()

    @rule(ago_secs=st.floats(0.0, 0.6))
    def the_caller_coughs(self, ago_secs: float) -> None:
        self.settler.speech_started(self.now_secs - ago_secs)
        self.settler.speech_stopped(self.now_secs)

    @rule(behind_secs=st.floats(-0.5, 2.0), live=st.booleans(), epoch=st.integers(-1, 0))
    def the_client_acknowledges(self, behind_secs: float, live: bool, epoch: int) -> None:
        position_secs = self.now_secs - self.track_began_secs - behind_secs
        ack = PlayoutAck(
            epoch=self.epoch + epoch,
            position_samples=position_secs * RATE,
            at_secs=self.now_secs,
            uplink_secs=0.0,
            live=live,
        )
        self.clock.add_ack(ack)
        self._take(self.settler.update(self.now_secs))

    @rule()
    def the_client_comes_back_on_a_new_track(self) -> None:
        self.epoch += 1
        self.clock.start_epoch(self.epoch, self.now_secs)
        self.track_began_secs = self.now_secs

    @precondition(lambda self: any(turn.interrupted for turn in self.heard.values()))
    @rule()
    def the_rest_is_spoken_after_all(self) -> None:
        newest = max(turn_id for turn_id, turn in self.heard.items() if turn.interrupted)
        self._take(self.settler.resumed(newest))

    def teardown(self) -> None:
        self._take(self.settler.update(self.now_secs))
        self._take(self.settler.cut(self.now_secs, CutReason.ENDED))
        self.everything_is_said_once_and_in_order()
        settled = {entry.turn_id for entry in self.ledger.turns if entry.audio_samples}
        assert settled <= set(self.heard), "every turn was settled"

    # How

    def _answer_ends(self) -> None:
        if self.turn is None:
            return
        self.turn.utterances[self.number].close(self.ledger.pace)
        self.turn.closed = True
        self._take(self.settler.commit_through(self.turn.turn_id))
        if self.written_samples >= self.turn.audio_samples:
            self.turn = None

    def _silenced(self) -> None:
        if self.turn is not None:
            self.turn.utterances[self.number].close(self.ledger.pace)
            self.turn.closed = True
            self.turn = None

    def _write(self) -> None:
        if self.turn is None or self.written_samples >= self.turn.audio_samples:
            return
        samples = round(CHUNK_SECS * RATE)
        self.written_samples += samples
        self.ledger.add_written(self.turn, bytes(2 * samples), rate_hz=RATE, now_secs=self.now_secs)
        self.clock.add_sent(
            SentAudio(
                position_samples=round((self.now_secs - self.track_began_secs) * RATE),
                samples=samples,
                utterance=self.number,
                utterance_end_samples=self.written_samples,
                at_secs=self.now_secs,
            )
        )

    def _take(self, events: list[SettlementEvent]) -> None:
        for event in events:
            match event:
                case CommitText(message=message, text=text):
                    assert message not in self.messages
                    assert all(message > earlier for earlier in self.messages), "messages come in order"
                    self.messages[message] = text
                case AmendText(message=message, text=text):
                    # One that held nothing was not committed; it may come into being now, in its place.
                    self.messages = dict(sorted({**self.messages, message: text}.items()))
                case Settled(turn=turn):
                    words = self.words[turn.turn_id]
                    assert f"{turn.heard_text} {turn.unheard_text}".split() == words, "no word is lost"
                    assert 0 <= turn.played_samples <= len(words) * WORD_SAMPLES
                    assert turn.interrupted or not turn.unheard_text
                    self.heard[turn.turn_id] = turn
                case RevokeAudio(after_samples=after_samples):
                    assert after_samples >= 0

    # What always holds

    @invariant()
    def everything_is_said_once_and_in_order(self) -> None:
        said = " ".join(self.messages.values()).split()
        assert len(set(said)) == len(said), "a word stands in the conversation twice"
        places = {word: place for place, word in enumerate(self.order)}
        assert [places[word] for word in said] == sorted(places[word] for word in said)

    @invariant()
    def what_was_cut_stands_in_the_conversation_as_it_was_heard(self) -> None:
        said = set(" ".join(self.messages.values()).split())
        for entry in self.ledger.turns:
            turn = self.heard.get(entry.turn_id)
            if turn is not None and entry.state is TurnState.REVOKED:
                assert said & set(self.words[entry.turn_id]) == set(turn.heard_text.split())

    @invariant()
    def what_is_kept_is_bounded(self) -> None:
        assert len(self.ledger.turns) <= 8
        assert len(self.settler._settled) <= 8
        assert len(list(self.settler._messages)) <= 8 * 7


TestPaperCall = PaperCall.TestCase


def test_a_track_that_is_replaced_right_after_an_interruption_moves_no_boundary() -> None:
    # Found by the machine above: what was played while the caller already spoke counted as heard.
    call = Call()
    call.turn("one two three four five six", at=1.0)
    call.settler.speech_started(2.0)
    commit = call.settler.cut(2.5, CutReason.INTERRUPTION)[0]
    assert isinstance(commit, CommitText)
    assert commit.text == "one two"
    call.clock.start_epoch(1, 2.6)
    assert call.settler.update(2.7) == []


def test_a_call_that_ends_while_the_end_of_an_answer_waits_to_be_acknowledged_settles_it() -> None:
    # Found by the machine above: it was neither cut nor complete, and nobody was told that it was heard.
    call = Call()
    entry = call.turn("one two", at=1.0)
    call.settler.commit_through(entry.turn_id)
    call.ack(1.2, 1.1)
    assert call.settler.update(2.4) == []
    events = call.settler.cut(2.4, CutReason.ENDED)
    assert [event.turn.heard_text for event in events if isinstance(event, Settled)] == ["one two"]
    assert entry.state is TurnState.COMPLETE
