from pipecat.frames.frames import FunctionCallInProgressFrame

from pipecat_voicectx.processors.late_calls import LateCalls


def start(call_id: str) -> FunctionCallInProgressFrame:
    return FunctionCallInProgressFrame(function_name="book", tool_call_id=call_id, arguments={})


def test_a_call_that_starts_after_its_cancellation_ends_once() -> None:
    late = LateCalls()
    late.cancelled("a")
    assert late.result_for(start("b")) is None
    result = late.result_for(start("a"))
    assert result is not None
    assert (result.tool_call_id, result.result) == ("a", "CANCELLED")
    assert late.result_for(start("a")) is None


def test_cancellations_remembered_are_bounded() -> None:
    late = LateCalls()
    for number in range(100):
        late.cancelled(str(number))
    assert late.result_for(start("0")) is None
    assert late.result_for(start("99")) is not None
