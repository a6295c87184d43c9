from __future__ import annotations

import pytest

from pipecat_voicectx.signals.audio_gaps import AudioGap, PtsGapDetector


def feed(detector: PtsGapDetector, pts: list[int], *, duration_secs: float = 0.02) -> list[float]:
    gaps = [
        detector.add(now_secs=i * 0.02, pts=value, duration_secs=duration_secs, sample_rate_hz=16_000)
        for i, value in enumerate(pts)
    ]
    return [round(gap.missing_secs, 6) for gap in gaps if gap]


@pytest.mark.parametrize("clock_hz", [48_000, 1_000_000_000, 1_000_000, 1_000, 16_000])
def test_the_clock_is_recognised_and_a_gap_measured_exactly(clock_hz: int) -> None:
    step = clock_hz // 50
    detector = PtsGapDetector()
    assert feed(detector, [i * step for i in [*range(10), *range(15, 20)]]) == [0.1]
    assert detector.active


def test_a_configured_clock_reports_from_the_second_frame_on() -> None:
    assert feed(PtsGapDetector(clock_hz=48_000), [0, 960 * 4]) == [0.06]


def test_frames_without_pts_say_nothing() -> None:
    detector = PtsGapDetector()
    assert detector.add(now_secs=0.0, pts=None, duration_secs=0.02, sample_rate_hz=16_000) is None
    assert not detector.active


def test_several_frames_cut_from_one_share_its_pts() -> None:
    detector = PtsGapDetector(clock_hz=48_000)
    assert feed(detector, [0, 0, 960, 960, 1920, 1920, 4800, 4800], duration_secs=0.01) == [0.04]


@pytest.mark.parametrize("pts", [[0, 960, 0, 960], [0, 960, 10**12, 10**12 + 960]])
def test_going_back_and_leaping_are_restarts_not_losses(pts: list[int]) -> None:
    assert feed(PtsGapDetector(clock_hz=48_000), pts) == []


def test_uneven_frames_of_a_resampler_are_not_gaps() -> None:
    detector = PtsGapDetector(clock_hz=48_000)
    for i, secs in enumerate([0.019, 0.02, 0.02, 0.02]):
        assert detector.add(now_secs=0.0, pts=i * 960, duration_secs=secs, sample_rate_hz=16_000) is None


def test_a_zero_length_frame_is_ignored() -> None:
    detector = PtsGapDetector(clock_hz=48_000)
    detector.add(now_secs=0.0, pts=0, duration_secs=0.02, sample_rate_hz=16_000)
    assert detector.add(now_secs=0.0, pts=9_600, duration_secs=0.0, sample_rate_hz=16_000) is None


def test_after_a_restart_the_clock_is_found_anew() -> None:
    detector = PtsGapDetector()
    feed(detector, [i * 960 for i in range(6)])
    detector.restart()
    assert not detector.active
    assert feed(detector, [i * 320 for i in [*range(6), 8]]) == [0.04]


def test_a_gap_tells_when_the_audio_after_it_came() -> None:
    detector = PtsGapDetector(clock_hz=48_000)
    detector.add(now_secs=1.0, pts=0, duration_secs=0.02, sample_rate_hz=16_000)
    gap = detector.add(now_secs=1.5, pts=1920, duration_secs=0.02, sample_rate_hz=16_000)
    assert gap == AudioGap(at_secs=1.5, missing_secs=pytest.approx(0.02))
