from __future__ import annotations

import pytest

from pipecat_voicectx.memory.answer_types import AnswerType, given_answers, wanted_answers
from pipecat_voicectx.memory.index import IndexedTurn, PageIndex
from pipecat_voicectx.memory.ranking import PageQuery, rank_pages
from pipecat_voicectx.memory.tokens import tokenize


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("When did I book the", AnswerType.TIME),
        ("how long is the trip", AnswerType.TIME),
        ("How many people are in", AnswerType.NUMBER),
        ("Who told you that?", AnswerType.NAME),
        ("Where did we stay, and when?", AnswerType.NAME | AnswerType.PLACE | AnswerType.TIME),
        ("Tell me about the trip", AnswerType.NONE),
        ("", AnswerType.NONE),
    ],
)
def test_the_form_of_a_question_says_what_it_wants(question: str, wanted: AnswerType) -> None:
    assert wanted_answers(question) == wanted


@pytest.mark.parametrize(
    ("turn", "given"),
    [
        ("I took the one on friday", AnswerType.TIME),
        ("that was in 2019", AnswerType.TIME | AnswerType.NUMBER),
        ("there were seven of us", AnswerType.NUMBER),
        ("we stayed in Ghent", AnswerType.NAME | AnswerType.PLACE),
        ("it was fine", AnswerType.NONE),
    ],
)
def test_a_turn_can_give_what_its_words_are(turn: str, given: AnswerType) -> None:
    assert given_answers(turn, tokenize(turn)) == given


def test_who_asks_when_gets_the_turn_that_names_a_day_first() -> None:
    index = PageIndex(dimension=2)
    for number, text in enumerate(("the piano lesson was hard", "the piano lesson is on friday")):
        index.upsert(f"p{number}", session=str(number), turns=[IndexedTurn(speaker="user", text=text)])
    assert rank_pages(index, PageQuery(text="When is my piano lesson"))[0].key == "p1"
    assert rank_pages(index, PageQuery(text="Was the piano lesson hard"))[0].key == "p0"


def test_a_changed_turn_gives_what_its_new_words_are() -> None:
    index = PageIndex(dimension=2)
    index.upsert("p", session="s", turns=[IndexedTurn(speaker="user", text="on Friday")])
    assert index.answers(AnswerType.TIME)[0] == 1
    index.upsert("p", session="s", turns=[IndexedTurn(speaker="user", text="in my garden")])
    assert not index.answers(AnswerType.TIME).any()
