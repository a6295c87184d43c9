from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from pipecat_voicectx.signals.echo import ECHO_CORRELATION, EchoDetector, EchoEvidence

Powers = npt.NDArray[np.float64]


def speech(seed: int, secs: float = 8.0) -> Powers:
    """Mean squares of syllables of random length and loudness, with pauses."""
    rng = np.random.default_rng(seed)
    powers: list[float] = []
    while len(powers) < secs * 50:
        count = int(rng.integers(5, 15))
        peak = 10 ** (rng.uniform(-3.5, -1.5))
        powers += list(peak * np.sin(np.pi * (np.arange(count) + 0.5) / count) ** 2)
        if rng.random() < 0.15:
            powers += [1e-7] * int(rng.integers(5, 25))
    return np.array(powers[: int(secs * 50)])


def compared(
    bot: Powers, microphone: Powers, *, delay_frames: int = 0, seed: int = 1, at_secs: float = 1000.0
) -> EchoEvidence | None:
    rng = np.random.default_rng(seed)
    detector = EchoDetector()
    heard = np.concatenate([np.zeros(delay_frames), microphone])[: len(bot)] + 1e-6 * rng.uniform(
        0.8, 1.2, len(bot)
    )
    for at in range(0, len(bot), 5):
        now_secs = at_secs + at * 0.02
        detector.add_bot(list(bot[at : at + 5]), started_secs=now_secs + rng.uniform(0, 0.01))
        detector.add_microphone(list(heard[at : at + 5]), ended_secs=now_secs + 0.1 + rng.uniform(0, 0.01))
    return detector.compare(now_secs=at_secs + len(bot) * 0.02)


@pytest.mark.parametrize("delay_frames", [3, 15, 40])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_bots_own_voice_is_recognised_with_its_delay(delay_frames: int, seed: int) -> None:
    bot = speech(seed)
    evidence = compared(bot, 0.01 * bot, delay_frames=delay_frames)
    assert evidence is not None
    assert evidence.correlation > ECHO_CORRELATION
    assert evidence.delay_secs == pytest.approx(delay_frames * 0.02, abs=0.045)


@pytest.mark.parametrize("seed", range(8))
def test_another_speaker_is_no_echo(seed: int) -> None:
    evidence = compared(speech(seed), speech(100 + seed))
    assert evidence is not None
    assert evidence.correlation < ECHO_CORRELATION


def test_noise_is_no_echo() -> None:
    evidence = compared(speech(1), np.full(400, 1e-4))
    assert evidence is not None
    assert evidence.correlation < 0.4


def test_nothing_is_said_while_the_bot_is_silent_or_the_microphone_unheard() -> None:
    assert compared(np.full(400, 1e-9), speech(1)) is None
    detector = EchoDetector()
    assert detector.compare(now_secs=5.0) is None
    detector.add_bot(list(speech(1)), started_secs=1000.0)
    assert detector.compare(now_secs=1008.0) is None


def test_audio_that_is_written_ahead_is_played_in_turn() -> None:
    """Half a second at a time, as some outputs take it."""
    bot, detector = speech(4), EchoDetector()
    for at in range(0, 400, 25):
        detector.add_bot(list(bot[at : at + 25]), started_secs=1000.0 + max(0, at - 25) * 0.02)
    for at in range(0, 400, 5):
        detector.add_microphone(
            list(0.02 * bot[at : at + 5] + 1e-7), ended_secs=1000.0 + (at + 5) * 0.02 + 0.1
        )
    evidence = detector.compare(now_secs=1008.0)
    assert evidence is not None
    assert evidence.correlation > ECHO_CORRELATION


def test_a_clock_that_jumps_back_is_survived() -> None:
    detector = EchoDetector()
    detector.add_bot([0.1] * 50, started_secs=5_000.0)
    detector.add_bot([0.1] * 50, started_secs=10.0)
    assert detector.compare(now_secs=11.0) is None
