import pytest

from pipecat_voicectx.signals.sent_audio import SentAudioTimeline


def sent(*, frames: int, start_secs: float = 100.0, frame_secs: float = 0.02) -> SentAudioTimeline:
    timeline = SentAudioTimeline()
    for number in range(frames):
        timeline.add(frame_secs, now_secs=start_secs + (number + 1) * frame_secs)
    return timeline


def test_a_position_is_when_that_audio_was_sent() -> None:
    timeline = sent(frames=100)
    assert timeline.sent_secs == pytest.approx(2.0)
    for position_secs in (0.0, 0.013, 0.5, 1.99, 2.0):
        assert timeline.time_of(position_secs) == pytest.approx(100.0 + position_secs)


def test_a_gap_in_sending_shifts_what_comes_after_it() -> None:
    timeline = sent(frames=50)
    for number in range(50):
        timeline.add(0.02, now_secs=105.0 + number * 0.02)
    assert timeline.time_of(0.9) == pytest.approx(100.9)
    assert timeline.time_of(1.5) == pytest.approx(105.48)


def test_what_was_not_sent_has_no_time() -> None:
    timeline = sent(frames=10)
    assert timeline.time_of(0.3) is None
    assert timeline.time_of(-0.1) is None
    assert SentAudioTimeline().time_of(0.0) is None


def test_it_is_bounded_and_says_nothing_about_long_ago() -> None:
    timeline = sent(frames=6000, frame_secs=0.04)  # four minutes
    assert timeline.time_of(10.0) is None
    assert timeline.time_of(235.0) == pytest.approx(335.0)
    assert len(timeline._marks) <= 1502


def test_a_new_session_counts_from_zero() -> None:
    timeline = sent(frames=10)
    timeline.restart()
    assert timeline.sent_secs == 0.0
    timeline.add(0.02, now_secs=300.0)
    assert timeline.time_of(0.02) == pytest.approx(300.0)
