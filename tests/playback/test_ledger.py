import itertools

import numpy as np
import pytest

from pipecat_voicectx.errors import InvalidTransitionError, UsageError
from pipecat_voicectx.playback.heard import BoundaryEvidence
from pipecat_voicectx.playback.ledger import (
    LedgerConfig,
    LedgerEntry,
    TurnEvent,
    TurnLedger,
    TurnState,
)
from pipecat_voicectx.playback.spans import SpanRole

RATE = 1000


def spoken(ledger: TurnLedger, entry: LedgerEntry, words: str, *, close: bool = True) -> int:
    """An utterance with word times, half a second a word."""
    number = ledger.open_utterance(entry, "c", rate_hz=RATE)
    utterance = entry.utterances[number]
    utterance.announce(number, words)
    for index, word in enumerate(words.split()):
        utterance.mark_word(number, word, index * 0.5)
        utterance.add_pcm(np.full(500, 5000, np.int16).tobytes())
    if close:
        utterance.close(ledger.pace)
    return number


@pytest.fixture
def ledger() -> TurnLedger:
    return TurnLedger()


def test_turn_ids_rise_and_old_turns_leave() -> None:
    ledger = TurnLedger(config=LedgerConfig(max_turns=2))
    ids = [ledger.open_turn(0.0).turn_id for _ in range(4)]
    assert ids == [1, 2, 3, 4]
    assert [entry.turn_id for entry in ledger.turns] == [3, 4]


@pytest.mark.parametrize(("state", "event"), list(itertools.product(TurnState, TurnEvent)))
def test_every_transition_is_in_the_table_or_refused_without_effect(
    state: TurnState, event: TurnEvent
) -> None:
    ledger = TurnLedger()
    entry = ledger.open_turn(0.0)
    entry.state = state
    legal = {
        (TurnState.GENERATING, TurnEvent.AUDIO_SENT): TurnState.SENT,
        (TurnState.GENERATING, TurnEvent.FINISHED): TurnState.COMPLETE,
        (TurnState.GENERATING, TurnEvent.REVOKED): TurnState.REVOKED,
        (TurnState.SENT, TurnEvent.HEARD): TurnState.PLAYING,
        (TurnState.SENT, TurnEvent.FINISHED): TurnState.COMPLETE,
        (TurnState.SENT, TurnEvent.REVOKED): TurnState.REVOKED,
        (TurnState.PLAYING, TurnEvent.FINISHED): TurnState.COMPLETE,
        (TurnState.PLAYING, TurnEvent.REVOKED): TurnState.REVOKED,
        (TurnState.COMPLETE, TurnEvent.REVOKED): TurnState.REVOKED,
    }
    assert ledger.can_apply(entry, event) is ((state, event) in legal)
    if (state, event) in legal:
        assert ledger.apply(entry, event) is legal[state, event]
        assert entry.state is legal[state, event]
    else:
        with pytest.raises(InvalidTransitionError, match=state.value):
            ledger.apply(entry, event)
        assert entry.state is state


def test_audio_is_kept_for_its_bounded_time_and_marks_the_turn_as_sent() -> None:
    ledger = TurnLedger(config=LedgerConfig(audio_secs=1.0))
    entry = ledger.open_turn(0.0)
    for index in range(30):
        ledger.add_written(entry, bytes(2 * 100), rate_hz=RATE, now_secs=5.0 + index)
    assert sum(map(len, entry.audio)) == 2 * 1000
    assert entry.first_written_secs == 5.0
    assert entry.state is TurnState.SENT
    ledger.add_written(entry, bytes(2 * 100), rate_hz=2 * RATE, now_secs=50.0)
    assert sum(map(len, entry.audio)) == 2 * 100


def test_a_cut_divides_the_words_at_their_half(ledger: TurnLedger) -> None:
    entry = ledger.open_turn(0.0)
    number = spoken(ledger, entry, "one two three")
    assert ledger.cut(entry, {number: 749}).heard_text == "one"
    cut = ledger.cut(entry, {number: 750})
    assert (cut.heard_text, cut.unheard_text) == ("one two", "three")
    assert cut.evidence is BoundaryEvidence.WORD
    assert not cut.fallback
    assert ledger.cut(entry, {}).heard_text == ""
    assert ledger.cut(entry, {number: 1500}).unheard_text == ""


def test_utterances_of_a_turn_are_one_text_and_nothing_after_the_first_unheard_word_counts(
    ledger: TurnLedger,
) -> None:
    entry = ledger.open_turn(0.0)
    first, second = spoken(ledger, entry, "one two"), spoken(ledger, entry, "three four")
    cut = ledger.cut(entry, {first: 1000, second: 500})
    assert (cut.heard_text, cut.unheard_text) == ("one two three", "four")
    assert ledger.cut(entry, {first: 500, second: 1000}).heard_text == "one"
    assert ledger.played_samples(entry, {first: 5000, second: 100}) == 1100


def test_text_that_does_not_belong_into_the_conversation_is_left_out(ledger: TurnLedger) -> None:
    entry = ledger.open_turn(0.0)
    first, second = spoken(ledger, entry, "one"), spoken(ledger, entry, "two")
    entry.utterances[first].in_context = False
    assert ledger.cut(entry, {first: 500, second: 500}).heard_text == "two"


def test_what_the_user_cannot_stop_counts_as_heard(ledger: TurnLedger) -> None:
    entry = ledger.open_turn(0.0)
    number = spoken(ledger, entry, "one two")
    assert not entry.unstoppable
    entry.utterances[number].interruptible = False
    assert entry.unstoppable
    assert ledger.cut(entry, {}).heard_text == "one two"
    assert not ledger.open_turn(0.0).unstoppable


def test_an_unfinished_text_without_evidence_is_dropped_and_counted_as_fallback(ledger: TurnLedger) -> None:
    entry = ledger.open_turn(0.0)
    number = ledger.open_utterance(entry, "c", rate_hz=RATE)
    utterance = entry.utterances[number]
    utterance.announce(1, "alpha beta")
    utterance.add_pcm(np.full(500, 5000, np.int16).tobytes())
    utterance.confirm(1, "alpha beta")
    utterance.announce(2, "gamma delta")
    utterance.add_pcm(np.full(300, 5000, np.int16).tobytes())
    cut = ledger.cut(entry, {number: 700})
    assert (cut.heard_text, cut.unheard_text) == ("alpha beta", "gamma delta")
    assert cut.fallback
    assert cut.evidence is BoundaryEvidence.NONE
    early = ledger.cut(entry, {number: 480})
    assert (early.heard_text, early.fallback, early.evidence) == (
        "alpha beta",
        False,
        BoundaryEvidence.DURATION,
    )
    fresh = ledger.open_turn(0.0)
    silent = ledger.open_utterance(fresh, "d", rate_hz=RATE)
    fresh.utterances[silent].announce(1, "alpha")
    assert not ledger.cut(fresh, {silent: 0}).fallback
    fresh.utterances[silent].add_pcm(np.full(300, 5000, np.int16).tobytes())
    assert ledger.cut(fresh, {silent: 100}).fallback


def test_an_estimated_word_counts_only_near_its_end(ledger: TurnLedger) -> None:
    entry = ledger.open_turn(0.0)
    number = ledger.open_utterance(entry, "c", rate_hz=RATE)
    utterance = entry.utterances[number]
    utterance.announce(1, "abc abc abc")
    utterance.add_pcm(np.full(1500, 5000, np.int16).tobytes())
    utterance.confirm(1, "abc abc abc")
    assert ledger.cut(entry, {number: 900}).heard_text == "abc"
    cut = ledger.cut(entry, {number: 980})
    assert (cut.heard_text, cut.evidence) == ("abc abc", BoundaryEvidence.DURATION)


def test_a_sentence_that_has_begun_is_there_by_its_first_word(ledger: TurnLedger) -> None:
    entry = ledger.open_turn(0.0)
    number = spoken(ledger, entry, "One. Two three.")
    assert ledger.cut(entry, {number: 510}).heard_text == "One."
    assert ledger.cut(entry, {number: 520}).heard_text == "One. Two"
    assert ledger.cut(entry, {number: 1200}).heard_text == "One. Two"


def test_a_phrase_after_a_pause_is_there_by_its_first_word(ledger: TurnLedger) -> None:
    entry = ledger.open_turn(0.0)
    number = ledger.open_utterance(entry, "c", rate_hz=RATE)
    utterance = entry.utterances[number]
    utterance.announce(1, "one, two three")
    for word, start_secs in (("one,", 0.0), ("two", 0.8), ("three", 1.3)):
        utterance.mark_word(1, word, start_secs)
    for level, secs in ((5000, 0.5), (0, 0.3), (5000, 1.0)):
        utterance.add_pcm(np.full(round(secs * RATE), level, np.int16).tobytes())
    assert ledger.cut(entry, {number: 810}).heard_text == "one,"
    assert ledger.cut(entry, {number: 820}).heard_text == "one, two"
    assert ledger.cut(entry, {number: 1320}).heard_text == "one, two"


def test_an_estimated_sentence_has_begun_only_where_a_pause_says_so(ledger: TurnLedger) -> None:
    entry = ledger.open_turn(0.0)
    number = ledger.open_utterance(entry, "c", rate_hz=RATE)
    utterance = entry.utterances[number]
    for segment, text, gap_secs in ((1, "Abc abc.", 0.3), (2, "Abc abc.", 0.0), (3, "Abc abc.", 0.0)):
        utterance.announce(segment, text)
        utterance.add_pcm(np.full(1000, 5000, np.int16).tobytes())
        utterance.add_pcm(bytes(2 * round(gap_secs * RATE)))
        utterance.confirm(segment, text)
    assert ledger.cut(entry, {number: 1310}).heard_text == "Abc abc."
    assert ledger.cut(entry, {number: 1330}).heard_text == "Abc abc. Abc"
    assert ledger.cut(entry, {number: 2330}).heard_text == "Abc abc. Abc abc."


def test_unspoken_text_counts_once_everything_before_it_was_heard(ledger: TurnLedger) -> None:
    entry = ledger.open_turn(0.0)
    number = ledger.open_utterance(entry, "c", rate_hz=RATE)
    utterance = entry.utterances[number]
    utterance.announce(1, "one two")
    utterance.mark_word(1, "one", 0.0)
    utterance.mark_word(1, "two", 0.5)
    utterance.add_pcm(np.full(1000, 5000, np.int16).tobytes())
    utterance.show("CODE")
    assert ledger.cut(entry, {number: 600}).heard_text == "one"
    cut = ledger.cut(entry, {number: 800})
    assert (cut.heard_text, cut.evidence) == ("one two CODE", BoundaryEvidence.WORD)


def test_spans_are_turn_local_and_final_only_by_word_times(ledger: TurnLedger) -> None:
    entry = ledger.open_turn(0.0)
    spoken(ledger, entry, "one two")
    number = spoken(ledger, entry, "Shall I book it?", close=False)
    entry.utterances[number].show("CODE")
    first, second = ledger.spans(entry)
    assert (first.text, first.start_samples, first.end_samples, first.finalized) == ("one two", 0, 1000, True)
    assert (second.role, second.start_samples) == (SpanRole.CONFIRMATION_REQUEST, 1000)
    assert second.finalized
    assert not ledger.spans(_open_turn(ledger))[0].finalized
    aligned = ledger.open_turn(0.0)
    utterance = aligned.utterances[ledger.open_utterance(aligned, "c", rate_hz=RATE)]
    utterance.confirm(None, "one")
    utterance.add_pcm(bytes(200))
    assert not ledger.spans(aligned)[0].finalized


def test_words_of_a_text_nobody_announced_are_a_span_of_their_own(ledger: TurnLedger) -> None:
    entry = ledger.open_turn(0.0)
    utterance = entry.utterances[ledger.open_utterance(entry, "c", rate_hz=RATE)]
    utterance.mark_word(5, "one", 0.0)
    utterance.mark_word(5, "two", 0.1)
    assert [span.text for span in ledger.spans(entry)] == ["one two"]
    assert ledger.cut(entry, {}).piece_count == 2


def _open_turn(ledger: TurnLedger) -> LedgerEntry:
    entry = ledger.open_turn(0.0)
    spoken(ledger, entry, "one two", close=False)
    return entry


def test_an_entry_knows_its_rate_and_length(ledger: TurnLedger) -> None:
    entry = ledger.open_turn(0.0)
    assert (entry.rate_hz, entry.audio_samples) == (0, 0)
    number = spoken(ledger, entry, "one")
    assert (entry.rate_hz, entry.audio_samples) == (RATE, 500)
    assert ledger.find_utterance(number) == (entry, entry.utterances[number])
    assert ledger.find_utterance(99) is None


@pytest.mark.parametrize(
    "settings",
    [
        {"max_turns": 0},
        {"audio_secs": 0.0},
        {"heard_ratio": 0.0},
        {"aligned_ratio": 1.5},
        {"epsilon_secs": 2.0},
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        LedgerConfig(**settings)  # type: ignore[arg-type]


def test_the_played_part_of_the_written_audio_can_be_had_back(ledger: TurnLedger) -> None:
    entry = ledger.open_turn(0.0)
    for value in range(10):
        pcm = np.full(100, value, np.int16).tobytes()
        ledger.add_written(entry, pcm, rate_hz=RATE, now_secs=1.0)
    played = np.frombuffer(ledger.written_audio(entry, until_samples=750, secs=0.3), np.int16)
    assert (len(played), played[0], played[-1]) == (300, 4, 7)
    assert ledger.written_audio(entry, until_samples=0, secs=1.0) == b""
    assert len(ledger.written_audio(entry, until_samples=5000, secs=9.0)) == 2000
