"""The request after a function's result goes straight to the LLM service, and is bounded all the same."""

from __future__ import annotations

from typing import Any

from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.services.llm_service import FunctionCallParams

from pipecat_voicectx.processors.memory_projector import MemoryProjector
from pipecat_voicectx.projection.costs import estimate_tokens
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.testing.memory_call import MemoryCall, in_calls
from pipecat_voicectx.testing.openai_server import ChatRequest, Reply, ToolCall
from tests.memory.builders import ANN

ROOMS = FunctionSchema(name="rooms", description="All rooms", properties={}, required=[])


class LooksUpRooms:
    """Calls `rooms` once, then answers."""

    def reply(self, request: ChatRequest) -> Reply:
        if any(message.get("role") == "tool" for message in request.messages):
            return Reply(text="There are many rooms.")
        return Reply(tool_calls=(ToolCall(name="rooms", arguments={}),))


async def rooms(params: FunctionCallParams) -> None:
    rows: list[dict[str, Any]] = [{"room": n, "text": "quiet and bright"} for n in range(25_000)]
    await params.result_callback(rows)


def test_a_result_of_200_000_tokens_reaches_the_model_cut_in_the_request_that_follows() -> None:
    async def script(call: MemoryCall) -> None:
        await call.say("Which rooms are there?")

    [call] = in_calls(
        lambda session_id: MemoryProjector(owner=ANN, embedder=LexicalEmbedder(), session_id=session_id),
        script,
        policies=[LooksUpRooms()],
        tools=ToolsSchema(standard_tools=[ROOMS]),
        functions={"rooms": rooms},
    )
    assert not call.errors
    results = [
        str(message["content"])
        for request in call.server.requests
        for message in request.messages
        if message.get("role") == "tool"
    ]
    assert results
    assert max(map(estimate_tokens, results)) <= 16_100
    assert "Cut off" in results[-1]
