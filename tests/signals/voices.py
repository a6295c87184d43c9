"""Voices and noises with known properties: harmonics of a known pitch under two formants."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float32]


def voice(
    f0_hz: float,
    secs: float,
    *,
    rate_hz: int = 16_000,
    level: float = 0.1,
    vibrato: float = 0.05,
    seed: int = 0,
) -> tuple[Samples, npt.NDArray[np.float64]]:
    """Samples of RMS `level`, and the pitch at each."""
    rng = np.random.default_rng(seed)
    at = np.arange(round(secs * rate_hz)) / rate_hz
    pitch = f0_hz * (1.0 + vibrato * np.sin(2 * np.pi * 3 * at))
    phase = 2 * np.pi * np.cumsum(pitch) / rate_hz
    wave = np.zeros(len(at))
    for number in range(1, int(3_600 / f0_hz)):
        formants = 3 * np.exp(-(((number * f0_hz - 600) / 150) ** 2)) + 2 * np.exp(
            -(((number * f0_hz - 1_500) / 200) ** 2)
        )
        wave += (1 + formants) / number * np.sin(number * phase + rng.uniform(0, 6))
    return (wave * level / np.sqrt((wave * wave).mean())).astype(np.float32), pitch


def noise(secs: float, *, level: float, rate_hz: int = 16_000, kind: str = "white", seed: int = 0) -> Samples:
    """White or pink noise, or the rumble of a car, of RMS `level`."""
    rng = np.random.default_rng(seed)
    count = round(secs * rate_hz)
    wave = rng.normal(size=count)
    if kind != "white":
        spectrum = np.fft.rfft(wave)
        hz = np.maximum(np.fft.rfftfreq(count, 1 / rate_hz), 1.0)
        spectrum /= np.sqrt(hz) if kind == "pink" else 1 + (hz / 120) ** 2
        wave = np.fft.irfft(spectrum, count)
    scaled: Samples = (wave * level / np.sqrt((wave * wave).mean())).astype(np.float32)
    return scaled


def pcm(samples: npt.NDArray[np.floating]) -> bytes:
    return np.asarray((samples * 32768).clip(-32768, 32767), dtype="<i2").tobytes()
