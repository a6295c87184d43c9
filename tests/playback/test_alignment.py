import numpy as np
import pytest

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.playback.alignment import (
    SpeakingPace,
    split_words,
    text_ends,
    text_weight,
    word_ends,
    word_weight,
)
from pipecat_voicectx.playback.voicing import VoicingTracker

RATE = 8000


def voice(*secs: float, pause_secs: float = 0.3) -> VoicingTracker:
    """Runs of voice of the given lengths, with a pause after each."""
    tracker = VoicingTracker(rate_hz=RATE)
    for length in secs:
        tracker.add_pcm(np.full(round(length * RATE), 5000, np.int16).tobytes())
        tracker.add_pcm(bytes(2 * round(pause_secs * RATE)))
    tracker.finish()
    return tracker


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello there,  friend.", ["Hello", "there,", "friend."]),
        ("", []),
        ("今日は。 Tokyo です", ["今", "日", "は。", "Tokyo", "で", "す"]),
        ("สวัสดี", ["ส", "วั", "ส", "ดี"]),
    ],
)
def test_texts_are_cut_at_blanks_or_between_signs(text: str, words: list[str]) -> None:
    assert split_words(text) == words


def test_digits_and_signs_weigh_more_than_letters() -> None:
    assert word_weight("7") > word_weight("a")
    assert word_weight("語") > word_weight("a")
    assert word_weight("well,") == word_weight("well")
    assert text_weight("one two") == word_weight("one") + word_weight("two")


def test_pace_is_unknown_until_a_text_of_some_length_was_finished() -> None:
    pace = SpeakingPace()
    pace.add(weight=2.0, voiced_secs=1.0)
    pace.add(weight=20.0, voiced_secs=0.1)
    assert pace.secs_per_weight is None
    pace.add(weight=20.0, voiced_secs=1.0)
    assert pace.secs_per_weight == pytest.approx(0.05)


def test_pace_follows_a_change_of_speed_within_its_window() -> None:
    pace = SpeakingPace(window=3)
    for secs in (1.0, 1.0, 1.0, 2.0, 2.0, 2.0):
        pace.add(weight=20.0, voiced_secs=secs)
    assert pace.secs_per_weight == pytest.approx(0.1)
    pace.forget()
    assert pace.secs_per_weight is None


def test_a_change_of_speed_converts_what_was_learned() -> None:
    pace = SpeakingPace()
    pace.add(weight=20.0, voiced_secs=1.0)
    pace.scale(2.0)
    assert pace.secs_per_weight == pytest.approx(0.1)
    for ratio in (0.0, -1.0, float("nan")):
        with pytest.raises(UsageError):
            pace.scale(ratio)


def test_words_share_voiced_time_by_weight_and_skip_pauses() -> None:
    voicing = voice(0.5, 0.5)
    assert word_ends(["abcd", "abcd"], 0, 8000, voicing) == [4000, 4000 + 2400 + 4000]


def test_ends_of_texts_in_a_complete_stream_are_its_pauses() -> None:
    voicing = voice(1.0, 0.5, 2.0)
    ends = text_ends([20, 10, 40], voicing, pace=None, closed=True)
    assert ends == [8000, 8000 + 2400 + 4000, voicing.voiced_end_samples]


def test_a_pause_inside_a_text_is_not_taken_for_its_end() -> None:
    voicing = voice(0.4, 0.6, 1.0)
    ends = text_ends([20, 20], voicing, pace=None, closed=True)
    assert ends == [3200 + 2400 + 4800, voicing.voiced_end_samples]


def test_texts_without_a_pause_between_them_are_divided_by_pace() -> None:
    voicing = voice(2.0)
    assert text_ends([20, 20], voicing, pace=None, closed=True) == [8000, 16000]


def test_an_unfinished_stream_places_only_the_texts_whose_end_it_holds() -> None:
    voicing = voice(1.0, 1.0, 0.3)
    assert text_ends([20, 20, 20], voicing, pace=0.05, closed=False) == [8000, 8000 + 2400 + 8000, None]


def test_an_unfinished_stream_of_an_unknown_voice_is_tried_with_an_average_pace() -> None:
    voicing = voice(1.0, 1.0, 0.3)
    assert text_ends([20, 20, 20], voicing, pace=None, closed=False) == [8000, 8000 + 2400 + 8000, None]
    assert text_ends([200, 20], voicing, pace=None, closed=False) == [None, None]


def test_no_texts_have_no_ends() -> None:
    assert text_ends([], voice(1.0), pace=None, closed=True) == []
