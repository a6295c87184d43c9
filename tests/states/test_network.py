from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.states.network import LinkBand, NetworkConfig, NetworkEstimator, NetworkSource

PTS, STATS, RECEIVER = NetworkSource.AUDIO_PTS, NetworkSource.RTP_STATS, NetworkSource.RECEIVER_STATS


def audio(estimator: NetworkEstimator, start: float, end: float) -> None:
    count = round((end - start) / 0.02)
    for i in range(count):
        estimator.add_audio(now_secs=start + i * 0.02)


def lose(estimator: NetworkEstimator, at: float, secs: float, source: NetworkSource = PTS) -> bool:
    return estimator.add_concealed(source, now_secs=at, secs=secs, silent_secs=secs)


def test_before_anything_was_measured_the_link_is_unknown() -> None:
    state = NetworkEstimator().state(5.0)
    assert state.band is LinkBand.UNKNOWN
    assert not state.impaired
    assert not state.recovered


def test_a_healthy_line_is_good_from_the_first_frame_on() -> None:
    estimator = NetworkEstimator()
    audio(estimator, 0.0, 2.0)
    state = estimator.state(2.0)
    assert state.band is LinkBand.GOOD
    assert state.healthy_secs is None
    assert state.since_concealment_secs is None


def test_one_lost_packet_is_no_impairment_and_two_are() -> None:
    estimator = NetworkEstimator()
    audio(estimator, 0.0, 1.0)
    lose(estimator, 1.0, 0.02)
    assert not estimator.state(1.0).impaired
    lose(estimator, 1.0, 0.02)
    assert estimator.state(1.0).band is LinkBand.DEGRADED


def test_a_lost_syllable_makes_the_link_poor() -> None:
    estimator = NetworkEstimator()
    audio(estimator, 0.0, 1.0)
    lose(estimator, 1.0, 0.2)
    assert estimator.state(1.0).band is LinkBand.POOR


def test_recovery_takes_five_healthy_seconds() -> None:
    estimator = NetworkEstimator()
    audio(estimator, 0.0, 1.0)
    lose(estimator, 1.0, 0.4)
    audio(estimator, 1.0, 10.0)
    bands = {at: estimator.state(at).band for at in (1.5, 1.98, 2.1, 6.9, 7.1)}
    assert bands == {
        1.5: LinkBand.POOR,
        1.98: LinkBand.POOR,
        2.1: LinkBand.RECOVERING,
        6.9: LinkBand.RECOVERING,
        7.1: LinkBand.GOOD,
    }


def test_the_window_is_one_second_or_the_silence_that_ends_a_turn() -> None:
    estimator = NetworkEstimator()
    audio(estimator, 0.0, 1.0)
    lose(estimator, 1.0, 0.1)
    audio(estimator, 1.0, 3.0)
    assert estimator.state(2.5).concealed_secs == 0.0
    estimator.set_silence_threshold(2.0)
    state = estimator.state(2.5)
    assert state.window_secs == 2.0
    assert state.concealed_secs == pytest.approx(0.1)
    assert state.since_concealment_secs == pytest.approx(1.5)


def test_concealed_audio_never_exceeds_the_window() -> None:
    estimator = NetworkEstimator()
    audio(estimator, 0.0, 1.0)
    lose(estimator, 5.0, 4.0)
    assert estimator.state(5.0).concealed_secs == 1.0
    assert estimator.state(5.0).concealed_total_secs == 4.0


def test_two_sources_of_one_loss_are_not_added_up() -> None:
    estimator = NetworkEstimator()
    audio(estimator, 0.0, 1.0)
    estimator.add_alive(PTS, now_secs=1.0)
    assert not lose(estimator, 1.0, 0.1, STATS)
    assert lose(estimator, 1.0, 0.1, PTS)
    assert estimator.state(1.0).concealed_total_secs == pytest.approx(0.1)
    assert lose(estimator, 1.1, 0.06, RECEIVER)
    assert not lose(estimator, 1.1, 0.06, PTS)
    assert estimator.state(1.1).concealed_total_secs == pytest.approx(0.16)


def test_a_source_that_fell_silent_makes_room_for_a_weaker_one() -> None:
    estimator = NetworkEstimator()
    estimator.add_alive(RECEIVER, now_secs=0.0)
    assert not lose(estimator, 9.0, 0.1, STATS)
    assert lose(estimator, 11.0, 0.1, STATS)


def test_a_stall_is_visible_while_it_lasts_and_ends_with_the_next_frame() -> None:
    estimator = NetworkEstimator()
    audio(estimator, 0.0, 1.0)
    assert estimator.state(1.1).stall_secs == 0.0
    stalled = estimator.state(1.3)
    assert stalled.stall_secs == pytest.approx(0.32)
    assert stalled.impaired
    assert estimator.state(2.0).band is LinkBand.POOR
    estimator.add_audio(now_secs=2.0)
    after = estimator.state(2.0)
    assert after.stall_secs == 0.0
    assert after.band is LinkBand.RECOVERING


def test_a_muted_track_does_not_stall() -> None:
    estimator = NetworkEstimator()
    audio(estimator, 0.0, 1.0)
    estimator.set_muted(True, now_secs=1.0)
    assert estimator.state(9.0).stall_secs == 0.0
    assert estimator.state(9.0).band is LinkBand.GOOD
    estimator.set_muted(False, now_secs=9.0)
    assert estimator.state(9.1).stall_secs == 0.0


def test_long_silence_on_a_healthy_line_is_no_impairment() -> None:
    estimator = NetworkEstimator()
    audio(estimator, 0.0, 120.0)
    assert estimator.state(120.0).band is LinkBand.GOOD


def test_packets_give_a_loss_ratio_over_the_window() -> None:
    estimator = NetworkEstimator()
    assert estimator.state(0.0).loss_ratio is None
    estimator.add_packets(now_secs=1.0, received=40, lost=10)
    estimator.add_packets(now_secs=2.5, received=45, lost=5)
    assert estimator.state(2.6).loss_ratio == pytest.approx(0.1)


@pytest.mark.parametrize("secs", [float("nan"), -1.0, 0.0, float("inf")])
def test_impossible_lengths_are_dropped(secs: float) -> None:
    estimator = NetworkEstimator()
    estimator.add_alive(PTS, now_secs=0.0)
    assert not estimator.add_concealed(PTS, now_secs=0.0, secs=secs, silent_secs=secs)
    estimator.add_link_times(jitter_secs=secs if secs != 0.0 else -1.0, rtt_secs=-5.0)
    assert estimator.state(0.1).jitter_secs is None
    assert estimator.state(0.1).concealed_total_secs == 0.0


def test_memory_stays_flat_over_a_lossy_hour() -> None:
    estimator = NetworkEstimator()
    for i in range(72_000):
        lose(estimator, i * 0.05, 0.02)
        estimator.add_packets(now_secs=i * 0.05, received=1, lost=1)
    assert len(estimator._losses) <= 4096
    assert len(estimator._packets) <= 4096


def test_a_threshold_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match="recovery_secs"):
        NetworkConfig(recovery_secs=0.0)


def test_a_clock_that_goes_back_leaves_no_loss_in_the_future() -> None:
    link = NetworkEstimator()
    link.add_audio(now_secs=5_000.0)
    link.add_concealed(NetworkSource.AUDIO_PTS, now_secs=5_000.0, secs=0.5, silent_secs=0.5)
    assert link.state(5_000.0).band is LinkBand.POOR
    for step in range(300):
        link.add_audio(now_secs=10.0 + 0.02 * step)
    after = link.state(16.0)
    assert after.band is LinkBand.GOOD
    assert after.concealed_total_secs == 0.5
    assert after.healthy_secs is not None
    assert after.healthy_secs >= 5.0


@settings(max_examples=300, deadline=None)
@given(
    events=st.lists(
        st.tuples(
            st.sampled_from(["audio", "loss", "alive", "mute", "unmute", "dtx", "nothing", "state"]),
            st.floats(0.0, 7.0),
        ),
        max_size=40,
    )
)
def test_an_uneventful_line_is_a_good_one_without_a_stall(events: list[tuple[str, float]]) -> None:
    estimator, now_secs = NetworkEstimator(), 0.0
    for event, secs in events:
        now_secs += secs if event in ("nothing", "loss") else secs / 100
        match event:
            case "audio":
                estimator.add_audio(now_secs=now_secs)
            case "loss":
                estimator.add_concealed(
                    NetworkSource.JITTER_BUFFER, now_secs=now_secs, secs=0.06, silent_secs=0.06
                )
            case "alive":
                estimator.add_alive(NetworkSource.JITTER_BUFFER, now_secs=now_secs)
            case "mute" | "unmute":
                estimator.set_muted(event == "mute", now_secs=now_secs)
            case "dtx":
                estimator.set_discontinuous(secs > 3.0)
            case "state":
                estimator.state(now_secs)
            case _:
                pass
        if estimator.uneventful(now_secs):
            state = estimator.state(now_secs)
            assert (state.band, state.stall_secs, state.muted) == (LinkBand.GOOD, 0.0, False)
            assert state.concealed_secs == 0.0


def test_a_line_is_uneventful_from_its_first_audio_and_again_once_its_losses_are_forgotten() -> None:
    estimator = NetworkEstimator()
    assert not estimator.uneventful(0.0)
    estimator.add_audio(now_secs=0.0)
    assert estimator.uneventful(0.1)
    assert not estimator.uneventful(0.3)  # stalled
    estimator.add_concealed(NetworkSource.AUDIO_PTS, now_secs=0.3, secs=0.2, silent_secs=0.2)
    estimator.add_audio(now_secs=0.3)
    assert not estimator.uneventful(0.31)
    estimator.state(61.0)
    estimator.add_audio(now_secs=61.0)
    estimator.state(61.0)
    estimator.add_audio(now_secs=67.0)
    assert not estimator.uneventful(67.0)  # there was a stall of six seconds
    for number in range(60):
        estimator.add_audio(now_secs=67.0 + number / 10)
    assert estimator.uneventful(72.9)
