"""Result shapes as the services' clients return them, cut down to the fields that carry words."""

from __future__ import annotations

import json
from datetime import timedelta
from types import SimpleNamespace as Object
from typing import Any

import pytest

from pipecat_voicectx.signals.timed_words import TimedWord
from pipecat_voicectx.sources.stt_words import read_timed_words

EXPECTED = (
    TimedWord(text="hello", start_secs=0.5, end_secs=0.8),
    TimedWord(text="world", start_secs=0.9, end_secs=1.3),
)
SECONDS = [{"word": "hello", "start": 0.5, "end": 0.8}, {"word": "world", "start": 0.9, "end": 1.3}]
OBJECTS = [Object(**word) for word in SECONDS]
AZURE = {
    "RecognitionStatus": "Success",
    "NBest": [
        {
            "Display": "Hello world.",
            "Words": [
                {"Word": "hello", "Offset": 5_000_000, "Duration": 3_000_000},
                {"Word": "world", "Offset": 9_000_000, "Duration": 4_000_000},
            ],
        }
    ],
}
SHAPES: dict[str, Any] = {
    "own": list(EXPECTED),
    "dicts": SECONDS,
    "objects": OBJECTS,
    "triples": [("hello", 0.5, 0.8), ["world", 0.9, 1.3]],
    "deepgram": Object(
        is_final=True, channel=Object(alternatives=[Object(transcript="hello world", words=OBJECTS)])
    ),
    "deepgram_json": {"channel": {"alternatives": [{"words": SECONDS}]}},
    "assemblyai": Object(
        end_of_turn=True,
        transcript="hello world",
        words=[Object(text="hello", start=500, end=800), Object(text="world", start=900, end=1300)],
    ),
    "faster_whisper": [Object(start=0.5, end=1.3, words=OBJECTS)],
    "openai_verbose": Object(text="hello world", words=OBJECTS),
    "google_v2": Object(
        alternatives=[
            Object(
                words=[
                    Object(
                        word="hello",
                        start_offset=timedelta(seconds=0.5),
                        end_offset=timedelta(seconds=0.8),
                    ),
                    Object(
                        word="world",
                        start_offset=Object(seconds=0, nanos=900_000_000),
                        end_offset=Object(seconds=1, nanos=300_000_000),
                    ),
                ]
            )
        ]
    ),
    "google_json": {
        "alternatives": [
            {
                "words": [
                    {"word": "hello", "startOffset": "0.5s", "endOffset": "0.8s"},
                    {"word": "world", "startOffset": "0.9s", "endOffset": "1.3s"},
                ]
            }
        ]
    },
    "nvidia_riva": Object(
        is_final=True,
        alternatives=[
            Object(
                words=[
                    Object(word="hello", start_time=500, end_time=800, speaker_tag=0),
                    Object(word="world", start_time=900, end_time=1300, speaker_tag=0),
                ]
            )
        ],
    ),
    "azure_event": Object(result=Object(text="Hello world.", json=json.dumps(AZURE))),
    "azure_json": AZURE,
    "gladia": {"data": {"utterance": {"words": SECONDS}}},
    "elevenlabs": {
        "text": "hello world",
        "words": [
            {"text": "hello", "type": "word", "start": 0.5, "end": 0.8},
            {"text": " ", "type": "spacing", "start": 0.8, "end": 0.9},
            {"text": "world", "type": "word", "start": 0.9, "end": 1.3},
        ],
    },
    "aws": {
        "Alternatives": [
            {
                "Items": [
                    {"Type": "pronunciation", "Content": "hello", "StartTime": 0.5, "EndTime": 0.8},
                    {"Type": "pronunciation", "Content": "world", "StartTime": 0.9, "EndTime": 1.3},
                    {"Type": "punctuation", "Content": ".", "StartTime": 1.3, "EndTime": 1.3},
                ]
            }
        ]
    },
    "soniox": [
        {"text": "hel", "start_ms": 500, "end_ms": 650},
        {"text": "lo", "start_ms": 650, "end_ms": 800},
        {"text": " world", "start_ms": 900, "end_ms": 1300},
    ],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_word_times_are_read_in_seconds(shape: str) -> None:
    words = read_timed_words(SHAPES[shape])
    assert words is not None
    assert [word.text for word in words] == ["hello", "world"]
    for word, expected in zip(words, EXPECTED, strict=True):
        assert word.start_secs == pytest.approx(expected.start_secs)
        assert word.end_secs == pytest.approx(expected.end_secs)


@pytest.mark.parametrize(
    "result",
    [
        None,
        "hello world",
        42,
        {},
        {"text": "hello"},
        Object(text="hello"),
        {"words": [{"word": "hello", "start": None, "end": 1.0}]},
        {"words": [{"word": "hello", "start": float("nan"), "end": 1.0}]},
        {"words": [{"word": "hello", "start": 0.0, "end": 1e12}]},
        {"words": [{"word": "hello", "start": -1.0, "end": 1.0}]},
        {"words": [{"word": "hello", "start": True, "end": 1.0}]},
        Object(result=Object(json="{not json")),
        [1, 2, 3],
        [("hello",)],
    ],
)
def test_other_shapes_and_impossible_times_give_nothing(result: Any) -> None:
    assert read_timed_words(result) is None


@pytest.mark.parametrize("result", [[], {"words": []}, {"channel": {"alternatives": [{"transcript": ""}]}}])
def test_a_known_shape_without_words_is_empty_not_unknown(result: Any) -> None:
    assert read_timed_words(result) == ()


def test_words_whose_times_were_not_asked_for_are_no_word_times() -> None:
    zero = timedelta()
    words = [Object(word=word, start_offset=zero, end_offset=zero) for word in ("hello", "world")]
    assert read_timed_words(Object(alternatives=[Object(words=words)])) is None


def test_assemblyais_own_message_is_read() -> None:
    from pipecat.services.assemblyai.models import TurnMessage

    word = {"confidence": 0.9, "word_is_final": True}
    message = TurnMessage.model_validate(
        {
            "type": "Turn",
            "turn_order": 0,
            "turn_is_formatted": True,
            "end_of_turn": True,
            "transcript": "hello world",
            "end_of_turn_confidence": 0.9,
            "words": [
                {"text": "hello", "start": 500, "end": 800, **word},
                {"text": "world", "start": 900, "end": 1300, **word},
            ],
        }
    )
    assert read_timed_words(message) == EXPECTED
