from __future__ import annotations

import pytest

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.signals.turn_audio import TurnAudio, TurnAudioConfig

RATE = 1_000
# A tenth of a second each, told apart by their bytes.
CHUNKS = [bytes([number]) * 200 for number in range(256)]


def heard(audio: TurnAudio) -> list[int]:
    taken = audio.take()
    return [] if taken is None else list(taken.pcm[::200])


def feed(audio: TurnAudio, numbers: range) -> None:
    for number in numbers:
        audio.add(CHUNKS[number], rate_hz=RATE)


def test_a_turn_begins_a_moment_before_its_speech_was_reported_and_leaves_silence_out() -> None:
    audio = TurnAudio(TurnAudioConfig(lead_secs=0.3))
    feed(audio, range(10))
    audio.speech_started()
    feed(audio, range(10, 14))
    audio.speech_stopped()
    feed(audio, range(14, 30))
    audio.speech_started()
    feed(audio, range(30, 32))
    audio.speech_stopped()
    assert heard(audio) == [7, 8, 9, 10, 11, 12, 13, 27, 28, 29, 30, 31]
    assert audio.take() is None


def test_what_no_turn_came_of_is_dropped_when_a_turn_starts() -> None:
    audio = TurnAudio(TurnAudioConfig(lead_secs=0))
    audio.speech_started()
    feed(audio, range(3))
    audio.speech_stopped()
    audio.speech_started()
    feed(audio, range(10, 12))
    audio.turn_started()
    feed(audio, range(12, 14))
    audio.speech_stopped()
    assert heard(audio) == [10, 11, 12, 13]


def test_a_turn_taken_while_it_goes_on_loses_nothing() -> None:
    audio = TurnAudio(TurnAudioConfig(lead_secs=0))
    audio.speech_started()
    feed(audio, range(1, 3))
    first = heard(audio)
    feed(audio, range(3, 5))
    audio.speech_stopped()
    assert first + heard(audio) == [1, 2, 3, 4]


def test_a_turn_is_bounded_and_the_next_one_has_room_again() -> None:
    audio = TurnAudio(TurnAudioConfig(lead_secs=0.1, max_secs=0.5))
    for _ in range(2):
        audio.speech_started()
        feed(audio, range(100, 200))
        audio.speech_stopped()
        taken = audio.take()
        assert taken is not None
        assert taken.secs <= 0.5
    feed(audio, range(200))
    assert audio._lead_bytes <= 400


def test_another_rate_begins_anew() -> None:
    audio = TurnAudio()
    audio.speech_started()
    feed(audio, range(3))
    audio.add(b"\x01\x00" * 80, rate_hz=8_000)
    taken = audio.take()
    assert taken is not None
    assert (len(taken.pcm), taken.rate_hz) == (160, 8_000)


def test_limits_that_make_no_sense_are_refused() -> None:
    for wrong in ({"lead_secs": -1}, {"max_secs": 0}):
        with pytest.raises(UsageError):
            TurnAudioConfig(**wrong)
