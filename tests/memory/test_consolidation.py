from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.consolidation import ConsolidationConfig, consolidate, half_life_secs, retention
from pipecat_voicectx.memory.facts import Cardinality, Fact, FactEnd, Polarity, current_facts
from pipecat_voicectx.memory.reconcile import apply_operations

T0 = 1_790_000_000.0
DAY = 86_400.0


def fact(
    key: str,
    attribute: str,
    value: str,
    *,
    at: float = T0,
    turns: tuple[str, ...] | None = None,
    one: bool = False,
    subject: str = "user",
    polarity: Polarity = Polarity.AFFIRMED,
) -> Fact:
    return Fact(
        id=key, subject=subject, attribute=attribute, value=value, statement=f"{subject} {attribute} {value}.",
        polarity=polarity, cardinality=Cardinality.ONE if one else Cardinality.MANY, valid_from_wall_secs=at,
        source_turns=turns or (f"turn-{key}",), last_said_wall_secs=at,
    )  # fmt: skip


def slept(*facts: Fact, now: float = T0 + DAY) -> list[Fact]:
    return apply_operations(facts, consolidate(facts, now_wall_secs=now).operations)


def test_duplicates_become_one_with_all_their_turns() -> None:
    (one,) = slept(fact("a", "like", "the green tea"), fact("b", "like", "green tea", at=T0 + 60))
    assert one.id == "b"
    assert one.source_turns == ("turn-a", "turn-b")
    assert one.valid_from_wall_secs == T0


def test_of_contradictions_the_newer_stays_and_the_older_keeps_its_validity() -> None:
    facts = slept(
        fact("a", "live in", "leeds", one=True),
        fact("b", "live in", "york", at=T0 + 60, one=True),
        fact("c", "like", "coffee"),
        fact("d", "like", "coffee", at=T0 + 60, polarity=Polarity.NEGATED),
    )
    assert {each.id for each in current_facts(facts)} == {"b", "d"}
    old = next(each for each in facts if each.id == "a")
    assert (old.superseded_by, old.ended_because, old.valid_to_wall_secs) == (
        "b",
        FactEnd.SUPERSEDED,
        T0 + 60,
    )


def test_the_forgetting_curve_has_the_stated_half_lives() -> None:
    config = ConsolidationConfig()
    plan = fact("a", "plan", "to paint the door")
    assert retention(plan, now_wall_secs=T0 + 14 * DAY, config=config) == pytest.approx(0.5)
    assert retention(fact("b", "like", "tea"), now_wall_secs=T0 + 365 * DAY, config=config) == pytest.approx(
        0.5
    )
    assert retention(fact("c", "have", "a dog"), now_wall_secs=T0 + 90 * DAY, config=config) == pytest.approx(
        0.5
    )
    assert half_life_secs(fact("d", "name", "Ann"), config) is None
    assert retention(plan, now_wall_secs=T0 - DAY, config=config) == 1.0


def test_what_is_confirmed_lives_longer() -> None:
    config = ConsolidationConfig()
    once, often = fact("a", "like", "tea"), fact("b", "like", "tea", turns=("1", "2", "3", "4"))
    assert (half_life_secs(often, config) or 0) > 1.5 * (half_life_secs(once, config) or 0)


def test_what_has_faded_is_hidden_and_not_deleted_and_a_name_never_fades() -> None:
    facts = slept(fact("a", "plan", "to paint"), fact("b", "name", "Ann", one=True), now=T0 + 4000 * DAY)
    assert [each.id for each in current_facts(facts)] == ["b"]
    faded = next(each for each in facts if each.id == "a")
    assert faded.ended_because is FactEnd.FORGOTTEN


def test_a_second_night_has_nothing_left_to_do() -> None:
    facts = [
        fact("a", "like", "the tea"), fact("b", "like", "tea"), fact("c", "live in", "leeds", one=True),
        fact("d", "live in", "york", at=T0 + 9, one=True), fact("e", "plan", "to paint", at=T0 - 900 * DAY),
    ]  # fmt: skip
    once = slept(*facts)
    assert consolidate(once, now_wall_secs=T0 + DAY).operations == ()


def test_what_keeps_coming_back_is_reflected_upon_with_its_turns() -> None:
    facts = [
        fact(f"c{n}", "call about", f"my broken router {n}".replace(f" {n}", ""), at=T0 + n) for n in range(3)
    ]
    facts += [fact(f"s{n}", "be", f"thing {n}", subject="sister", at=T0 + n) for n in range(6)]
    plan = consolidate(facts, now_wall_secs=T0 + DAY)
    texts = {each.text: each for each in plan.reflections}
    assert "The user often calls about the router." in texts
    assert "The user often speaks of their sister." in texts
    assert len(texts["The user often speaks of their sister."].source_turns) == 6


@pytest.mark.parametrize(
    "bad", [{"threshold": 0.0}, {"passing_half_life_secs": 0.0}, {"confirmation_gain": -1.0}]
)
def test_bad_settings_fail_at_construction(bad: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        ConsolidationConfig(**bad)  # type: ignore[arg-type]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["like", "live in", "plan"]), st.sampled_from(["tea", "the tea", "york", ""]),
            st.integers(0, 900), st.booleans(), st.sampled_from(list(Polarity)),
        ),
        max_size=12,
    )
)  # fmt: skip
def test_consolidation_is_idempotent_whatever_there_is(
    rows: list[tuple[str, str, int, bool, Polarity]],
) -> None:
    facts = [
        fact(str(n), attribute, value, at=T0 - day * DAY, one=one, polarity=polarity)
        for n, (attribute, value, day, one, polarity) in enumerate(rows)
    ]
    once = slept(*facts)
    assert consolidate(once, now_wall_secs=T0 + DAY).operations == ()
