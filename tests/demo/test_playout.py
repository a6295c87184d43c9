from __future__ import annotations

import pytest

from pipecat_voicectx.demo.playout import CODEC_DELAY_SAMPLES, PauseDetector, PlayedPiece, Playout

_LOUD = 5000


def _playout(pieces: int, *, delay_secs: float = 0.2) -> Playout:
    """As many pieces as arrived, one every 20 ms, none played yet."""
    playout = Playout(delay_secs=delay_secs, track_rate_hz=24_000)
    for number in range(pieces):
        playout.add(number * 960, _LOUD, now_secs=number * 0.02)
    return playout


def _live(playout: Playout, signs: str, *, start: int = 0) -> list[int]:
    """One sign every 20 ms: `x` speech, `.` silence, `-` a packet that never comes, `z` nothing is sent at all."""
    played: list[int] = []
    rtp = start
    for number, sign in enumerate(signs, start=start):
        if sign in "x.":
            playout.add(rtp * 960, _LOUD if sign == "x" else 0, now_secs=number * 0.02)
        rtp += sign != "z"
        played += [piece.peak for piece in playout.advance(now_secs=number * 0.02 + 0.001)]
    return played


def test_nothing_is_played_before_the_first_piece() -> None:
    playout = Playout(delay_secs=0.2, track_rate_hz=24_000)
    assert playout.track_sample(now_secs=5.0) is None
    assert playout.advance(now_secs=5.0) == []


def test_position_lags_by_the_client_delay_and_the_codec_look_ahead() -> None:
    playout = _playout(100)
    assert playout.track_sample(now_secs=1.2) == (48_000 - CODEC_DELAY_SAMPLES) // 2


def test_position_runs_on_the_clock_between_pieces() -> None:
    playout = _playout(100)
    earlier, later = playout.track_sample(now_secs=1.200), playout.track_sample(now_secs=1.207)
    assert earlier is not None
    assert later == earlier + 168


def test_a_hole_plays_as_silence_and_takes_its_time() -> None:
    played = _live(Playout(delay_secs=0.2, track_rate_hz=24_000), "x" * 10 + "---" + "x" * 20)
    assert played == [_LOUD] * 10 + [0] * 3 + [_LOUD] * 9


def test_after_a_stall_silence_is_left_out_until_the_delay_is_back() -> None:
    playout = Playout(delay_secs=0.2, track_rate_hz=24_000)
    _live(playout, "x" * 50 + "z" * 40)
    late = playout.track_sample(now_secs=1.8)
    assert late == (50 * 960 - CODEC_DELAY_SAMPLES) // 2
    for number in range(50, 150):  # what was held up arrives at once, then one by one
        playout.add(number * 960, 0 if number >= 60 else _LOUD, now_secs=max(1.8, number * 0.02))
        playout.advance(now_secs=max(1.8, number * 0.02))
    position = playout.track_sample(now_secs=3.0)
    assert position is not None
    assert 3.0 - (position * 2 + CODEC_DELAY_SAMPLES) / 48_000 < 0.2 + 0.08 + 0.021


def test_when_nothing_is_left_the_position_waits_and_the_delay_grows() -> None:
    playout = _playout(10)
    playout.advance(now_secs=5.0)
    stopped = playout.track_sample(now_secs=5.0)
    assert stopped == (9600 - CODEC_DELAY_SAMPLES) // 2
    playout.add(9600, _LOUD, now_secs=5.0)
    playout.advance(now_secs=5.02)
    assert playout.track_sample(now_secs=5.02) == pytest.approx((10560 - CODEC_DELAY_SAMPLES) // 2, abs=1)


def test_late_and_repeated_pieces_change_nothing() -> None:
    playout = _playout(20)
    playout.advance(now_secs=0.401)
    playout.add(0, _LOUD, now_secs=0.401)
    playout.add(15 * 960, 1, now_secs=0.401)
    assert [piece.peak for piece in playout.advance(now_secs=0.601)] == [_LOUD] * 10


def test_revoked_audio_is_silent_from_the_position_on_and_later_audio_is_not() -> None:
    playout = _playout(12)
    playout.drop_after(10 * 480)
    for number in range(12, 20):
        playout.add(number * 960, _LOUD, now_secs=number * 0.02)
    peaks = [piece.peak for piece in playout.advance(now_secs=0.2 + 20 * 0.02 + 0.001)]
    assert peaks == [_LOUD] * 11 + [0] * 1 + [_LOUD] * 8


def test_what_nobody_plays_is_bounded() -> None:
    playout = _playout(4000)
    played = playout.advance(now_secs=0.2 + 4000 * 0.02)
    assert sum(piece.peak > 0 for piece in played) == 1500


def _detector(pattern: str) -> PauseDetector:
    """`x` 20 ms of speech, `.` 20 ms of silence."""
    detector = PauseDetector(min_pause_secs=0.22)
    for number, sign in enumerate(pattern):
        detector.add(PlayedPiece(number * 0.02, _LOUD if sign == "x" else 0))
    return detector


@pytest.mark.parametrize(
    ("pattern", "starts"),
    [
        ("x" * 20, []),
        ("." * 50, []),
        ("x" * 10 + "." * 10 + "x" * 10, []),
        ("x" * 10 + "." * 11 + "x" * 10, [0.2]),
        ("x" * 10 + "." * 30, [0.2]),
        ("x" * 10 + "." * 12 + "x" * 8 + "." * 40 + "x", [0.2, 0.6]),
    ],
)
def test_a_pause_is_a_long_silence_after_speech(pattern: str, starts: list[float]) -> None:
    assert [round(pause.start_secs, 3) for pause in _detector(pattern).pauses] == starts


def test_silence_is_measured_from_the_last_sound() -> None:
    detector = _detector("x" * 10 + "." * 5)
    assert detector.silent_secs(now_secs=1.0) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("before", "after", "spoke"),
    [
        ("x" * 10, "x" * 10, False),
        ("x" * 10, "." * 14 + "x" * 10, False),
        ("x" * 10, "." * 25 + "x" * 10, True),
        ("x" * 10 + "." * 20, "." * 5 + "x" * 10, True),
        ("", "x" * 10, False),
    ],
)
def test_after_a_restart_only_what_follows_a_silence_is_an_answer(
    before: str, after: str, *, spoke: bool
) -> None:
    detector = _detector(before)
    detector.restart()
    for number, sign in enumerate(after, start=len(before)):
        detector.add(PlayedPiece(number * 0.02, _LOUD if sign == "x" else 0))
    assert detector.spoke is spoke
