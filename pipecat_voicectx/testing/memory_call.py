"""A short call through a memory processor on virtual time: user aggregator, memory, LLM service, assistant aggregator.

The LLM is a scripted server on a real socket, so that what is looked at is what the service really sent. There is no
audio: the caller speaks through voice activity and transcripts, the bot's text goes straight into the context.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipecat.frames.frames import (
    ErrorFrame,
    Frame,
    InterimTranscriptionFrame,
    InterruptionFrame,
    LLMContextFrame,
    TranscriptionFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.observers.base_observer import BaseObserver, FramePushed
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.services.stt_service import STTService
from pipecat.turns.user_stop import BaseUserTurnStopStrategy, SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies

from pipecat_voicectx.testing.openai_server import ChatPolicy, ChatRequest, OpenAIServer, Reply
from pipecat_voicectx.testing.running import running
from pipecat_voicectx.testing.virtual_time import run

__all__ = ["Answers", "MakeMemory", "MemoryCall", "MemoryScript", "in_calls"]

MakeMemory = Callable[[str], FrameProcessor]
"""Makes the memory processor of one call from the call's session id."""
MemoryScript = Callable[["MemoryCall"], Awaitable[None]]

_SPEECH_SECS = 1.0
_SILENCE_SECS = 0.3
_TRANSCRIPT_SECS = 0.2


class Answers:
    """Answers each user message with the next line, streamed at `token_secs` a word."""

    def __init__(self, *lines: str, token_secs: float = 0.0) -> None:
        self._lines = list(lines)
        self._token_secs = token_secs

    def reply(self, _request: ChatRequest) -> Reply:
        """The next line; a stock phrase when there is none left."""
        text = self._lines.pop(0) if self._lines else "All right."
        return Reply(text=text, token_secs=self._token_secs)


class _Stt(STTService):
    """The script's transcripts pass through it, as a service's own would come out of it."""

    async def run_stt(self, audio: bytes) -> Any:
        yield None

    async def process_frame(self, frame: Frame, direction: Any) -> None:
        await FrameProcessor.process_frame(self, frame, direction)
        await self.push_frame(frame, direction)


class _Watch(BaseObserver):
    def __init__(self, call: MemoryCall) -> None:
        super().__init__()
        self._call = call
        self._last: set[int] = set()

    async def on_push_frame(self, data: FramePushed) -> None:
        frame = data.frame
        if isinstance(frame, ErrorFrame):
            self._call.errors.append(str(frame.error))
        confirmed = isinstance(frame, LLMContextFrame) and not frame.speculation
        if confirmed and data.destination is self._call.memory and frame.id not in self._last:
            self._last.add(frame.id)
            self._call.context_frames_secs.append(time.monotonic())


@dataclass
class MemoryCall:
    """What a script drives."""

    memory: FrameProcessor
    server: OpenAIServer
    context: LLMContext
    worker: PipelineWorker
    llm: OpenAILLMService
    errors: list[str] = field(default_factory=list)
    """Of every ErrorFrame."""
    context_frames_secs: list[float] = field(default_factory=list)
    """When each confirmed context reached the memory."""

    async def say(self, text: str, *, interims: Sequence[str] = (), answered: bool = True) -> str:
        """The caller speaks and pauses; returns the request that the LLM service sent, as one text."""
        before = len(self.server.requests)
        await self.worker.queue_frame(VADUserStartedSpeakingFrame(start_secs=0.2))
        for interim in interims:
            await self.worker.queue_frame(InterimTranscriptionFrame(text=interim, user_id="u", timestamp=""))
            await asyncio.sleep(0.1)
        await asyncio.sleep(_SPEECH_SECS)
        await self.worker.queue_frame(VADUserStoppedSpeakingFrame(stop_secs=0.2))
        await asyncio.sleep(_TRANSCRIPT_SECS)
        await self.worker.queue_frame(
            TranscriptionFrame(text=text, user_id="u", timestamp="", finalized=True)
        )
        async with asyncio.timeout(20):
            while len(self.server.requests) == before:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        if answered:
            await self.answer()
        return self.sent()

    async def answer(self) -> None:
        """Until the bot's answer to the last user message is in the context."""
        async with asyncio.timeout(20):
            while self._awaits_answer():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.05)

    def _awaits_answer(self) -> bool:
        roles = [m.get("role") for m in self.context.messages if isinstance(m, Mapping)]
        spoken = [role for role in roles if role in ("user", "assistant", "tool")]
        return bool(spoken) and spoken[-1] != "assistant"

    async def barge_in(self) -> None:
        """The caller cuts the bot off."""
        await self.worker.queue_frame(InterruptionFrame())
        await asyncio.sleep(0.1)

    def messages(self, index: int = -1) -> Sequence[Mapping[str, Any]]:
        """A request as it arrived at the socket."""
        return self.server.requests[index].messages

    def sent(self, index: int = -1) -> str:
        """The same as one text."""
        return "\n".join(f"{each['role']}: {each.get('content')}" for each in self.messages(index))

    def delays_secs(self) -> list[float]:
        """From each context frame to its request at the socket."""
        arrived = [request.at_secs for request in self.server.requests]
        return [at - left for at, left in zip(arrived, self.context_frames_secs, strict=False)]


def in_calls(
    make_memory: MakeMemory,
    *scripts: MemoryScript,
    policies: Sequence[ChatPolicy] = (),
    at_once: bool = False,
    tools: Any = None,
    tools_for: Callable[[FrameProcessor], Any] | None = None,
    functions: Mapping[str, Any] | None = None,
    clock: Callable[[Coroutine[Any, Any, list[MemoryCall]]], list[MemoryCall]] = run,
) -> list[MemoryCall]:
    """Runs each script in a call of its own, one after the other or all at once, and ends each with an EndFrame.

    On virtual time; `clock=asyncio.run` for a memory whose backend takes real time in threads.
    """

    async def main() -> list[MemoryCall]:
        calls = [
            _in_call(
                make_memory,
                f"session-{uuid.uuid4()}",
                script,
                policies[number] if number < len(policies) else Answers(),
                tools_for or (lambda _memory: tools),
                functions or {},
            )
            for number, script in enumerate(scripts)
        ]
        if at_once:
            return list(await asyncio.gather(*calls))
        return [await each for each in calls]

    return clock(main())


async def _in_call(
    make_memory: MakeMemory,
    session_id: str,
    script: MemoryScript,
    policy: ChatPolicy,
    tools_for: Callable[[FrameProcessor], Any],
    functions: Mapping[str, Any],
) -> MemoryCall:
    memory = make_memory(session_id)
    tools = tools_for(memory)
    context = LLMContext(tools=tools) if tools is not None else LLMContext()
    stop: list[BaseUserTurnStopStrategy] = [
        SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=_SILENCE_SECS)
    ]
    pair = LLMContextAggregatorPair(
        context,
        user_params=LLMUserAggregatorParams(user_turn_strategies=UserTurnStrategies(stop=stop)),
    )
    async with OpenAIServer(policy) as server:
        llm = OpenAILLMService(
            api_key="none",
            base_url=server.base_url,
            settings=OpenAILLMService.Settings(model="m", system_instruction="You are brief."),
        )
        for name, function in functions.items():
            llm.register_function(name, function)
        worker = PipelineWorker(
            Pipeline([_Stt(), pair.user(), memory, llm, pair.assistant()]), idle_timeout_secs=None
        )
        call = MemoryCall(memory, server, context, worker, llm)
        worker.add_observer(_Watch(call))
        async with running(worker):
            await asyncio.sleep(0.2)
            await script(call)
        return call
