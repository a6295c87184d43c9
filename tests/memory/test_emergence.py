from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipecat_voicectx.errors import BadInputError, UsageError
from pipecat_voicectx.memory.emergence import (
    Candidate,
    Emergence,
    EmergenceConfig,
    RuleJudge,
    Verdict,
    query_coherence,
)
from pipecat_voicectx.memory.entities import EntityKind, EntityMention
from pipecat_voicectx.memory.left_brain import LeftBrain
from pipecat_voicectx.memory.query_log import QueryLog

T0 = 1_790_000_000.0


def grown_brain() -> LeftBrain:
    """A "home" cluster in which dog, vet and trail belong together, and boiler and kitchen are apart."""
    brain = LeftBrain()
    for n, names in enumerate(
        [
            ("dog", "vet"),
            ("dog", "trail"),
            ("vet", "trail"),
            ("dog", "vet"),
            ("boiler", "kitchen"),
            ("boiler", "dog"),
        ]
    ):
        mentions = [EntityMention(name=name, kind=EntityKind.PET) for name in names]
        brain.add_item(str(n), f"at home {' '.join(names)}", mentions, now_wall_secs=T0)
    for entity in brain.entities.values():
        entity.schema = "home"
    return brain


def asked(*queries: str) -> QueryLog:
    log = QueryLog()
    for query in queries:
        log.add(query.split())
    return log


DOG_WALKS = ("dog vet trail", "dog trail vet", "vet trail dog", "dog vet trail", "dog trail vet", "boiler")


def test_coherence_is_the_mean_jaccard() -> None:
    queries = [frozenset("ab"), frozenset("abc"), frozenset("d")]
    assert query_coherence("ab", queries) == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert query_coherence("ab", []) == 0.0
    assert query_coherence("", queries) == 0.0


@given(
    st.lists(st.frozensets(st.sampled_from("abcdef"), min_size=1), min_size=1),
    st.frozensets(st.sampled_from("abcdef"), min_size=1),
)
def test_coherence_is_a_share(queries: list[frozenset[str]], wanted: frozenset[str]) -> None:
    assert 0.0 <= query_coherence(wanted, queries) <= 1.0


def test_what_is_asked_for_together_becomes_a_schema() -> None:
    brain = grown_brain()
    (promoted,) = Emergence().run(brain, asked(*DOG_WALKS), now_wall_secs=T0)
    assert promoted.entities == {"dog", "vet", "trail"}
    assert promoted.schema.emerged
    assert {brain.entities[name].schema for name in promoted.entities} == {promoted.schema.name}
    assert brain.entities["boiler"].schema == "home"
    assert promoted.schema.name in brain.activate("and the vet").schemas


def test_a_promotion_survives_json_and_later_evidence() -> None:
    brain = grown_brain()
    (promoted,) = Emergence().run(brain, asked(*DOG_WALKS), now_wall_secs=T0)
    again = LeftBrain.from_json(json.loads(json.dumps(brain.to_json())))
    again.add_item(
        "99",
        "the dog is in the kitchen at home in the house",
        [EntityMention(name="dog", kind=EntityKind.PET)],
        now_wall_secs=T0,
    )
    assert again.entities["dog"].schema == promoted.schema.name
    assert again.schemas[promoted.schema.name] == promoted.schema


def test_what_is_judged_unfit_is_barred_for_good() -> None:
    brain, log = grown_brain(), asked(*DOG_WALKS)
    judged: list[frozenset[str]] = []

    def refuse(candidate: Candidate) -> Verdict:
        judged.append(candidate.entities)
        return Verdict(relevant=True, important=False, complete=True)

    emergence = Emergence(judge=refuse)
    assert emergence.run(brain, log, now_wall_secs=T0) == []
    again = Emergence(judge=refuse)
    again.load_json(json.loads(json.dumps(emergence.to_json())))
    again.run(brain, log, now_wall_secs=T0)
    assert judged[0] == {"dog", "vet", "trail"}
    assert judged[0] not in judged[1:]
    assert judged[0] in again.barred


def test_nothing_emerges_from_few_queries_or_unlinked_entities() -> None:
    assert Emergence().run(grown_brain(), asked("dog vet trail"), now_wall_secs=T0) == []
    apart = asked(*["kitchen trail"] * 8)
    assert Emergence().run(grown_brain(), apart, now_wall_secs=T0) == []


def test_links_that_have_faded_connect_nothing() -> None:
    assert Emergence().run(grown_brain(), asked(*DOG_WALKS), now_wall_secs=T0 + 400 * 86_400) == []


def test_large_clusters_are_searched_greedily_and_find_the_same() -> None:
    brain = grown_brain()
    for n in range(30):
        mentions = [
            EntityMention(name=f"extra{n}", kind=EntityKind.PET),
            EntityMention(name="boiler", kind=EntityKind.PET),
        ]
        brain.add_item(f"x{n}", "at home", mentions, now_wall_secs=T0)
        brain.entities[f"extra{n}"].schema = "home"
    log = asked(*DOG_WALKS * 3, *[f"extra{n}" for n in range(8)])
    (promoted,) = Emergence().run(brain, log, now_wall_secs=T0)
    assert promoted.entities == {"dog", "vet", "trail"}


def candidate(**changed: float) -> Candidate:
    values = {"coherence": 0.6, "queries": 5, "items": 5, "cluster_items": 9, "best_outsider": 0.3} | changed
    return Candidate(entities=frozenset({"a", "b"}), **values)  # type: ignore[arg-type]


def test_the_rule_judge_asks_three_questions() -> None:
    judge = RuleJudge()
    assert judge(candidate()).promote
    assert not judge(candidate(queries=2)).relevant
    assert not judge(candidate(items=2)).important
    assert not judge(candidate(best_outsider=0.6)).complete


@pytest.mark.parametrize("bad", [{"alpha": 0.0}, {"alpha": 1.0}, {"min_entities": 1}, {"max_share": 0.0}])
def test_bad_settings_fail_at_construction(bad: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        EmergenceConfig(**bad)  # type: ignore[arg-type]


def test_the_log_is_bounded_and_holds_no_empty_queries() -> None:
    log = QueryLog(max_queries=3)
    for name in ("a", "b", "c", "d"):
        log.add([name])
    log.add([])
    assert [sorted(query) for query in log.touching("abcd")] == [["b"], ["c"], ["d"]]
    assert QueryLog.from_json(json.loads(json.dumps(log.to_json()))).to_json() == log.to_json()
    log.forget(["c"])
    assert len(log) == 2


@pytest.mark.parametrize("bad", [{}, {"schema": 1}, {"schema": 1, "max_queries": 0, "queries": []}])
def test_json_that_is_no_log_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(BadInputError):
        QueryLog.from_json(bad)
    with pytest.raises(BadInputError):
        Emergence().load_json({"schema": 9})
