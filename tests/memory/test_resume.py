from __future__ import annotations

import pytest

from pipecat_voicectx.memory.resume import describe_age, last_session, resume_note, wants_resume
from tests.memory.builders import page


@pytest.mark.parametrize(
    "text",
    [
        "Where were we?",
        "Hi, where did we leave off?",
        "We got cut off.",
        "It's me again",
        "Please go on.",
        "Let's pick up where we stopped",
        "Hallo, wo waren wir stehen geblieben?",
        "Bonjour, où en étions-nous ?",
        "Hola, ¿por dónde íbamos?",
        "Allora, dove eravamo rimasti?",
        "Onde é que estávamos?",
        "Waar waren we gebleven?",
        "我们刚才说到哪里了？",
        "どこまで話しましたか",
    ],
)
def test_wishes_to_resume_are_recognised_in_any_turn(text: str) -> None:
    assert wants_resume(text, first_turn=False)


@pytest.mark.parametrize(
    "text",
    [
        "I want to go on a trip",
        "My carry on luggage",
        "Which hotel?",
        "The last time slot",
        "Wo ist mein Koffer?",
        "Où est la gare ?",
        "¿Dónde está el hotel?",
        "我们明天去哪里？",
    ],
)
def test_other_sentences_with_the_same_words_are_none(text: str) -> None:
    assert not wants_resume(text, first_turn=True)


def test_a_first_turn_of_nothing_but_a_greeting_resumes() -> None:
    assert wants_resume("Hello", first_turn=True)
    assert not wants_resume("Hello", first_turn=False)
    for greeting in ("Guten Tag", "Bonjour", "Buenos días", "你好", "もしもし"):
        assert wants_resume(greeting, first_turn=True), greeting


def test_the_last_session_is_the_one_that_ended_last_and_not_this_one() -> None:
    pages = [
        page(0, session="a", wall=100),
        page(0, session="b", wall=300),
        page(1, session="b", wall=400),
        page(0, session="now", wall=900),
    ]
    last = last_session(pages, current_session_id="now")
    assert last is not None
    assert (last.session_id, last.ended_wall_secs, len(last.pages)) == ("b", 405, 2)
    assert last_session(pages[-1:], current_session_id="now") is None


def test_a_dropped_line_is_the_middle_of_a_call_and_a_later_one_is_a_return() -> None:
    last = last_session([page(0, session="a", wall=100, unheard="and more")], current_session_id="b")
    assert last is not None
    assert "in the middle of that call" in resume_note(last, wall_secs=150)
    note = resume_note(last, wall_secs=105 + 7_200)
    assert "2 hours ago" in note
    assert "not heard to its end" in note
    assert last.unheard_text not in note


@pytest.mark.parametrize(
    ("secs", "words"),
    [
        (-5, "just now"),
        (59, "just now"),
        (60, "1 minute ago"),
        (7_200, "2 hours ago"),
        (90_000, "yesterday"),
        (200_000, "2 days ago"),
    ],
)
def test_ages_read_as_people_say_them(secs: float, words: str) -> None:
    assert describe_age(secs) == words
