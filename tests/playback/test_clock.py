import math

import pytest

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.playback.clock import (
    AckVerdict,
    PlayoutAck,
    PlayoutClock,
    PlayoutClockConfig,
    SentAudio,
)

RATE = 1000


def clock(*, log_size: int = 4000, ack_log_size: int = 200) -> PlayoutClock:
    config = PlayoutClockConfig(
        playout_delay_secs=0.2, uplink_delay_secs=0.0, log_size=log_size, ack_log_size=ack_log_size
    )
    return PlayoutClock(rate_hz=RATE, config=config)


def write(
    target: PlayoutClock, *, start_secs: float, secs: float, utterance: int | None = 1, done_samples: int = 0
) -> None:
    """Audio written in real time in 40 ms chunks to a track that began at time 0."""
    for index in range(round(secs / 0.04)):
        end = round((start_secs + (index + 1) * 0.04) * RATE)
        target.add_sent(
            SentAudio(
                position_samples=end,
                samples=40,
                utterance=utterance,
                utterance_end_samples=done_samples + (index + 1) * 40,
                at_secs=end / RATE,
            )
        )


def ack(
    target: PlayoutClock,
    at: float,
    position: float,
    *,
    epoch: int = 0,
    live: bool = True,
    uplink: float = 0.0,
):
    return target.add_ack(
        PlayoutAck(epoch=epoch, position_samples=position, at_secs=at, uplink_secs=uplink, live=live)
    )


def position(target: PlayoutClock, at: float) -> float:
    return target.playhead(at).position_samples


def test_without_acks_the_write_clock_minus_the_delay_is_an_estimate() -> None:
    target = clock()
    write(target, start_secs=1.0, secs=2.0)
    playhead = target.playhead(2.0)
    assert playhead.estimated
    assert playhead.position_samples == pytest.approx(1800)
    assert playhead.utterances == {1: 800}
    target.playout_delay_secs = 0.5
    assert target.playhead(2.0).utterances == {1: 500}


def test_an_empty_log_has_played_nothing() -> None:
    assert clock().playhead(5.0).utterances == {}
    assert clock().heard_at_secs(10) == pytest.approx(0.2)


def test_between_two_acks_the_position_is_interpolated() -> None:
    target = clock()
    write(target, start_secs=0.0, secs=2.0)
    assert ack(target, 1.0, 700) is AckVerdict.TAKEN
    assert ack(target, 1.1, 760) is AckVerdict.TAKEN
    playhead = target.playhead(1.05)
    assert not playhead.estimated
    assert playhead.position_samples == pytest.approx(730, abs=21)


def test_playback_never_runs_faster_than_real_time_between_acks() -> None:
    target = clock()
    write(target, start_secs=0.0, secs=2.0)
    ack(target, 1.0, 500, live=False)
    ack(target, 1.1, 900)
    assert position(target, 1.05) <= 550


def test_after_the_last_ack_playback_is_assumed_to_run_on_for_a_bounded_time() -> None:
    target = clock()
    write(target, start_secs=0.0, secs=4.0)
    ack(target, 1.0, 800)
    assert position(target, 1.1) == pytest.approx(900)
    assert position(target, 1.9) == pytest.approx(1050)


def test_once_acks_are_overdue_the_write_clock_takes_over_with_the_measured_delay() -> None:
    target = clock()
    write(target, start_secs=0.0, secs=6.0)
    ack(target, 1.0, 900)
    playhead = target.playhead(3.0)
    assert playhead.estimated
    assert playhead.position_samples == pytest.approx(2900, abs=1)


def test_nothing_that_was_not_written_counts_as_played() -> None:
    target = clock()
    write(target, start_secs=0.0, secs=1.0)
    ack(target, 0.9, 900)
    assert target.playhead(1.1).utterances == {1: 1000}
    assert target.playhead(9.0).utterances == {1: 1000}


def test_an_uplink_delay_is_taken_off() -> None:
    target = clock()
    write(target, start_secs=0.0, secs=3.0)
    ack(target, 1.4, 850, uplink=0.4)
    assert target.last_ack_secs == pytest.approx(1.0)
    assert position(target, 1.0) == pytest.approx(850)
    assert target.delay_secs == pytest.approx(0.15, abs=0.001)


def test_a_later_ack_takes_the_jitter_out_of_an_earlier_one() -> None:
    target = clock()
    write(target, start_secs=0.0, secs=3.0)
    ack(target, 1.09, 900)  # 90 ms late on its way
    assert position(target, 1.0) == pytest.approx(810)
    ack(target, 1.1, 1000)
    assert position(target, 1.0) == pytest.approx(900)


def test_before_the_first_ack_playback_is_traced_back_in_real_time() -> None:
    target = clock()
    write(target, start_secs=0.0, secs=3.0)
    ack(target, 1.0, 800)
    assert position(target, 0.9) == pytest.approx(700)
    assert position(target, 0.1) == 0.0
    write(target, start_secs=3.0, secs=1.0)
    late = clock()
    write(late, start_secs=0.0, secs=3.0)
    ack(late, 2.9, 2800)
    assert late.playhead(1.0).estimated


def test_what_the_user_cannot_hear_does_not_count_as_heard() -> None:
    target = clock()
    write(target, start_secs=0.0, secs=6.0)
    ack(target, 1.0, 900)
    ack(target, 1.1, 1000, live=False)
    ack(target, 3.0, 2900, live=False)
    assert position(target, 3.5) == pytest.approx(900)
    assert ack(target, 3.6, 3500) is AckVerdict.TAKEN
    assert position(target, 3.65) == pytest.approx(3550)
    silent = clock()
    write(silent, start_secs=0.0, secs=2.0)
    ack(silent, 1.0, 900, live=False)
    assert position(silent, 1.5) == pytest.approx(900)


@pytest.mark.parametrize(
    ("at", "where", "epoch", "verdict"),
    [
        (1.2, 800, 0, AckVerdict.REGRESSING),
        (1.2, 900, 0, AckVerdict.DUPLICATE),
        (1.2, 950, 1, AckVerdict.FOREIGN),
        (1.2, 99_999, 0, AckVerdict.AHEAD),
        (1.2, -1, 0, AckVerdict.INVALID),
        (1.2, math.nan, 0, AckVerdict.INVALID),
        (1.2, math.inf, 0, AckVerdict.INVALID),
    ],
)
def test_acks_that_do_not_fit_are_named_and_move_nothing(
    at: float, where: float, epoch: int, verdict: AckVerdict
) -> None:
    target = clock()
    write(target, start_secs=0.0, secs=2.0)
    ack(target, 1.0, 900)
    before = position(target, 1.0)
    assert ack(target, at, where, epoch=epoch) is verdict
    assert target.verdicts[verdict] == 1
    assert position(target, 1.0) == pytest.approx(before)


def test_a_duplicate_says_that_playback_stands_still() -> None:
    target = clock()
    write(target, start_secs=0.0, secs=6.0)
    ack(target, 1.0, 900)
    for index in range(10):
        ack(target, 1.1 + index / 10, 900)
    assert position(target, 2.0) == pytest.approx(900)


def test_a_gap_in_writing_shows_in_the_write_clock() -> None:
    target = clock()
    write(target, start_secs=0.0, secs=1.0)
    write(target, start_secs=3.0, secs=1.0, done_samples=1000)
    assert target.playhead(2.0).utterances == {1: 1000}
    assert target.playhead(3.4).utterances == {1: 1200}


def test_several_utterances_are_told_apart() -> None:
    target = clock()
    write(target, start_secs=0.0, secs=1.0, utterance=1)
    write(target, start_secs=1.0, secs=1.0, utterance=None)
    write(target, start_secs=2.0, secs=1.0, utterance=2)
    assert target.playhead(2.7).utterances == {1: 1000, 2: 500}
    assert target.position_of(2, 500) == 2500
    assert target.position_of(2, 5000) is None
    assert target.heard_at_secs(2500) == pytest.approx(2.7)
    assert target.heard_at_secs(3500) == pytest.approx(3.7)


def test_a_new_track_freezes_what_was_heard_of_the_old_one() -> None:
    target = clock()
    write(target, start_secs=0.0, secs=1.0)
    ack(target, 0.9, 700)
    target.start_epoch(1, 0.9)
    assert ack(target, 1.0, 800) is AckVerdict.FOREIGN
    assert not target.has_acks
    assert target.playhead(5.0).utterances == {1: 700}
    target.forget_utterances(2)
    assert target.playhead(5.0).utterances == {}


def test_what_a_lost_track_still_held_was_not_heard_however_late_that_is_noticed() -> None:
    target = clock()
    write(target, start_secs=0.0, secs=1.0)
    ack(target, 1.0, 700)
    target.start_epoch(1, 1.4)
    assert target.playhead(5.0).utterances == {1: 700}


def test_a_track_lost_between_two_acknowledgements_was_played_on_for_no_more_than_their_interval() -> None:
    target = clock()
    write(target, start_secs=0.0, secs=1.0)
    ack(target, 0.8, 500)
    target.start_epoch(1, 1.0)
    assert target.playhead(5.0).utterances == {1: 600}


def test_without_acknowledgements_a_lost_track_was_heard_as_far_as_its_last_write_less_the_delay() -> None:
    target = clock()
    write(target, start_secs=0.0, secs=1.0)
    target.start_epoch(1, 1.45)
    assert target.playhead(5.0).utterances == {1: round(1000 * (1.0 - target.config.playout_delay_secs))}


def test_a_new_track_is_heard_about_as_late_as_the_old_one() -> None:
    target = clock()
    write(target, start_secs=0.0, secs=1.0)
    ack(target, 0.9, 600)
    delay_secs = target.delay_secs
    target.start_epoch(1, 1.0)
    assert target.delay_secs == delay_secs != target.config.playout_delay_secs


def test_a_position_that_goes_back_within_a_track_is_dropped() -> None:
    target = clock()
    write(target, start_secs=1.0, secs=1.0)
    write(target, start_secs=0.0, secs=0.4, utterance=2)
    assert target.playhead(9.0).utterances == {1: 1000}


def test_both_logs_are_bounded_and_what_leaves_the_send_log_was_played() -> None:
    target = clock(log_size=10, ack_log_size=2)
    write(target, start_secs=0.0, secs=2.0, utterance=None)
    write(target, start_secs=2.0, secs=2.0, utterance=1)
    write(target, start_secs=4.0, secs=2.0, utterance=2)
    assert len(target._sent) == 10
    assert target.playhead(9.0).utterances == {1: 2000, 2: 2000}
    for index in range(5):
        ack(target, 5.0 + index / 10, 4800 + index * 100)
    assert len(target._acks) == 2


def test_acks_never_go_back_in_time_either() -> None:
    target = clock()
    write(target, start_secs=0.0, secs=3.0)
    ack(target, 1.0, 900)
    ack(target, 1.05, 950, uplink=0.5)
    assert target.last_ack_secs == pytest.approx(1.0)


def test_the_write_clock_before_the_first_chunk_is_zero() -> None:
    target = clock()
    write(target, start_secs=1.0, secs=1.0)
    assert position(target, 0.1) == 0.0


@pytest.mark.parametrize(
    "settings",
    [
        {"playout_delay_secs": -1.0},
        {"uplink_delay_secs": math.nan},
        {"extrapolation_secs": 11.0},
        {"fresh_secs": -1.0},
        {"log_size": 1},
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        PlayoutClockConfig(**settings)  # type: ignore[arg-type]


def test_the_delay_is_not_measured_by_acks_that_cannot_be_heard_or_lie_beyond_the_log() -> None:
    target = clock()
    write(target, start_secs=0.0, secs=1.0)
    ack(target, 0.5, 100, live=False)
    ack(target, 1.3, 1250)
    assert target.delay_secs == 0.2


def test_acknowledgements_that_are_under_way_are_allowed_for() -> None:
    target = clock()
    write(target, start_secs=0.0, secs=4.0)
    ack(target, 1.4, 900, uplink=0.4)
    assert position(target, 1.6) == pytest.approx(1500)
    assert position(target, 1.9) == pytest.approx(900 + 650)


def write_at_once(target: PlayoutClock, *, at_secs: float, start_secs: float, secs: float) -> None:
    """Audio of a track position that is written in one moment, as by a bot that stood still before."""
    for index in range(round(secs / 0.04)):
        target.add_sent(
            SentAudio(
                position_samples=round((start_secs + (index + 1) * 0.04) * RATE),
                samples=40,
                utterance=1,
                utterance_end_samples=(index + 1) * 40,
                at_secs=at_secs,
            )
        )


def test_what_is_written_at_once_is_heard_in_real_time_and_a_little_faster() -> None:
    target = clock()
    write_at_once(target, at_secs=2.0, start_secs=1.0, secs=1.0)
    assert position(target, 2.5) == pytest.approx(1040 + 300 / 0.95, abs=3)
    assert position(target, 3.0) == pytest.approx(1040 + 800 / 0.95, abs=3)
    assert target.heard_at_secs(2000) == pytest.approx(2.0 + 0.96 * 0.95 + 0.2)


def test_after_what_was_written_at_once_the_delay_is_made_up_for() -> None:
    target = clock()
    write_at_once(target, at_secs=2.0, start_secs=1.0, secs=1.0)
    write(target, start_secs=2.0, secs=30.0)
    assert position(target, 3.2) == pytest.approx(2000 + 88 / 0.95, abs=2)
    assert position(target, 30.2) == pytest.approx(30_000)


def test_what_is_written_after_a_flush_is_not_late_for_what_was_dropped() -> None:
    target = clock()
    write_at_once(target, at_secs=2.0, start_secs=1.0, secs=10.0)
    target.flushed()
    write(target, start_secs=12.0, secs=1.0)
    assert target.heard_at_secs(12_500) == pytest.approx(12.7)


def test_the_delay_is_measured_against_what_could_be_heard_and_not_counted_twice() -> None:
    target = clock()
    write_at_once(target, at_secs=2.0, start_secs=1.0, secs=2.0)
    ack(target, 3.2, 2040.0)
    assert target.delay_secs == pytest.approx(3.2 - (2.0 + 1.0 * 0.95))


def test_a_jitter_buffer_that_holds_what_came_at_once_is_not_counted_twice() -> None:
    target = clock()
    write_at_once(target, at_secs=2.0, start_secs=1.0, secs=2.0)
    without = position(target, 3.2)
    target.playout_delay_secs = 1.0
    assert position(target, 3.2) == without
    target.playout_delay_secs = 3.0
    assert position(target, 4.9) < 1040
    assert target.heard_at_secs(3000) == pytest.approx(5.0)


def test_an_end_is_not_heard_before_the_acknowledged_rest_has_been_played() -> None:
    target = clock()
    write(target, start_secs=0.0, secs=4.0)
    ack(target, 1.0, 800.0)
    assert target.heard_at_secs(4000) == pytest.approx(4.2)
    ack(target, 3.0, 2000.0)
    assert target.heard_at_secs(4000) == pytest.approx(5.0)
    assert target.heard_at_secs(1500) == pytest.approx(1.7)


def test_a_client_that_stands_still_puts_an_end_off_for_a_bounded_time() -> None:
    target = clock()
    write(target, start_secs=0.0, secs=4.0)
    for tenth in range(10, 300):
        ack(target, tenth / 10, 800.0)
    assert target.heard_at_secs(4000) == pytest.approx(4.0 + 5.0)
