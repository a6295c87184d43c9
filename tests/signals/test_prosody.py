from __future__ import annotations

import numpy as np
import pytest

from pipecat_voicectx.signals.levels import LevelMeter
from pipecat_voicectx.signals.prosody import Prosody, ProsodyCollector
from tests.signals.voices import Samples, noise, pcm, voice


def syllables(count: int, *, each_secs: float = 0.2, f0_hz: float = 120, level: float = 0.1) -> Samples:
    """Vowels that swell and fade, one behind the other."""
    tone, _ = voice(f0_hz, count * each_secs, level=level)
    at = np.arange(len(tone)) / 16_000
    return (tone * (0.02 + np.sin(np.pi * at / each_secs) ** 2)).astype(np.float32)


def measured(samples: Samples, *, floor: float = 0.0003) -> Prosody | None:
    collector, meter = ProsodyCollector(), LevelMeter()
    hiss = noise(len(samples) / 16_000, level=floor, seed=5)[: len(samples)]
    audio = pcm((samples + hiss).astype(np.float32))
    for start in range(0, len(audio), 640):
        block = meter.add(audio[start : start + 640], sample_rate_hz=16_000)
        if block is not None:
            collector.add(block)
    return collector.summary(floor_power=floor**2)


def silence(secs: float) -> Samples:
    return np.zeros(round(secs * 16_000), np.float32)


def test_silence_around_speech_is_not_speech() -> None:
    prosody = measured(np.concatenate([silence(0.5), syllables(10), silence(0.7)]))
    assert prosody is not None
    assert prosody.speech_secs == pytest.approx(2.0, abs=0.08)
    assert prosody.pause_ratio == 0.0


def test_pauses_within_speech_are_a_share_of_it() -> None:
    prosody = measured(np.concatenate([syllables(10), silence(1.0), syllables(5)]))
    assert prosody is not None
    assert prosody.pause_ratio == pytest.approx(0.25, abs=0.04)


@pytest.mark.parametrize("each_secs", [0.12, 0.16, 0.25, 0.35])
def test_tempo_is_syllables_per_second_of_speech(each_secs: float) -> None:
    prosody = measured(np.concatenate([syllables(12, each_secs=each_secs), silence(0.3)]))
    assert prosody is not None
    assert prosody.nuclei_per_sec == pytest.approx(1 / each_secs, rel=0.12)


def test_pitch_and_loudness_of_a_higher_louder_voice() -> None:
    low, high = measured(syllables(10)), measured(syllables(10, f0_hz=170, level=0.2))
    assert low is not None
    assert high is not None
    assert low.f0_hz == pytest.approx(120, rel=0.03)
    assert high.f0_hz == pytest.approx(170, rel=0.03)
    assert high.level_dbfs - low.level_dbfs == pytest.approx(6.0, abs=0.5)


def test_without_voice_there_is_no_pitch_and_without_sound_no_prosody() -> None:
    whisper = measured(noise(1.0, level=0.05))
    assert whisper is not None
    assert whisper.f0_hz is None
    assert whisper.f0_spread_semitones is None
    assert ProsodyCollector().summary(floor_power=None) is None
    assert measured(silence(1.0)) is None


def test_a_caller_who_never_stops_is_measured_to_a_bound() -> None:
    collector, meter = ProsodyCollector(), LevelMeter()
    second = pcm(noise(1.0, level=0.05))
    for _ in range(130):
        block = meter.add(second, sample_rate_hz=16_000)
        assert block is not None
        collector.add(block)
    assert collector.full
    prosody = collector.summary(floor_power=None)
    assert prosody is not None
    assert prosody.speech_secs <= 121.0
