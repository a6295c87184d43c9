from __future__ import annotations

import pytest

from pipecat_voicectx.orchestrator.speed_calibration import SpeedCalibration


def test_until_something_was_heard_the_table_holds() -> None:
    calibration = SpeedCalibration()
    assert calibration.ask_for(200) == 200
    assert calibration.delivered(200) == 200


def test_a_voice_that_runs_fast_is_asked_for_less() -> None:
    calibration = SpeedCalibration()
    for _ in range(20):
        calibration.add(asked_wpm=150, words=30, secs=10.0)  # 180 instead of 150
    assert calibration.ratio == pytest.approx(1.2, abs=0.01)
    assert calibration.ask_for(180) == pytest.approx(150, abs=1)
    assert calibration.delivered(150) == pytest.approx(180, abs=1)


def test_one_short_answer_with_a_pause_in_it_hardly_moves_the_voice() -> None:
    # Taken in full, this measurement made a voice asked for 232 words a minute speak at 331.
    calibration = SpeedCalibration()
    calibration.add(asked_wpm=170, words=8, secs=3.6)
    assert calibration.ratio == pytest.approx(1.0, abs=0.04)


def test_a_long_turn_counts_for_more_than_a_short_one() -> None:
    short, long = SpeedCalibration(), SpeedCalibration()
    short.add(asked_wpm=150, words=10, secs=10.0 / 3)
    long.add(asked_wpm=150, words=60, secs=20.0)
    assert 1.0 < short.ratio < long.ratio < 1.2


def test_a_changed_voice_is_followed() -> None:
    calibration = SpeedCalibration()
    for _ in range(50):
        calibration.add(asked_wpm=150, words=30, secs=10.0)
    for _ in range(20):
        calibration.add(asked_wpm=150, words=30, secs=12.0)  # as asked
    assert calibration.ratio == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(
    ("asked", "words", "secs"),
    [
        (150, 7, 3.0),
        (150, 30, 1.9),
        (150, 30, 700.0),
        (0, 30, 10.0),
        (150, 300, 10.0),
        (150, 8, 60.0),
        (150, 30, float("nan")),
    ],
)
def test_what_cannot_be_true_is_dropped(asked: float, words: int, secs: float) -> None:
    calibration = SpeedCalibration()
    calibration.add(asked_wpm=asked, words=words, secs=secs)
    assert calibration.ratio == 1.0


def test_the_correction_is_bounded() -> None:
    calibration = SpeedCalibration()
    for _ in range(50):
        calibration.add(asked_wpm=100, words=30, secs=10.0)
    assert calibration.ratio == 1.4
