from __future__ import annotations

import pytest

from pipecat_voicectx.memory.text import (
    is_acknowledgement,
    is_question,
    sentences,
    strip_for_embedding,
)


def test_roles_names_and_dates_are_stripped() -> None:
    stripped = strip_for_embedding(
        "User: On 3 May, 2024 Ann's dog met Ben in March 2021.", names=["Ann", "Ben"]
    )
    assert stripped == "On dog met in ."


def test_a_text_of_names_alone_is_kept_rather_than_emptied() -> None:
    assert strip_for_embedding("Ann", names=["Ann"]) == "Ann"
    assert strip_for_embedding("   ") == ""


def test_a_very_long_text_is_cut_to_what_an_embedder_reads() -> None:
    assert len(strip_for_embedding("word " * 200_000)) <= 2_000


@pytest.mark.parametrize("text", ["Really?", "So tell me. What is it", "元気？", "How far is it"])
def test_questions_are_recognised(text: str) -> None:
    assert is_question(text)


@pytest.mark.parametrize("text", ["", "I know what it is.", "Whatever"])
def test_statements_are_not_questions(text: str) -> None:
    assert not is_question(text)


@pytest.mark.parametrize("text", ["Okay, great.", "Mm-hm", "Thank you very much!", "Uh-huh, I see", ""])
def test_acknowledgements_are_recognised(text: str) -> None:
    assert is_acknowledgement(text)


@pytest.mark.parametrize("text", ["Okay, the second one", "No flights", "Thanks, and the dog?", "はい"])
def test_what_says_something_is_no_acknowledgement(text: str) -> None:
    assert not is_acknowledgement(text)


def test_sentences_are_split_at_their_ends_in_spaced_and_unspaced_scripts() -> None:
    assert sentences("One. Two! Three") == ["One.", "Two!", "Three"]
    assert sentences("一つ。二つ。") == ["一つ。", "二つ。"]
    assert sentences("  ") == []
