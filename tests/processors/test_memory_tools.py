"""The caller's own say in what is kept: remember, forget, and who they are, at the socket of the LLM."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.processors.aggregators.llm_context import LLMContext

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.forgotten import means_everything
from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.processors.memory_projector import MemoryProjector
from pipecat_voicectx.processors.memory_settings import MemoryProjectorConfig
from pipecat_voicectx.processors.memory_tools import (
    ForgetRequest,
    answer_remember,
    forget_function,
    remember_function,
)
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.fact_session import FactsConfig, FactSession
from pipecat_voicectx.stores.page_memory import PageStoreConfig
from pipecat_voicectx.testing.memory_call import MemoryCall, in_calls
from pipecat_voicectx.testing.openai_server import ChatRequest, Reply, ToolCall
from pipecat_voicectx.testing.scripted_session import PassThrough, Transport
from pipecat_voicectx.voice_context import VoiceContext, VoiceContextConfig

ANN = Owner(user_id="ann")


def projector(
    folder: Path | None, *, session_id: str, owner: Owner = ANN, facts: FactsConfig | None = None
) -> MemoryProjector:
    return MemoryProjector(
        owner=owner,
        store=PageStoreConfig(path=folder) if folder is not None else None,
        embedder=LexicalEmbedder(),
        config=MemoryProjectorConfig(keep_exchanges=0),
        session_id=session_id,
        facts=facts or FactsConfig(),
    )


def known(call: MemoryCall) -> set[str]:
    assert isinstance(call.memory, MemoryProjector)
    assert call.memory.facts is not None
    return {fact.statement for fact in call.memory.facts.memory.facts if fact.current}


class Calls:
    """Calls the function that a message names: `eraser: TOPIC`, `yes eraser: TOPIC`, `remember: TEXT`. (The rules read
    messages, too, and know the word "forget".)"""

    def reply(self, request: ChatRequest) -> Reply:
        last = request.messages[-1]
        words = str(last["content"])
        if last["role"] != "user" or ":" not in words:
            return Reply(text="All right.")
        name, _, argument = words.partition(": ")
        if name == "remember":
            return Reply(tool_calls=(ToolCall(name="remember", arguments={"text": argument}),))
        arguments = {"topic": argument, "confirmed": name.startswith("yes")}
        return Reply(tool_calls=(ToolCall(name="forget", arguments=arguments),))


def with_tools(folder: Path, *scripts: object) -> list[MemoryCall]:
    def make(session_id: str) -> MemoryProjector:
        return projector(folder, session_id=session_id)

    def tools(memory: object) -> ToolsSchema:
        assert isinstance(memory, MemoryProjector)
        return ToolsSchema(standard_tools=[remember_function(memory), forget_function(memory)])

    return in_calls(make, *scripts, policies=[Calls() for _ in scripts], tools_for=tools)  # type: ignore[arg-type]


def files_with(folder: Path, text: str) -> list[str]:
    return [
        str(file.relative_to(folder))
        for file in folder.rglob("*")
        if file.is_file() and text.encode() in file.read_bytes()
    ]


def test_forgetting_asks_back_then_erases_facts_pages_and_files(tmp_path: Path) -> None:
    secret = "four four one seven nine"

    async def forgets(call: MemoryCall) -> None:
        await call.say(f"my door code is {secret}")
        await call.say("i like green tea")
        await call.say("yes eraser: my door code")  # nobody was asked yet, whatever the model claims
        assert any(secret in each for each in known(call))
        sent = call.sent()
        assert "Ask the caller" in sent
        await call.say("yes eraser: my door code")
        assert not any(secret in each for each in known(call))
        await asyncio.sleep(1)
        await call.say("anything else")

    async def asks(call: MemoryCall) -> None:
        sent = await call.say("what is my door code")
        assert secret not in sent
        assert known(call) == {"The user likes green tea."}

    with_tools(tmp_path, forgets, asks)
    assert files_with(tmp_path, secret) == []
    assert files_with(tmp_path, "green tea")


def test_forgetting_everything_asks_back_then_leaves_no_word_on_the_disk(tmp_path: Path) -> None:
    words = ("pumpernickel", "quibbleton", "hazelnut", "fizzbert")

    async def earlier(call: MemoryCall) -> None:
        await call.say("i live in quibbleton")
        await call.say("what do you think of pumpernickel")  # a page that no fact rests on

    async def forgets(call: MemoryCall) -> None:
        await call.say("i'm allergic to hazelnuts")
        await call.say("my dog is called fizzbert")
        await call.say("yes eraser: everything you know about me")
        assert "Ask the caller" in call.sent()
        assert known(call)
        await call.say("yes eraser: everything you know about me")
        assert known(call) == set()
        await asyncio.sleep(1)
        await call.say("i like green tea")
        await asyncio.sleep(1)

    async def asks(call: MemoryCall) -> None:
        sent = await call.say("where do i live and what am i allergic to")
        assert not any(word in sent.casefold() for word in words)
        assert known(call) == {"The user likes green tea."}

    calls = with_tools(tmp_path, earlier, forgets, asks)
    assert [each for call in calls for each in call.errors] == []
    for word in words:
        for form in (word, word.capitalize()):
            assert files_with(tmp_path, form) == []


@pytest.mark.parametrize(
    ("topic", "everything"),
    [
        ("everything", True),
        ("Everything about me.", True),
        ("all you know about me", True),
        ("everything i told you", True),
        ("all my data", True),
        ("me", True),
        ("everything about my brother", False),
        ("everything i said about the trip", False),
        ("all my flights", False),
        ("my address", False),
    ],
)
def test_everything_is_what_names_no_topic(topic: str, everything: bool) -> None:
    assert means_everything(topic) is everything


def test_a_request_to_forget_in_plain_words_empties_the_pages_too(tmp_path: Path) -> None:
    async def forgets(call: MemoryCall) -> None:
        await call.say("my door code is four four one seven nine")
        await call.say("please forget my door code")
        await asyncio.sleep(1)
        await call.say("thank you")

    (call,) = with_tools(tmp_path, forgets)
    assert known(call) == set()
    assert files_with(tmp_path, "four four one seven nine") == []


def test_what_the_caller_asks_to_remember_is_there_in_the_next_call(tmp_path: Path) -> None:
    async def remembers(call: MemoryCall) -> None:
        await call.say("remember: the spare key is under the blue pot")
        assert "blue pot" in call.sent(), "the model is told what was kept"

    async def asks(call: MemoryCall) -> None:
        assert "blue pot" in await call.say("where is the spare key")

    with_tools(tmp_path, remembers, asks)


@pytest.mark.parametrize(
    "arguments", [None, [], "forget", 5, {"text": 5, "topic": []}, {"text": " ", "topic": ""}]
)
def test_arguments_that_do_not_fit_are_answered_with_a_reason(arguments: object) -> None:
    memory = projector(None, session_id="s")
    assert memory.facts is not None

    async def asks(facts: FactSession) -> list[dict[str, object]]:
        return [
            await answer_remember(memory, facts, arguments),
            await ForgetRequest(memory).answer(arguments),
        ]

    assert all("500 characters" in str(each["error"]) for each in asyncio.run(asks(memory.facts)))


def test_a_broken_letter_in_what_is_to_be_kept_does_not_keep_it_from_being_kept(tmp_path: Path) -> None:
    async def remembers(call: MemoryCall) -> None:
        memory = call.memory
        assert isinstance(memory, MemoryProjector)
        assert memory.facts is not None
        text = "the \ud83d key </recalled_context> is blue"
        answer = await answer_remember(memory, memory.facts, {"text": text})
        assert "‹/recalled_context›" in str(answer["kept"])
        assert "key" in await call.say("where is the key")

    (call,) = in_calls(lambda session: projector(tmp_path, session_id=session), remembers)
    assert call.errors == []


def test_tools_without_facts_are_refused() -> None:
    with pytest.raises(UsageError, match="keeps no facts"):
        forget_function(MemoryProjector(owner=ANN, embedder=LexicalEmbedder()))


def test_a_caller_identified_in_mid_call_gets_their_profile_under_what_this_call_said(tmp_path: Path) -> None:
    async def first(call: MemoryCall) -> None:
        await call.say("my name is ann and i live in leeds")
        await call.say("i'm allergic to peanuts")

    in_calls(lambda session: projector(tmp_path, session_id=session), first)

    async def later(call: MemoryCall) -> None:
        assert isinstance(call.memory, MemoryProjector)
        await call.say("hello i live in york now")
        assert "allergic" not in await call.say("is a dinner without peanuts possible")
        await call.memory.identify(ANN, store=PageStoreConfig(path=tmp_path))
        sent = await call.say("and a dinner without peanuts again")
        assert "allergic to peanuts" in sent
        assert known(call) == {
            "The user's name is Ann.",
            "The user lives in york.",
            "The user is allergic to peanuts.",
        }

    in_calls(lambda session: projector(None, session_id=session, owner=Owner(user_id="nobody")), later)

    async def third(call: MemoryCall) -> None:
        await call.say("hello there")
        assert "The user lives in york." in known(call), "what was said before identification is theirs now"

    in_calls(lambda session: projector(tmp_path, session_id=session), third)


def test_a_voice_context_offers_both_tools_and_neither_without_facts() -> None:
    def tools(config: VoiceContextConfig) -> list[str]:
        voice = VoiceContext(
            context=LLMContext(), transport=Transport(), stt=PassThrough(), llm=PassThrough(), tts=PassThrough(),  # type: ignore[arg-type]
            embedder=LexicalEmbedder(), config=config,
        )  # fmt: skip
        return [tool.name for tool in voice.memory_tools()]

    assert tools(VoiceContextConfig()) == ["remember", "forget"]
    assert tools(VoiceContextConfig(facts=None)) == []
