"""What a call learned of a voice's tempo, in the next call."""

from __future__ import annotations

from pathlib import Path

from pipecat.tests.utils import run_test

from pipecat_voicectx.orchestrator.speed_calibration import LearnedSpeed
from pipecat_voicectx.processors.orchestrator import Orchestrator
from pipecat_voicectx.stores.voice_speeds import VoiceSpeeds
from pipecat_voicectx.testing import virtual_time


def call(speeds: VoiceSpeeds, *, hear: bool) -> float:
    """One call; returns the ratio that its voice started with."""

    async def main() -> float:
        orchestrator = Orchestrator(voice_speeds=speeds)
        await run_test(orchestrator, frames_to_send=[])
        ratio = orchestrator._speed._calibration.ratio
        if hear:
            orchestrator._speed._calibration.add(asked_wpm=180, words=100, secs=100 * 60 / 216)
        await orchestrator.cleanup()
        return ratio

    return virtual_time.run(main())


def test_the_next_call_starts_with_what_the_last_one_learned(tmp_path: Path) -> None:
    speeds = VoiceSpeeds(tmp_path / "speeds.json")
    assert call(speeds, hear=True) == 1.0
    assert call(speeds, hear=False) > 1.1


def test_a_folder_that_cannot_be_written_costs_the_memory_of_it_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    speeds = VoiceSpeeds(tmp_path / "file" / "speeds.json")
    assert call(speeds, hear=True) == 1.0
    assert speeds.load("this pipeline/") is None


def test_a_kept_file_of_another_voice_says_nothing(tmp_path: Path) -> None:
    speeds = VoiceSpeeds(tmp_path / "speeds.json")
    speeds.save("OtherTTS/anna", LearnedSpeed(ratio=1.3, words=200.0))
    assert call(speeds, hear=False) == 1.0
