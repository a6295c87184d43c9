from __future__ import annotations

import pytest

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.extraction import ConversationFocus, extract
from pipecat_voicectx.memory.facts import Fact
from pipecat_voicectx.memory.hot_cache import HotCache, build_hot_cache
from pipecat_voicectx.memory.reconcile import Add, apply_operations, reconcile
from pipecat_voicectx.memory.session_facts import SessionFacts

T0 = 1_790_000_000.0


def call(*turns: str, start: float = T0, known: list[Fact] | None = None) -> tuple[SessionFacts, list[Fact]]:
    session, facts, focus = SessionFacts(), list(known or []), ConversationFocus()
    for index, text in enumerate(turns):
        found = extract(text, focus)
        focus = found.focus
        operations = reconcile(facts, found.changes, turn_id=f"{start}-{index}", now_wall_secs=start + index)
        facts = apply_operations(facts, operations)
        session.apply(operations)
    return session, facts


def test_what_is_established_is_known_and_corrected_and_forgotten() -> None:
    session, _ = call("my name is ann", "no it's anna", "i live in york")
    assert session.value("name") == "Anna"
    assert session.value("live in") == "york"
    assert session.value("age") is None
    session, _ = call("my name is ann", "my age is forty", "forget my name")
    assert session.value("name") is None


@pytest.mark.parametrize(
    ("question", "attribute"),
    [
        ("May I have your name, please?", "name"),
        ("And where do you live?", "live in"),
        ("Do you have any allergies?", "be allergic to"),
        ("What is your favourite colour?", "favourite colour"),
    ],
)
def test_a_question_that_is_answered_already_is_recognised(question: str, attribute: str) -> None:
    session, _ = call("my name is ann i live in york", "i'm allergic to nuts", "my favourite colour is red")
    fact = session.answers(question)
    assert fact is not None
    assert fact.attribute == attribute


@pytest.mark.parametrize(
    "question", ["What time shall we meet?", "Your name is Ann.", "How old are you?", ""]
)
def test_other_questions_are_not(question: str) -> None:
    session, _ = call("my name is ann", "i live in york")
    assert session.answers(question) is None


def test_the_block_is_short_and_the_memory_bounded() -> None:
    assert SessionFacts().render() == ""
    session, _ = call("my name is ann", "i like tea", "i live in york")
    assert session.render(max_words=9) == "The user likes tea. The user lives in york."
    bounded = SessionFacts(max_facts=2)
    source, _ = call(*[f"i like thing{n}" for n in range(5)], "my name is ann")
    bounded.apply([Add(fact=fact) for fact in source.established])
    assert len(bounded) == 2
    assert bounded.value("name") == "Ann"
    with pytest.raises(UsageError):
        SessionFacts(max_facts=0)


def test_the_hot_cache_is_a_dictionary_read_and_knows_absence() -> None:
    _, facts = call("my name is ann", "i live in york", "i don't drive")
    cache = build_hot_cache(facts, last_call_summary="Asked about a refund.", open_issues=["refund 17"])
    assert cache.identified
    assert cache.lookup("name") == "Ann"
    assert cache.lookup("drive") is None
    assert cache.lookup("name", subject="sister") is None
    assert cache.render().splitlines()[0].startswith("The user's name is Ann.")
    assert "Open: refund 17" in cache.render()
    assert len(cache.render(max_words=10).split()) <= 12


def test_an_anonymous_caller_has_an_empty_cache() -> None:
    cache = HotCache()
    assert not cache.identified
    assert cache.lookup("name") is None
    assert cache.render() == ""


def test_what_is_not_written_yet_is_read_all_the_same() -> None:
    _, facts = call("please call me alexander")
    cache = build_hot_cache(facts)
    operations = reconcile(
        facts,
        extract("please call me alex", ConversationFocus()).changes,
        turn_id="late",
        now_wall_secs=T0 + 99,
    )
    assert cache.with_operations(operations).lookup("nickname") == "Alex"
    assert cache.lookup("nickname") == "Alexander", "a cache is a value"


def test_identity_in_mid_call_lays_what_was_just_said_over_the_profile() -> None:
    _, stored = call("my name is ann", "i live in leeds", "i like tea")
    session, _ = call("i live in york now", start=T0 + 1000)
    cache = HotCache().identified_as(build_hot_cache(stored), session_facts=session.established)
    assert cache.identified
    assert (cache.lookup("live in"), cache.lookup("name"), cache.lookup("like")) == ("york", "Ann", "tea")
