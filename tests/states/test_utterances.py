from __future__ import annotations

import pytest

from pipecat_voicectx.signals.timed_words import TimedWord, spoken_secs
from pipecat_voicectx.states.speaking_rate import RateBasis, SpeakingRateEstimator
from pipecat_voicectx.states.utterances import UtteranceJoiner


def joiner() -> tuple[UtteranceJoiner, SpeakingRateEstimator]:
    estimator = SpeakingRateEstimator()
    return UtteranceJoiner(estimator), estimator


def words(text: str, start: float = 0.0, each: float = 0.4) -> list[TimedWord]:
    return [
        TimedWord(text=word, start_secs=start + i * each, end_secs=start + (i + 1) * each)
        for i, word in enumerate(text.split())
    ]


def test_a_transcript_after_the_speech_is_joined_with_it() -> None:
    join, estimator = joiner()
    join.speech_started(10.0)
    assert not join.speech_stopped(12.0)
    assert join.final("one two three four five")
    assert estimator.state.rate == pytest.approx(150.0)
    assert estimator.state.basis is RateBasis.VOICE_ACTIVITY


def test_a_transcript_during_the_speech_waits_for_its_end() -> None:
    join, estimator = joiner()
    join.speech_started(10.0)
    assert not join.final("one two three")
    assert not join.final("four five")
    assert join.speech_stopped(12.0)
    assert estimator.state.rate == pytest.approx(150.0)


def test_a_pause_inside_a_turn_is_not_speech() -> None:
    join, estimator = joiner()
    join.speech_started(0.0)
    join.speech_stopped(1.0)
    join.speech_started(4.0)
    join.speech_stopped(5.0)
    join.final("one two three four five")
    assert estimator.state.rate == pytest.approx(150.0)


def test_word_times_win_over_voice_activity() -> None:
    join, estimator = joiner()
    join.speech_started(0.0)
    join.speech_stopped(9.0)
    join.final("one two three four five", words=words("one two three four five"))
    assert estimator.state.rate == pytest.approx(150.0)
    assert estimator.state.basis is RateBasis.WORD_TIMES


def test_words_without_any_speech_heard_still_give_a_rate() -> None:
    join, estimator = joiner()
    assert join.final("one two three four five", words=words("one two three four five"))
    assert estimator.state.rate == pytest.approx(150.0)


def test_text_without_any_speech_or_times_gives_none() -> None:
    join, estimator = joiner()
    assert not join.final("one two three four five")
    assert estimator.state.rate is None


def test_a_repeated_final_counts_once() -> None:
    join, estimator = joiner()
    join.speech_started(0.0)
    join.speech_stopped(2.0)
    join.final("One two three four five.")
    assert not join.final("one two three, four five")
    assert estimator.state.utterances == 1
    assert estimator.state.rate == pytest.approx(150.0)


@pytest.mark.parametrize(
    "corrected", ["please book two tables for tonight", "Please book three tables for us tonight"]
)
def test_a_corrected_final_replaces_the_first_one(corrected: str) -> None:
    join, estimator = joiner()
    join.speech_started(0.0)
    join.speech_stopped(2.0)
    join.final("please book three tables for tonight")
    assert join.final(corrected)
    assert estimator.state.utterances == 1
    assert estimator.state.rate == pytest.approx(len(corrected.split()) * 30.0)


def test_a_cumulative_final_replaces_the_one_it_extends() -> None:
    join, estimator = joiner()
    join.speech_started(0.0)
    join.speech_stopped(2.0)
    join.final("one two three")
    join.final("one two three four five")
    assert estimator.state.rate == pytest.approx(150.0)


def test_a_second_final_for_the_same_speech_adds_its_words() -> None:
    join, estimator = joiner()
    join.speech_started(0.0)
    join.speech_stopped(2.0)
    join.final("let us meet")
    join.final("tomorrow morning")
    assert estimator.state.utterances == 1
    assert estimator.state.rate == pytest.approx(150.0)


def test_overlapping_word_times_are_a_correction() -> None:
    join, estimator = joiner()
    join.final("a b c d", words=words("a b c d"))
    join.final("e f g h i", words=words("e f g h i"))
    assert estimator.state.rate == pytest.approx(150.0)
    assert estimator.state.utterances == 1


def test_the_next_speech_opens_the_next_utterance() -> None:
    join, estimator = joiner()
    for start in (0.0, 10.0):
        join.speech_started(start)
        join.speech_stopped(start + 2.0)
        join.final("one two three four five")
    assert estimator.state.utterances == 2


def test_punctuation_alone_is_no_utterance() -> None:
    join, estimator = joiner()
    join.speech_started(0.0)
    join.speech_stopped(2.0)
    assert not join.final(" ... ")
    assert estimator.state.utterances == 0


def test_activity_reported_from_two_sides_counts_once() -> None:
    join, estimator = joiner()
    join.speech_started(0.0)
    join.speech_started(0.1)
    join.speech_stopped(2.0)
    join.speech_stopped(2.1)
    join.final("one two three four five")
    assert estimator.state.rate == pytest.approx(150.0)


def test_silence_longer_than_a_pause_between_words_is_not_speech() -> None:
    assert spoken_secs([*words("a b"), *words("c d", start=5.0)]) == pytest.approx(1.6)
    assert spoken_secs([*words("a b"), *words("c d", start=1.2)]) == pytest.approx(2.0)
    assert spoken_secs([]) == 0.0


def burst(*, lost_secs: float, cut_out: bool, words: tuple[TimedWord, ...] = ()) -> float | None:
    """Twelve words in 4 s, of which some audio is lost after 1.5 s, and the detector sees a pause there."""
    estimator = SpeakingRateEstimator()
    joiner = UtteranceJoiner(estimator)
    joiner.speech_started(10.0)
    joiner.speech_stopped(11.5)
    joiner.lost(lost_secs, cut_out=cut_out)
    joiner.speech_started(12.3)
    joiner.speech_stopped(14.0)
    joiner.final("one two three four five six seven eight nine ten eleven twelve", words=words)
    return estimator.state.rate


def test_a_pause_in_which_audio_was_lost_is_no_pause() -> None:
    assert burst(lost_secs=0.8, cut_out=False) == pytest.approx(12 * 60 / 4.0)
    assert burst(lost_secs=0.3, cut_out=False) == pytest.approx(12 * 60 / 3.5)
    assert burst(lost_secs=0.0, cut_out=False) == pytest.approx(12 * 60 / 3.2)


def test_cut_out_audio_is_added_to_the_recognisers_clock_and_concealed_audio_is_there_already() -> None:
    words = tuple(TimedWord(text="w", start_secs=n * 0.27, end_secs=(n + 1) * 0.27) for n in range(12))
    assert burst(lost_secs=0.76, cut_out=True, words=words) == pytest.approx(12 * 60 / 4.0, rel=0.001)
    assert burst(lost_secs=0.76, cut_out=False, words=words) == pytest.approx(12 * 60 / 3.24, rel=0.001)


def test_an_utterance_of_which_a_third_is_missing_says_nothing() -> None:
    assert burst(lost_secs=1.4, cut_out=True) is None


def test_audio_lost_between_utterances_belongs_to_none() -> None:
    estimator = SpeakingRateEstimator()
    joiner = UtteranceJoiner(estimator)
    joiner.lost(5.0, cut_out=True)
    joiner.speech_started(1.0)
    joiner.speech_stopped(3.0)
    joiner.final("one two three four five six")
    joiner.lost(5.0, cut_out=True)
    joiner.lost(float("nan"), cut_out=True)
    joiner.speech_started(20.0)
    joiner.speech_stopped(22.0)
    joiner.final("seven eight nine ten eleven twelve")
    assert estimator.state.rate == pytest.approx(180.0)
