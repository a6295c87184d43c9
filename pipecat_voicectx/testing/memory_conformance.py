"""The conformance suite of memory in a pipeline: how memory plugins fail real callers, one check for each way.

Every check runs whole calls and looks at what the LLM service really sent, at the socket. Run it against the memory of
this package with an engine of your own:

    @pytest.mark.parametrize("check", MEMORY_CHECKS, ids=lambda check: check.__name__)
    def test_my_engine(check, tmp_path):
        check(MemoryUnderTest(folder=tmp_path, make_engine=lambda: MyEngine(tmp_path / "engine")))

`make_engine` opens an engine on one and the same store each time; it may block. A check raises `AssertionError` with a
sentence that says what is wrong. Checks need a folder of their own each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.frames.frames import LLMContextFrame
from pipecat.processors.aggregators.llm_context import LLMContext, LLMSpecificMessage
from pipecat.services.llm_service import FunctionCallParams

from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.processors.memory_projector import MemoryProjector
from pipecat_voicectx.processors.memory_settings import MemoryProjectorConfig
from pipecat_voicectx.stores.embedders import Embedder, LexicalEmbedder
from pipecat_voicectx.stores.engine import MemoryEngine
from pipecat_voicectx.stores.fact_session import FactsConfig
from pipecat_voicectx.stores.page_memory import PageStoreConfig
from pipecat_voicectx.testing.memory_call import Answers, MemoryCall, in_calls
from pipecat_voicectx.testing.memory_engines import TroubledEngine
from pipecat_voicectx.testing.openai_server import ChatRequest, Reply, ToolCall

__all__ = ["MEMORY_CHECKS", "MemoryCheck", "MemoryUnderTest"]

BLOCK = "<recalled_context>"
_DELAY_SECS = 3.0
# The path's share on virtual time is nothing; a tick of the scripts is 10 ms.
_UNDELAYED_SECS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUnderTest:
    """A memory, and one caller of it."""

    folder: Path
    make_engine: Callable[[], MemoryEngine]
    embedder: Embedder = field(default_factory=LexicalEmbedder)
    owner: Owner = field(default_factory=lambda: Owner(user_id="caller"))

    def processor(self, session_id: str) -> MemoryProjector:
        """The memory of one call."""
        return self._make(session_id, self.make_engine)

    def troubled(
        self, *, delay_secs: float = 0.0, fails: Collection[int] | None = ()
    ) -> Callable[[str], MemoryProjector]:
        """The same with an engine in trouble."""

        def make(session_id: str) -> MemoryProjector:
            return self._make(
                session_id, lambda: TroubledEngine(self.make_engine(), delay_secs=delay_secs, fails=fails)
            )

        return make

    def _make(self, session_id: str, make_engine: Callable[[], MemoryEngine]) -> MemoryProjector:
        return MemoryProjector(
            owner=self.owner,
            store=PageStoreConfig(path=self.folder),
            embedder=self.embedder,
            # No exchange stays in the window, so that whatever is known comes from memory.
            config=MemoryProjectorConfig(keep_exchanges=0),
            session_id=session_id,
            facts=FactsConfig(engine=lambda _folder, _embedder: make_engine()),
        )


MemoryCheck = Callable[[MemoryUnderTest], None]


def _facts(call: MemoryCall) -> list[str]:
    assert isinstance(call.memory, MemoryProjector)
    assert call.memory.facts is not None
    return sorted(fact.statement for fact in call.memory.facts.memory.facts if fact.current)


def _pages(call: MemoryCall) -> list[str]:
    assert isinstance(call.memory, MemoryProjector)
    return [page.user_text for page in call.memory.memory.pages.values() if page.user_text]


async def _introduces(call: MemoryCall) -> None:
    await call.say("my name is ann and i live in leeds")
    await call.say("i'm allergic to peanuts")


async def _asks(call: MemoryCall) -> None:
    sent = await call.say("can you find me a dinner without peanuts", interims=["can you find me a dinner"])
    assert "allergic to peanuts" in sent, "what the caller said in the call before must be in the request"


def the_recalled_block_is_in_the_request(memory: MemoryUnderTest) -> None:
    """What is recalled reaches the LLM, once, as marked reference data."""

    async def asks(call: MemoryCall) -> None:
        await _asks(call)
        blocks = [each for each in call.messages() if BLOCK in str(each.get("content"))]
        assert len(blocks) == 1, "exactly one recalled block must be sent"
        assert "Reference data" in str(blocks[0]["content"]), "the block must say that it is data"
        await call.say("and something for dessert")
        assert call.sent().count(BLOCK) <= 1, "the block must be replaced, never piled up"

    in_calls(memory.processor, _introduces, asks)


def a_slow_backend_delays_nothing(memory: MemoryUnderTest) -> None:
    """Every call of the engine takes 3 s; answers are as fast as without it, and nothing is lost."""
    in_calls(memory.troubled(delay_secs=_DELAY_SECS), _introduces)

    async def asks(call: MemoryCall) -> None:
        await call.say("hello there")
        await asyncio.sleep(2 * _DELAY_SECS)  # the caller thinks; what came too late serves the next turn
        await _asks(call)

    (call,) = in_calls(memory.troubled(delay_secs=_DELAY_SECS), asks)
    assert max(call.delays_secs()) < _UNDELAYED_SECS, f"a turn waited for the engine: {call.delays_secs()}"


def a_dead_backend_ends_no_call(memory: MemoryUnderTest) -> None:
    """The engine never answers; this call's own facts work, and the next call has them all the same."""

    async def talks(call: MemoryCall) -> None:
        await _introduces(call)
        await call.say("tell me something nice")
        assert "Ann" in await call.say("what is my name"), "this call's facts must not need the engine"

    (dead,) = in_calls(memory.troubled(fails=None), talks)
    assert max(dead.delays_secs()) < _UNDELAYED_SECS, "a turn waited for a dead engine"
    in_calls(memory.processor, _asks)


def a_backend_that_fails_once_is_asked_again(memory: MemoryUnderTest) -> None:
    """Only the very first call of the engine fails."""
    in_calls(memory.troubled(fails={0}), _introduces)
    in_calls(memory.processor, _asks)


def the_same_words_twice_are_two_turns(memory: MemoryUnderTest) -> None:
    """ "yes", "yes": both are recorded, and no fact is there twice."""

    async def repeats(call: MemoryCall) -> None:
        for text in ("yes", "yes", "i like green tea", "i like green tea"):
            await call.say(text)

    (call,) = in_calls(memory.processor, repeats)
    assert _pages(call) == ["yes", "yes", "i like green tea", "i like green tea"]
    assert _facts(call) == ["The user likes green tea."]


def a_turn_that_was_barged_in_on_is_kept(memory: MemoryUnderTest) -> None:
    """The caller cuts the answer off: their words are remembered, what was never said is not."""

    async def barges_in(call: MemoryCall) -> None:
        await call.say("i am allergic to peanuts", answered=False)
        await asyncio.sleep(0.3)
        await call.barge_in()
        await call.say("sorry go on")

    answers = Answers("I note that down and add unicorns to the list of things to avoid", token_secs=0.1)
    (call,) = in_calls(memory.processor, barges_in, policies=[answers])
    assert "The user is allergic to peanuts." in _facts(call), "the cut-off turn's words must be kept"
    recorded = [page.bot_text for page in call.memory.memory.pages.values()]  # type: ignore[attr-defined]
    assert not any("avoid" in text for text in recorded), "text that was never spoken was recorded"
    in_calls(memory.processor, _asks)


def a_speculative_turn_leaves_no_trace(memory: MemoryUnderTest) -> None:
    """A provisional context is answered with memory, and nothing of it is ever stored."""

    async def speculates(call: MemoryCall) -> None:
        await _introduces(call)
        words = "my name is bob, is a dinner without peanuts possible"
        guess = LLMContext([*call.context.messages, {"role": "user", "content": words}])
        before = len(call.server.requests)
        await call.worker.queue_frame(LLMContextFrame(context=guess, speculation=True))
        async with asyncio.timeout(5):
            while len(call.server.requests) == before:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert "allergic to peanuts" in call.sent(), "a speculative request must have memory too"
        await asyncio.sleep(0.2)
        await call.say("what else is there")

    (call,) = in_calls(memory.processor, speculates)
    assert not any("bob" in text for text in (*_pages(call), *_facts(call))), "speculative words were stored"


def a_rewritten_context_goes_on(memory: MemoryUnderTest) -> None:
    """The application replaces the history between two turns, as a summarizer does."""

    async def rewrites(call: MemoryCall) -> None:
        await _introduces(call)
        call.context.set_messages([{"role": "user", "content": "Summary: the caller plans a dinner."}])
        sent = await call.say("can you find me a dinner without peanuts")
        assert "Summary: the caller plans a dinner." in sent, "the application's own message was dropped"
        assert "allergic to peanuts" in sent
        await call.say("thank you")

    (call,) = in_calls(memory.processor, rewrites)
    assert sum("allergic" in text for text in _pages(call)) == 1, "a turn was stored twice"


def a_turn_with_a_tool_call_keeps_its_pairs(memory: MemoryUnderTest) -> None:
    """A tool call is never sent without its result, and a result is no fact of the caller."""
    weather = FunctionSchema(name="get_weather", description="Weather.", properties={}, required=[])

    class Calls:
        def reply(self, request: ChatRequest) -> Reply:
            last = request.messages[-1]
            if last["role"] == "user" and "weather" in str(last["content"]):
                return Reply(tool_calls=(ToolCall(name="get_weather", arguments={}),))
            return Reply(text="It is sunny." if last["role"] == "tool" else "All right.")

    async def get_weather(params: FunctionCallParams) -> None:
        await params.result_callback({"note": "my name is eve and i live in oz"})

    async def calls_it(call: MemoryCall) -> None:
        await call.say("my name is ann and how is the weather")
        await call.say("i like green tea")
        await call.say("what is my name")
        for number in range(len(call.server.requests)):
            roles = [str(each["role"]) for each in call.messages(number)]
            calling = sum("tool_calls" in each for each in call.messages(number))
            assert roles.count("tool") == calling, "a tool call was sent without its result, or the reverse"

    (call,) = in_calls(
        memory.processor,
        calls_it,
        policies=[Calls()],
        tools=ToolsSchema(standard_tools=[weather]),
        functions={"get_weather": get_weather},
    )
    assert not any("eve" in text.casefold() or "oz" in text.split() for text in _facts(call))
    assert "The user likes green tea." in _facts(call)


def a_message_of_one_service_is_left_alone(memory: MemoryUnderTest) -> None:
    """A message in one LLM service's own format stays where it is, untouched."""
    special = LLMSpecificMessage(llm="other", message={"secret": "reasoning"})

    async def talks(call: MemoryCall) -> None:
        call.context.add_message(special)
        await _introduces(call)
        await call.say("anything else")
        assert any(each is special for each in call.context.messages), "the message was removed"

    in_calls(memory.processor, talks)


def two_calls_of_one_caller_at_once_lose_nothing(memory: MemoryUnderTest) -> None:
    """The caller rings twice at the same time."""

    async def one(call: MemoryCall) -> None:
        await call.say("i'm allergic to peanuts")
        await call.say("i have a dog called biscuit")

    async def other(call: MemoryCall) -> None:
        await call.say("my name is ann")
        await call.say("i like green tea")

    in_calls(memory.processor, one, other, at_once=True)

    async def nothing(call: MemoryCall) -> None:
        await call.say("hello there")

    (call,) = in_calls(memory.processor, nothing)
    text = " ".join(_facts(call)).casefold()
    missing = [word for word in ("peanuts", "biscuit", "ann", "green tea") if word not in text]
    assert not missing, f"lost: {missing}"


def hanging_up_drains_what_is_queued(memory: MemoryUnderTest) -> None:
    """The call ends while its last turn is still to be written, on a slow engine."""

    async def hangs_up(call: MemoryCall) -> None:
        await call.say("i'm allergic to peanuts", answered=False)

    in_calls(memory.troubled(delay_secs=1.0), hangs_up)
    in_calls(memory.processor, _asks)


MEMORY_CHECKS: tuple[MemoryCheck, ...] = (
    the_recalled_block_is_in_the_request,
    a_slow_backend_delays_nothing,
    a_dead_backend_ends_no_call,
    a_backend_that_fails_once_is_asked_again,
    the_same_words_twice_are_two_turns,
    a_turn_that_was_barged_in_on_is_kept,
    a_speculative_turn_leaves_no_trace,
    a_rewritten_context_goes_on,
    a_turn_with_a_tool_call_keeps_its_pairs,
    a_message_of_one_service_is_left_alone,
    two_calls_of_one_caller_at_once_lose_nothing,
    hanging_up_drains_what_is_queued,
)
