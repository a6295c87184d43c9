"""docs/comparison.md: the ways in which memories fail, looked at where the language model's requests arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pipecat.frames.frames import LLMContextFrame
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.mem0.memory import Mem0MemoryService

from pipecat_voicectx.processors.memory_projector import MemoryProjector
from pipecat_voicectx.testing.memory_call import MemoryCall, MemoryScript, in_calls
from tests.testing.other_memories import Backend, backend, full_history, mem0_service, ours, stored_by_mem0

PAGE = Path(__file__).parents[2] / "docs" / "comparison.md"
MEM0_BLOCK = "Based on previous conversations, I recall"
OUR_BLOCK = "<recalled_context>"
FILLER = (
    "and then we went on to talk about the weather in the mountains and about trains that leave too early"
)
KINDS = ["full history", "Mem0MemoryService", "MemoryProjector"]

Calls = Callable[..., list[MemoryCall]]


@pytest.fixture
def served() -> Iterator[Backend]:
    with backend() as made:
        yield made


def caller(kind: str, folder: Path, served: Backend) -> Calls:
    """Plays scripts, one call each, with the same memory."""
    shared = mem0_service(folder, served) if kind == "Mem0MemoryService" else None

    def make(session_id: str) -> FrameProcessor:
        if kind == "full history":
            return full_history()
        if shared is not None:
            again = Mem0MemoryService.__new__(Mem0MemoryService)
            FrameProcessor.__init__(again)
            for name in ("user_id", "agent_id", "run_id", "search_limit", "search_threshold", "system_prompt",
                         "add_as_system_message", "position", "memory_client"):  # fmt: skip
                setattr(again, name, getattr(shared, name))
            again.last_query = None
            return again
        return ours(folder, session_id)

    def play(*scripts: MemoryScript) -> list[MemoryCall]:
        return in_calls(make, *scripts, clock=asyncio.run)

    return play


async def introduces(call: MemoryCall) -> None:
    await call.say("my name is ann")
    await call.say("i'm allergic to peanuts")
    await asyncio.sleep(1.5)  # what is written in the background may be


async def asks(call: MemoryCall) -> None:
    await call.say("can you find me a dinner without peanuts")


def row(name: str) -> list[str]:
    """A row of the page, without its first cell."""
    (line,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def said(kind: str, name: str) -> str:
    """What the page says of one memory."""
    return row(name)[KINDS.index(kind)]


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_said_in_the_last_call_is_known_in_the_next(
    kind: str, tmp_path: Path, served: Backend
) -> None:
    _, second = caller(kind, tmp_path, served)(introduces, asks)
    assert ("allergic to peanuts" in second.sent()) is (said(kind, "known in the next call") == "yes")


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_waits_for_a_slow_backend_or_not(kind: str, tmp_path: Path, served: Backend) -> None:
    play = caller(kind, tmp_path, served)
    play(introduces)
    served.delay_secs = 2.0

    async def asks_and_waits(call: MemoryCall) -> None:
        await asks(call)
        served.delay_secs = 0.0
        await asyncio.sleep(5.0)  # what it writes behind the answer may end

    (call,) = play(asks_and_waits)
    assert (max(call.delays_secs()) > 1.5) is (
        said(kind, "an embedder that takes 2 s delays the answer by") == "2 s"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_its_block_is_there_once_or_piles_up(kind: str, tmp_path: Path, served: Backend) -> None:
    async def talks(call: MemoryCall) -> None:
        for dish in ("dinner", "lunch", "breakfast", "snack"):
            await call.say(f"can you find me a {dish} without peanuts, as i'm allergic")

    _, second = caller(kind, tmp_path, served)(introduces, talks)
    sent = second.sent()
    blocks = max(sent.count(MEM0_BLOCK), sent.count(OUR_BLOCK))
    assert blocks == int(said(kind, "its blocks in the request after four turns"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_speculative_turn_is_stored_or_not(kind: str, tmp_path: Path, served: Backend) -> None:
    async def speculates(call: MemoryCall) -> None:
        await introduces(call)
        guess = LLMContext([*call.context.messages, {"role": "user", "content": "i'm allergic to zebras"}])
        before = len(call.server.requests)
        await call.worker.queue_frame(LLMContextFrame(context=guess, speculation=True))
        async with asyncio.timeout(10):
            while len(call.server.requests) == before:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await asyncio.sleep(1.5)

    (call,) = caller(kind, tmp_path, served)(speculates)
    stored = ""
    if isinstance(call.memory, Mem0MemoryService):
        stored = stored_by_mem0(call.memory)
    elif isinstance(call.memory, MemoryProjector):
        stored = "\n".join(page.user_text for page in call.memory.memory.pages.values())
    assert ("zebras" in stored) is (said(kind, "stores what was only speculated") == "yes")


@pytest.mark.parametrize("kind", KINDS)
def test_the_request_grows_with_the_call_or_not(kind: str, tmp_path: Path, served: Backend) -> None:
    async def talks(call: MemoryCall) -> None:
        for number in range(11):
            await call.say(f"number {number}, {FILLER}, {FILLER}, {FILLER}")

    (call,) = caller(kind, tmp_path, served)(talks)
    tokens = [request.tokens for request in call.server.requests]
    grows = tokens[-1] > 1.15 * tokens[-4]
    assert grows is (said(kind, "the request grows with the call") == "yes"), tokens
