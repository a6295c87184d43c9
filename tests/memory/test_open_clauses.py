"""Statements by any verb and of any subject, in other wordings than those of the bench."""

from __future__ import annotations

import pytest

from pipecat_voicectx.memory.open_clauses import copula_written_out, with_subject
from tests.memory.test_extraction import remember, statements

STATED = [
    ("the gate squeaks at night", "the gate squeaks at night"),
    ("my dishwasher's leaking", "dishwasher is leaking"),
    ("the woman upstairs teaches piano", "teaches piano"),
    ("grandpa whittles little boats", "whittles little boats"),
    ("i commute by ferry", "commutes by ferry"),
    ("neither of my sons can swim", "cannot swim"),
    ("i'm between apartments", "is between apartments"),
    ("i was diagnosed with asthma as a kid", "diagnosed with asthma"),
    ("i'm not really a cake person", "is not"),
    ("broke my wrist in april", "broke their wrist in april"),
    ("drop it off behind the garage", "drop it off behind the garage"),
    ("you guys bill me on the third", "bill the user on the third"),
    ("there's a spare key with the baker", "there is a spare key with the baker"),
    ("i look after my uncle", "looks after their uncle"),
]


@pytest.mark.parametrize(("said", "stated"), STATED)
def test_any_verb_and_any_subject_state_something(said: str, stated: str) -> None:
    assert stated in statements(said)


CHATTER = [
    "i think it was fine", "i was wondering about something", "the website froze", "the weather turned bad",
    "i'm holding the phone", "i could use a break", "i might sell the car", "has anyone called for me",
    "you told me it shipped", "that thing keeps happening", "i need some help", "i have a question",
    "the point is that it matters", "everybody complains", "give me a minute", "keep it in mind",
]  # fmt: skip


@pytest.mark.parametrize("said", CHATTER)
def test_talk_about_the_call_and_the_world_states_nothing(said: str) -> None:
    assert [fact.statement for fact in remember(said)] == []


def test_the_subject_that_speakers_leave_out_is_the_speaker() -> None:
    assert with_subject("sold the boat last week") == "i sold the boat last week"
    assert with_subject("been a welder since ninety nine") == "i have been a welder since ninety nine"
    assert with_subject("left side please") == "left side please"
    assert with_subject("had i known") == "had i known"


def test_an_s_is_written_out_where_it_is_a_verb() -> None:
    assert copula_written_out("the hinge's loose") == "the hinge is loose"
    assert copula_written_out("the hinge's colour") == "the hinge's colour"
    assert copula_written_out("the boss's office is downstairs") == "the boss's office is downstairs"


def test_what_is_known_of_who_held_a_role_goes_with_them() -> None:
    known = statements(
        "our coach is called rob", "rob runs the sign ups", "rob's gone now it's somebody named pia"
    )
    assert "pia" in known
    assert "rob" not in known


def test_a_corrected_name_is_corrected_in_what_was_said_with_it() -> None:
    known = statements("my sister jean plays the harp", "sorry not jean jane")
    assert "jane plays the harp" in known
    assert "jean" not in known
