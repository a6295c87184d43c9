from __future__ import annotations

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


@pytest.mark.parametrize("text", ["I live in York", "no sugar", "five", "东京"])
def test_content_is_not_low_signal(text: str) -> None:
    assert not is_low_signal(text)
