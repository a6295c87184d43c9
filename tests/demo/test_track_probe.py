from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pipecat_voicectx.demo.espeak import SpokenWord, Synthesis
from pipecat_voicectx.demo.events import EventLog
from pipecat_voicectx.demo.probe import TrackProbe

_PIECE = 240


def _speech(words: str, seed: int) -> Synthesis:
    """2,400 samples a word, 1,600 of them sound."""
    names = words.split()
    samples = np.random.default_rng(seed).integers(-9000, 9000, 2400 * len(names)).astype(np.int16)
    placed = tuple(
        SpokenWord(text=name, start_sample=i * 2400, end_sample=i * 2400 + 1600)
        for i, name in enumerate(names)
    )
    return Synthesis(samples=samples, sample_rate_hz=24_000, words=placed)


class _Track:
    def __init__(self, folder: Path) -> None:
        self._path = folder / "bot.jsonl"
        self.probe = TrackProbe(EventLog(self._path, "bot", 0.0), first_turn=1)
        self.position = 0

    def silence(self, pieces: int) -> None:
        self.position += pieces * _PIECE

    def play(self, speech: Synthesis, first: int = 0, last: int | None = None) -> None:
        for start in range(first * _PIECE, len(speech.samples) if last is None else last * _PIECE, _PIECE):
            self.probe.on_piece(
                speech.samples[start : start + _PIECE], self.position, now_secs=self.position / 24_000
            )
            self.position += _PIECE

    def events(self, kind: str) -> list[dict[str, object]]:
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        return [event for line in lines if (event := json.loads(line))["kind"] == kind]


@pytest.fixture
def track(tmp_path: Path) -> _Track:
    return _Track(tmp_path)


def test_words_are_placed_where_their_sound_left(track: _Track) -> None:
    speech = _speech("one two three", 1)
    track.probe.on_synthesis("c1", "one two three", speech)
    track.silence(100)
    track.play(speech)
    track.probe.finish()
    (turn,) = track.events("bot_words")
    assert turn["words"] == [["one", 24000, 25600], ["two", 26400, 28000], ["three", 28800, 30400]]
    assert turn["text"] == "one two three"
    assert turn["turn"] == 1


def test_a_stall_moves_the_words_behind_it(track: _Track) -> None:
    speech = _speech("one two", 1)
    track.probe.on_synthesis("c1", "one two", speech)
    track.play(speech, last=10)
    track.silence(200)
    track.play(speech, first=10)
    track.probe.finish()
    (turn,) = track.events("bot_words")
    assert turn["words"] == [["one", 0, 1600], ["two", 2400 + 48000, 4000 + 48000]]
    assert [(e["track_start"], e["track_end"]) for e in track.events("bot_audio")] == [
        (0, 2400),
        (50400, 52800),
    ]


def test_words_that_never_left_are_not_placed_and_the_text_says_what_was_meant(track: _Track) -> None:
    speech = _speech("one two three", 1)
    track.probe.on_synthesis("c1", "one two three", speech)
    track.play(speech, last=13)
    track.probe.finish()
    (turn,) = track.events("bot_words")
    assert turn["words"] == [["one", 0, 1600], ["two", 2400, 4000]]
    assert turn["text"] == "one two three"


def test_the_next_turn_is_found_though_the_last_one_was_cut(track: _Track) -> None:
    first, second = _speech("one two", 1), _speech("three four", 2)
    track.probe.on_synthesis("c1", "one two", first)
    track.play(first, last=5)
    track.probe.on_synthesis("c2", "three four", second)
    track.play(second)
    track.probe.finish()
    turns = track.events("bot_words")
    assert [turn["turn"] for turn in turns] == [1, 2]
    assert turns[1]["words"] == [["three", 1200, 2800], ["four", 3600, 5200]]


def test_a_turn_that_never_sounded_is_passed_over(track: _Track) -> None:
    first, second = _speech("one", 1), _speech("two", 2)
    track.probe.on_synthesis("c1", "one", first)
    track.probe.on_synthesis("c2", "two", second)
    track.play(second)
    track.probe.finish()
    assert [turn["text"] for turn in track.events("bot_words")] == ["two"]


def test_sentences_of_one_context_are_one_turn(track: _Track) -> None:
    first, second = _speech("one.", 1), _speech("two.", 2)
    track.probe.on_synthesis("c1", "one.", first)
    track.probe.on_synthesis("c1", "two.", second)
    track.play(first)
    track.play(second)
    track.probe.finish()
    (turn,) = track.events("bot_words")
    assert turn["text"] == "one. two."
    assert turn["words"] == [["one.", 0, 1600], ["two.", 2400, 4000]]


def test_foreign_sound_is_nobodys_word(track: _Track) -> None:
    track.play(_speech("noise", 9))
    track.probe.finish()
    assert track.events("bot_words") == []
