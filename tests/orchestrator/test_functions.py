from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipecat_voicectx.orchestrator.directives import (
    DeferResponse,
    SetResponseInstruction,
    SetResponseSpeed,
    SetVadSilenceDuration,
)
from pipecat_voicectx.orchestrator.functions import (
    ALL_FUNCTIONS,
    CallError,
    RejectedCall,
    advertised_functions,
    parse_call,
)
from pipecat_voicectx.orchestrator.modes import ControlMode


@pytest.mark.parametrize(
    ("name", "arguments", "directive"),
    [
        ("set_response_speed", {"words_per_minute": 100}, SetResponseSpeed(words_per_minute=100)),
        ("set_response_speed", {"words_per_minute": 300}, SetResponseSpeed(words_per_minute=300)),
        ("set_response_speed", {"words_per_minute": 220.0}, SetResponseSpeed(words_per_minute=220)),
        ("set_vad_silence_duration", {"ms": 200}, SetVadSilenceDuration(duration_ms=200)),
        ("set_vad_silence_duration", {"ms": 5000}, SetVadSilenceDuration(duration_ms=5000)),
        ("set_response_instruction", {"text": " be\n brief "}, SetResponseInstruction(text="be brief")),
        ("set_response_instruction", {"text": "x" * 300}, SetResponseInstruction(text="x" * 300)),
        ("defer_response", {"reason": "x" * 120}, DeferResponse(reason="x" * 120)),
    ],
)
def test_calls_within_their_ranges_become_directives(name: str, arguments: Any, directive: object) -> None:
    assert parse_call(name, arguments) == directive


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("hang_up", {}, CallError.UNKNOWN_FUNCTION),
        ("", None, CallError.UNKNOWN_FUNCTION),
        ("set_response_speed", None, CallError.WRONG_TYPE),
        ("set_response_speed", [200], CallError.WRONG_TYPE),
        ("set_response_speed", "200", CallError.WRONG_TYPE),
        ("set_response_speed", {"wpm": 200}, CallError.MISSING_ARGUMENT),
        ("set_response_speed", {"words_per_minute": None}, CallError.WRONG_TYPE),
        ("set_response_speed", {"words_per_minute": float("nan")}, CallError.WRONG_TYPE),
        ("set_response_speed", {"words_per_minute": float("inf")}, CallError.WRONG_TYPE),
        ("set_response_speed", {"words_per_minute": 10**30}, CallError.OUT_OF_RANGE),
        ("defer_response", {"reason": ""}, CallError.OUT_OF_RANGE),
    ],
)
def test_everything_else_is_rejected_with_its_reason(name: str, arguments: Any, error: CallError) -> None:
    rejected = parse_call(name, arguments)
    assert isinstance(rejected, RejectedCall)
    assert rejected.error is error
    assert rejected.as_result()["status"] == "error"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.sampled_from([spec.name for spec in ALL_FUNCTIONS] + ["other"]),
    JSON | st.fixed_dictionaries({"words_per_minute": JSON}) | st.fixed_dictionaries({"text": JSON}),
)
def test_no_call_raises_and_every_directive_is_in_range(name: str, arguments: Any) -> None:
    match parse_call(name, arguments):
        case SetResponseSpeed(words_per_minute=wpm):
            assert 100 <= wpm <= 300
        case SetVadSilenceDuration(duration_ms=ms):
            assert ms is not None
            assert 200 <= ms <= 5000
        case SetResponseInstruction(text=text):
            assert 1 <= len(text) <= 300
        case DeferResponse(reason=reason):
            assert 1 <= len(reason) <= 120
        case RejectedCall() as rejected:
            assert rejected.detail


def test_the_schemas_state_the_ranges_that_are_enforced() -> None:
    schemas = {spec.name: dict(spec.schema) for spec in ALL_FUNCTIONS}
    assert schemas == {
        "set_response_instruction": {"type": "string", "maxLength": 300},
        "set_response_speed": {"type": "integer", "minimum": 100, "maximum": 300},
        "defer_response": {"type": "string", "maxLength": 120},
        "set_vad_silence_duration": {"type": "integer", "minimum": 200, "maximum": 5000},
    }


def test_each_mode_advertises_what_it_lets_the_model_do() -> None:
    assert len(advertised_functions(ControlMode.BOTH)) == 4
    assert len(advertised_functions(ControlMode.LLM)) == 4
    assert [spec.name for spec in advertised_functions(ControlMode.REFLEX)] == [
        "set_response_instruction",
        "set_response_speed",
    ]
    assert advertised_functions(ControlMode.OFF) == ()
