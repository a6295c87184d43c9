from __future__ import annotations

import pytest

from pipecat_voicectx.errors import BadInputError
from pipecat_voicectx.memory.facts import (
    Assertion,
    Cardinality,
    Change,
    Ending,
    Fact,
    FactEnd,
    Polarity,
    Retraction,
    current_facts,
    facts_as_of,
)
from pipecat_voicectx.memory.reconcile import Add, Delete, Keep, Update, apply_operations, reconcile

T0 = 1_790_000_000.0


def said(attribute: str, value: str, **more: object) -> Assertion:
    base = Assertion(
        subject="user", attribute=attribute, value=value, statement=f"The user: {attribute} {value}."
    )
    return Assertion(**{**{name: getattr(base, name) for name in base.__slots__}, **more})


def after(*turns: list[Change]) -> list[Fact]:
    facts: list[Fact] = []
    for index, changes in enumerate(turns):
        operations = reconcile(facts, changes, turn_id=f"t{index}", now_wall_secs=T0 + 10 * index)
        facts = apply_operations(facts, operations)
    return facts


def test_F12_a_new_name_supersedes_the_old_which_keeps_its_validity_and_its_turn() -> None:
    one = Cardinality.ONE
    facts = after([said("name", "Ann", cardinality=one)], [said("name", "Anna", cardinality=one)])
    old, new = sorted(facts, key=lambda fact: fact.value)
    assert [fact.value for fact in current_facts(facts)] == ["Anna"]
    assert (old.valid_from_wall_secs, old.valid_to_wall_secs) == (T0, T0 + 10)
    assert (old.ended_because, old.superseded_by) == (FactEnd.SUPERSEDED, new.id)
    assert (old.source_turns, new.source_turns) == (("t0",), ("t1",))
    assert [fact.value for fact in facts_as_of(facts, T0 + 5)] == ["Ann"]


def test_saying_it_again_confirms_it_and_adds_the_turn() -> None:
    facts = after([said("like", "tea")], [said("like", "Tea")])
    (fact,) = facts
    assert fact.source_turns == ("t0", "t1")
    assert fact.last_said_wall_secs == T0 + 10
    assert fact.valid_from_wall_secs == T0


def test_many_valued_attributes_stand_beside_each_other() -> None:
    assert len(current_facts(after([said("like", "tea"), said("like", "cake")]))) == 2


def test_a_denial_ends_the_affirmation_across_verbs_that_say_the_same() -> None:
    facts = after(
        [said("like", "coffee in the morning")], [said("drink", "coffee", polarity=Polarity.NEGATED)]
    )
    assert [fact.polarity for fact in current_facts(facts)] == [Polarity.NEGATED]
    facts = after([said("have", "a car", polarity=Polarity.NEGATED)], [said("buy", "a blue car")])
    assert [fact.attribute for fact in current_facts(facts)] == ["buy"]


def test_a_denial_of_something_else_ends_nothing() -> None:
    facts = after([said("like", "green tea")], [said("like", "coffee", polarity=Polarity.NEGATED)])
    assert len(current_facts(facts)) == 2


def test_a_correction_ends_the_value_it_names_only() -> None:
    facts = after([said("like", "pears"), said("like", "figs")], [said("like", "plums", replaces="pears")])
    assert sorted(fact.value for fact in current_facts(facts)) == ["figs", "plums"]


def test_the_same_thing_with_another_number_or_date_has_moved() -> None:
    facts = after([said("have", "three kids"), said("have", "a dog")], [said("have", "two kids")])
    assert sorted(fact.value for fact in current_facts(facts)) == ["a dog", "two kids"]


def test_an_ending_ends_what_it_names_and_keeps_the_history() -> None:
    facts = after(
        [said("work as", "nurse", cardinality=Cardinality.ONE), said("like", "tea")],
        [Ending(subject="user", attributes=frozenset({"work as"}))],
    )
    assert [fact.value for fact in current_facts(facts)] == ["tea"]
    assert {fact.ended_because for fact in facts if not fact.current} == {FactEnd.ENDED}


def test_a_retraction_deletes_the_fact_and_its_history() -> None:
    one = Cardinality.ONE
    facts = after(
        [said("address", "mill lane", cardinality=one)],
        [said("address", "oak street", cardinality=one)],
        [Retraction(about="address")],
    )
    assert facts == []


def test_a_retraction_of_the_last_takes_the_last_turn_only() -> None:
    facts = after([said("like", "tea")], [said("like", "cake")], [Retraction(about="")])
    assert [fact.value for fact in facts] == ["tea"]


def test_a_retraction_that_names_nothing_known_deletes_nothing() -> None:
    assert len(after([said("like", "tea")], [Retraction(about="my passport")])) == 1


@pytest.mark.parametrize(
    "changes",
    [
        [said("name", "Anna", cardinality=Cardinality.ONE)],
        [said("like", "tea"), said("like", "tea")],
        [said("like", "tea", polarity=Polarity.NEGATED)],
        [Ending(subject="user", attributes=frozenset({"like"}))],
        [said("like", "cake", replaces="tea")],
    ],
)
def test_handling_a_turn_again_changes_nothing(changes: list[Change]) -> None:
    before = after([said("like", "tea"), said("name", "Ann", cardinality=Cardinality.ONE)])
    once = apply_operations(before, reconcile(before, changes, turn_id="t9", now_wall_secs=T0 + 99))
    again = reconcile(once, changes, turn_id="t9", now_wall_secs=T0 + 500)
    assert all(isinstance(operation, Keep) for operation in again), again


def test_operations_say_what_is_written() -> None:
    before = after([said("name", "Ann", cardinality=Cardinality.ONE)])
    operations = reconcile(
        before, [said("name", "Anna", cardinality=Cardinality.ONE)], turn_id="t9", now_wall_secs=T0 + 99
    )
    assert [type(operation) for operation in operations] == [Update, Add]
    gone = reconcile(before, [Retraction(about="name")], turn_id="t9", now_wall_secs=T0 + 99)
    assert [type(operation) for operation in gone] == [Delete]


def test_a_clock_that_goes_back_never_makes_a_fact_end_before_it_began() -> None:
    before = after([said("name", "Ann", cardinality=Cardinality.ONE)])
    changes = [said("name", "Anna", cardinality=Cardinality.ONE)]
    facts = apply_operations(before, reconcile(before, changes, turn_id="t9", now_wall_secs=T0 - 3600))
    old = next(fact for fact in facts if not fact.current)
    assert old.valid_to_wall_secs is not None
    assert old.valid_to_wall_secs >= old.valid_from_wall_secs
    assert [fact.value for fact in current_facts(facts)] == ["Anna"]


def test_facts_survive_json() -> None:
    for fact in after(
        [said("name", "Ann", cardinality=Cardinality.ONE)], [said("name", "Zoë 李", replaces="Ann")]
    ):
        assert Fact.from_json(fact.to_json()) == fact


@pytest.mark.parametrize("bad", [{}, {"schema": 99}, {"schema": 1, "id": "x"}])
def test_json_that_is_no_fact_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(BadInputError):
        Fact.from_json(bad)
