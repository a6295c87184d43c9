"""What `NetworkEstimator` never does, whatever is measured and however the clock jumps."""

from __future__ import annotations

import math

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pipecat_voicectx.states.network import (
    LinkBand,
    NetworkConfig,
    NetworkEstimator,
    NetworkSource,
    NetworkState,
)

sources = st.sampled_from(
    [item for item in NetworkSource if item is not NetworkSource.ARRIVALS],
)
amounts = st.one_of(st.floats(0.0, 2.0), st.floats())


class Line(RuleBasedStateMachine):
    """A line that measures sense and nonsense."""

    def __init__(self) -> None:
        super().__init__()
        self.config = NetworkConfig()
        self.estimator = NetworkEstimator(self.config)
        self.now_secs = 1_000.0
        self.clock_fell_back = False
        self.total_secs = 0.0
        self.reported_secs = 0.0
        self.states: list[tuple[float, NetworkState]] = []

    @rule(secs=st.floats(0.0, 12.0))
    def time_passes(self, secs: float) -> None:
        self.now_secs += secs

    @rule(secs=st.floats(-30.0, 4_000.0))
    def the_clock_jumps(self, secs: float) -> None:
        self.clock_fell_back |= secs < 0.0
        self.now_secs += secs

    @rule(packets=st.integers(1, 50))
    def audio_arrives(self, packets: int) -> None:
        for _ in range(packets):
            self.now_secs += 0.02
            self.estimator.add_audio(now_secs=self.now_secs)

    @rule(source=sources, secs=amounts, silent_secs=amounts)
    def audio_is_missing(self, source: NetworkSource, secs: float, silent_secs: float) -> None:
        if self.estimator.add_concealed(
            source,
            now_secs=self.now_secs,
            secs=secs,
            silent_secs=silent_secs if silent_secs == silent_secs else 0.0,
        ):
            self.reported_secs += secs

    @rule(source=sources)
    def a_source_finds_nothing(self, source: NetworkSource) -> None:
        self.estimator.add_alive(source, now_secs=self.now_secs)

    @rule(received=st.integers(0, 500), lost=st.integers(0, 500))
    def packets_are_counted(self, received: int, lost: int) -> None:
        self.estimator.add_packets(now_secs=self.now_secs, received=received, lost=lost)

    @rule(jitter_secs=amounts, rtt_secs=amounts, ratio=amounts)
    def times_are_reported(self, jitter_secs: float, rtt_secs: float, ratio: float) -> None:
        self.estimator.add_link_times(jitter_secs=jitter_secs, rtt_secs=rtt_secs)
        self.estimator.add_downlink(concealed_ratio=ratio)

    @rule(muted=st.booleans(), silent=st.booleans(), threshold_secs=amounts)
    def the_caller_does_things(self, muted: bool, silent: bool, threshold_secs: float) -> None:
        self.estimator.set_muted(muted, now_secs=self.now_secs)
        self.estimator.set_discontinuous(silent)
        self.estimator.set_silence_threshold(threshold_secs)

    @invariant()
    def a_state_is_always_possible(self) -> None:
        state = self.estimator.state(self.now_secs)
        assert 0.0 <= state.silent_concealed_secs <= state.concealed_secs + 1e-9
        assert state.concealed_secs <= state.window_secs
        assert self.config.shortest_window_secs <= state.window_secs <= 60.0
        assert state.loss_ratio is None or 0.0 <= state.loss_ratio <= 1.0
        for secs in (state.jitter_secs, state.rtt_secs, state.downlink_concealed_ratio):
            assert secs is None or (math.isfinite(secs) and secs >= 0.0)
        assert math.isclose(state.concealed_total_secs, self.reported_secs, rel_tol=1e-9, abs_tol=1e-9)

    @invariant()
    def the_total_never_shrinks(self) -> None:
        total_secs = self.estimator.concealed_total_secs
        assert total_secs >= self.total_secs
        self.total_secs = total_secs

    @invariant()
    def a_muted_track_never_stalls(self) -> None:
        state = self.estimator.state(self.now_secs)
        assert not (state.muted and state.stall_secs > 0.0)

    @precondition(lambda self: not self.clock_fell_back)
    @invariant()
    def good_is_only_what_was_healthy_for_the_recovery_time(self) -> None:
        state = self.estimator.state(self.now_secs)
        if state.band is LinkBand.GOOD:
            assert state.healthy_secs is None or state.healthy_secs >= self.config.recovery_secs
        if state.concealed_secs >= self.config.poor_concealed_secs:
            assert state.band is LinkBand.POOR


TestLine = Line.TestCase
