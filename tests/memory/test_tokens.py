from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipecat_voicectx.memory.tokens import stem, tokenize


def test_english_endings_fall_away_so_that_forms_of_a_word_meet() -> None:
    assert tokenize("booking") == tokenize("booked") == tokenize("books")
    assert tokenize("parties") == tokenize("party")
    assert tokenize("planned") == tokenize("planning")


def test_short_words_names_and_numbers_stay_as_they_are() -> None:
    assert stem("bus") == "bus"
    assert stem("class") == "class"
    assert stem("b12s") == "b12s"
    assert stem("está") == "está"


def test_function_words_and_possessives_are_dropped() -> None:
    assert tokenize("What is the dog's name?") == ["dog", "nam"]
    assert tokenize("and the of it") == []


def test_scripts_without_spaces_become_pairs_of_characters() -> None:
    assert tokenize("京都の旅館") == ["京都", "都の", "の旅", "旅館"]
    assert set(tokenize("旅館")) <= set(tokenize("京都の旅館を予約"))
    assert tokenize("犬") == ["犬"]


def test_a_word_with_vowel_signs_stays_one_word() -> None:
    assert tokenize("नमस्ते दुनिया") == ["नमस्ते", "दुनिया"]
    assert set(tokenize("โรงแรม")) <= set(tokenize("จองโรงแรมแล้ว"))


def test_mixed_scripts_are_split_where_the_script_changes() -> None:
    assert tokenize("book旅館now") == ["book", "旅館", "now"]


def test_a_megabyte_of_text_gives_a_bounded_number_of_tokens() -> None:
    assert len(tokenize("garden " * 150_000)) == 4_000
    assert len(tokenize("旅" * 500_000)) == 4_000


@given(st.text())
def test_any_text_can_be_tokenized_and_case_does_not_matter(text: str) -> None:
    assert all(tokenize(text))
    assert tokenize(text.upper().lower()) == tokenize(text.upper().casefold())
