from __future__ import annotations

import numpy as np
import pytest

from pipecat_voicectx.errors import BadInputError

pytest.importorskip("espeakng_loader", reason="pip install 'pipecat-voicectx[demo]'")

from pipecat_voicectx.demo.espeak import SENTENCE_GAP_SECS, Synthesis, synthesize

_SENTENCES = (
    "First there is Ghent by train, for six hundred and forty euros.",
    "In October Turin has about sixteen degrees by day, morning fog, and snow far up on the peaks.",
    "The train leaves at nine in the morning and arrives shortly after noon.",
    "All right, under nine hundred euros, and the dog comes along with you.",
)


def _speak(text: str, words_per_minute: float = 170.0) -> Synthesis:
    return synthesize(text, words_per_minute=words_per_minute, sample_rate_hz=24_000)


@pytest.mark.parametrize("asked_wpm", [110, 140, 170, 200, 230, 260, 290])
def test_delivered_rate_is_within_six_percent_of_the_one_asked(asked_wpm: int) -> None:
    spoken = [_speak(text, asked_wpm) for text in _SENTENCES]
    minutes = sum(len(s.samples) for s in spoken) / 24_000 / 60
    delivered_wpm = sum(len(s.words) for s in spoken) / minutes
    assert delivered_wpm == pytest.approx(asked_wpm, rel=0.06)


@pytest.mark.parametrize("text", _SENTENCES)
def test_words_are_those_of_the_text_in_order_and_do_not_overlap(text: str) -> None:
    speech = _speak(text)
    assert [word.text for word in speech.words] == text.split()
    ends = [0, *(word.end_sample for word in speech.words)]
    for word, earlier_end in zip(speech.words, ends, strict=False):
        assert earlier_end <= word.start_sample <= word.end_sample <= len(speech.samples)


def test_every_word_sounds_and_the_gap_behind_the_sentence_is_silent() -> None:
    speech = _speak(_SENTENCES[0])
    for word in speech.words:
        assert np.abs(speech.samples[word.start_sample : word.end_sample].astype(int)).max() > 300, word.text
    gap = speech.samples[-round(SENTENCE_GAP_SECS * 24_000 * 0.9) :]
    assert np.abs(gap.astype(int)).max() < 100


def test_a_rate_nobody_can_speak_at_is_clipped() -> None:
    beyond, fastest = (len(_speak("A short sentence.", wpm).samples) for wpm in (9000, 450))
    assert beyond == pytest.approx(fastest, rel=0.02)  # eSpeak varies by a few milliseconds


def test_an_unknown_voice_is_named_in_the_error() -> None:
    with pytest.raises(BadInputError, match="no-such-voice"):
        synthesize("Hello.", words_per_minute=170, sample_rate_hz=24_000, voice="no-such-voice")


def test_text_without_words_is_a_gap() -> None:
    speech = _speak("   ")
    assert speech.words == ()
    assert len(speech.samples) >= round(SENTENCE_GAP_SECS * 24_000)
