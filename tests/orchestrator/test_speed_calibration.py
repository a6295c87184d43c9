from __future__ import annotations

import pytest

from pipecat_voicectx.orchestrator.speed_calibration import SpeedCalibration


def test_until_something_was_heard_the_table_holds() -> None:
    calibration = SpeedCalibration()
    assert calibration.ask_for(200) == 200
    assert calibration.delivered(200) == 200


def test_a_voice_that_runs_fast_is_asked_for_less() -> None:
    calibration = SpeedCalibration()
    calibration.add(asked_wpm=150, words=30, secs=10.0)  # 180 instead of 150
    assert calibration.ratio == pytest.approx(1.2)
    assert calibration.ask_for(180) == 150
    assert calibration.delivered(150) == 180


def test_later_turns_move_it_by_a_third_of_the_way() -> None:
    calibration = SpeedCalibration()
    calibration.add(asked_wpm=150, words=30, secs=10.0)
    calibration.add(asked_wpm=150, words=25, secs=10.0)
    assert calibration.ratio == pytest.approx(1.14)


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
    calibration.add(asked_wpm=100, words=30, secs=10.0)
    assert calibration.ratio == 1.4
