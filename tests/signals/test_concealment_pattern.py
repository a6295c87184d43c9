from __future__ import annotations

import numpy as np
import pytest

from pipecat_voicectx.signals.concealment_pattern import (
    ConcealedAudio,
    ConcealmentPatternDetector,
    SilenceGate,
    decoded,
)

RATE = 16_000
FRAME = 320


def voiced(frames: int, seed: int = 1) -> np.ndarray:
    """A voice-like signal: a gliding harmonic tone and noise."""
    rng = np.random.default_rng(seed)
    t = np.arange(frames * FRAME) / RATE
    phase = 2 * np.pi * (120 * t + 8 * np.sin(2 * np.pi * 1.5 * t))
    tone = sum(np.sin(k * phase) / k for k in range(1, 12))
    return np.asarray(2500 * tone + rng.normal(0, 60, len(t))).clip(-32768, 32767).astype(np.int16)


def run(samples: np.ndarray) -> list[ConcealedAudio | None]:
    detector, gate = ConcealmentPatternDetector(), SilenceGate()
    found = []
    for i in range(0, len(samples) - FRAME + 1, FRAME):
        audio = samples[i : i + FRAME].tobytes()
        gate.add(audio, secs=FRAME / RATE)
        found.append(detector.add(decoded(audio), sample_rate_hz=RATE, gate=gate))
    return found


def test_a_voice_and_its_noise_floor_are_not_concealed() -> None:
    quiet = np.random.default_rng(2).normal(0, 6, 50 * FRAME).astype(np.int16)
    assert run(np.concatenate([voiced(50), quiet])) == [None] * 100


def test_exact_silence_in_the_middle_of_audio_is() -> None:
    samples = voiced(40)
    samples[20 * FRAME : 25 * FRAME] = 0
    found = run(samples)
    assert [i for i, item in enumerate(found) if item] == [20, 21, 22, 23, 24]
    assert found[20] == ConcealedAudio(secs=0.02, silent=True)


def test_a_faded_repetition_is() -> None:
    samples = voiced(40)
    for n in range(3):
        source = samples[19 * FRAME : 20 * FRAME].astype(float) * 0.7 ** (n + 1)
        samples[(20 + n) * FRAME : (21 + n) * FRAME] = source.astype(np.int16)
    found = run(samples)
    assert {20, 21, 22} <= {i for i, item in enumerate(found) if item and not item.silent}


def test_a_source_whose_silence_is_always_exact_pays_nothing_for_it() -> None:
    gated = np.concatenate(
        [np.concatenate([voiced(10, seed), np.zeros(30 * FRAME, np.int16)]) for seed in range(24)]
    )
    found = run(gated)
    assert any(found)
    assert all(item is None for item in found[600:])


@pytest.mark.parametrize("audio", [b"", b"\x01", b"\x00\x01\x02"])
def test_frames_of_no_or_odd_length_do_no_harm(audio: bytes) -> None:
    gate = SilenceGate()
    gate.add(audio, secs=0.0)
    assert ConcealmentPatternDetector().add(decoded(audio), sample_rate_hz=RATE, gate=gate) is None


def test_a_rate_of_nothing_does_no_harm() -> None:
    gate = SilenceGate()
    assert ConcealmentPatternDetector().add(decoded(b"\x01\x00" * 320), sample_rate_hz=0, gate=gate) is None
