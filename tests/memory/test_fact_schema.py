from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import BaseModel, Field, StringConstraints

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.extraction import ConversationFocus, extract
from pipecat_voicectx.memory.fact_schema import FactSchema, Refusal
from pipecat_voicectx.memory.facts import Assertion, Ending, Polarity, Retraction
from pipecat_voicectx.memory.reconcile import apply_operations, reconcile
from pipecat_voicectx.memory.spoken_english import spoken_number


class Booking(BaseModel):
    name: str
    party_size: int = Field(ge=1, le=12)
    budget: int | None = None
    allergies: list[Annotated[str, StringConstraints(max_length=20)]] = Field(
        default=[], json_schema_extra={"attributes": ["be allergic to"]}
    )


def said(
    attribute: str, value: str, *, subject: str = "user", polarity: Polarity = Polarity.AFFIRMED
) -> Assertion:
    return Assertion(
        subject=subject, attribute=attribute, value=value, statement=f"{attribute} {value}", polarity=polarity
    )


@pytest.mark.parametrize(
    ("assertion", "refusal"),
    [
        (said("name", "Ann"), None),
        (said("party size", "four"), None),
        (said("party size", "40"), Refusal.VALUE),
        (said("party size", "many"), Refusal.VALUE),
        (said("budget", "fifteen hundred"), None),
        (said("be allergic to", "peanuts"), None),
        (said("be allergic to", "x" * 21), Refusal.VALUE),
        (said("favourite colour", "red"), Refusal.ATTRIBUTE),
        (said("name", "Tom", subject="brother"), Refusal.SUBJECT),
        (said("be allergic to", "eggs", polarity=Polarity.NEGATED), Refusal.DENIED),
    ],
)
def test_what_does_not_fit_is_refused_for_a_stated_reason(
    assertion: Assertion, refusal: Refusal | None
) -> None:
    assert FactSchema(Booking).check(assertion) is refusal


def test_refusals_are_counted_and_forgetting_always_passes() -> None:
    schema = FactSchema(Booking)
    changes = (
        said("name", "Ann"),
        said("favourite colour", "red"),
        said("party size", "hundreds"),
        Ending(subject="user", attributes=frozenset({"name"})),
        Retraction(about="name"),
    )
    assert schema.admit(changes) == (changes[0], changes[3], changes[4])
    assert (schema.counters.admitted, schema.counters.attribute, schema.counters.value) == (1, 1, 1)
    assert schema.counters.refused == 2


def test_the_facts_of_a_call_come_back_typed() -> None:
    schema = FactSchema(Booking)
    found = extract("my name is ann we're four people and i'm allergic to nuts and eggs", ConversationFocus())
    facts = apply_operations([], reconcile([], schema.admit(found.changes), turn_id="1", now_wall_secs=1e9))
    assert schema.typed_values(facts) == {"name": "Ann", "party size": 4, "be allergic to": ["nuts", "eggs"]}


def test_a_schema_must_be_unambiguous() -> None:
    class Other(BaseModel):
        name: str

    with pytest.raises(UsageError):
        FactSchema(Booking, Other)
    with pytest.raises(UsageError):
        FactSchema()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("forty two", 42),
        ("fifteen hundred", 1500),
        ("two thousand euros", 2000),
        ("one hundred and five", 105),
        ("2,500.50", 2500.5),
        ("a table", None),
        ("", None),
    ],
)
def test_spoken_numbers(text: str, number: float | None) -> None:
    assert spoken_number(text) == number
