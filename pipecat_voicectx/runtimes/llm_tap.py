"""What the serving LLM is doing, heard at its own exit."""

from __future__ import annotations

from collections.abc import Callable

from pipecat.frames.frames import (
    Frame,
    FunctionCallsStartedFrame,
    InterruptionFrame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
)
from pipecat.processors.frame_processor import FrameProcessor

from pipecat_voicectx.runtimes.frame_listeners import listen, stop_listening

__all__ = ["AnswerWatch", "LLMTap"]


class LLMTap:
    """Listens at the synchronous event `on_before_push_frame`, so it knows before anything downstream does."""

    def __init__(self, llm: FrameProcessor | None, *, on_response: Callable[[], None]) -> None:
        """Args:
        llm: The service; None hears nothing.
        on_response: Called when a response begins.
        """
        self._llm = llm
        self._on_response = on_response
        self.spoken = False
        """Whether the present response holds text."""
        self.called: tuple[str, ...] = ()
        """Functions that the present response called."""
        if llm is not None:
            listen(llm, "on_before_push_frame", self._frame)

    def detach(self) -> None:
        """Stops listening."""
        if self._llm is not None:
            stop_listening(self._llm, "on_before_push_frame", self._frame)
            self._llm = None

    def _frame(self, _llm: FrameProcessor, frame: Frame) -> None:
        match frame:
            case LLMFullResponseStartFrame():
                self.spoken, self.called = False, ()
                self._on_response()
            case LLMTextFrame() if frame.text.strip():
                self.spoken = True
            case FunctionCallsStartedFrame():
                self.called = tuple(call.function_name for call in frame.function_calls)
            case _:
                pass


class AnswerWatch:
    """Whether the newest interruption found the model at work.

    Seen at the LLM's entrance, before it is stopped: a service that is stopped ends its response like a finished one.
    """

    def __init__(self, llm: FrameProcessor) -> None:
        """Starts listening at the service."""
        self.was_stopped = False
        self._at_work = False
        listen(llm, "on_before_process_frame", self._arriving)
        listen(llm, "on_before_push_frame", self._leaving)

    def _arriving(self, _llm: FrameProcessor, frame: Frame) -> None:
        match frame:
            case LLMContextFrame():
                self.was_stopped, self._at_work = False, True
            case InterruptionFrame() if self._at_work:  # a second one shortly after finds it stopped already
                self.was_stopped, self._at_work = True, False
            case _:
                pass

    def _leaving(self, _llm: FrameProcessor, frame: Frame) -> None:
        if isinstance(frame, LLMFullResponseEndFrame):
            self._at_work = False
