from __future__ import annotations

import json

import pytest
from pipecat.adapters.llm.services.open_ai_adapter import OpenAILLMAdapter
from pipecat.processors.aggregators.llm_context import LLMContext

from pipecat_voicectx.orchestrator.functions import ALL_FUNCTIONS, advertised_functions
from pipecat_voicectx.orchestrator.modes import ControlMode
from pipecat_voicectx.processors.tool_advertising import advertise, tools_tokens
from pipecat_voicectx.projection.costs import estimate_tokens


async def handler(_params: object) -> None:
    raise AssertionError("nobody calls it here")


def advertising(mode: ControlMode) -> LLMContext:
    context = LLMContext()
    advertise(context, advertised_functions(mode), handler=handler)
    return context


def on_the_wire(context: LLMContext) -> str:
    return json.dumps(OpenAILLMAdapter().to_provider_tools_format(context.tools))  # type: ignore[arg-type,no-untyped-call]


@pytest.mark.parametrize(("mode", "most"), [(ControlMode.BOTH, 200), (ControlMode.REFLEX, 110)])
def test_what_our_functions_add_to_a_request_is_bounded(mode: ControlMode, most: int) -> None:
    context = advertising(mode)
    assert 0 < tools_tokens(context.tools) <= estimate_tokens(on_the_wire(context)) <= most


def test_ranges_and_units_reach_the_wire() -> None:
    text = on_the_wire(advertising(ControlMode.BOTH))
    for spec in ALL_FUNCTIONS:
        assert spec.name in text
        assert json.dumps({spec.argument: dict(spec.schema)})[1:-1] in text
    assert '"words_per_minute"' in text
    assert '"ms"' in text


def test_advertising_again_adds_nothing() -> None:
    context = advertising(ControlMode.BOTH)
    before = context.tools
    advertise(context, advertised_functions(ControlMode.BOTH), handler=handler)
    assert context.tools is before
