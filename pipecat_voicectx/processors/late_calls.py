"""Cancelled calls that Pipecat's bookkeeping gets wrong.

A cancellation may overtake its call: nobody would end the call, and it would stay "in progress" for good. And a call
may be cancelled whose work goes on: "CANCELLED" would tell the model that nothing happens.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from pipecat.frames.frames import (
    FunctionCallCancelFrame,
    FunctionCallInProgressFrame,
    FunctionCallResultFrame,
    FunctionCallResultProperties,
)

__all__ = ["STILL_RUNNING", "LateCalls", "Told"]

Told: TypeAlias = Callable[[], Awaitable[None]]

STILL_RUNNING = {
    "status": "still_running",
    "reason": "The user spoke meanwhile, but this was not cancelled: it runs to its end. Calling the function again "
    "with the same arguments does not run it twice; it returns this run's result.",
}
"""What the model is told of a call that outlives its cancellation."""

# Cancelled calls whose start has not passed yet: a handful at most.
_MAX_CANCELLED = 64


class LateCalls:
    """Remembers cancellations until the start of their call comes by, and which calls outlive theirs."""

    def __init__(self) -> None:
        self._cancelled: dict[str, None] = {}
        self._started: dict[str, FunctionCallInProgressFrame] = {}
        self._lasting: dict[str, Told] = {}

    def lasts(self, tool_call_id: str, told: Told) -> None:
        """What this call does runs to its end, whatever happens to the call.

        Args:
            tool_call_id: The call.
            told: Called once the conversation says that it is still running.
        """
        self._lasting[tool_call_id] = told
        _bound(self._lasting)

    def is_over(self, tool_call_id: str) -> None:
        """The call has reported its result."""
        self._lasting.pop(tool_call_id, None)

    def cancelled(self, frame: FunctionCallCancelFrame) -> FunctionCallResultFrame | None:
        """A cancellation passes. Returns what the conversation is to say instead, None for what it is."""
        started = self._started.pop(frame.tool_call_id, None)
        if started is None:
            self._cancelled[frame.tool_call_id] = None
            _bound(self._cancelled)
            return None
        return self._still_running(started)

    def result_for(self, frame: FunctionCallInProgressFrame) -> FunctionCallResultFrame | None:
        """The end of a call that starts after its cancellation; None for any other."""
        if frame.tool_call_id not in self._cancelled:
            self._started[frame.tool_call_id] = frame
            _bound(self._started)
            return None
        self._cancelled.pop(frame.tool_call_id)
        properties = FunctionCallResultProperties(run_llm=False)
        return self._still_running(frame) or _result(frame, "CANCELLED", properties)

    def _still_running(self, call: FunctionCallInProgressFrame) -> FunctionCallResultFrame | None:
        told = self._lasting.pop(call.tool_call_id, None)
        if told is None:
            return None
        properties = FunctionCallResultProperties(run_llm=False, on_context_updated=told)
        return _result(call, STILL_RUNNING, properties)


def _result(
    call: FunctionCallInProgressFrame, result: object, properties: FunctionCallResultProperties
) -> FunctionCallResultFrame:
    return FunctionCallResultFrame(
        function_name=call.function_name,
        tool_call_id=call.tool_call_id,
        arguments=call.arguments,
        result=result,
        properties=properties,
    )


def _bound(calls: dict[str, None] | dict[str, FunctionCallInProgressFrame] | dict[str, Told]) -> None:
    while len(calls) > _MAX_CANCELLED:
        calls.pop(next(iter(calls)))
