from __future__ import annotations

import pytest

from pipecat_voicectx.memory.confirmations import is_no, is_yes, proposition, vocative
from tests.memory.test_extraction import statements

PROPOSED = [
    ("Is nine Elm Road still your address?", "my address is nine elm road"),
    ("Okay, so I have your birthday as May 2nd, is that right?", "my birthday is may 2nd"),
    ("Do you still take the blue pills?", "i take the blue pills"),
    ("Are you allergic to latex?", "i am allergic to latex"),
    ("You live in Leeds, correct?", "i live in leeds"),
    ("Is the number ending in four two still current?", "my number is four two"),
    ("What is your name?", None),
    ("Do you know when it opens?", None),
    ("Do you want me to book it?", None),
    ("", None),
]


@pytest.mark.parametrize(("question", "put"), PROPOSED)
def test_what_the_bot_puts_to_the_caller_is_said_in_the_callers_words(question: str, put: str | None) -> None:
    assert proposition(question) == put


def test_a_yes_with_a_reservation_is_none() -> None:
    assert is_yes("yes that's right")
    assert is_yes("mm hmm still there")
    assert is_yes("yep friday works")
    assert not is_yes("yes but only on mondays")
    assert not is_yes("well it depends")
    assert not is_yes("no")


def test_a_plain_no_denies_only_what_can_be_denied() -> None:
    assert is_no("no", "Do you have any pets?")
    assert is_no("nope none", "Do you smoke?")
    assert not is_no("no", "Do you have any other questions?")
    assert not is_no("no we moved", "Do you have a car?")
    assert not is_no("no", "Should I book it?")


def test_a_name_in_a_greeting_is_known_as_one() -> None:
    assert vocative("Hello Jeffrey, how can I help?", "jeffrey")
    assert not vocative("Do you want Jeffrey to call?", "jeffrey")


CALLS = [
    ("Do you still live on Fig Street?", "yes", "fig street", ""),
    ("Do you still live on Fig Street?", "no we moved to oak lane", "oak lane", "fig"),
    ("Is your birthday March third?", "no march thirteenth", "march thirteenth", "march third"),
    ("Hello Jeffrey, how can I help?", "it's geoff actually not jeffrey", "geoff", "jeffrey"),
    ("Do you have any allergies?", "no", "does not have any allergies", ""),
    ("What's the last name on the account?", "it's whitlock w h i t l o c k", "whitlock", "w h i"),
    ("How many children are travelling?", "just the one", "number of children is one", ""),
    ("Are you ready to order?", "yes", "", "order"),
    ("Do you have any other questions?", "no", "", "questions"),
    ("You hate us, right?", "maybe", "", "hate"),
]


@pytest.mark.parametrize(("question", "said", "known", "unknown"), CALLS)
def test_an_answer_is_read_with_its_question(question: str, said: str, known: str, unknown: str) -> None:
    stated = statements(said, question=question)
    assert known in stated
    assert not unknown or unknown not in stated
