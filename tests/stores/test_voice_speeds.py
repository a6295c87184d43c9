from __future__ import annotations

from pathlib import Path

import pytest

from pipecat_voicectx.orchestrator.speed_calibration import LearnedSpeed, SpeedCalibration
from pipecat_voicectx.stores.voice_speeds import MOST_VOICES, VoiceSpeeds


def test_what_one_call_learned_the_next_one_knows(tmp_path: Path) -> None:
    first = SpeedCalibration()
    for _ in range(6):
        first.add(asked_wpm=180, words=40, secs=40 * 60 / 216)
    learned = first.learned
    assert learned is not None
    VoiceSpeeds(tmp_path / "deep" / "speeds.json").save("tts/anna", learned)
    speeds = VoiceSpeeds(tmp_path / "deep" / "speeds.json")
    second = SpeedCalibration(speeds.load("tts/anna"))
    assert second.ask_for(180) == pytest.approx(first.ask_for(180), abs=1)
    assert speeds.load("tts/bert") is None


def test_a_voice_that_was_never_heard_is_not_kept() -> None:
    assert SpeedCalibration().learned is None


@pytest.mark.parametrize("ratio", [float("nan"), float("inf"), -3.0, 0.0, 50.0])
def test_a_kept_ratio_that_cannot_be_true_is_bounded(ratio: float) -> None:
    calibration = SpeedCalibration(LearnedSpeed(ratio=ratio, words=1e9))
    assert 0.7 <= calibration.ratio <= 1.4


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"v": 3}', '{"v": {"ratio": "fast", "words": 1}}', '{"v": {}}']
)
def test_a_file_that_makes_no_sense_counts_as_empty(tmp_path: Path, text: str) -> None:
    path = tmp_path / "speeds.json"
    path.write_text(text)
    speeds = VoiceSpeeds(path)
    assert speeds.load("v") is None
    speeds.save("v", LearnedSpeed(ratio=1.1, words=80.0))
    assert speeds.load("v") == LearnedSpeed(ratio=1.1, words=80.0)


def test_the_file_is_bounded_and_leaves_no_litter(tmp_path: Path) -> None:
    speeds = VoiceSpeeds(tmp_path / "speeds.json")
    for number in range(MOST_VOICES + 10):
        speeds.save(f"voice {number}", LearnedSpeed(ratio=1.0, words=50.0))
    assert speeds.load("voice 0") is None
    assert speeds.load(f"voice {MOST_VOICES + 9}") is not None
    assert [path.name for path in tmp_path.iterdir()] == ["speeds.json"]
