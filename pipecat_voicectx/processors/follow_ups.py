"""Requests that do not come past us: after a function's result the assistant aggregator sends the context upstream.

Such a context reaches the LLM from behind. What has to hold for every request (no tool result without bounds, the
recordings that the model asked for) is seen to in the moment before the service takes it.
"""

from __future__ import annotations

from collections.abc import Callable

from pipecat.frames.frames import Frame, LLMContextFrame
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.llm_service import LLMService

from pipecat_voicectx.runtimes.frame_listeners import listen, stop_listening

__all__ = ["FollowUps"]

_EVENT = "on_before_process_frame"


class FollowUps:
    """Shows every context to `on_context` before the LLM service takes it; it must not block or raise."""

    def __init__(self, on_context: Callable[[LLMContext], None]) -> None:
        self._on_context = on_context
        self._llm: LLMService | None = None

    def attach(self, before: FrameProcessor) -> None:
        """Finds the service behind a processor."""
        behind = before.next
        while behind is not None and not isinstance(behind, LLMService):
            behind = behind.next
        if behind is not None and self._llm is None:
            self._llm = behind
            listen(behind, _EVENT, self._on_frame)

    def detach(self) -> None:
        """Stops to look. Harmless when repeated."""
        llm, self._llm = self._llm, None
        if llm is not None:
            stop_listening(llm, _EVENT, self._on_frame)

    async def _on_frame(self, _llm: FrameProcessor, frame: Frame) -> None:
        if isinstance(frame, LLMContextFrame) and not frame.speculation:
            self._on_context(frame.context)
