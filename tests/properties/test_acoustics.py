"""What the acoustics core never does, whatever the levels, the voice activity and the clock say."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pipecat_voicectx.signals.echo import EchoEvidence
from pipecat_voicectx.signals.levels import LevelMeter
from pipecat_voicectx.states.acoustics import LOWEST_SNR_DB, AcousticConfig, AcousticEstimator

powers = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=60)


class Room(RuleBasedStateMachine):
    """A room with somebody in it, and a detector that is not always right."""

    def __init__(self) -> None:
        super().__init__()
        self.config = AcousticConfig()
        self.estimator = AcousticEstimator(self.config)
        self.now_secs = 50.0

    @rule(levels=powers, cut=st.booleans())
    def it_sounds(self, levels: list[float], cut: bool) -> None:
        self.now_secs += 0.02 * len(levels)
        self.estimator.add_frames(levels, [cut] * len(levels), ended_secs=self.now_secs)

    @rule(secs=st.floats(-20.0, 200.0))
    def the_clock_jumps(self, secs: float) -> None:
        self.now_secs += secs

    @rule(early_secs=st.floats(-1.0, 3.0))
    def speech_starts(self, early_secs: float) -> None:
        self.estimator.speech_started(self.now_secs - early_secs)

    @rule(early_secs=st.floats(-1.0, 3.0))
    def speech_stops(self, early_secs: float) -> None:
        before = self.estimator.state
        changed = self.estimator.speech_stopped(self.now_secs - early_secs)
        assert changed == (self.estimator.state != before)

    @rule(correlation=st.floats(-1.0, 1.0), delay_secs=st.floats(0.0, 1.0))
    def the_bot_is_compared(self, correlation: float, delay_secs: float) -> None:
        self.estimator.add_echo(EchoEvidence(correlation=correlation, delay_secs=delay_secs))

    @invariant()
    def a_state_is_always_possible(self) -> None:
        state = self.estimator.state
        for level in (state.noise_floor_dbfs, state.speech_level_dbfs, state.snr_db):
            assert level is None or math.isfinite(level)
        assert state.snr_db is None or state.snr_db >= LOWEST_SNR_DB
        assert 0.0 <= state.clipped_ratio <= 1.0
        assert state.noisy == (state.snr_db is not None and state.snr_db < self.config.noisy_below_db)
        assert (state.echo_delay_secs is not None) == bool(state.echo)


TestRoom = Room.TestCase


@given(
    frames=st.lists(
        st.tuples(st.binary(max_size=1_500), st.sampled_from([0, 8_000, 16_000, 44_100, 48_000])), max_size=12
    ),
    channels=st.integers(0, 3),
)
def test_levels_of_any_bytes_at_any_rate_are_powers(frames: list[tuple[bytes, int]], channels: int) -> None:
    meter = LevelMeter()
    for audio, rate_hz in frames:
        block = meter.add(audio, sample_rate_hz=rate_hz, channels=channels)
        if block is not None:
            assert block.rate_hz == rate_hz
            assert all(0.0 <= power <= 1.0 for power in block.powers)
            assert len(block.powers) == len(block.clipped)
