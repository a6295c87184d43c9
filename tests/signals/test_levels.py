from __future__ import annotations

import numpy as np
import pytest

from pipecat_voicectx.signals.levels import SILENT_DBFS, LevelBlock, LevelMeter, dbfs


def tone(amplitude: float, *, rate_hz: int = 16_000, secs: float = 0.1) -> bytes:
    at = np.arange(round(rate_hz * secs)) / rate_hz
    wave = np.sin(2 * np.pi * 500 * at) * amplitude * 32768
    return wave.clip(-32768, 32767).astype("<i2").tobytes()


def blocks(meter: LevelMeter, audio: bytes, *, step: int, rate_hz: int = 16_000) -> list[LevelBlock]:
    found = [meter.add(audio[at : at + step], sample_rate_hz=rate_hz) for at in range(0, len(audio), step)]
    return [block for block in found if block is not None]


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 44_100, 48_000])
def test_a_sines_level_is_three_db_below_its_amplitude(rate_hz: int) -> None:
    (block,) = blocks(
        LevelMeter(frames_per_block=5), tone(0.5, rate_hz=rate_hz), step=100_000, rate_hz=rate_hz
    )
    assert len(block.powers) == 5
    assert dbfs(block.powers[2]) == pytest.approx(-9.03, abs=0.05)
    assert not any(block.clipped)


@pytest.mark.parametrize("step", [2, 320, 640, 1_000, 3_201])
def test_how_the_stream_is_cut_into_frames_does_not_matter(step: int) -> None:
    audio = tone(0.3, secs=1.0)
    powers = [
        power
        for block in blocks(LevelMeter(frames_per_block=5), audio, step=step - step % 2)
        for power in block.powers
    ]
    assert len(powers) >= 45
    assert all(dbfs(power) == pytest.approx(-13.47, abs=0.1) for power in powers)


def test_digital_silence_is_exactly_zero_and_noise_is_not() -> None:
    (silent,) = blocks(LevelMeter(frames_per_block=5), bytes(3_200), step=3_200)
    assert silent.powers == (0.0,) * 5
    assert dbfs(0.0) == SILENT_DBFS


def test_a_voice_driven_into_the_end_of_the_scale_is_clipped() -> None:
    (block,) = blocks(LevelMeter(frames_per_block=5), tone(2.0), step=3_200)
    assert all(block.clipped)


def test_empty_odd_and_impossible_frames_are_survived() -> None:
    meter = LevelMeter(frames_per_block=5)
    assert meter.add(b"", sample_rate_hz=16_000) is None
    assert meter.add(b"\x01", sample_rate_hz=16_000) is None
    assert meter.add(bytes(640), sample_rate_hz=0) is None
    assert meter.add(bytes(640), sample_rate_hz=10) is None
    assert meter.add(bytes(640), sample_rate_hz=16_000, channels=0) is None
    (block,) = [b for b in [meter.add(tone(0.5) + b"\x07", sample_rate_hz=16_000)] if b]
    assert dbfs(block.powers[0]) == pytest.approx(-9.03, abs=0.05)


def test_another_sample_rate_in_the_middle_of_a_call_starts_anew() -> None:
    meter = LevelMeter(frames_per_block=5)
    assert meter.add(tone(0.5)[:3_000], sample_rate_hz=16_000) is None
    block = meter.add(tone(0.5, rate_hz=8_000), sample_rate_hz=8_000)
    assert block is not None
    assert block.rate_hz == 8_000
    assert len(block.samples) == 800


def test_of_several_channels_the_first_is_read() -> None:
    left = np.frombuffer(tone(0.5), dtype="<i2")
    stereo = np.stack([left, np.zeros_like(left)], axis=1).tobytes()
    block = LevelMeter(frames_per_block=5).add(stereo, sample_rate_hz=16_000, channels=2)
    assert block is not None
    assert dbfs(block.powers[1]) == pytest.approx(-9.03, abs=0.05)


def test_a_flush_gives_the_whole_frames_so_far_and_keeps_the_rest() -> None:
    meter, audio = LevelMeter(), tone(0.5)
    assert meter.flush() is None
    assert meter.add(audio[: 3 * 640 + 100], sample_rate_hz=16_000) is None
    block = meter.flush()
    assert block is not None
    assert len(block.powers) == 3
    assert meter.flush() is None
    assert meter.add(audio[3 * 640 + 100 :], sample_rate_hz=16_000) is None
    rest = meter.flush()
    assert rest is not None
    assert np.array_equal(
        np.concatenate([block.samples, rest.samples]) * 32768, np.frombuffer(audio, dtype="<i2")
    )
