from pipecat.frames.frames import FunctionCallCancelFrame, FunctionCallInProgressFrame

from pipecat_voicectx.processors.late_calls import STILL_RUNNING, LateCalls


def start(call_id: str) -> FunctionCallInProgressFrame:
    return FunctionCallInProgressFrame(function_name="book", tool_call_id=call_id, arguments={})


def cancellation(call_id: str) -> FunctionCallCancelFrame:
    return FunctionCallCancelFrame(function_name="book", tool_call_id=call_id)


async def told() -> None:
    pass


def test_a_call_that_starts_after_its_cancellation_ends_once() -> None:
    late = LateCalls()
    late.cancelled(cancellation("a"))
    assert late.result_for(start("b")) is None
    result = late.result_for(start("a"))
    assert result is not None
    assert (result.tool_call_id, result.result) == ("a", "CANCELLED")
    assert late.result_for(start("a")) is None


def test_cancellations_remembered_are_bounded() -> None:
    late = LateCalls()
    for number in range(100):
        late.cancelled(cancellation(str(number)))
    assert late.result_for(start("0")) is None
    assert late.result_for(start("99")) is not None


def test_a_call_that_outlives_its_cancellation_is_still_running_whichever_comes_first() -> None:
    late = LateCalls()
    late.lasts("a", told)
    late.lasts("b", told)
    assert late.result_for(start("a")) is None
    after = late.cancelled(cancellation("a"))
    assert late.cancelled(cancellation("b")) is None
    before = late.result_for(start("b"))
    for result in (after, before):
        assert result is not None
        assert result.result is STILL_RUNNING
        assert result.properties is not None
        assert (result.properties.run_llm, result.properties.on_context_updated) == (False, told)


def test_a_call_that_has_reported_is_cancelled_like_any_other() -> None:
    late = LateCalls()
    late.lasts("a", told)
    late.is_over("a")
    assert late.result_for(start("a")) is None
    assert late.cancelled(cancellation("a")) is None
