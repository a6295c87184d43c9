from __future__ import annotations

from typing import Any

from pipecat.frames.frames import (
    FunctionCallCancelFrame,
    FunctionCallInProgressFrame,
    FunctionCallResultFrame,
    FunctionCallResultProperties,
    StartFrame,
)

from pipecat_voicectx.processors.running_calls import RunningCalls


def begins(call_id: str, name: str = "book") -> FunctionCallInProgressFrame:
    return FunctionCallInProgressFrame(function_name=name, tool_call_id=call_id, arguments={})


def returns(call_id: str, properties: Any = None) -> FunctionCallResultFrame:
    return FunctionCallResultFrame(
        function_name="book", tool_call_id=call_id, arguments={}, result="x", properties=properties
    )


def test_a_call_runs_until_its_final_result_or_its_cancellation() -> None:
    calls = RunningCalls()
    assert calls.on_frame(begins("1"))
    assert not calls.on_frame(begins("1"))
    assert calls.on_frame(begins("2", "pay"))
    assert calls.names == ("book", "pay")
    assert not calls.on_frame(returns("1", FunctionCallResultProperties(is_final=False)))
    assert calls.names == ("book", "pay")
    assert calls.on_frame(returns("1"))
    assert calls.on_frame(FunctionCallCancelFrame(function_name="pay", tool_call_id="2"))
    assert calls.names == ()
    assert not calls.on_frame(returns("1"))
    assert not calls.on_frame(StartFrame())


def test_our_own_functions_are_nothing_a_call_can_be_in_the_middle_of() -> None:
    calls = RunningCalls(ours={"defer_response"})
    assert not calls.on_frame(begins("1", "defer_response"))
    assert calls.names == ()


def test_calls_whose_end_was_never_reported_do_not_pile_up() -> None:
    calls = RunningCalls()
    for number in range(200):
        calls.on_frame(begins(str(number)))
    assert len(calls.names) <= 32
