from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipecat_voicectx.errors import BadInputError, UsageError
from pipecat_voicectx.memory.feelings import AffectReading, blended, feelings_in
from pipecat_voicectx.memory.right_brain import (
    NodeChange,
    NodeEdit,
    PersonaKind,
    RightBrain,
    RightBrainConfig,
    TurnAffect,
)

T0 = 1_790_000_000.0
DAY = 86_400.0


def turn(
    brain: RightBrain,
    text: str,
    *,
    n: int = 1,
    session: str = "s1",
    heard: AffectReading | None = None,
    entities: tuple[str, ...] = (),
    at: float = T0,
) -> tuple[list[NodeChange], list[TurnAffect]]:
    return brain.update_turn(
        text, heard, turn_id=f"{session}-t{n}", session_id=session, entities=entities, now_wall_secs=at
    )


@pytest.mark.parametrize(
    ("text", "label", "target"),
    [
        ("i'm really worried about my exam", "fear", "exam"),
        ("i am so happy with the new flat", "joy", "new flat"),
        ("my boss annoys me", "anger", "boss"),
        ("i love my dog", "joy", "dog"),
        ("i miss my grandmother so much", "sadness", "grandmother"),
        ("the internet is so frustrating", "anger", "internet"),
        ("i'm not happy with the service", "sadness", "service"),
        ("i'm worried about anna", "fear", "anna"),
        ("i hate mysteries", "anger", "mysteries"),
        ("i'm stressed", "fear", None),
    ],
)
def test_a_feeling_keeps_whom_or_what_it_concerns(text: str, label: str, target: str | None) -> None:
    (feeling,) = feelings_in(text)
    assert (feeling.reading.label, feeling.target) == (label, target)


@pytest.mark.parametrize(
    "text",
    [
        "sorry to bother you",
        "i'm fine thanks",
        "that's great",
        "i'm afraid i can't",
        "i live in york",
        "",
        "would you be happy",
        "我很高兴",
    ],
)
def test_manners_and_plain_statements_are_no_feelings(text: str) -> None:
    assert feelings_in(text) == []


def test_intensity_and_negation_count() -> None:
    def valence(text: str) -> float:
        return feelings_in(text)[0].reading.valence

    assert (
        valence("i'm so worried about it")
        < valence("i'm worried about it")
        < valence("i'm a bit worried about it")
        < 0
    )
    assert valence("i'm not worried about it") > 0


def test_voice_and_words_that_agree_are_surer_than_either() -> None:
    words = AffectReading(label="anger", valence=-0.7, confidence=0.5)
    voice = AffectReading(label="anger", valence=-0.5, confidence=0.6)
    both = blended(words, voice)
    assert both is not None
    assert both.confidence > 0.6
    assert -0.7 < both.valence < -0.5
    against = blended(words, AffectReading(label="joy", valence=0.6, confidence=0.5))
    assert against is not None
    assert against.confidence < 0.5
    assert blended(None, None) is None
    assert blended(words, None) == words


def test_a_turn_adds_then_merges_then_edits_one_node() -> None:
    brain = RightBrain()
    (added,), _ = turn(brain, "i'm worried about my exam", n=1)
    (merged,), _ = turn(brain, "i'm really anxious about the exam", n=2, at=T0 + 60)
    (edited,), _ = turn(brain, "i'm so relieved about the exam", n=3, at=T0 + 20 * DAY)
    assert [each.edit for each in (added, merged, edited)] == [
        NodeEdit.ADDED,
        NodeEdit.MERGED,
        NodeEdit.EDITED,
    ]
    (node,) = brain.nodes.values()
    assert node.kind is PersonaKind.CROSS_ENTITY
    assert node.description == "The user is happy about exam."
    assert node.turns == ("s1-t1", "s1-t2", "s1-t3")
    assert node.total == 3


def test_the_same_turn_again_changes_nothing() -> None:
    brain = RightBrain()
    turn(brain, "i'm worried about my exam")
    before = brain.to_json()
    changes, _ = turn(brain, "i'm worried about my exam")
    assert changes == []
    assert brain.to_json() == before


def test_a_voice_without_words_is_attributed_to_the_one_entity_or_to_nobody() -> None:
    brain = RightBrain()
    upset = AffectReading(label="anger", valence=-0.6, confidence=0.8)
    (change,), _ = turn(brain, "it was the router again", heard=upset, entities=("router",))
    assert change.node.entity == "router"
    changes, affects = turn(brain, "well then", n=2, heard=upset, entities=("router", "sister"))
    assert changes == []
    assert affects[0].target is None
    faint = AffectReading(label="anger", valence=-0.6, confidence=0.1)
    assert turn(brain, "well", n=3, heard=faint, entities=("router",)) == ([], [])


def test_one_bad_day_is_no_trait_and_recurrence_over_sessions_is() -> None:
    brain = RightBrain()
    for session in ("s1", "s2", "s3"):
        affects: list[TurnAffect] = []
        for n in range(3):
            affects += turn(brain, "i'm so stressed", n=n, session=session, at=T0 + n)[1]
        traits = brain.consolidate_session(session, affects)
        if session == "s1":
            assert traits == []
    independent = [node for node in brain.nodes.values() if node.kind is PersonaKind.INDEPENDENT]
    assert [node.label for node in independent] == ["fear"]
    assert independent[0].entity is None
    assert len(independent[0].turns) == 9
    assert brain.consolidate_session("s3", affects) == [], "the same session again changes nothing"


def test_feelings_about_something_do_not_describe_the_person() -> None:
    brain = RightBrain()
    turn(brain, "i hate the new router")
    assert all(node.kind is PersonaKind.CROSS_ENTITY for node in brain.nodes.values())


def test_both_brains_are_matched_jointly() -> None:
    brain = RightBrain()
    turn(brain, "i'm worried about my exam", n=1)
    turn(brain, "i love my dog", n=2)
    assert [n.entity for n in brain.match("how did the exam go", {})] == ["exam"]
    assert [n.entity for n in brain.match("is he well", {"dog": 1.0, "cat": 0.5})] == ["dog"]
    assert brain.match("", {}) == []


def test_erased_turns_take_their_evidence_with_them() -> None:
    brain = RightBrain()
    turn(brain, "i'm worried about my exam", n=1)
    turn(brain, "i'm anxious about the exam", n=2)
    turn(brain, "i love my dog", n=3)
    brain.forget_turns(["s1-t1", "s1-t3"])
    (node,) = brain.nodes.values()
    assert node.turns == ("s1-t2",)
    assert node.total == 1


def test_the_state_survives_json() -> None:
    brain = RightBrain()
    affects: list[TurnAffect] = []
    for session in ("s1", "s2"):
        for n in range(3):
            affects = turn(brain, "i'm worried about my exam", n=n, session=session, at=T0 + n)[1]
        brain.consolidate_session(session, affects * 3)
    data = json.loads(json.dumps(brain.to_json()))
    assert RightBrain.from_json(data).to_json() == data


@pytest.mark.parametrize("bad", [{}, {"schema": 1}, {"schema": 1, "nodes": [{}], "moods": {}}])
def test_json_that_is_no_brain_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(BadInputError):
        RightBrain.from_json(bad)


def test_nodes_and_evidence_are_bounded() -> None:
    brain = RightBrain(config=RightBrainConfig(max_nodes=5, max_evidence=3))
    for n in range(20):
        turn(brain, f"i hate my gadget{n}", n=n)
        turn(brain, "i hate my router", n=100 + n)
    assert len(brain.nodes) == 5
    router = next(node for node in brain.nodes.values() if node.entity == "router")
    assert len(router.evidence) == 3
    assert router.total == 20
    with pytest.raises(UsageError):
        RightBrainConfig(half_life_secs=0)


@given(st.text(max_size=150))
def test_any_text_is_survived(text: str) -> None:
    turn(RightBrain(), text)
