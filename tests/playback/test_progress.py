import pytest

from pipecat_voicectx.playback.progress import TurnProgress
from tests.playback.helpers import DELAY_SECS, Call

WORDS = "one two three four"


def progress(call: Call) -> TurnProgress:
    return TurnProgress(ledger=call.ledger, clock=call.clock)


def test_what_was_played_never_exceeds_what_there_is_and_without_a_playhead_is_all() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0)
    (number,) = entry.utterances
    look = progress(call)
    assert look.played(entry, call.clock.playhead(2.2)) == {number: 1000}
    assert look.played(entry, call.clock.playhead(99.0)) == {number: 2000}
    assert look.played(entry, None) == {number: 2000}


def test_ten_milliseconds_of_the_last_word_do_not_count() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0)
    (number,) = entry.utterances
    assert progress(call).all_played(entry, {number: 1990})
    assert not progress(call).all_played(entry, {number: 1989})


def test_a_turn_is_written_once_its_last_sound_is() -> None:
    call = Call()
    half = call.turn(WORDS, at=1.0, written_secs=1.0)
    assert not progress(call).is_written(half)
    open_one = call.turn(WORDS, at=3.0, close=False)
    assert not progress(call).is_written(open_one)
    whole = call.turn(WORDS, at=6.0)
    assert progress(call).is_written(whole)
    assert progress(call).end_position(whole) == 7950


def test_a_turn_ends_when_its_last_sound_is_heard_and_acknowledgements_get_their_grace() -> None:
    call = Call()
    entry = call.turn(WORDS, at=1.0)
    assert progress(call).end_secs(entry, ack_grace_secs=1.0) == pytest.approx(2.95 + DELAY_SECS)
    call.ack(2.0, 1.7)
    assert progress(call).end_secs(entry, ack_grace_secs=1.0) > 3.5


def test_a_turn_without_sound_ends_where_it_began_and_an_unknown_one_is_not_found() -> None:
    call = Call()
    entry = call.ledger.open_turn(4.0)
    assert progress(call).end_position(entry) is None
    assert progress(call).end_secs(entry, ack_grace_secs=1.0) == 4.0
    assert progress(call).find(entry.turn_id) is entry
    assert progress(call).find(99) is None
