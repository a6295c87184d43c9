"""Function arguments, stored facts, kept tempo, brains, models' replies and the inspector's position, fuzzed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipecat_voicectx.inspector.hub import Position
from pipecat_voicectx.memory.left_brain import LeftBrain
from pipecat_voicectx.memory.llm_facts import parse_reply
from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.memory.query_log import QueryLog
from pipecat_voicectx.memory.records import MemoryRecord
from pipecat_voicectx.memory.right_brain import RightBrain
from pipecat_voicectx.orchestrator.functions import ALL_FUNCTIONS, RejectedCall, parse_call
from pipecat_voicectx.projection.recall_request import read_request
from pipecat_voicectx.stores.brain_state import STATE_SCHEMA_VERSION, BrainState
from pipecat_voicectx.stores.voice_speeds import VoiceSpeeds
from pipecat_voicectx.testing.engine_conformance import make_record
from tests.fuzz.test_parsers import allow, anything, fuzzed, mutated

objects = st.dictionaries(st.text(max_size=12), anything, max_size=5)
NAMES = [spec.name for spec in ALL_FUNCTIONS]
REPLY = {"facts": [{"subject": "user", "predicate": "likes", "value": "tea", "quote": "i like tea"}]}
in_folder = settings(fuzzed, suppress_health_check=[*HealthCheck])


@fuzzed
@given(
    st.sampled_from(NAMES) | st.text(max_size=20),
    anything | mutated({"rate": 1.0, "ms": 800, "instruction": "be brief", "reason": "x"}),
)
def test_arguments_of_our_functions(name: str, arguments: Any) -> None:
    directive = parse_call(name, arguments)
    if name not in NAMES:
        assert isinstance(directive, RejectedCall)


@fuzzed
@given(objects | mutated({"query": "tea", "handle": "m1", "fidelity": "transcript"}))
def test_arguments_of_recall(arguments: Any) -> None:
    allow(read_request, arguments)


@fuzzed
@given(objects | mutated(make_record(Owner(user_id="ann"), "likes tea").to_json()))
def test_stored_facts(value: Any) -> None:
    allow(MemoryRecord.from_json, value)


@in_folder
@given(content=st.binary(max_size=100) | anything.map(lambda v: json.dumps(v).encode()))
def test_kept_tempo(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "speeds.json"
    path.write_bytes(content)
    VoiceSpeeds(path).load("v")


PARTS = {
    "left_brain": LeftBrain().to_json(),
    "right_brain": RightBrain().to_json(),
    "query_log": QueryLog().to_json(),
}
BRAINS = {"schema": STATE_SCHEMA_VERSION, "emergence": {}, "handled": [], "requests": [], **PARTS}


@in_folder
@given(content=st.binary(max_size=100) | (anything | mutated(BRAINS)).map(lambda v: json.dumps(v).encode()))
def test_brains(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "brains.json"
    path.write_bytes(content)
    BrainState.load(path)


@fuzzed
@given(st.text(max_size=200) | (anything | mutated(REPLY)).map(json.dumps))
def test_a_models_reply_about_facts(reply: str) -> None:
    allow(lambda each: parse_reply(each, text="i like tea"), reply)


@fuzzed
@given(st.none() | st.text(max_size=40))
def test_a_position_in_the_inspectors_feed(text: str | None) -> None:
    Position.parse(text)


@pytest.mark.parametrize(
    "part", ["left_brain", "right_brain", "query_log", "emergence", "requests", "handled"]
)
def test_a_part_of_the_brains_that_is_null_sets_the_file_aside(part: str, tmp_path: Path) -> None:
    # Found by the fuzzer: an AttributeError escaped, and facts did not open.
    path = tmp_path / "brains.json"
    path.write_text(json.dumps({**BRAINS, part: None}))
    state, read = BrainState.load(path)
    assert not read
    assert not path.exists()
    assert state.requests == []
