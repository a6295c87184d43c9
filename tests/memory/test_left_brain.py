from __future__ import annotations

import json
import time

import pytest

from pipecat_voicectx.errors import BadInputError, UsageError
from pipecat_voicectx.memory.entities import EntityKind, EntityMention, mentions_in_fact, mentions_in_text
from pipecat_voicectx.memory.extraction import ConversationFocus, extract
from pipecat_voicectx.memory.facts import Fact
from pipecat_voicectx.memory.left_brain import LeftBrain, LeftBrainConfig
from pipecat_voicectx.memory.reconcile import apply_operations, reconcile
from pipecat_voicectx.memory.schemas import PRESET_SCHEMAS, Schema, make_schema

T0 = 1_790_000_000.0
DAY = 86_400.0


def person(name: str, *aliases: str) -> EntityMention:
    return EntityMention(name=name, kind=EntityKind.PERSON, aliases=aliases)


def thing(name: str) -> EntityMention:
    return EntityMention(name=name, kind=EntityKind.THING)


def facts_of(*turns: str) -> list[Fact]:
    facts: list[Fact] = []
    focus = ConversationFocus()
    for index, text in enumerate(turns):
        found = extract(text, focus)
        focus = found.focus
        facts = apply_operations(
            facts, reconcile(facts, found.changes, turn_id=str(index), now_wall_secs=T0 + index)
        )
    return facts


@pytest.fixture
def brain() -> LeftBrain:
    out = LeftBrain()
    out.add_item(
        "1",
        "my sister zoe works at the hospital",
        [person("sister", "zoe"), thing("hospital")],
        now_wall_secs=T0,
    )
    out.add_item("2", "zoe had knee surgery", [person("sister", "zoe"), thing("knee")], now_wall_secs=T0)
    out.add_item("3", "zoe takes pills for the knee", [person("sister"), thing("knee")], now_wall_secs=T0 + 1)
    out.add_item(
        "4", "the flight to lisbon", [EntityMention(name="lisbon", kind=EntityKind.PLACE)], now_wall_secs=T0
    )
    return out


def test_entities_are_found_without_capitals() -> None:
    names = {
        mention.name for mention in mentions_in_text("my sister zoe and my laptop are in oslo with martin")
    }
    assert names == {"sister", "laptop", "martin"}
    assert mentions_in_text("i don't mind in my own way") == []


def test_facts_name_their_subjects_places_and_things() -> None:
    mentions = {
        m.name: m
        for fact in facts_of("my sister's name is zoe", "she lives in oslo", "i like hiking")
        for m in mentions_in_fact(fact)
    }
    assert mentions["sister"].kind is EntityKind.PERSON
    assert mentions["oslo"].kind is EntityKind.PLACE
    assert "hiking" in mentions


def test_each_entity_is_in_exactly_one_schema_and_moves_with_the_evidence(brain: LeftBrain) -> None:
    assert brain.entities["sister"].schema == "people"
    assert brain.entities["lisbon"].schema == "travel"
    assert brain.entities["knee"].schema == "health"


def test_an_alias_leads_to_its_bearer(brain: LeftBrain) -> None:
    assert brain.activate("how is ZOE doing").entities == {"sister"}
    brain.add_item("9", "zoe called", [person("zoe")], now_wall_secs=T0)
    assert "9" in brain.entities["sister"].items


def test_interim_transcripts_activate_and_keep_what_they_activated(brain: LeftBrain) -> None:
    first = brain.activate("is zoe")
    second = brain.activate("is zoe still in", first)
    assert second.entities == {"sister"}
    taken_back = brain.activate("is joey", second)
    assert taken_back.entities == frozenset()


def test_one_hop_reaches_strong_links_better_than_weak_ones(brain: LeftBrain) -> None:
    routes = brain.expand(brain.activate("zoe"), now_wall_secs=T0 + 1)
    assert routes.entities["sister"] == 1.0
    assert routes.entities["knee"] == brain.config.strong_route
    assert routes.entities["hospital"] == brain.config.weak_route
    assert "lisbon" not in routes.entities


def test_links_fade(brain: LeftBrain) -> None:
    fresh = brain.link_weight("sister", "knee", T0 + 1)
    assert fresh == pytest.approx(2.0, abs=1e-3)
    assert brain.link_weight("sister", "knee", T0 + 30 * DAY) == pytest.approx(1.0, abs=1e-3)
    later = brain.expand(brain.activate("zoe"), now_wall_secs=T0 + 30 * DAY)
    assert later.entities["knee"] == brain.config.weak_route
    assert "knee" not in brain.neighbours("sister", T0 + 400 * DAY)
    assert brain.link_weight("sister", "knee", T0 - DAY) == pytest.approx(2.0), (
        "a clock that goes back adds nothing"
    )


def test_routes_are_features_and_the_pool_is_a_setting(brain: LeftBrain) -> None:
    routes = brain.expand(brain.activate("zoe"), now_wall_secs=T0 + 1)
    scores = brain.item_routes(routes)
    assert scores["1"] == scores["2"] == scores["3"] == 1.0
    assert "4" not in scores
    assert brain.item_boosts(["1", "4"], routes) == {"1": pytest.approx(brain.config.route_bonus)}
    assert {item: brain.item_route(item, routes) for item in scores} == scores
    assert brain.named_items(routes, limit=2) == ["3", "2"]
    assert brain.item_pool(routes) == {"1", "2", "3"}
    assert brain.item_pool(brain.expand(brain.activate("um"), now_wall_secs=T0)) == frozenset()


def test_a_matched_schema_reaches_its_entities(brain: LeftBrain) -> None:
    routes = brain.expand(brain.activate("about the hotel and the passport"), now_wall_secs=T0)
    assert brain.item_routes(routes) == {"4": brain.config.matched_schema_route}
    assert brain.item_route("4", routes) == brain.config.matched_schema_route


def test_the_neighbour_schema_is_one_sentence(brain: LeftBrain) -> None:
    brain.settle()
    sentence = brain.neighbour_sentence(brain.activate("zoe"), now_wall_secs=T0 + 1)
    assert sentence == "Often comes up with this: health (knee, hospital)."
    assert brain.neighbour_sentence(brain.activate("zoe"), now_wall_secs=T0 + 300 * DAY) == ""
    assert brain.neighbour_sentence(brain.activate("um"), now_wall_secs=T0) == ""


def test_adding_an_item_again_changes_nothing(brain: LeftBrain) -> None:
    before = brain.to_json()
    brain.add_item("2", "zoe had knee surgery", [person("sister", "zoe"), thing("knee")], now_wall_secs=T0)
    assert brain.to_json() == before


def test_removed_items_take_orphaned_entities_with_them(brain: LeftBrain) -> None:
    brain.remove_items(["2", "3", "unknown"])
    assert "knee" not in brain.entities
    assert brain.neighbours("sister", T0) == {"hospital": 1.0}
    assert brain.activate("knee").entities == frozenset()
    brain.remove_items(["1", "4"])
    assert brain.entities == {}
    assert brain.to_json()["links"] == []


def test_the_state_survives_json(brain: LeftBrain) -> None:
    data = json.loads(json.dumps(brain.to_json()))
    again = LeftBrain.from_json(data)
    assert again.to_json() == data
    assert again.activate("zoe") == brain.activate("zoe")


@pytest.mark.parametrize(
    "bad", [{}, {"schema": 9}, {"schema": 1, "schemas": [], "entities": [{}], "links": []}]
)
def test_json_that_is_no_brain_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(BadInputError):
        LeftBrain.from_json(bad)


def test_entities_items_and_links_are_bounded() -> None:
    brain = LeftBrain(config=LeftBrainConfig(max_entities=5, max_items_per_entity=3, max_links_per_entity=2))
    for n in range(20):
        brain.add_item(
            str(n), f"my sister and thing{n}", [person("sister"), thing(f"thing{n}")], now_wall_secs=T0 + n
        )
    assert len(brain.entities) <= 5
    assert "sister" in brain.entities, "the best known stays"
    assert list(brain.entities["sister"].items) == ["17", "18", "19"]
    assert len(brain.neighbours("sister", T0)) <= 2


def test_schemas_can_be_edited() -> None:
    trade = (*PRESET_SCHEMAS[:2], make_schema("boats", "boats", "boat sail harbour mast"))
    brain = LeftBrain(schemas=trade)
    brain.add_item("1", "the mast of my boat broke", [thing("boat")], now_wall_secs=T0)
    assert brain.entities["boat"].schema == "boats"
    with pytest.raises(UsageError):
        make_schema("empty", "nothing", " ")
    assert Schema.from_json(trade[-1].to_json()) == trade[-1]


def test_matching_ten_thousand_items_takes_no_time_to_speak_of() -> None:
    brain = LeftBrain()
    for n in range(10_000):
        brain.add_item(
            f"{n}",
            f"word{n % 3000} and my sister",
            [thing(f"word{n % 3000}"), person("sister")],
            now_wall_secs=T0,
        )
    started = time.process_time()
    for _ in range(10):
        brain.activate("and what about word17 and the hotel my sister told me of last week")
    assert (time.process_time() - started) / 10 < 0.005
