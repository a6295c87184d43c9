from __future__ import annotations

import numpy as np
import pytest

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.memory.topic_shift import TopicShiftConfig, TopicShiftDetector

DOG, TAX = np.eye(2, dtype=np.float32)
SAID = "something with enough content words"


def near(vector: FloatArray, cosine: float) -> FloatArray:
    """A vector with the given cosine to `vector`."""
    return np.asarray(cosine * vector + np.sqrt(1 - cosine**2) * vector[::-1], np.float32)


def test_a_drop_of_the_cosine_is_a_shift_and_the_new_topic_is_not() -> None:
    detector = TopicShiftDetector()
    assert not detector.add_turn(SAID, DOG).shifted
    assert not detector.add_turn(SAID, near(DOG, 0.6)).shifted
    turn = detector.add_turn(SAID, TAX)
    detector = TopicShiftDetector()
    detector.add_turn(SAID, DOG)
    turn = detector.add_turn(SAID, near(DOG, 0.1))
    assert turn.shifted
    assert turn.similarity == pytest.approx(0.1, abs=1e-6)
    assert not detector.add_turn(SAID, near(DOG, 0.1)).shifted


def test_a_caller_whose_turns_are_never_close_is_measured_by_their_own_mean() -> None:
    detector = TopicShiftDetector(config=TopicShiftConfig(floor=0.3, drop=0.15))
    detector.add_turn(SAID, DOG)
    detector.add_turn(SAID, near(DOG, 0.32))
    assert not detector.add_turn(SAID, near(near(DOG, 0.32), 0.2)).shifted


def test_turns_without_content_are_passed_over() -> None:
    detector = TopicShiftDetector()
    detector.add_turn("tell me about walking the dog", DOG)
    for filler in ("yes", "uh huh okay", "", "hmm"):
        assert detector.add_turn(filler, TAX).similarity is None
    assert not detector.add_turn("and where can the dog walk free", near(DOG, 0.8)).shifted


def test_without_vectors_words_decide() -> None:
    detector = TopicShiftDetector()
    detector.add_turn("walk the brown dog in the park")
    assert not detector.add_turn("which park allows a dog to walk").shifted
    assert detector.add_turn("what about the income tax return form").shifted


def test_vectors_of_another_embedder_are_not_compared() -> None:
    detector = TopicShiftDetector()
    detector.add_turn("walk the brown dog in the park", np.ones(3, np.float32))
    assert not detector.add_turn("walk the brown dog again now", DOG).shifted


def test_bad_settings_fail_at_construction() -> None:
    with pytest.raises(UsageError):
        TopicShiftConfig(smoothing=0)
