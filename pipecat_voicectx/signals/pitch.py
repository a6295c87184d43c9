"""Fundamental frequency of speech by YIN (de Cheveigne and Kawahara 2002, steps 1 to 5), many frames at once.

The signal is brought to 8 kHz first: pitch lies far below that, telephony has no more, and the work is halved. One
frame is 42 ms, every 40 ms: statistics over a turn need no more. A frame counts as voiced when its best period
explains all but a third of its energy.

Limits: 60-400 Hz, one voice at a time. White noise makes frames unvoiced rather than wrong: at 5 dB SNR nearly all
voiced frames are found, at 0 dB few; of those found, at most one in twenty is off by a semitone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipecat_voicectx.signals.levels import FloatSamples

__all__ = ["PITCH_HOP_SECS", "PitchTrack", "track_pitch"]

PITCH_HOP_SECS = 0.04
ANALYSIS_HZ = 8_000
LOWEST_HZ, HIGHEST_HZ = 60.0, 400.0
# YIN, step 4 (0.1 in the paper, for clean speech); the first dip below it is the period, which avoids octave errors.
FIRST_DIP = 0.15
# Residual aperiodicity above which a frame is unvoiced. Chosen on harmonic tones in noise: at 0.3 no frame of
# white noise passes.
MOST_APERIODIC = 0.3
# Dips that differ by less are equally deep. Chosen on the same tones.
NEAR_DEEPEST = 0.08
# 25 ms: a period and a half of the lowest pitch.
_WINDOW = ANALYSIS_HZ // 40
_LONGEST_LAG = int(ANALYSIS_HZ / LOWEST_HZ)
_SHORTEST_LAG = int(ANALYSIS_HZ / HIGHEST_HZ)
_SPAN = _WINDOW + _LONGEST_LAG + 1
_FFT = 512


@dataclass(frozen=True, slots=True)
class PitchTrack:
    """Pitch of frames `PITCH_HOP_SECS` apart."""

    f0_hz: npt.NDArray[np.floating]
    """NaN where unvoiced."""
    aperiodicity: npt.NDArray[np.floating]
    """0 (a perfect period) to about 1 (noise)."""


def track_pitch(samples: FloatSamples, *, rate_hz: int) -> PitchTrack:
    """Pitch every 40 ms, for each frame that lies within `samples` as a whole."""
    signal = _at_analysis_rate(samples, rate_hz)
    hop = round(PITCH_HOP_SECS * ANALYSIS_HZ)
    count = (len(signal) - _SPAN) // hop + 1
    if count <= 0:
        empty = np.zeros(0)
        return PitchTrack(empty, empty)
    frames = np.lib.stride_tricks.sliding_window_view(signal, _SPAN)[: count * hop : hop]
    frames = frames - frames.mean(axis=1, keepdims=True)
    normalised = _normalised_difference(frames)
    lags, depth = _periods(normalised)
    f0 = ANALYSIS_HZ / lags
    f0[depth > MOST_APERIODIC] = np.nan
    return PitchTrack(f0, depth)


def _at_analysis_rate(samples: FloatSamples, rate_hz: int) -> FloatSamples:
    if rate_hz == ANALYSIS_HZ:
        return samples
    if rate_hz % ANALYSIS_HZ == 0:
        # A box filter is all the low-pass that pitch needs.
        step = rate_hz // ANALYSIS_HZ
        whole = samples[: len(samples) // step * step]
        reduced: FloatSamples = whole.reshape(-1, step).mean(axis=1)
        return reduced
    count = int(len(samples) * ANALYSIS_HZ / rate_hz)
    at = np.arange(count) * (rate_hz / ANALYSIS_HZ)
    resampled: FloatSamples = np.interp(at, np.arange(len(samples)), samples).astype(np.float32)
    return resampled


def _normalised_difference(frames: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Cumulative-mean-normalised difference function of each row, lags 0 to the longest (YIN, steps 2 and 3)."""
    lags = _LONGEST_LAG + 1
    head = np.fft.rfft(frames[:, :_WINDOW], _FFT, axis=1)
    whole = np.fft.rfft(frames, _FFT, axis=1)
    products = np.fft.irfft(np.conj(head) * whole, _FFT, axis=1)[:, :lags]
    squares = np.cumsum(frames * frames, axis=1)
    energies = squares[:, _WINDOW - 1 : _WINDOW - 1 + lags].copy()
    energies[:, 1:] -= squares[:, : lags - 1]
    difference = np.maximum(energies[:, :1] + energies - 2.0 * products, 0.0)
    running = np.cumsum(difference[:, 1:], axis=1)
    normalised: npt.NDArray[np.floating] = np.ones_like(difference)
    numbers = np.arange(1, lags)
    normalised[:, 1:] = difference[:, 1:] * numbers / np.maximum(running, 1e-12)
    # Silence has no period.
    normalised[energies[:, 0] < 1e-9] = 1.0
    return normalised


def _periods(
    normalised: npt.NDArray[np.floating],
) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]]:
    """Period in samples and its depth for each row: the first dip below the threshold, else the deepest."""
    inner = normalised[:, _SHORTEST_LAG:_LONGEST_LAG]
    before = normalised[:, _SHORTEST_LAG - 1 : _LONGEST_LAG - 1]
    after = normalised[:, _SHORTEST_LAG + 1 : _LONGEST_LAG + 1]
    dips = (inner <= before) & (inner < after)
    depths = np.where(dips, inner, 2.0)
    # In noise the dip at twice the period may be the deeper one by chance; the first that is about as deep is taken.
    good = depths < np.maximum(FIRST_DIP, depths.min(axis=1, keepdims=True) + NEAR_DEEPEST)
    chosen = good.argmax(axis=1)
    rows = np.arange(len(normalised))
    left, centre, right = before[rows, chosen], inner[rows, chosen], after[rows, chosen]
    curve = left - 2.0 * centre + right
    shift = np.where(np.abs(curve) > 1e-12, 0.5 * (left - right) / np.where(curve == 0.0, 1.0, curve), 0.0)
    # Without any dip the frame has no period at all.
    depth = np.where(dips.any(axis=1), centre, 1.0)
    return _SHORTEST_LAG + chosen + np.clip(shift, -1.0, 1.0), depth
