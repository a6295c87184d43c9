"""Conditions as callers list them: each beside the others, and never without its "no"."""

from __future__ import annotations

import pytest

from pipecat_voicectx.memory.extraction import ConversationFocus, extract
from pipecat_voicectx.memory.facts import Fact, Polarity, Retraction, current_facts
from pipecat_voicectx.memory.reconcile import apply_operations, reconcile
from pipecat_voicectx.memory.wishes import budget, split_at_wishes, unwanted


def remember(*turns: str, question: str = "") -> list[Fact]:
    """The current facts after a call."""
    facts: list[Fact] = []
    focus = ConversationFocus()
    for index, text in enumerate(turns):
        found = extract(text, focus, question=question)
        focus = found.focus
        operations = reconcile(facts, found.changes, turn_id=str(index), now_wall_secs=1e9 + index)
        facts = apply_operations(facts, operations)
    return current_facts(facts)


def values(facts: list[Fact], polarity: Polarity) -> set[str]:
    return {fact.value for fact in facts if fact.polarity is polarity}


TRIP = "I'd like a short trip in October for two people."


def test_what_a_caller_rules_out_stands_beside_what_is_wished_for() -> None:
    facts = remember(
        TRIP, "No flights at all.", "It has to stay under nine hundred euros.", "We take the dog along."
    )
    assert values(facts, Polarity.AFFIRMED) == {
        "a short trip in October for two people", "nine hundred euros", "the dog along",
    }  # fmt: skip
    assert values(facts, Polarity.NEGATED) == {"flights"}
    assert "The user does not want flights." in {fact.statement for fact in facts}


@pytest.mark.parametrize(
    ("said", "ruled_out"),
    [
        ("no flights at all", "flights"),
        ("absolutely no connecting flights", "connecting flights"),
        ("no smoking please", "smoking"),
        ("no wait no stairs please", "stairs"),
        ("nothing near the lift", "near the lift"),
        ("nothing spicy", "spicy"),
        ("nothing too fancy please", "too fancy"),
        ("not on the ground floor", "on the ground floor"),
        ("not too close to the road", "too close to the road"),
        ("without a stopover", "a stopover"),
        ("never before ten", "before ten"),
        ("anything but fish", "fish"),
        ("anything except seafood is fine", "seafood"),
        ("i'd rather not fly", "fly"),
        ("we'd prefer not to share a room", "share a room"),
        ("please don't put us next to the kitchen", "put us next to the kitchen"),
        ("i'd rather you didn't call me after six", "call me after six"),
        ("ferries are out of the question", "ferries"),
        ("cruises are not for us", "cruises"),
        ("i try to steer clear of dairy", "dairy"),
        ("leave out the onions", "the onions"),
        ("we want no extras", "extras"),
        ("i want nothing with nuts", "with nuts"),
        ("i don't want any flights", "any flights"),
    ],
)  # fmt: skip
def test_every_way_of_ruling_out_keeps_its_no_and_touches_no_other_wish(said: str, ruled_out: str) -> None:
    facts = remember(TRIP, said)
    assert ruled_out in values(facts, Polarity.NEGATED)
    assert values(facts, Polarity.AFFIRMED) == {"a short trip in October for two people"}


@pytest.mark.parametrize(
    "said", ["i can't stand jazz", "i'm not a fan of jazz", "i've never liked jazz", "i detest jazz"]
)  # fmt: skip
def test_a_dislike_is_denied_whatever_the_verb(said: str) -> None:
    assert [(fact.attribute, fact.value, fact.polarity) for fact in remember(said)] == [
        ("like", "jazz", Polarity.NEGATED)
    ]


@pytest.mark.parametrize(
    "said",
    ["no worries", "no rush take your time", "no problem at all", "no idea", "no thanks", "nothing else",
     "nothing special", "not too bad", "not on my phone", "without a doubt", "never mind", "nothing works here",
     "are there no trains at night", "do you have anything without nuts", "she says no cats"],
)  # fmt: skip
def test_courtesies_questions_and_hearsay_rule_nothing_out(said: str) -> None:
    assert remember(said) == []


def test_a_run_on_of_wishes_is_cut_where_a_condition_begins() -> None:
    assert split_at_wishes("a trip for two no flights at all and nothing too dear") == [
        "a trip for two", "no flights at all", "nothing too dear",
    ]  # fmt: skip
    facts = remember("i'd like a trip for two no flights at all and nothing too expensive")
    assert values(facts, Polarity.NEGATED) == {"flights", "too expensive"}


def test_what_was_ruled_out_may_be_welcome_again() -> None:
    assert (
        values(remember(TRIP, "no flights at all", "well flights would be fine after all"), Polarity.NEGATED)
        == set()
    )


def test_a_part_of_an_order_is_left_out_of_it() -> None:
    facts = remember("i'd like a burger with onions and cheese", "no onions please")
    assert [fact.value for fact in facts] == ["a burger with cheese"]


def test_no_before_another_choice_still_corrects() -> None:
    facts = remember("i want a window seat", "no an aisle seat", "no make that the exit row")
    assert [fact.value for fact in facts] == ["the exit row"]


def test_a_correction_never_lands_on_what_was_ruled_out() -> None:
    facts = remember("i'd like a coffee", "no milk please", "actually no make it tea")
    assert values(facts, Polarity.AFFIRMED) == {"tea"}
    assert values(facts, Polarity.NEGATED) == {"milk"}


def test_having_none_is_no_wish() -> None:
    assert [(fact.attribute, fact.polarity) for fact in remember("no siblings")] == [
        ("have", Polarity.NEGATED)
    ]
    asked = remember("no pets at all", question="Do you have any pets?")
    assert [(fact.attribute, fact.value) for fact in asked] == [("have", "pets")]


def test_somebody_elses_condition_is_theirs() -> None:
    facts = remember("my wife is pregnant", "no seafood for my wife")
    assert {(fact.subject, fact.value) for fact in facts} == {("wife", "pregnant"), ("wife", "seafood")}


@pytest.mark.parametrize(
    ("said", "limit"),
    [
        ("it has to stay under nine hundred euros", "nine hundred euros"),
        ("we can't spend more than two thousand", "two thousand"),
        ("no more than fifty pounds", "fifty pounds"),
        ("max 400 euros", "400 euros"),
        ("we've got about a thousand dollars to spend", "a thousand dollars"),
    ],
)  # fmt: skip
def test_a_limit_on_money_is_the_budget(said: str, limit: str) -> None:
    assert [(fact.attribute, fact.value) for fact in remember(said)] == [("budget", limit)]


def test_a_limit_on_time_or_people_is_no_budget() -> None:
    assert budget("under a hundred minutes") is None
    assert budget("up to two hundred people") is None


def test_a_requirement_is_a_wish_of_its_own_once_there_is_a_wish() -> None:
    facts = remember(
        "i need a hotel in york", "breakfast has to be included", "it must have parking", "somewhere quiet"
    )
    assert {fact.statement for fact in facts} == {
        "The user needs a hotel in york.",
        "The user needs breakfast to be included.",
        "The user needs it to have parking.",
        "The user wants somewhere quiet.",
    }
    assert remember("it must be a mistake") == []


def test_a_request_to_book_is_a_wish_and_a_question_is_not() -> None:
    assert [fact.value for fact in remember("could you book me a room for two nights?")] == [
        "a room for two nights"
    ]
    assert remember("could you tell me the time?") == []


def test_asking_not_to_be_called_erases_nothing() -> None:
    found = extract("i'd rather you didn't call me after six", ConversationFocus())
    assert not any(isinstance(change, Retraction) for change in found.changes)


def test_a_name_after_no_is_a_correction_and_a_plural_is_a_condition() -> None:
    assert not unwanted("anna", emphasized=True)
    assert not unwanted("problems", emphasized=False)
    assert not unwanted("garlic", emphasized=False)
    assert unwanted("garlic", emphasized=True)
    assert unwanted("calls before nine", emphasized=False)
