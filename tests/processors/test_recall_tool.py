"""The recall function through a real LLM service: called by the scripted model, answered from memory."""

from __future__ import annotations

import asyncio
import json

from pipecat.frames.frames import EndFrame, LLMContextFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.workers.runner import WorkerRunner

from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.processors.memory_projector import MemoryProjector
from pipecat_voicectx.processors.recall_tool import answer, recall_function
from pipecat_voicectx.projection.recall_request import RecallToolConfig, page_handle
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.testing.openai_server import ChatRequest, OpenAIServer, Reply, ToolCall
from pipecat_voicectx.testing.virtual_time import run
from tests.memory.builders import ANN, page


class LooksUp:
    """Calls `recall` once, then repeats what it got."""

    def reply(self, request: ChatRequest) -> Reply:
        last = request.messages[-1]
        if last.get("role") != "tool":
            return Reply(tool_calls=(ToolCall(name="recall", arguments={"query": "the dog"}),))
        return Reply(text=f"You said: {last['content']}")


def test_the_model_can_look_into_memory_through_its_function() -> None:
    async def main() -> str:
        projector = MemoryProjector(owner=ANN, embedder=LexicalEmbedder())
        projector.memory.add(page(0, "My dog is called Rex.", "Nice name."))
        projector.memory.add(page(1, "What is the weather?", "Sunny."))
        context = LLMContext(tools=[recall_function(projector)])
        async with OpenAIServer(LooksUp()) as server:
            llm = OpenAILLMService(api_key="x", base_url=server.base_url)
            pair = LLMContextAggregatorPair(context)
            worker = PipelineWorker(
                Pipeline([pair.user(), projector, llm, pair.assistant()]), cancel_on_idle_timeout=False
            )
            runner = WorkerRunner(handle_sigint=False)
            await runner.add_workers(worker)
            running = asyncio.create_task(runner.run())
            await asyncio.sleep(0.5)
            context.add_message({"role": "user", "content": "Do you remember?"})
            await worker.queue_frame(LLMContextFrame(context=context))
            for _ in range(200):
                await asyncio.sleep(0.05)
                if len(server.requests) == 2:
                    break
            await worker.queue_frame(EndFrame())
            await asyncio.wait_for(running, 30)
            assert server.requests[0].tools == ("recall",)
            return str(server.requests[1].messages[-1]["content"])

    result = json.loads(run(main()))
    assert result["found"][0]["user"] == "My dog is called Rex."
    assert not [entry for entry in result["found"] if "remember" in entry["user"]]


def ask(arguments: dict[str, object], *pages: VoicePage) -> dict[str, object]:
    async def main() -> dict[str, object]:
        projector = MemoryProjector(owner=ANN, embedder=LexicalEmbedder())
        for item in pages:
            projector.memory.add(item)
        try:
            return await answer(projector, arguments, RecallToolConfig())
        finally:
            await projector.memory.close()

    return run(main())


def test_a_handle_brings_its_page_word_for_word() -> None:
    item = page(3, "My dog is called Rex, and he is eleven years old.", "Lovely.")
    result = ask({"page": page_handle(item.id)}, item, page(4))
    assert [entry["user"] for entry in result["found"]] == [item.user_text]  # type: ignore[attr-defined]


def test_wrong_arguments_and_unknown_things_are_answered_not_raised() -> None:
    assert "error" in ask({})
    assert ask({"page": "#ffff"})["found"] == []
    assert ask({"query": "zebra"}, page(0))["found"] == []
