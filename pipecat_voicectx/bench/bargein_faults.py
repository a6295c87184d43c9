"""Faults of stock Pipecat around barge-in that have public reports, tried on the installed release.

Each answers whether the fault is still there, so that a release that mends one shows in the bench.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from pipecat.frames.frames import FunctionCallFromLLM, LLMContextFrame
from pipecat.services.llm_service import FunctionCallParams
from pipecat.services.openai.llm import OpenAILLMService

from pipecat_voicectx.testing.openai_server import ChatRequest, OpenAIServer, Reply, ToolCall
from pipecat_voicectx.testing.playback_harness import Client, Scene, Script, Shape, run_barge_in, run_scene
from pipecat_voicectx.testing.realtime_harness import run_realtime, scripted_item

__all__ = ["FAULTS"]

_FOUR = Script(sentences=Script().sentences[:4])


async def unheard_reply_kept() -> bool:
    """A reply fed to the voice token by token and cut early is in the context far beyond what was heard."""
    outcome = await run_barge_in(Shape.TOKEN, 3.0, script=_FOUR, stock=True)
    return outcome.error > 2


async def heard_reply_lost() -> bool:
    """A reply cut during its first sentence leaves nothing in the context although words were heard."""
    outcome = await run_barge_in(Shape.SENTENCE, 1.6, stock=True)
    return outcome.heard > 2 and outcome.committed == 0


async def truncated_ahead_of_playback() -> bool:
    """A speech-to-speech item is truncated at the server's clock, ahead of what the client played."""
    script = Script()
    items = [scripted_item(script, 0, 8)]
    outcome = await run_realtime(script, items, 4.0, client=Client(delay_secs=0.4), stock=True)
    # The scripted speech has 0.2 s of silence after each sentence, which `played_ms` leaves out.
    silence_ms = 200 * len(script.sentences)
    return any(cut["audio_end_ms"] > outcome.played_ms + silence_ms / 4 + 150 for cut in outcome.truncates)


async def call_left_in_progress() -> bool:
    """A tool call cancelled during the sentence that leads in to it stays "in progress" for good."""
    tool = _Tool(secs=30.0)

    async def play(scene: Scene) -> bool:
        await scene.answer()
        await tool.call(scene, "first")
        await asyncio.sleep(0.4)
        await scene.interrupt()
        await asyncio.sleep(4.0)
        results = [message for message in scene.context.get_messages() if _role(message) == "tool"]
        return any("IN_PROGRESS" in str(message) for message in results)

    return await tool.played(play)


async def repeated_call_runs_twice() -> bool:
    """A tool that is asked for again while it still runs is run a second time."""
    tool = _Tool(secs=2.0, cancel_on_interruption=False)

    async def play(scene: Scene) -> bool:
        await scene.answer()
        await tool.call(scene, "first")
        await asyncio.sleep(0.5)
        await scene.interrupt()
        await tool.call(scene, "second")
        await asyncio.sleep(4.0)
        return tool.runs > 1

    return await tool.played(play)


async def speculative_call_runs() -> bool:
    """A provisional answer, which may be discarded, carries out its tool call."""
    tool = _Tool(secs=0.0)

    class Calls:
        def reply(self, request: ChatRequest) -> Reply:
            return Reply(tool_calls=(ToolCall(name="book", arguments={}),))

    async with OpenAIServer(Calls()) as server:
        tool.service = OpenAILLMService(
            api_key="none", base_url=server.base_url, settings=OpenAILLMService.Settings(model="scripted")
        )

        async def play(scene: Scene) -> bool:
            tool.register()
            scene.context.add_message({"role": "user", "content": "Book the train at nine."})
            await tool.service.queue_frame(LLMContextFrame(scene.context, speculation=True))
            await asyncio.sleep(1.0)
            return tool.runs > 0

        return await tool.played(play)


class _Tool:
    """A tool with a side effect, and the service that runs it."""

    def __init__(self, *, secs: float, cancel_on_interruption: bool = True) -> None:
        self.service = OpenAILLMService(api_key="none")
        self.runs = 0
        self._secs = secs
        self._cancel = cancel_on_interruption

    def register(self) -> None:
        self.service.register_function("book", self._book, cancel_on_interruption=self._cancel)

    async def _book(self, params: FunctionCallParams) -> None:
        self.runs += 1
        await asyncio.sleep(self._secs)
        await params.result_callback({"booked": self.runs})

    async def call(self, scene: Scene, call_id: str) -> None:
        self.register()
        call = FunctionCallFromLLM(
            function_name="book", tool_call_id=call_id, arguments={"train": "nine"}, context=scene.context
        )
        await self.service.run_function_calls([call])

    async def played(self, play: Callable[[Scene], Awaitable[bool]]) -> bool:
        fault: bool = await run_scene(Shape.SENTENCE, play, before_tts=[self.service], stock=True)
        return fault


def _role(message: Any) -> object:
    return message.get("role") if isinstance(message, dict) else None


FAULTS: Mapping[str, Callable[[], Coroutine[Any, Any, bool]]] = {
    function.__name__: function
    for function in (
        unheard_reply_kept,
        heard_reply_lost,
        truncated_ahead_of_playback,
        call_left_in_progress,
        repeated_call_runs_twice,
        speculative_call_runs,
    )
}
