from __future__ import annotations

import math

import pytest

from pipecat_voicectx.states.speaking_rate import (
    RateBasis,
    RateUnit,
    SpeakingRateEstimator,
    SpokenUtterance,
    valid_rate,
)


def utterance(words: int, secs: float, *, language: str = "en", speaker: str = "") -> SpokenUtterance:
    unit = RateUnit.CHARACTERS_PER_MINUTE if language == "zh" else RateUnit.WORDS_PER_MINUTE
    return SpokenUtterance(
        units=words,
        unit=unit,
        language=language,
        speech_secs=secs,
        basis=RateBasis.WORD_TIMES,
        speaker=speaker,
    )


def test_one_utterance_is_words_per_minute_of_speech() -> None:
    assert valid_rate(utterance(5, 2.0)) == 150.0


@pytest.mark.parametrize(("words", "secs"), [(1, 0.49), (10, 6.01), (10, 1.99), (3, 0.0), (3, math.nan)])
def test_too_short_and_implausible_utterances_do_not_count(words: int, secs: float) -> None:
    assert valid_rate(utterance(words, secs)) is None


@pytest.mark.parametrize(("words", "secs", "rate"), [(1, 0.5, 120), (10, 6.0, 100), (10, 2.0, 300)])
def test_the_bounds_themselves_count(words: int, secs: float, rate: float) -> None:
    assert valid_rate(utterance(words, secs)) == pytest.approx(rate)


def test_newer_utterances_weigh_more() -> None:
    estimator = SpeakingRateEstimator()
    for words in (4, 5, 6):
        estimator.add(utterance(words, 2.0))
    assert estimator.state.rate == pytest.approx((1 * 120 + 2 * 150 + 3 * 180) / 6)
    assert estimator.state.latest_rate == 180.0
    assert estimator.state.utterances == 3


def test_only_the_ten_most_recent_utterances_count() -> None:
    estimator = SpeakingRateEstimator()
    for _ in range(5):
        estimator.add(utterance(10, 2.0))
    for _ in range(10):
        estimator.add(utterance(5, 2.0))
    assert estimator.state.rate == pytest.approx(150.0)
    assert estimator.state.utterances == 10


def test_without_a_valid_utterance_the_rate_is_unknown() -> None:
    estimator = SpeakingRateEstimator()
    assert not estimator.add(utterance(1, 0.2))
    assert estimator.state.rate is None
    assert estimator.state.speaking_rate_wpm is None
    assert estimator.dropped == 1


def test_a_correction_replaces_the_utterance_it_corrects() -> None:
    estimator = SpeakingRateEstimator()
    estimator.add(utterance(5, 2.0))
    estimator.add(utterance(9, 2.0))
    estimator.replace_last(utterance(6, 2.0))
    assert estimator.state.rate == pytest.approx((150 + 2 * 180) / 3)
    estimator.replace_last(utterance(60, 2.0))
    assert estimator.state.rate == pytest.approx(150.0)


@pytest.mark.parametrize("change", [{"speaker": "b"}, {"language": "zh"}, {"language": "es"}])
def test_another_voice_or_language_starts_over(change: dict[str, str]) -> None:
    estimator = SpeakingRateEstimator()
    estimator.add(utterance(10, 2.0, speaker="a"))
    estimator.add(utterance(8, 2.0, **{"speaker": "a", **change}))
    assert estimator.state.rate == pytest.approx(240.0)


def test_characters_are_never_given_out_as_words() -> None:
    estimator = SpeakingRateEstimator()
    estimator.add(utterance(8, 2.0, language="zh"))
    assert estimator.state.rate == pytest.approx(240.0)
    assert estimator.state.speaking_rate_wpm is None
