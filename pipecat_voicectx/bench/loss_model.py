"""The serving model of `voicectx bench loss`: scripted decisions over the real protocol."""

from __future__ import annotations

import time
from typing import Any

from pipecat.frames.frames import Frame, LLMTextFrame
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.llm import OpenAILLMService

from pipecat_voicectx.testing.openai_server import ChatRequest, Reply, ToolCall

__all__ = ["Answers", "ScriptedDecisions", "SharedClientLLM"]

# LOV, section 5: one decision of the serving LLM.
DECISION_SECS = 0.79


class ScriptedDecisions:
    """Defers when audio was lost and the caller's sentence is not finished. Scripted: it understands full stops."""

    def reply(self, request: ChatRequest) -> Reply:
        texts = [(message.get("role"), str(message.get("content"))) for message in request.messages]
        state = next((text for _, text in reversed(texts) if text.startswith("<voice_state>")), "")
        said = next((text for role, text in reversed(texts) if role == "user"), "")
        unfinished = not said.rstrip().endswith((".", "?", "!"))
        doubtful = "audio" in state and "Answer now" not in state
        rejected = any(role == "tool" and "not_now" in text for role, text in texts)
        if doubtful and unfinished and not rejected and "defer_response" in request.tool_names:
            call = ToolCall(name="defer_response", arguments={"reason": "audio is being lost"})
            return Reply(tool_calls=(call,), first_token_secs=DECISION_SECS)
        return Reply(text="Okay.", first_token_secs=DECISION_SECS)


_clients: dict[str, Any] = {}


class SharedClientLLM(OpenAILLMService):
    """One HTTP client for all calls of a process: each takes a third of a second to make."""

    def create_client(self, *args: Any, **kwargs: Any) -> Any:
        key = str(kwargs.get("base_url"))
        if key not in _clients:
            _clients.clear()
            _clients[key] = super().create_client(*args, **kwargs)  # type: ignore[no-untyped-call]
        return _clients[key]


class Answers(FrameProcessor):
    """Notes when an answer begins."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, LLMTextFrame):
            self.times.append(time.monotonic())
        await self.push_frame(frame, direction)
