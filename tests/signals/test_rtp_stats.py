from __future__ import annotations

import math

from pipecat_voicectx.signals.rtp_stats import RtpStatsSample, interval_between


def sample(
    at: float, received: int, lost: int, concealed: float | None = None, ssrc: int = 1
) -> RtpStatsSample:
    return RtpStatsSample(
        at_secs=at, ssrc=ssrc, packets_received=received, packets_lost=lost, concealed_secs=concealed
    )


def test_an_interval_is_the_difference_of_the_counters() -> None:
    interval = interval_between(sample(1.0, 50, 2, 0.04), sample(2.0, 95, 7, 0.14))
    assert interval is not None
    assert (interval.packets_received, interval.packets_lost) == (45, 5)
    assert interval.concealed_secs is not None
    assert math.isclose(interval.concealed_secs, 0.1)
    assert interval.silent_concealed_secs is None


def test_another_stream_a_restart_and_an_older_sample_give_no_interval() -> None:
    first = sample(1.0, 50, 2, 0.5)
    assert interval_between(first, sample(2.0, 95, 2, 0.5, ssrc=2)) is None
    assert interval_between(first, sample(2.0, 3, 0, 0.5)) is None
    assert interval_between(first, sample(2.0, 95, 2, 0.1)) is None
    assert interval_between(first, sample(1.0, 95, 2, 0.6)) is None
    assert interval_between(first, sample(0.5, 95, 2, 0.6)) is None


def test_a_loss_count_that_shrinks_because_of_duplicates_is_no_loss() -> None:
    interval = interval_between(sample(1.0, 50, 5), sample(2.0, 102, 3))
    assert interval is not None
    assert interval.packets_lost == 0


def test_counters_that_are_not_numbers_give_no_interval() -> None:
    assert interval_between(sample(1.0, 1, 0, 0.1), sample(2.0, 2, 0, math.nan)) is None
