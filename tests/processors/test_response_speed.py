"""One voice's speed: what it is set to, what it delivers, and what was refused."""

from __future__ import annotations

import pytest
from pipecat.frames.frames import Frame, TTSUpdateSettingsFrame

from pipecat_voicectx.errors import UnavailableError
from pipecat_voicectx.orchestrator.functions import CallError, RejectedCall
from pipecat_voicectx.playback.heard import BoundaryEvidence, HeardTurn
from pipecat_voicectx.processors.response_speed import ResponseSpeed

TEXT = " ".join(["word"] * 60)


class Dial:
    """A speed control of an application's own, in steps of ten."""

    words_per_minute: int | None = 180
    broken = False

    def nearest_wpm(self, words_per_minute: int) -> int:
        return round(words_per_minute, -1)

    def frame_for(self, words_per_minute: int) -> Frame:
        if self.broken:
            raise UnavailableError("the voice is reconnecting")
        return TTSUpdateSettingsFrame(settings={"speed": words_per_minute})


def heard(wpm: float, *, interrupted: bool = False, started_secs: float = 1e12) -> HeardTurn:
    return HeardTurn(
        turn_id=1,
        heard_text=TEXT,
        unheard_text="",
        interrupted=interrupted,
        evidence=BoundaryEvidence.WORD,
        estimated=False,
        played_samples=round(60 * 60 / wpm * 24_000),
        sample_rate_hz=24_000,
        started_secs=started_secs,
        ended_secs=started_secs,
    )


def test_a_voice_without_a_control_is_named() -> None:
    rejected = ResponseSpeed(None, None).change(200)
    assert isinstance(rejected, RejectedCall)
    assert rejected.error is CallError.NOT_SUPPORTED
    assert "not supported by this pipeline" in rejected.detail


def test_what_cannot_be_set_now_changes_nothing() -> None:
    dial = Dial()
    dial.broken = True
    speed = ResponseSpeed(None, dial)
    rejected = speed.change(200)
    assert isinstance(rejected, RejectedCall)
    assert rejected.detail == "the voice is reconnecting"
    assert speed.asked_wpm == 180


def test_a_voice_that_runs_slow_is_asked_for_more() -> None:
    speed = ResponseSpeed(None, Dial())
    for _ in range(10):
        speed.add_heard(heard(150))
    assert speed.delivered_wpm == pytest.approx(152, abs=3)
    frame = speed.change(180)
    assert isinstance(frame, TTSUpdateSettingsFrame)
    assert frame.settings["speed"] == pytest.approx(213, abs=4)
    assert speed.asked_wpm == round(frame.settings["speed"], -1)


@pytest.mark.parametrize("turn", [heard(90, interrupted=True), heard(90, started_secs=0.0)])
def test_turns_that_do_not_tell_are_left_out(turn: HeardTurn) -> None:
    speed = ResponseSpeed(None, Dial())
    speed.change(180)
    speed.add_heard(turn)
    assert speed.delivered_wpm == 180
