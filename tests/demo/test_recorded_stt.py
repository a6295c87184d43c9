from __future__ import annotations

from pathlib import Path

import pytest

from pipecat_voicectx.demo.recorded_stt import RecordedListener
from pipecat_voicectx.demo.recording import Recording

_WORDS = (("book", 0.10, 0.30), ("me", 0.30, 0.40), ("a", 0.40, 0.45), ("train", 0.50, 0.90))


def _listener() -> RecordedListener:
    recording = Recording(
        file=Path("x.flac"),
        text="book me a train",
        sample_rate_hz=16_000,
        samples=16_000,
        speech_start_secs=0.1,
        speech_end_secs=0.9,
        words_per_minute=300,
        words=_WORDS,
    )
    return RecordedListener({"ask": recording})


def _receive(listener: RecordedListener, pieces: range, lost: range = range(0), start: int = 0) -> None:
    for number in pieces:
        if number not in lost:
            listener.receive(start + number * 960)


def _texts(listener: RecordedListener) -> list[str]:
    return [word.text for word in listener.take()]


def test_all_words_are_heard_when_all_audio_arrives() -> None:
    listener = _listener()
    listener.announce("ask", 0)
    _receive(listener, range(50))
    assert _texts(listener) == ["book", "me", "a", "train"]
    assert listener.missed_words == 0


def test_words_whose_audio_was_lost_are_not_heard() -> None:
    listener = _listener()
    listener.announce("ask", 0)
    _receive(listener, range(50), lost=range(14, 24))
    assert _texts(listener) == ["book", "train"]
    assert listener.missed_words == 2


@pytest.mark.parametrize(("lost_packets", "heard"), [(7, True), (9, False)])
def test_a_word_needs_sixty_percent_of_its_samples(lost_packets: int, *, heard: bool) -> None:
    listener = _listener()
    listener.announce("ask", 0)
    _receive(listener, range(50), lost=range(28, 28 + lost_packets))
    assert ("train" in _texts(listener)) is heard


def test_words_come_as_their_audio_does_and_are_taken_once() -> None:
    listener = _listener()
    listener.announce("ask", 0)
    _receive(listener, range(21))
    assert _texts(listener) == ["book", "me"]
    _receive(listener, range(21, 50))
    assert _texts(listener) == ["a", "train"]
    assert _texts(listener) == []


def test_an_announcement_that_comes_after_the_audio_still_finds_it() -> None:
    listener = _listener()
    _receive(listener, range(30))
    listener.announce("ask", 0)
    _receive(listener, range(30, 50))
    assert _texts(listener) == ["book", "me", "a", "train"]


def test_word_times_are_those_of_the_received_timeline() -> None:
    listener = _listener()
    listener.announce("ask", 48_000)
    _receive(listener, range(50), start=48_000)
    first, *_, last = listener.take()
    assert first.start_secs == pytest.approx(1.1 + 312 / 48_000)
    assert last.end_secs == pytest.approx(1.9 + 312 / 48_000)


def test_a_recording_nobody_knows_is_refused() -> None:
    assert not _listener().announce("other", 0)
