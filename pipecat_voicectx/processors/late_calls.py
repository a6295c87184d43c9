"""Calls whose cancellation overtook them. Nobody would end them: they would stay "in progress" for good."""

from __future__ import annotations

from pipecat.frames.frames import (
    FunctionCallInProgressFrame,
    FunctionCallResultFrame,
    FunctionCallResultProperties,
)

__all__ = ["LateCalls"]

# Cancelled calls whose start has not passed yet: a handful at most.
_MAX_CANCELLED = 64


class LateCalls:
    """Remembers cancellations until the start of their call comes by."""

    def __init__(self) -> None:
        self._cancelled: dict[str, None] = {}

    def cancelled(self, tool_call_id: str) -> None:
        """A cancellation passed."""
        self._cancelled[tool_call_id] = None
        while len(self._cancelled) > _MAX_CANCELLED:
            self._cancelled.pop(next(iter(self._cancelled)))

    def result_for(self, frame: FunctionCallInProgressFrame) -> FunctionCallResultFrame | None:
        """The end of a call that starts after its cancellation; None for any other."""
        if frame.tool_call_id not in self._cancelled:
            return None
        self._cancelled.pop(frame.tool_call_id)
        return FunctionCallResultFrame(
            function_name=frame.function_name,
            tool_call_id=frame.tool_call_id,
            arguments=frame.arguments,
            result="CANCELLED",
            properties=FunctionCallResultProperties(run_llm=False),
        )
