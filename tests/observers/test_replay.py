"""Replay: fresh cores that are asked the same decide the same, and a changed core is found out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipecat_voicectx.observers import EventKind, read_session, replay
from pipecat_voicectx.observers.codec import Json
from pipecat_voicectx.observers.core_taps import CORES
from pipecat_voicectx.observers.events import typed_value
from tests.observers.calls import record_call

Lines = list[dict[str, Json]]
METHODS = [method for spec in CORES.values() for method in spec.methods]
FIELDS = st.sampled_from(
    ["type", "band", "reason", "words_per_minute", "origin", "name", "arguments", "window"]
)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Lines:
    path = tmp_path_factory.mktemp("recorded") / "call.jsonl"
    record_call(path)
    return list(read_session(path)[1])


def recorded(lines: Lines, kind: EventKind) -> list[object]:
    return [typed_value(kind, line["v"]) for line in lines if line["k"] == kind.value]


def test_the_same_directives_and_holds_come_out(lines: Lines) -> None:
    result = replay(lines)
    assert result.same, result.differences
    assert result.directives == recorded(lines, EventKind.DIRECTIVE)
    assert result.directives
    held = [*recorded(lines, EventKind.HELD), *recorded(lines, EventKind.RELEASED)]
    assert sorted(map(repr, result.holds)) == sorted(map(repr, held))
    assert result.calls > 1_000
    assert result.answers > 20


def test_every_core_takes_part(lines: Lines) -> None:
    asked = {row[0] for line in lines if line["k"] == "calls" for row in line["v"]}  # type: ignore[union-attr,index]
    assert asked == set(CORES)


def test_what_is_not_recorded_is_there_and_reads_only() -> None:
    for spec in CORES.values():
        assert spec.methods
        for name in spec.reads:
            assert callable(getattr(spec.cls, name)), f"{spec.cls.__name__}.{name}"


def test_a_changed_threshold_shows_in_what_comes_out(lines: Lines) -> None:
    text = json.dumps(lines).replace('"vouched_secs": 0.6', '"vouched_secs": 1.2', 1)
    changed = replay(json.loads(text))
    assert not changed.same
    assert changed.differences[0].where.startswith("turn_hold.")


def test_a_recording_of_an_older_version_knows_fewer_fields(lines: Lines) -> None:
    text = json.dumps(lines).replace('"rtt_secs": null, ', "")
    assert '"rtt_secs"' not in text
    assert replay(json.loads(text)).same


def test_a_directive_that_no_core_made_is_a_difference(lines: Lines) -> None:
    text = json.dumps(lines).replace(
        '"type": "SetResponseSpeed", "words_per_minute": 140',
        '"type": "SetResponseSpeed", "words_per_minute": 150',
    )
    result = replay(json.loads(text))
    assert result.different == 1
    assert result.differences[0].where == "directive"


def test_lines_that_are_broken_are_counted_and_the_rest_is_replayed(lines: Lines) -> None:
    broken: Lines = [
        {"at": 0.0, "k": "calls", "v": [["turn_hold", "add_audio"]]},
        {"at": 0.0, "k": "calls", "v": [["no_core", "x", [], None]]},
        {"at": 0.0, "k": "calls", "v": [["turn_hold", "__init__", [], None]]},
        {"at": 0.0, "k": "directive", "v": {"type": "SetResponseSpeed", "words_per_minute": "fast"}},
    ]
    result = replay([*broken, *lines])
    assert result.unread == len(broken)
    assert result.calls == replay(lines).calls


def test_a_recording_without_core_calls_still_replays_the_model_s_calls(lines: Lines) -> None:
    result = replay([line for line in lines if line["k"] != "calls"])
    assert result.same
    assert result.calls == 0
    assert result.directives == recorded(lines, EventKind.DIRECTIVE)


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "good", "model"])
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=8,
)
CALL = st.tuples(
    st.sampled_from([*CORES, "none"]),
    st.sampled_from(["", *METHODS, "__init__", "_set_phase"]),
    JSON,
    JSON,
    JSON,
).map(list)
LINE = st.fixed_dictionaries(
    {
        "k": st.sampled_from([*(kind.value for kind in EventKind), "x"]),
        "at": LEAVES,
        "v": JSON | st.lists(CALL, max_size=4),
    }
)


@given(st.lists(LINE, max_size=12))
def test_a_file_of_nonsense_is_counted_and_raises_nothing(nonsense: Lines) -> None:
    result = replay(nonsense)
    assert result.unread <= len(nonsense)
    assert result.calls == 0 or result.answers <= result.calls + len(nonsense)
