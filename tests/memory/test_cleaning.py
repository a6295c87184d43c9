from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipecat_voicectx.memory.cleaning import clean_transcript, is_low_signal


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("um so i i want to uh book a table", "i want to book a table"),
        ("we went to the to the beach", "we went to the beach"),
        ("i want i want i want tea", "i want tea"),
        ("i w- i want to go", "i want to go"),
        ("We, you know, live in York.", "We, live in York."),
        ("Well, I live in York, you know.", "I live in York."),
        ("ähm ich wohne in Köln", "ich wohne in Köln"),
        ("no no no it's tuesday", "no it's tuesday"),
        ("hmm", ""),
        ("", ""),
    ],
)
def test_fillers_stutters_and_restarts_go(said: str, kept: str) -> None:
    assert clean_transcript(said) == kept


@pytest.mark.parametrize(
    "said",
    [
        "my number is five five five one one two",
        "it is spelled a a r o n",
        "she had had enough",
        "leave on monday i mean tuesday",
        "I kind of like it",
        "the year twenty twenty",
        "wir wohnen in Köln",
        "我们住在北京",
        "the hum of the erm-free room",
    ],
)
def test_words_that_carry_meaning_stay(said: str) -> None:
    assert clean_transcript(said) == said


_WORDS = "um uh i i the to want tea no no five five you know well , . - "


@given(st.lists(st.sampled_from(_WORDS.split(" ")), max_size=30))
def test_cleaning_only_leaves_out_and_does_so_once(words: list[str]) -> None:
    text = " ".join(words)
    cleaned = clean_transcript(text)
    rest = iter(text.replace(" ", ""))
    assert all(char in rest for char in cleaned.replace(" ", "")), "a subsequence of what was said"
    assert clean_transcript(cleaned) == cleaned


@pytest.mark.parametrize("text", ["okay", "uh huh", "Yes, great, thanks!", "", "...", "hmm okay got it"])
def test_acknowledgements_are_low_signal(text: str) -> None:
    assert is_low_signal(text)


@pytest.mark.parametrize(
    "text",
    ["Um, you know, uh.", "well, so, like", "right so um yeah i mean", "or whatever", "Kind of.", "i mean"],
)
def test_nothing_but_fillers_and_asides_is_low_signal(text: str) -> None:
    assert is_low_signal(text)


@pytest.mark.parametrize(
    "text", ["you know it", "i know", "i like it", "so what", "not really, you know", "kind of blue"]
)
def test_an_aside_with_a_word_beside_it_is_not_low_signal(text: str) -> None:
    assert not is_low_signal(text)


@pytest.mark.parametrize("text", ["i w- i want tea", "twenty-fi- i want tea", "2024-05- i want tea"])
def test_a_word_that_broke_off_goes_with_all_its_parts(text: str) -> None:
    assert clean_transcript(text) == "i want tea"


@pytest.mark.parametrize(
    "unit", [",", "2024-", "a- ", "um ", "my ", "you know, ", "well, so, ", "i i ", "a'", ", ."]
)
def test_cleaning_takes_time_in_proportion_to_the_text(unit: str) -> None:
    text = (unit * 20_000)[:20_000]
    started_secs = time.thread_time()
    clean_transcript(text)
    assert time.thread_time() - started_secs < 1.0
    assert not is_low_signal(unit * 200_000), "a turn of that length is not even looked through"


@pytest.mark.parametrize("text", ["I live in York", "no sugar", "five", "东京"])
def test_content_is_not_low_signal(text: str) -> None:
    assert not is_low_signal(text)
