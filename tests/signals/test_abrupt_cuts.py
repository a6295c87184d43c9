from __future__ import annotations

import numpy as np
import pytest

from pipecat_voicectx.signals.abrupt_cuts import AbruptCutDetector

RATE = 16_000
FRAME = 320


def voiced(frames: int) -> np.ndarray:
    """A voice-like signal: a gliding harmonic tone and noise."""
    t = np.arange(frames * FRAME) / RATE
    phase = 2 * np.pi * (120 * t + 8 * np.sin(2 * np.pi * 1.5 * t))
    tone = sum(np.sin(k * phase) / k for k in range(1, 12))
    noise = np.random.default_rng(1).normal(0, 60, len(t))
    return np.asarray(2500 * tone + noise).clip(-32768, 32767).astype(np.float32)


def room(frames: int) -> np.ndarray:
    return np.random.default_rng(2).normal(0, 6, frames * FRAME).astype(np.float32)


def put(line: np.ndarray, at: int, sound: np.ndarray) -> None:
    line[at * FRAME : at * FRAME + len(sound)] += sound


def cuts(samples: np.ndarray) -> list[int]:
    detector = AbruptCutDetector()
    frames = np.rint(samples).reshape(-1, FRAME).astype(np.float32)
    return [i for i, frame in enumerate(frames) if detector.add(frame, sample_rate_hz=RATE)]


def after_losses(*starts: int, length: int = 10, frames: int = 160) -> np.ndarray:
    """A loud voice up to frame 80 on a line that loses `length` frames at each start."""
    line = room(frames)
    put(line, 20, voiced(60))
    for start in starts:
        line[start * FRAME : (start + length) * FRAME] = room(frames)[
            start * FRAME : (start + length) * FRAME
        ]
    return line


def dying(line: np.ndarray, *, to: float) -> np.ndarray:
    """The voice's last quarter second falls to this share before it stops."""
    line[68 * FRAME : 80 * FRAME] *= np.geomspace(1.0, to, 12 * FRAME)
    line[68 * FRAME : 80 * FRAME] += room(12)
    return line


def behind_speech(line: np.ndarray) -> list[int]:
    return [i for i in cuts(line) if i >= 72]


def test_speech_that_turns_into_noise_between_two_samples_is_doubted_for_a_second() -> None:
    line = room(120)
    put(line, 20, voiced(20))
    assert cuts(line) == list(range(40, 90))


def test_speech_after_a_cut_ends_the_doubt() -> None:
    line = room(70)
    put(line, 20, voiced(20))
    put(line, 45, voiced(25))
    assert cuts(line) == list(range(40, 45))


def test_speech_that_dies_away_is_no_cut() -> None:
    line = room(120)
    envelope = np.ones(20 * FRAME)
    envelope[-5 * FRAME :] = np.geomspace(1.0, 1e-3, 5 * FRAME)
    put(line, 20, voiced(20) * envelope)
    assert cuts(line) == []


def test_speech_that_stops_within_a_frame_is_no_cut() -> None:
    line = room(120)
    put(line, 20, voiced(20)[: 20 * FRAME - FRAME // 2])
    assert cuts(line) == []


def test_on_a_line_seen_to_cut_and_resume_any_silence_is_doubted_as_long_as_that_loss() -> None:
    assert behind_speech(dying(after_losses(), to=1e-4)) == []
    found = behind_speech(dying(after_losses(45, length=16), to=1e-4))
    assert found == list(range(found[0], found[0] + 16))


def test_a_short_loss_is_worth_less_than_a_tenth_of_a_second() -> None:
    found = behind_speech(dying(after_losses(55, length=1), to=1e-4))
    assert found == list(range(found[0], found[0] + 4))


def test_a_weak_edge_behind_decay_is_doubted_no_longer_than_that() -> None:
    assert behind_speech(dying(after_losses(), to=0.03)) == []
    assert behind_speech(dying(after_losses(45, length=16), to=0.03)) == list(range(80, 96))
    assert behind_speech(dying(after_losses(50), to=0.03)) == list(range(80, 84))


def test_a_weak_edge_is_doubted_for_a_second_while_losses_come_thick() -> None:
    assert behind_speech(dying(after_losses(65, 67, length=1), to=0.03)) == list(range(80, 130))


def test_a_weak_edge_from_the_voice_s_own_level_is_doubted_for_a_second_on_a_lossy_line() -> None:
    line = after_losses(frames=260)
    line[80 * FRAME :] = room(260)[80 * FRAME :]
    put(line, 80, voiced(70) * 0.03)
    assert [i for i in cuts(line) if i >= 150] == []
    # The quiet voice's own cuts are no sharp ones: it takes a louder sound to show what the line does.
    put(line, 110, voiced(2) * 0.3)
    line[112 * FRAME : 114 * FRAME] = room(2)
    put(line, 114, voiced(2) * np.geomspace(0.3, 0.03, 2 * FRAME))
    assert [i for i in cuts(line) if i >= 150] == list(range(150, 200))


def test_that_the_line_was_lossy_is_forgotten_after_a_second() -> None:
    assert behind_speech(dying(after_losses(22, length=3), to=0.03)) == []


@pytest.mark.parametrize("size", [0, 1, 100])
def test_frames_of_nothing_or_next_to_it_do_no_harm(size: int) -> None:
    detector = AbruptCutDetector()
    assert not detector.add(np.zeros(size, np.float32), sample_rate_hz=RATE)
    assert not detector.add(np.zeros(FRAME, np.float32), sample_rate_hz=0)
