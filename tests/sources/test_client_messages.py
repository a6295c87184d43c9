import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipecat_voicectx.errors import BadInputError
from pipecat_voicectx.sources.client_messages import (
    AckMessage,
    MessageBudget,
    StatsMessage,
    is_client_message,
    parse_client_message,
    rtp_to_track_samples,
    track_to_rtp_samples,
)

ACK = {
    "v": 1,
    "t": "ack",
    "epoch": 0,
    "r": 48_000,
    "samples": None,
    "turn": None,
    "age": 3.5,
    "pd": 25,
    "live": True,
}


def test_a_browsers_acknowledgement_is_read() -> None:
    message = parse_client_message(ACK)
    assert isinstance(message, AckMessage)
    assert (message.r, message.epoch, message.live, message.pd) == (48_000, 0, True, 25)


def test_a_whole_number_may_come_as_a_float_and_fields_may_be_left_out() -> None:
    message = parse_client_message({"v": 1, "t": "ack", "r": 96_000.0})
    assert isinstance(message, AckMessage)
    assert (message.r, message.samples, message.live) == (96_000, None, True)


def test_statistics_come_out_in_our_names_and_units() -> None:
    message = parse_client_message(
        {"v": 1, "t": "stats", "at": 2500, "concealedSamples": 480, "jitter": 0.01, "type": "inbound-rtp"}
    )
    assert isinstance(message, StatsMessage)
    stats = message.to_stats()
    assert (stats.at_secs, stats.concealed_samples, stats.jitter_secs) == (2.5, 480, 0.01)
    assert stats.packets_lost is None


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"v": "1"},
        {"t": "other"},
        {"t": None},
        {"r": -1},
        {"r": 2**32},
        {"r": 0.5},
        {"r": "48000"},
        {"r": math.nan},
        {"samples": -1},
        {"samples": 1e300},
        {"samples": True},
        {"turn": [1]},
        {"epoch": -1},
        {"live": "yes"},
        {"age": math.inf},
        {"pd": -1},
        {"epoch": None},
    ],
)
def test_what_does_not_fit_is_bad_input_that_names_its_field(change: dict[str, Any]) -> None:
    with pytest.raises(BadInputError, match=f"client message: invalid .*{next(iter(change))}|invalid t"):
        parse_client_message({**ACK, **change})


@pytest.mark.parametrize("data", [None, 7, "ack", [], b"x"])
def test_only_objects_are_messages(data: Any) -> None:
    with pytest.raises(BadInputError, match="expected an object"):
        parse_client_message(data)
    assert not is_client_message(data)


def test_a_message_may_not_be_long_or_endless() -> None:
    with pytest.raises(BadInputError, match="bytes"):
        parse_client_message({**ACK, "more": "x" * 3000})
    endless: dict[str, Any] = dict(ACK)
    endless["more"] = endless
    with pytest.raises(BadInputError, match="unreadable"):
        parse_client_message(endless)


def test_an_error_never_repeats_what_was_sent() -> None:
    with pytest.raises(BadInputError) as caught:
        parse_client_message({**ACK, "samples": "my secret"})
    assert "secret" not in str(caught.value)


def test_other_transport_messages_are_left_alone() -> None:
    assert is_client_message(ACK)
    assert not is_client_message({"label": "rtvi-ai", "type": "client-message"})
    assert not is_client_message({"v": 1, "t": "turn"})


KEYS = st.sampled_from(["v", "t", "r", "samples", "turn", "epoch", "live", "at"]) | st.text()
LEAVES = st.none() | st.booleans() | st.floats() | st.integers() | st.text()


@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner)))
def test_anything_at_all_is_either_a_message_or_bad_input(data: Any) -> None:
    try:
        message = parse_client_message(data)
    except BadInputError:
        return
    assert isinstance(message, (AckMessage, StatsMessage))


def test_twenty_messages_a_second_pass_and_the_rest_are_refused() -> None:
    budget = MessageBudget()
    assert sum(budget.spend(0.0) for _ in range(1000)) == 20
    assert not budget.spend(0.01)
    assert sum(budget.spend(1.0 + index * 0.05) for index in range(100)) == 100
    assert not MessageBudget(per_sec=1.0, _tokens=0.0).spend(-5.0)


def test_a_clock_that_goes_back_refills_nothing() -> None:
    budget = MessageBudget(_tokens=1.0)
    assert budget.spend(10.0)
    assert not budget.spend(5.0)


@given(st.integers(0, 2**32 - 1), st.integers(0, 10**9))
def test_rtp_time_and_track_position_translate_both_ways_across_the_wrap(origin: int, position: int) -> None:
    timestamp = track_to_rtp_samples(position, origin=origin, rate_hz=24_000)
    assert 0 <= timestamp < 2**32
    assert rtp_to_track_samples(timestamp, origin=origin, rate_hz=24_000) == pytest.approx(position, abs=1)


def test_the_encoders_look_ahead_is_taken_off_and_time_before_the_track_is_negative() -> None:
    assert rtp_to_track_samples(1000 + 312, origin=1000, rate_hz=24_000) == 0
    assert rtp_to_track_samples(10, origin=1000, rate_hz=24_000) < 0


@pytest.mark.parametrize(("told", "believed"), [(0.08, 0.08), (5.0, 5.0), (59.0, None), (1e9, None)])
def test_a_round_trip_that_nobody_could_talk_over_is_not_believed(
    told: float, believed: float | None
) -> None:
    message = parse_client_message({"v": 1, "t": "stats", "at": 1.0, "roundTripTime": told})
    assert isinstance(message, StatsMessage)
    assert message.to_stats().rtt_secs == believed
