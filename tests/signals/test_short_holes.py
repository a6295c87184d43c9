from __future__ import annotations

import numpy as np
import pytest

from pipecat_voicectx.signals.short_holes import HoleFiller


def tone(rate_hz: int, secs: float = 0.04, *, hz: float = 200.0) -> bytes:
    at = np.arange(round(secs * rate_hz)) / rate_hz
    return (8_000 * np.sin(2 * np.pi * hz * at)).astype("<i2").tobytes()


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 24_000, 48_000])
@pytest.mark.parametrize("missing_secs", [0.02, 0.037, 0.06])
def test_a_tone_goes_on_in_phase_and_fades(rate_hz: int, missing_secs: float) -> None:
    filler = HoleFiller()
    filler.add(tone(rate_hz), sample_rate_hz=rate_hz, channels=1)
    filled = filler.fill(missing_secs)
    assert filled is not None
    samples = np.frombuffer(filled, "<i2").astype(float)
    assert len(samples) == round(missing_secs * rate_hz)
    truth = np.frombuffer(tone(rate_hz, 0.2), "<i2")[round(0.04 * rate_hz) :][: len(samples)]
    first = round(0.01 * rate_hz)
    assert np.abs(samples[:first] - truth[:first]).max() < 400
    last = samples[-round(0.005 * rate_hz) :]
    assert np.abs(last).max() < 8_000 * max(0.15, 1.0 - (missing_secs - 0.016) / 0.05)


def test_longer_holes_and_none_stay() -> None:
    filler = HoleFiller()
    assert filler.fill(0.02) is None
    filler.add(tone(16_000), sample_rate_hz=16_000, channels=1)
    for secs in (0.061, 1.0, 0.0, -1.0, float("nan"), float("inf")):
        assert filler.fill(secs) is None
    assert filler.fill(0.04, longest_secs=0.03) is None


def test_every_channel_goes_on_by_itself() -> None:
    left, right = np.frombuffer(tone(16_000), "<i2"), np.full(640, 1_000, "<i2")
    filler = HoleFiller()
    filler.add(np.stack([left, right], axis=1).tobytes(), sample_rate_hz=16_000, channels=2)
    filled = filler.fill(0.01)
    assert filled is not None
    samples = np.frombuffer(filled, "<i2").reshape(-1, 2)
    assert samples.shape == (160, 2)
    assert (samples[:, 1] == 1_000).all()


@pytest.mark.parametrize("audio", [b"", b"\x01", bytes(3), bytes(641)])
def test_frames_of_no_or_odd_length_leave_whole_samples(audio: bytes) -> None:
    filler = HoleFiller()
    filler.add(audio, sample_rate_hz=16_000, channels=1)
    filled = filler.fill(0.02)
    assert filled is None or len(filled) == 640


def test_another_format_starts_anew() -> None:
    filler = HoleFiller()
    filler.add(tone(16_000), sample_rate_hz=16_000, channels=1)
    filler.add(b"", sample_rate_hz=8_000, channels=1)
    assert filler.fill(0.02) is None
    filler.add(tone(8_000), sample_rate_hz=0, channels=1)
    assert filler.fill(0.02) is None
