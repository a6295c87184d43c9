"""Which functions of the application are running at the moment, from the frames that tell of them."""

from __future__ import annotations

from collections.abc import Collection

from pipecat.frames.frames import (
    Frame,
    FunctionCallCancelFrame,
    FunctionCallInProgressFrame,
    FunctionCallResultFrame,
)

__all__ = ["RunningCalls"]

# Chosen: far above what a model calls at a time; calls whose end was never reported leave first.
_MAX_CALLS = 32


class RunningCalls:
    """Calls without a final result.

    Args:
        ours: Functions that are no business of the application and not counted.
    """

    def __init__(self, *, ours: Collection[str] = ()) -> None:
        self._ours = frozenset(ours)
        self._names: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """In the order in which they were called."""
        return tuple(self._names.values())

    def on_frame(self, frame: Frame) -> bool:
        """Whether the frame changed what is running."""
        match frame:
            case FunctionCallInProgressFrame():
                if frame.function_name in self._ours or frame.tool_call_id in self._names:
                    return False
                self._names[frame.tool_call_id] = frame.function_name
                while len(self._names) > _MAX_CALLS:
                    del self._names[next(iter(self._names))]
                return True
            case FunctionCallResultFrame():
                if frame.properties is not None and not frame.properties.is_final:
                    return False
                return self._names.pop(frame.tool_call_id, None) is not None
            case FunctionCallCancelFrame():
                return self._names.pop(frame.tool_call_id, None) is not None
            case _:
                return False
