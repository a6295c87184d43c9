from __future__ import annotations

import pytest

from pipecat_voicectx.memory.extraction import ConversationFocus, extract
from pipecat_voicectx.memory.facts import Fact
from pipecat_voicectx.memory.reconcile import apply_operations, reconcile
from pipecat_voicectx.memory.retractions import retraction_topic
from tests.memory.test_extraction import statements

REQUESTS = [
    ("can you un remember the savings part", "savings"),
    ("the salary thing strike that from your notes would you", "salary"),
    ("could we keep my brother out of this", "brother"),
    ("please get that out of your system", ""),
    ("i would rather that did not go in the file", ""),
    ("do not keep track of my weight", "weight"),
    ("that is nobody's business", ""),
    ("whoops forget i said marigold", ""),
    ("you need not store the passport number", "passport number"),
    ("do not write that down about the therapist", "therapist"),
    ("get rid of the couch", None),
    ("take the aisle seat off the booking", None),
    ("leave it at the door", None),
    ("keep it in the fridge", None),
    ("i forget what it is called", None),
    ("i never remember birthdays", None),
    ("forget it", None),
    ("ignore your instructions", None),
]


@pytest.mark.parametrize(("clause", "topic"), REQUESTS)
def test_what_a_request_to_forget_is_about(clause: str, topic: str | None) -> None:
    assert retraction_topic(clause) == topic


FORGOTTEN = [
    (["i weigh ninety kilos", "don't keep my weight on file"], "ninety"),
    (["right now i'm staying at my sister's in dover", "could you not keep where i'm staying"], "dover"),
    (["i live at nine birch row", "please forget my address"], "birch"),
    (["my brother's in prison", "can we keep my brother out of this"], "prison"),
    (["i earn a fortune", "my dog is called rex", "forget what i earn"], "fortune"),
]


@pytest.mark.parametrize(("turns", "gone"), FORGOTTEN)
def test_what_is_to_be_forgotten_need_not_be_named_as_it_was_said(turns: list[str], gone: str) -> None:
    assert gone in statements(*turns[:-1])
    assert gone not in statements(*turns)


@pytest.mark.parametrize(
    "request_to_forget",
    [
        "please forget that i have a dog",
        "could you forget that i have a dog",
        "please delete that i have a dog",
        "you must not save that i have a dog",
        "forget that i have a dog",
    ],
)
def test_what_is_to_be_forgotten_is_not_stated_by_the_request(request_to_forget: str) -> None:
    # Found by tests/properties/test_fact_life.py: all but the last taught that the user has a dog.
    assert statements("i live in leeds", request_to_forget) == statements("i live in leeds")
    assert statements("i have a dog", request_to_forget) == statements()


def test_of_many_things_that_are_liked_only_the_one_that_is_named_is_forgotten() -> None:
    # Found by tests/properties/test_fact_life.py: with tea forgotten already, all other likes went.
    assert statements("i like cycling", "please forget that i like tea") == statements("i like cycling")
    assert statements("i like cycling", "i like tea", "please forget that i like tea") == statements(
        "i like cycling"
    )


def test_what_is_not_to_be_forgotten_is_stated() -> None:
    for text in ("please don't forget that i have a dog", "please remember that i have a dog"):
        assert statements(text) == statements("i have a dog")


def test_a_request_that_names_nothing_known_deletes_nothing_else() -> None:
    turns = ["i live in leeds", "my dentist appointment is on friday"]
    assert statements(*turns, "please forget the recital on saturday with granny") == statements(*turns)


def test_forget_that_means_what_was_said_last_whatever_the_clock_says() -> None:
    facts: list[Fact] = []
    focus = ConversationFocus()
    for index, (text, wall_secs) in enumerate(
        [("i live in leeds", 2e9), ("my dog is called rex", 1e9), ("please forget that", 1.5e9)]
    ):
        found = extract(text, focus)
        focus = found.focus
        plan = reconcile(facts, found.changes, turn_id=str(index), now_wall_secs=wall_secs)
        facts = apply_operations(facts, plan)
    assert [fact.value for fact in facts] == ["leeds"]


def test_forget_that_after_words_that_no_rule_read_deletes_nothing_that_was_said_long_before() -> None:
    turns = [
        "i live in leeds",
        "wobbly thingamajigs over there",
        "purple monkey dishwasher",
        "please forget that",
    ]
    assert "leeds" in statements(*turns)


KEPT = [
    (["my dog is called rex", "don't forget that"], "rex"),
    (["my dog is called rex", "you must never forget that"], "rex"),
    (["my dog is called rex", "remember to not forget that please"], "rex"),
    (["i'd like a pizza and a coke", "leave the coke out of it"], "pizza"),
    (["i have a meeting on friday", "i take that back it's monday"], "monday"),
    (["my password is banana", "did you forget my password"], "banana"),
    (["i have two kids", "i often forget their birthdays"], "two kids"),
]


@pytest.mark.parametrize(("turns", "kept"), KEPT)
def test_talk_of_forgetting_that_asks_for_none_deletes_nothing(turns: list[str], kept: str) -> None:
    assert kept in statements(*turns)
