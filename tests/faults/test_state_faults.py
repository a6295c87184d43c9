"""What clocks, formats and statistics do wrong reaches the trackers of states together, in one pipeline."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from pipecat.frames.frames import (
    Frame,
    InputAudioRawFrame,
    TranscriptionFrame,
    UserStoppedSpeakingFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.tests.utils import SleepFrame, run_test

from pipecat_voicectx.processors.acoustics_tracker import AcousticsTracker
from pipecat_voicectx.processors.network_tracker import NetworkTracker
from pipecat_voicectx.processors.speaking_rate_tracker import SpeakingRateTracker
from pipecat_voicectx.signals.rtp_stats import RtpStatsSample
from pipecat_voicectx.states.network import LinkBand, NetworkSource, NetworkState
from pipecat_voicectx.testing import virtual_time

RNG = np.random.default_rng(4)


@dataclass
class Call:
    rate: SpeakingRateTracker = field(default_factory=SpeakingRateTracker)
    network: NetworkTracker = field(default_factory=NetworkTracker)
    acoustics: AcousticsTracker = field(default_factory=AcousticsTracker)
    states: list[NetworkState] = field(default_factory=list)
    down: list[Frame] = field(default_factory=list)


class Jumping:
    """Counts without loss, and moves the process's clock at one of its reads."""

    source = NetworkSource.RTP_STATS

    def __init__(self, jump_secs: float = 0.0) -> None:
        self.reads, self.jump_secs = 0, jump_secs

    async def read(self) -> RtpStatsSample | None:
        self.reads += 1
        if self.reads == 40:
            virtual_time.advance(self.jump_secs)
        return RtpStatsSample(
            at_secs=asyncio.get_running_loop().time(), ssrc=1, packets_received=self.reads * 3, packets_lost=0
        )


class NotNumbers:
    """A receiver whose every float is none."""

    source = NetworkSource.RECEIVER_STATS

    def __init__(self, value: float) -> None:
        self.value, self.reads = value, 0

    async def read(self) -> RtpStatsSample | None:
        self.reads += 1
        return RtpStatsSample(
            at_secs=asyncio.get_running_loop().time(),
            ssrc=1,
            packets_received=self.reads,
            packets_lost=0,
            concealed_secs=self.value,
            silent_concealed_secs=self.value,
            jitter_secs=self.value,
            rtt_secs=self.value,
        )


def sound(packets: range, *, rate_hz: int = 16_000, level: float = 3_000.0) -> list[Frame]:
    frames: list[Frame] = []
    for number in packets:
        samples = RNG.normal(0, level, rate_hz // 50).clip(-32_768, 32_767).astype("<i2")
        frame = InputAudioRawFrame(audio=samples.tobytes(), sample_rate=rate_hz, num_channels=1)
        frame.pts = number * 960
        frames += [SleepFrame(sleep=0.02), frame]
    return frames


def turn(first: int, *, rate_hz: int = 16_000) -> list[Frame]:
    """Two seconds of speech and two of the room."""
    return [
        VADUserStartedSpeakingFrame(start_secs=0.2),
        *sound(range(first, first + 100), rate_hz=rate_hz),
        VADUserStoppedSpeakingFrame(stop_secs=0.2),
        TranscriptionFrame(text="one two three four five", user_id="u", timestamp=""),
        UserStoppedSpeakingFrame(),
        *sound(range(first + 100, first + 200), rate_hz=rate_hz, level=30.0),
    ]


def play(frames: list[Frame], *sources: Jumping | NotNumbers) -> Call:
    async def main() -> Call:
        call = Call(network=NetworkTracker(stats=sources))

        @call.network.event_handler("on_network_state")
        async def on_state(_tracker: NetworkTracker, state: NetworkState) -> None:
            call.states.append(state)

        down, _ = await run_test(Pipeline([call.rate, call.acoustics, call.network]), frames_to_send=frames)
        await asyncio.sleep(0)
        call.down = list(down)
        return call

    return virtual_time.run(main())


def audio_of(frames: list[Frame]) -> list[bytes]:
    return [frame.audio for frame in frames if isinstance(frame, InputAudioRawFrame)]


def unharmed(call: Call, sent: list[Frame]) -> None:
    assert audio_of(call.down) == audio_of(sent)
    assert (call.rate.failures, call.acoustics.failures, call.network.failures) == (0, 0, 0)
    for state in call.states:
        assert 0.0 <= state.concealed_secs <= state.window_secs
        assert state.jitter_secs is None or math.isfinite(state.jitter_secs)
        assert state.rtt_secs is None or math.isfinite(state.rtt_secs)


@pytest.mark.parametrize("jump_secs", [-3_600.0, -3.0, 3.0, 3_600.0])
def test_a_clock_that_jumps_either_way_costs_no_audio_and_no_later_state(jump_secs: float) -> None:
    sent = [frame for number in range(5) for frame in turn(200 * number)]
    call = play(sent, Jumping(jump_secs))
    unharmed(call, sent)
    assert call.states[-1].band is LinkBand.GOOD
    assert call.states[-1].concealed_total_secs == 0.0
    assert call.acoustics.acoustics.snr_db is not None
    assert call.rate.state.rate == pytest.approx(150.0, rel=0.05)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0])
def test_floats_that_are_no_measurement_change_nothing(value: float) -> None:
    sent = [*turn(0), *turn(200)]
    call = play(sent, NotNumbers(value))
    unharmed(call, sent)
    assert not any(state.impaired for state in call.states)


@pytest.mark.parametrize("rates", [(16_000, 8_000), (8_000, 48_000), (48_000, 16_000)])
def test_another_sample_rate_in_mid_call_is_no_loss_and_is_measured_on(rates: tuple[int, int]) -> None:
    sent = [frame for number in range(4) for frame in turn(200 * number, rate_hz=rates[number // 2])]
    call = play(sent)
    unharmed(call, sent)
    assert not any(state.impaired for state in call.states)
    assert call.acoustics.acoustics.snr_db == pytest.approx(40.0, abs=3.0)


@pytest.mark.parametrize("later", [0, 10_000_000, 2**32], ids=["back", "far", "beyond 32 bits"])
def test_presentation_times_that_start_over_are_no_loss(later: int) -> None:
    sent = [*turn(1_000), *turn(later)]
    call = play(sent)
    unharmed(call, sent)
    assert call.network.state.concealed_total_secs == 0.0
