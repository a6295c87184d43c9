"""The functions a serving LLM may call to steer the voice pipeline, and what a call must look like.

The schemas state types and ranges for the model; `parse_call` enforces them again, since models do not. A call that
does not fit becomes a `RejectedCall` that says what was wrong in a form the model can act on, and nothing else.
The texts are short on purpose: they are part of every request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TypeAlias

from pipecat_voicectx.orchestrator.directives import (
    DeferResponse,
    Directive,
    SetResponseInstruction,
    SetResponseSpeed,
    SetVadSilenceDuration,
)
from pipecat_voicectx.orchestrator.modes import ControlMode

__all__ = ["ALL_FUNCTIONS", "CallError", "FunctionSpec", "RejectedCall", "advertised_functions", "parse_call"]

JsonValue: TypeAlias = "str | int | float | bool | list[JsonValue] | dict[str, JsonValue] | None"

LONGEST_INSTRUCTION_CHARS = 300
LONGEST_REASON_CHARS = 120
WORDS_PER_MINUTE = (100, 300)
VAD_SILENCE_MS = (200, 5000)


class CallError(Enum):
    """What was wrong with a call."""

    UNKNOWN_FUNCTION = "unknown_function"
    MISSING_ARGUMENT = "missing_argument"
    UNEXPECTED_ARGUMENT = "unexpected_argument"
    WRONG_TYPE = "wrong_type"
    OUT_OF_RANGE = "out_of_range"
    NOT_SUPPORTED = "not_supported"
    NOT_NOW = "not_now"
    REPEATED = "repeated"


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedCall:
    """A call that changed nothing."""

    function: str
    error: CallError
    detail: str
    """For the model: what would be right. Never holds what the call held."""

    def as_result(self) -> dict[str, str]:
        """The structured answer to the model."""
        return {"status": "error", "error": self.error.value, "detail": self.detail}


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSpec:
    """One function: its name and its single, required argument, as JSON schema."""

    name: str
    description: str
    argument: str
    schema: Mapping[str, JsonValue]


SET_RESPONSE_INSTRUCTION = FunctionSpec(
    name="set_response_instruction",
    description="For your next response only",
    argument="text",
    schema=MappingProxyType({"type": "string", "maxLength": LONGEST_INSTRUCTION_CHARS}),
)
SET_RESPONSE_SPEED = FunctionSpec(
    name="set_response_speed",
    description="How fast you speak",
    argument="words_per_minute",
    schema=MappingProxyType(
        {"type": "integer", "minimum": WORDS_PER_MINUTE[0], "maximum": WORDS_PER_MINUTE[1]}
    ),
)
DEFER_RESPONSE = FunctionSpec(
    name="defer_response",
    description="Wait: the caller seems cut off",
    argument="reason",
    schema=MappingProxyType({"type": "string", "maxLength": LONGEST_REASON_CHARS}),
)
SET_VAD_SILENCE_DURATION = FunctionSpec(
    name="set_vad_silence_duration",
    description="Silence ending a turn; longer for dictation",
    argument="ms",
    schema=MappingProxyType({"type": "integer", "minimum": VAD_SILENCE_MS[0], "maximum": VAD_SILENCE_MS[1]}),
)
ALL_FUNCTIONS = (SET_RESPONSE_INSTRUCTION, SET_RESPONSE_SPEED, DEFER_RESPONSE, SET_VAD_SILENCE_DURATION)
_BY_NAME = {spec.name: spec for spec in ALL_FUNCTIONS}


def advertised_functions(mode: ControlMode) -> tuple[FunctionSpec, ...]:
    """The functions that the model may call in `mode`."""
    if mode is ControlMode.OFF:
        return ()
    if mode.model_judges_line:
        return ALL_FUNCTIONS
    return (SET_RESPONSE_INSTRUCTION, SET_RESPONSE_SPEED)


def parse_call(name: str, arguments: object) -> Directive | RejectedCall:
    """Turns a model's call into a directive, or says what is wrong with it."""
    spec = _BY_NAME.get(name)
    if spec is None:
        return RejectedCall(function="", error=CallError.UNKNOWN_FUNCTION, detail="no such function")
    if not isinstance(arguments, Mapping):
        return _reject(spec, CallError.WRONG_TYPE, "arguments must be an object")
    if spec.argument not in arguments:
        return _reject(spec, CallError.MISSING_ARGUMENT, f"{spec.argument} is required")
    if len(arguments) > 1:
        return _reject(spec, CallError.UNEXPECTED_ARGUMENT, f"only {spec.argument} is allowed")
    value = arguments[spec.argument]
    if spec.schema["type"] == "string":
        text = _text(spec, value)
        if isinstance(text, RejectedCall):
            return text
        return (
            SetResponseInstruction(text=text)
            if spec is SET_RESPONSE_INSTRUCTION
            else DeferResponse(reason=text)
        )
    number = _integer(spec, value)
    if isinstance(number, RejectedCall):
        return number
    if spec is SET_RESPONSE_SPEED:
        return SetResponseSpeed(words_per_minute=number)
    return SetVadSilenceDuration(duration_ms=number)


def _text(spec: FunctionSpec, value: object) -> str | RejectedCall:
    if not isinstance(value, str):
        return _reject(spec, CallError.WRONG_TYPE, f"{spec.argument} must be a string")
    text = " ".join(value.split())
    longest = spec.schema["maxLength"]
    assert isinstance(longest, int)
    if not text or len(text) > longest:
        return _reject(spec, CallError.OUT_OF_RANGE, f"{spec.argument} must have 1-{longest} characters")
    return text


def _integer(spec: FunctionSpec, value: object) -> int | RejectedCall:
    # 220.0 is an integer to JSON schema; True and "220" are not.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return _reject(spec, CallError.WRONG_TYPE, f"{spec.argument} must be an integer")
    low, high = spec.schema["minimum"], spec.schema["maximum"]
    assert isinstance(low, int)
    assert isinstance(high, int)
    if not low <= value <= high:
        return _reject(spec, CallError.OUT_OF_RANGE, f"{spec.argument} must be {low}-{high}")
    return value


def _reject(spec: FunctionSpec, error: CallError, detail: str) -> RejectedCall:
    return RejectedCall(function=spec.name, error=error, detail=detail)
