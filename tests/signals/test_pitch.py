from __future__ import annotations

import numpy as np
import pytest

from pipecat_voicectx.signals.pitch import track_pitch
from tests.signals.voices import noise, voice


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 22_050, 48_000])
@pytest.mark.parametrize("f0_hz", [70, 95, 130, 185, 260, 380])
def test_pitch_is_found_within_half_a_semitone_in_noise_at_10_db(f0_hz: float, rate_hz: int) -> None:
    clean, pitch = voice(f0_hz, 1.0, rate_hz=rate_hz, seed=round(f0_hz), vibrato=0.03)
    hiss = noise(1.0, level=0.1 * 10 ** (-10 / 20), rate_hz=rate_hz, seed=round(f0_hz))
    noisy = (clean + hiss).astype(np.float32)
    found = track_pitch(noisy, rate_hz=rate_hz).f0_hz
    at = ((np.arange(len(found)) * 0.04 + 0.012) * rate_hz).astype(int)
    voiced = ~np.isnan(found)
    assert voiced.mean() > 0.9
    off = np.abs(12 * np.log2(found[voiced] / pitch[at][voiced]))
    assert np.median(off) < 0.15
    assert (off > 0.5).mean() < 0.02


@pytest.mark.parametrize("kind", ["white", "pink"])
def test_noise_has_no_pitch(kind: str) -> None:
    found = track_pitch(noise(10.0, level=0.1, kind=kind, seed=3), rate_hz=16_000).f0_hz
    assert (~np.isnan(found)).mean() < 0.02


def test_silence_and_too_little_signal_have_no_pitch() -> None:
    assert np.isnan(track_pitch(np.zeros(16_000, np.float32), rate_hz=16_000).f0_hz).all()
    assert len(track_pitch(np.zeros(100, np.float32), rate_hz=16_000).f0_hz) == 0
    assert len(track_pitch(np.zeros(0, np.float32), rate_hz=16_000).f0_hz) == 0


def test_numbers_that_are_none_stay_without_pitch() -> None:
    broken = np.full(16_000, np.nan, np.float32)
    assert np.isnan(track_pitch(broken, rate_hz=16_000).f0_hz).all()
