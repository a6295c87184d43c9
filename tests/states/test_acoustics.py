from __future__ import annotations

import numpy as np
import pytest

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.signals.echo import EchoEvidence
from pipecat_voicectx.signals.levels import LevelMeter
from pipecat_voicectx.states.acoustics import AcousticConfig, AcousticEstimator
from tests.signals.voices import Samples, noise, pcm, voice

STOP_SECS = 0.2


def heard(
    parts: list[tuple[float, float]], *, background: Samples, level: float = 0.05, gain: float = 1.0
) -> AcousticEstimator:
    """Speech from and to the given seconds over `background`, told as a detector with 0.2 s delays tells it."""
    samples = background.copy()
    for start, end in parts:
        tone, _ = voice(130, end - start, level=level)
        samples[round(start * 16_000) : round(start * 16_000) + len(tone)] += tone
    audio = pcm((samples * gain).astype(np.float32))
    estimator, meter = AcousticEstimator(), LevelMeter()
    events = sorted(
        [(start + STOP_SECS, "start", start) for start, _ in parts]
        + [(end + STOP_SECS, "stop", end) for _, end in parts]
    )
    for at in range(0, len(audio), 640):
        now_secs = (at / 2 + 320) / 16_000
        block = meter.add(audio[at : at + 640], sample_rate_hz=16_000)
        if block is not None:
            estimator.add_frames(block.powers, block.clipped, ended_secs=now_secs)
        while events and events[0][0] <= now_secs:
            _, what, when = events.pop(0)
            if what == "start":
                estimator.speech_started(when)
            else:
                estimator.speech_stopped(when)
    return estimator


@pytest.mark.parametrize("kind", ["white", "pink", "car"])
@pytest.mark.parametrize("snr_db", [0, 5, 12, 20, 30])
def test_the_ratio_of_speech_to_noise_is_right_to_two_db(snr_db: float, kind: str) -> None:
    background = noise(7.0, level=0.05 * 10 ** (-snr_db / 20), kind=kind, seed=round(snr_db))
    state = heard([(2.5, 5.0)], background=background).state
    assert state.snr_db == pytest.approx(snr_db, abs=2.0)
    assert state.noisy is (snr_db < 10)
    assert state.noise_floor_dbfs == pytest.approx(-26.0 - snr_db, abs=1.5)


def test_a_cough_before_speaking_is_not_the_noise_floor() -> None:
    background = noise(7.0, level=0.001)
    background[16_000 : 16_000 + 4_800] += noise(0.3, level=0.1, seed=9)
    state = heard([(3.5, 5.5)], background=background).state
    assert state.noise_floor_dbfs == pytest.approx(-60.0, abs=1.0)
    assert state.snr_db == pytest.approx(34.0, abs=1.5)


def test_noise_that_begins_during_the_call_is_noticed_with_the_next_turn() -> None:
    background = noise(16.0, level=0.001)
    background[round(5.5 * 16_000) :] += noise(10.5, level=0.03, seed=2)
    state = heard([(2.0, 4.0), (12.0, 14.0)], background=background).state
    assert state.noisy


def test_digital_silence_is_no_noise_floor() -> None:
    state = heard([(2.0, 4.0)], background=np.zeros(16_000 * 6, np.float32)).state
    assert state.noise_floor_dbfs is None
    assert state.snr_db is None
    assert state.speech_level_dbfs == pytest.approx(-26.0, abs=0.5)


def test_speech_from_the_first_moment_has_no_ratio() -> None:
    assert heard([(0.0, 2.0)], background=noise(2.4, level=0.01)).state.snr_db is None


def test_a_voice_beyond_full_scale_is_clipped() -> None:
    loud = heard([(2.0, 4.0)], background=noise(6.0, level=0.0005), gain=20.0).state
    fine = heard([(2.0, 4.0)], background=noise(6.0, level=0.0005)).state
    assert loud.clipped
    assert loud.clipped_ratio > 0.5
    assert not fine.clipped


def test_a_click_too_short_for_speech_changes_nothing() -> None:
    estimator = heard([(2.0, 2.1)], background=noise(4.0, level=0.001))
    assert estimator.state.snr_db is None


def test_an_echo_needs_two_comparisons_and_lasts_over_one_that_fails() -> None:
    estimator = AcousticEstimator()
    echo = EchoEvidence(correlation=0.9, delay_secs=0.2)
    none = EchoEvidence(correlation=0.1, delay_secs=0.9)
    verdicts = []
    for comparison in (echo, echo, none, none):
        estimator.add_echo(comparison)
        verdicts.append((estimator.state.echo, estimator.state.echo_delay_secs))
    assert verdicts == [(False, None), (True, 0.2), (True, 0.2), (False, None)]


def test_frames_out_of_any_order_raise_nothing() -> None:
    estimator = AcousticEstimator()
    for ended_secs in (5.0, 1.0, 1e9, 0.0, -3.0):
        estimator.add_frames((0.1, 0.0, float("nan")), (False, False, False), ended_secs=ended_secs)
    assert not estimator.speech_stopped(2.0)
    estimator.speech_started(10.0)
    assert not estimator.speech_stopped(1.0)


def test_thresholds_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="noisy_below_db"):
        AcousticConfig(noisy_below_db=500.0)
    with pytest.raises(UsageError, match="clipped_from_ratio"):
        AcousticConfig(clipped_from_ratio=0.0)
