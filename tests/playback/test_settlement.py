import pytest

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.playback.heard import BoundaryEvidence, HeardTurn
from pipecat_voicectx.playback.ledger import TurnState
from pipecat_voicectx.playback.settlement import (
    AmendText,
    CommitText,
    CutReason,
    RevokeAudio,
    Settled,
    SettlementConfig,
    SettlementEvent,
)

from .helpers import DELAY_SECS, Call

WORDS = "one two three four five six"


def commits(events: list[SettlementEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, CommitText)]


def amendments(events: list[SettlementEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, AmendText)]


def settled(events: list[SettlementEvent]) -> list[HeardTurn]:
    return [event.turn for event in events if isinstance(event, Settled)]


def test_an_interruption_commits_what_was_heard_and_revokes_the_rest() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0)
    events = call.settler.cut(2.5, CutReason.INTERRUPTION)
    assert commits(events) == ["one two three"]
    (turn,) = settled(events)
    assert (turn.heard_text, turn.unheard_text) == ("one two three", "four five six")
    assert turn.interrupted
    assert turn.estimated
    assert turn.evidence is BoundaryEvidence.WORD
    assert (turn.played_samples, turn.sample_rate_hz) == (1300, 1000)
    assert turn.started_secs == pytest.approx(1.05 + DELAY_SECS)
    assert turn.ended_secs == 2.5
    assert [event for event in events if isinstance(event, RevokeAudio)] == [
        RevokeAudio(turn_id=entry.turn_id, after_samples=2300, reason=CutReason.INTERRUPTION)
    ]
    assert entry.state is TurnState.REVOKED


def test_the_boundary_lies_at_the_onset_of_speech_not_at_its_detection() -> None:
    call = Call()
    call.turn(WORDS, at=1.0)
    call.settler.speech_started(2.0)
    events = call.settler.cut(3.0, CutReason.INTERRUPTION)
    assert commits(events) == ["one two"]
    assert settled(events)[0].ended_secs == 2.0


def test_speech_reported_after_its_interruption_moves_the_boundary_back_to_its_onset() -> None:
    # An interim transcript started the turn; the voice-activity detector reported the same speech later.
    call = Call()
    call.turn(WORDS, at=1.0)
    assert commits(call.settler.cut(2.5, CutReason.INTERRUPTION)) == ["one two three"]
    call.settler.speech_started(2.0)
    events = call.settler.update(2.6)
    assert amendments(events) == ["one two"]
    assert [turn.heard_text for turn in settled(events)] == ["one two"]
    assert call.settler.update(2.7) == []


@pytest.mark.parametrize("onset", [2.6, 1.4])
def test_speech_that_is_not_the_interruption_s_leaves_its_boundary(onset: float) -> None:
    call = Call()
    call.turn(WORDS, at=1.0)
    call.settler.cut(2.5, CutReason.INTERRUPTION)
    call.settler.speech_started(onset)
    assert call.settler.update(2.7) == []


def test_a_speech_that_ended_long_before_the_interruption_is_not_its_onset() -> None:
    call = Call()
    call.settler.speech_started(2.0)
    call.settler.speech_stopped(2.2)
    assert call.settler.onset_secs(3.0) == 2.0
    assert call.settler.onset_secs(4.0) == 4.0
    call.settler.speech_started(10.0)
    assert call.settler.onset_secs(15.1) == 15.1
    assert call.settler.onset_secs(9.9) == 9.9


def test_a_second_interruption_shortly_after_changes_nothing() -> None:
    call = Call()
    call.turn(WORDS, at=1.0)
    call.settler.cut(2.5, CutReason.INTERRUPTION)
    assert call.settler.cut(2.55, CutReason.INTERRUPTION) == []


def test_an_interruption_before_the_first_sound_hears_nothing() -> None:
    call = Call()
    call.turn(WORDS, at=1.0, written_secs=0.0)
    events = call.settler.cut(1.0, CutReason.INTERRUPTION)
    assert commits(events) == []
    assert settled(events)[0].unheard_text == WORDS


def test_an_answer_that_ends_is_committed_whole_and_completes_when_it_was_heard() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0)
    assert commits(call.settler.commit_through(entry.turn_id)) == [WORDS]
    assert call.settler.commit_through(entry.turn_id) == []
    deadline = call.settler.next_deadline()
    assert deadline is not None
    assert deadline == pytest.approx(4.0 + DELAY_SECS, abs=0.06)
    assert call.settler.update(deadline - 0.1) == []
    (turn,) = settled(call.settler.update(deadline))
    assert (turn.heard_text, turn.unheard_text, turn.interrupted) == (WORDS, "", False)
    assert entry.state is TurnState.COMPLETE
    assert call.settler.next_deadline() is None
    assert call.settler.update(9.0) == []


def test_an_acknowledged_end_completes_the_turn_at_once_and_is_no_estimate() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0)
    call.settler.commit_through(entry.turn_id)
    call.ack(2.0, 1.9)
    assert call.settler.update(2.0) == []
    assert entry.state is TurnState.PLAYING
    call.ack(4.1, 4.0)
    (turn,) = settled(call.settler.update(4.1))
    assert not turn.estimated
    assert turn.ended_secs == pytest.approx(4.1)


def test_a_turn_whose_end_is_not_acknowledged_completes_after_a_grace() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0)
    call.settler.commit_through(entry.turn_id)
    call.ack(2.0, 1.9)
    deadline = call.settler.next_deadline()
    assert deadline is not None
    assert deadline > 5.0
    assert settled(call.settler.update(deadline))[0].estimated


def test_an_interruption_during_the_tail_shortens_the_committed_message() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0)
    call.settler.commit_through(entry.turn_id)
    events = call.settler.cut(3.2, CutReason.INTERRUPTION)
    assert commits(events) == []
    assert amendments(events) == ["one two three four"]
    assert settled(events)[0].heard_text == "one two three four"


def test_a_turn_that_left_in_one_moment_is_not_complete_before_it_was_heard() -> None:
    # The bot had stood still, and its track sent at once what it owed.
    call = Call()
    entry = call.turn(WORDS, at=1.0, written_secs=0.0)
    (number,) = entry.utterances
    call.burst(number, at=1.0, secs=3.0)
    for tenth in range(1, 21):
        call.ack(1.2 + tenth / 10, 1.0 + tenth / 10)
        assert settled(call.settler.update(1.2 + tenth / 10)) == []
    events = call.settler.cut(3.2, CutReason.INTERRUPTION)
    assert commits(events) == ["one two three four"]


def test_a_turn_that_left_in_one_moment_is_not_complete_early_without_acknowledgements_either() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0, written_secs=0.0)
    (number,) = entry.utterances
    call.burst(number, at=1.0, secs=3.0)
    assert settled(call.settler.update(2.9)) == []
    assert commits(call.settler.cut(3.0, CutReason.INTERRUPTION)) == ["one two three four"]


def test_an_interruption_detected_after_the_end_still_cuts_at_its_onset() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0)
    call.settler.commit_through(entry.turn_id)
    call.settler.update(4.3)
    assert entry.state is TurnState.COMPLETE
    call.settler.speech_started(3.6)
    events = call.settler.cut(4.4, CutReason.INTERRUPTION)
    assert amendments(events) == ["one two three four five"]
    assert entry.state is TurnState.REVOKED


def test_an_interruption_long_after_the_end_leaves_the_turn_alone() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0)
    call.settler.commit_through(entry.turn_id)
    call.settler.update(4.3)
    assert call.settler.cut(6.0, CutReason.INTERRUPTION) == []
    assert entry.state is TurnState.COMPLETE


def test_a_turn_that_was_played_but_not_completed_yet_is_not_cut() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0)
    call.settler.commit_through(entry.turn_id)
    assert call.settler.cut(5.0, CutReason.INTERRUPTION) == []


def test_later_acknowledgements_move_the_boundary_of_an_interruption() -> None:
    call = Call()
    call.turn(WORDS, at=1.0)
    call.settler.cut(3.0, CutReason.INTERRUPTION)
    call.ack(2.9, 2.3)
    events = call.settler.update(3.01)
    assert amendments(events) == ["one two three"]
    assert not settled(events)[-1].estimated
    call.ack(3.1, 2.31)
    assert call.settler.update(3.1) == []


def test_a_boundary_that_holds_up_is_reported_once_more_when_it_is_no_estimate_any_longer() -> None:
    call = Call()
    call.turn(WORDS, at=1.0)
    assert settled(call.settler.cut(3.0, CutReason.INTERRUPTION))[0].estimated
    call.ack(3.0, 2.8)
    events = call.settler.update(3.01)
    assert amendments(events) == []
    assert [turn.estimated for turn in settled(events)] == [False]
    assert call.settler.update(3.02) == []


def test_acknowledgements_after_the_amendment_time_change_nothing() -> None:
    call = Call(SettlementConfig(amend_secs=0.5))
    call.turn(WORDS, at=1.0)
    call.settler.cut(3.0, CutReason.INTERRUPTION)
    call.ack(3.6, 2.4)
    assert call.settler.update(3.6) == []


def test_a_boundary_may_move_from_nothing_to_something() -> None:
    call = Call()
    call.turn(WORDS, at=1.0)
    assert commits(call.settler.cut(1.21, CutReason.INTERRUPTION)) == []
    call.ack(1.3, 1.29)
    events = call.settler.update(1.31)
    assert amendments(events) == ["one"]


def test_a_turn_that_was_never_started_is_part_of_the_cut_message_and_empty() -> None:
    call = Call()
    call.turn("one two", at=1.0)
    second = call.turn("three four", at=2.0, written_secs=0.0)
    events = call.settler.cut(1.8, CutReason.INTERRUPTION)
    assert commits(events) == ["one"]
    assert [turn.heard_text for turn in settled(events)] == ["one", ""]
    assert second.state is TurnState.REVOKED


def test_only_the_turns_that_were_stopped_are_cut() -> None:
    call = Call()
    first = call.turn("one two", at=1.0)
    second = call.turn("three four", at=2.0, written_secs=0.1)
    events = call.settler.cut(1.8, CutReason.INTERRUPTION, turn_ids=[first.turn_id])
    assert [turn.turn_id for turn in settled(events)] == [first.turn_id]
    assert second.state is TurnState.SENT


def test_text_before_a_tool_call_is_committed_through_its_turn_only() -> None:
    call = Call()
    first = call.turn("one two", at=1.0)
    call.turn("three four", at=2.0)
    assert commits(call.settler.commit_through(first.turn_id)) == ["one two"]
    assert [entry.turn_id for entry in call.settler.uncommitted()] == [first.turn_id + 1]


def test_a_tool_call_divides_the_text_of_a_turn() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0)
    assert commits(call.settler.commit_through(entry.turn_id, 2)) == ["one two"]
    assert commits(call.settler.commit_through(entry.turn_id, 2)) == []
    assert commits(call.settler.commit_through(entry.turn_id)) == ["three four five six"]


def test_an_interruption_after_a_tool_call_commits_the_rest_that_was_heard() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0)
    call.settler.commit_through(entry.turn_id, 2)
    events = call.settler.cut(3.0, CutReason.INTERRUPTION)
    assert (commits(events), amendments(events)) == (["three four"], [])
    assert settled(events)[0].heard_text == "one two three four"


def test_an_interruption_before_a_tool_call_was_reached_by_ear_shortens_the_text_before_it() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0)
    call.settler.commit_through(entry.turn_id, 4)
    events = call.settler.cut(2.0, CutReason.INTERRUPTION)
    assert (commits(events), amendments(events)) == ([], ["one two"])


def test_a_tool_call_without_text_before_it_commits_nothing() -> None:
    call = Call()
    entry = call.ledger.open_turn(1.0)
    assert call.settler.commit_through(entry.turn_id, 0) == []
    assert call.settler.uncommitted() == [entry]


def test_an_answer_without_sound_is_complete_when_it_ends() -> None:
    call = Call()
    entry = call.ledger.open_turn(1.0)
    number = call.ledger.open_utterance(entry, None, rate_hz=1000)
    entry.utterances[number].show("shown only")
    entry.closed = True
    events = call.settler.commit_through(entry.turn_id)
    assert commits(events) == ["shown only"]
    assert settled(events)[0].heard_text == "shown only"
    assert entry.state is TurnState.COMPLETE
    assert call.settler.cut(2.0, CutReason.INTERRUPTION) == []


def test_a_synthesizer_that_failed_was_not_heard() -> None:
    call = Call()
    entry = call.ledger.open_turn(1.0)
    number = call.ledger.open_utterance(entry, None, rate_hz=1000)
    entry.utterances[number].announce(1, "never made")
    entry.utterances[number].close(call.ledger.pace)
    entry.closed = True
    events = call.settler.commit_through(entry.turn_id)
    assert commits(events) == []
    assert settled(events)[0].unheard_text == "never made"


def test_an_empty_answer_commits_and_reports_nothing() -> None:
    call = Call()
    entry = call.ledger.open_turn(1.0)
    entry.closed = True
    assert call.settler.commit_through(entry.turn_id) == []
    assert entry.state is TurnState.COMPLETE


def test_speech_outside_the_conversation_is_settled_and_not_reported() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0)
    next(iter(entry.utterances.values())).in_context = False
    assert call.settler.update(9.0) == []
    assert entry.state is TurnState.COMPLETE


def test_what_the_user_cannot_stop_is_committed_whole_and_plays_on() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0)
    next(iter(entry.utterances.values())).interruptible = False
    events = call.settler.cut(2.0, CutReason.INTERRUPTION)
    assert commits(events) == [WORDS]
    assert settled(events) == []
    assert entry.state is TurnState.SENT


def test_the_end_of_the_call_commits_what_was_heard_and_revokes_nothing() -> None:
    call = Call()
    call.turn(WORDS, at=1.0)
    call.settler.speech_started(1.5)
    events = call.settler.cut(2.5, CutReason.ENDED)
    assert commits(events) == ["one two three"]
    assert not [event for event in events if isinstance(event, RevokeAudio)]


def test_a_dropped_text_is_counted_once() -> None:
    call = Call()
    entry = call.turn("one", at=1.0, close=False)
    number, utterance = next(iter(entry.utterances.items()))
    utterance.segments[0].words.clear()
    call.settler.cut(1.6, CutReason.INTERRUPTION)
    call.ack(1.6, 1.4)
    call.settler.update(1.6)
    assert call.settler.fallbacks == 1
    assert number in entry.utterances


def test_boundaries_of_a_running_and_of_a_settled_turn() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0)
    running = call.settler.physical_boundary(entry.turn_id, 2.2)
    assert running is not None
    assert (running.played_samples, running.estimated) == (1000, True)
    assert call.settler.semantic_boundary(entry.turn_id, 2.2) is None
    assert call.settler.semantic_boundary(entry.turn_id, 4.1) is None
    whole = call.settler.semantic_boundary(entry.turn_id, 4.5)
    assert whole is not None
    assert whole.span.text == WORDS
    call.settler.cut(2.5, CutReason.INTERRUPTION)
    cut = call.settler.physical_boundary(entry.turn_id, 99.0)
    assert cut is not None
    assert cut.played_samples == 1300
    assert call.settler.physical_boundary(99, 1.0) is None
    assert call.settler.semantic_boundary(99, 1.0) is None


def test_records_leave_with_their_turns() -> None:
    call = Call()
    for index in range(20):
        entry = call.turn("one two", at=1.0 + index * 2)
        call.settler.commit_through(entry.turn_id)
        call.settler.update(2.9 + index * 2)
    assert len(list(call.settler._messages)) <= call.ledger.config.max_turns
    assert len(call.settler._settled) <= call.ledger.config.max_turns
    assert all(entry.state is TurnState.COMPLETE for entry in call.ledger.turns)


def test_a_turn_that_is_not_written_whole_waits() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0, written_secs=1.0)
    call.settler.commit_through(entry.turn_id)
    assert call.settler.next_deadline() is None
    assert call.settler.update(9.0) == []


def test_a_turn_written_before_the_log_begins_ends_at_once() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0)
    call.clock._sent.clear()
    assert call.settler._end_secs(entry) == entry.opened_secs


@pytest.mark.parametrize("name", ["amend_secs", "speech_gap_secs", "max_onset_secs", "ack_grace_secs"])
def test_times_out_of_range_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        SettlementConfig(**{name: -1.0})


def test_a_turn_without_audio_yet_has_nothing_to_wait_for() -> None:
    call = Call()
    entry = call.ledger.open_turn(1.0)
    entry.closed = True
    assert call.settler.update(9.0) == []
    assert call.settler.next_deadline() is None


def test_a_turn_that_is_still_being_made_is_playing_and_not_over() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0, close=False)
    assert call.settler.update(3.0) == []
    assert entry.state is TurnState.PLAYING


def test_a_message_stays_as_it_is_once_a_turn_of_it_has_left_the_ledger() -> None:
    call = Call()
    call.turn("one two", at=1.0)
    call.turn("three four", at=2.0)
    assert commits(call.settler.cut(2.9, CutReason.INTERRUPTION)) == ["one two three"]
    for _ in range(call.ledger.config.max_turns - 1):
        call.ledger.open_turn(3.0)
    call.ack(2.9, 2.1)
    assert amendments(call.settler.update(3.0)) == []


def test_an_answer_heard_whole_whose_end_got_lost_is_committed_by_the_next_interruption() -> None:
    call = Call()
    call.turn("one two", at=1.0)
    call.settler.update(2.5)
    events = call.settler.cut(4.0, CutReason.INTERRUPTION)
    assert [(event.text, event.interrupted) for event in events if isinstance(event, CommitText)] == [
        ("one two", False)
    ]
    assert settled(events) == []


def test_seconds_played_of_each_utterance_are_those_at_the_onset() -> None:
    call = Call()
    call.turn(WORDS, at=1.0)
    call.settler.speech_started(2.0)
    assert call.settler.played_secs(2.4) == {1: pytest.approx(0.8)}


def test_the_audio_that_was_played_of_a_settled_turn_can_be_had_back() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0)
    assert call.settler.played_audio(entry.turn_id, secs=5.0) == (b"", 0)
    call.settler.cut(2.5, CutReason.INTERRUPTION)
    pcm, rate_hz = call.settler.played_audio(entry.turn_id, secs=5.0)
    assert (len(pcm) // 2, rate_hz) == (1300, 1000)
    assert len(call.settler.played_audio(entry.turn_id, secs=0.5)[0]) // 2 == 500
    assert call.settler.played_audio(99, secs=5.0) == (b"", 0)


def test_a_turn_that_is_resumed_loses_the_mark_of_an_interruption_and_is_amended_no_more() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0)
    call.settler.cut(2.5, CutReason.INTERRUPTION)
    (event,) = call.settler.resumed(entry.turn_id)
    assert isinstance(event, AmendText)
    assert (event.text, event.interrupted) == ("one two three", False)
    call.ack(2.5, 1.1)
    assert call.settler.update(2.6) == []
    assert call.settler.resumed(99) == []


def test_resuming_a_turn_of_which_nothing_was_heard_changes_no_message() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0)
    call.settler.cut(1.1, CutReason.INTERRUPTION)
    assert call.settler.resumed(entry.turn_id) == []


def test_whether_a_turn_was_written_to_its_end() -> None:
    call = Call()
    whole, begun = call.turn("one two", at=1.0), call.turn("three four", at=2.0, written_secs=0.5)
    assert call.settler.is_written(whole.turn_id)
    assert not call.settler.is_written(begun.turn_id)
    assert call.settler.is_written(call.ledger.open_turn(3.0).turn_id)
    assert call.settler.is_written(99)


def test_an_interruption_of_nothing_would_cut_nothing() -> None:
    call = Call()
    assert not call.settler.would_cut(0.5)
    call.turn(WORDS, at=1.0)
    assert call.settler.would_cut(2.0)
    call.settler.cut(2.0, CutReason.INTERRUPTION)
    assert not call.settler.would_cut(2.1)
    later = call.turn("five six", at=4.0)
    call.settler.commit_through(later.turn_id)
    call.settler.update(9.0)
    assert not call.settler.would_cut(9.5)


def test_the_unheard_rest_is_kept_by_sentences() -> None:
    call = Call()
    entry = call.turn("One two.", at=1.0)
    call.settler.cut(1.9, CutReason.INTERRUPTION)
    (turn,) = [call.settler._settled[entry.turn_id]]
    rest = call.settler.unheard(turn)
    assert (rest.turn_id, rest.text) == (entry.turn_id, "two.")
    assert [span.text for span in rest.spans] == ["One two."]


def test_the_rest_of_a_turn_that_left_the_record_is_its_text_alone() -> None:
    call = Call()
    entry = call.turn("One two.", at=1.0)
    call.settler.cut(1.9, CutReason.INTERRUPTION)
    turn = call.settler._settled[entry.turn_id]
    call.ledger.turns.clear()
    rest = call.settler.unheard(turn)
    assert (rest.text, rest.spans) == ("two.", ())
