import pytest

from pipecat_voicectx.playback.proposal import find_proposals, is_filler
from pipecat_voicectx.playback.spans import Span, span_role


def said(*texts: str) -> list[Span]:
    return [
        Span(
            text=text,
            role=span_role(text),
            start_samples=1000 * index,
            end_samples=1000 * (index + 1),
            finalized=True,
        )
        for index, text in enumerate(texts)
    ]


def proposed(*turns: list[Span], calling_turn: int, function: str = "book_train") -> list[tuple[int, str]]:
    found = find_proposals(list(enumerate(turns, start=1)), calling_turn=calling_turn, function=function)
    return [(proposal.turn_id, proposal.span.text) for proposal in found]


@pytest.mark.parametrize(
    "text",
    [
        "Fine.",
        "Sure!",
        "One moment, please.",
        "Just a second.",
        "Okay, great.",
        "Got it.",
        "Einen Moment bitte.",
    ],
)
def test_acknowledgements_are_fillers(text: str) -> None:
    assert is_filler(text)


@pytest.mark.parametrize(
    "text",
    ["I book it now.", "Sure, the train at nine.", "Shall I?", "It costs two hundred euros.", "...", ""],
)
def test_what_says_something_is_none(text: str) -> None:
    assert not is_filler(text)


@pytest.mark.parametrize(
    "filler", [[], ["Fine."], ["Sure.", "One moment, please."], ["It is a lovely town."]]
)
def test_f04_a_lead_in_that_does_not_name_the_action_does_not_replace_the_question(filler: list[str]) -> None:
    asked = said("There is one at nine.", "Shall I book it?", "It is cheap.")
    assert proposed(asked, said(*filler), calling_turn=2) == [(1, "Shall I book it?")]


def test_a_lead_in_that_names_the_action_must_be_heard_beside_the_question() -> None:
    asked = said("Shall I book it?")
    for lead_in in ("I am booking it now.", "Booking the train at nine."):
        assert proposed(asked, said("Fine.", lead_in), calling_turn=2) == [
            (1, "Shall I book it?"),
            (2, lead_in),
        ]


def test_a_question_in_the_calling_turn_is_the_last_one() -> None:
    turns = [said("Shall I cancel it?"), said("Or shall I book the one at nine?", "One moment.")]
    assert proposed(*turns, calling_turn=2) == [(2, "Or shall I book the one at nine?")]


def test_a_turn_of_fillers_and_what_is_said_later_do_not_count() -> None:
    turns = [said("Shall I book it?"), said("Okay."), [], said("Shall I cancel it?")]
    assert proposed(*turns, calling_turn=3) == [(1, "Shall I book it?")]


def test_without_a_question_close_by_the_last_one_further_back_identifies_the_call() -> None:
    assert proposed(said("I am going to book it."), calling_turn=1) == [(1, "I am going to book it.")]
    turns = [said("Shall I book it?"), said("That was all."), said("Then I book another one.")]
    assert proposed(*turns, calling_turn=3) == [(1, "Shall I book it?"), (3, "Then I book another one.")]
    assert proposed(*turns[:2], calling_turn=3) == [(1, "Shall I book it?"), (2, "That was all.")]


def test_statements_of_the_turn_before_stand_in_where_nothing_else_was_said() -> None:
    turns = [said("There is one at nine.", "It costs ten euros."), said("What a day.")]
    assert proposed(*turns, calling_turn=2) == [(1, "It costs ten euros.")]
    assert proposed(said("Fine."), calling_turn=1) == []
    assert proposed(calling_turn=1) == []
