"""Beside others that edit the context: what is sent stays valid, theirs stays theirs, and nothing is remembered twice.

The scripted server refuses a history in which a tool call lacks its result, as the real API does, so every test here
also says that no call was split from its result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.flows import ContextStrategy, ContextStrategyConfig, FlowManager, FlowsFunctionSchema, NodeConfig
from pipecat.frames.frames import LLMMessagesAppendFrame, LLMMessagesUpdateFrame
from pipecat.processors.aggregators.llm_context import LLMSpecificMessage
from pipecat.processors.aggregators.llm_response_universal import LLMAssistantAggregatorParams
from pipecat.services.llm_service import FunctionCallParams
from pipecat.utils.context.llm_context_summarization import LLMAutoContextSummarizationConfig

from pipecat_voicectx.demo.espeak_tts import EspeakTTSService
from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.processors.memory_settings import MemoryProjectorConfig
from pipecat_voicectx.testing.openai_server import ChatRequest, Reply, ToolCall
from pipecat_voicectx.testing.scripted_session import Outcome, Script, Session, play
from pipecat_voicectx.voice_context import VoiceContextConfig

CONFIG = VoiceContextConfig(facts=None, memory=MemoryProjectorConfig(keep_exchanges=1))


class Agrees:
    """Answers everything alike, and a request for a summary with one."""

    def reply(self, request: ChatRequest) -> Reply:
        if not request.tools:
            return Reply(text="The caller has a dog called Rex.")
        return Reply(text="Fine.")


class Books:
    """Calls `record_party` and `confirm` of a flow, `look_up` of an application, when the caller asks for it."""

    def reply(self, request: ChatRequest) -> Reply:
        last = next(m for m in reversed(request.messages) if m["role"] in ("user", "tool"))
        words = str(last["content"]) if last["role"] == "user" else ""
        for word, name, arguments in (
            ("two people", "record_party", {"size": 2}),
            ("that is right", "confirm", {}),
            ("look it up", "look_up", {}),
        ):
            if word in words and name in request.tool_names:
                return Reply(text="One moment.", tool_calls=(ToolCall(name=name, arguments=arguments),))
        return Reply(text="Fine.")


def ours(script: Script, policy: Any, *, config: VoiceContextConfig = CONFIG, **options: Any) -> Outcome:
    outcome = play(script, policy, ours=True, tts=EspeakTTSService, config=config, **options)
    assert outcome.log.errors == []
    return outcome


def pages(outcome: Outcome) -> list[VoicePage]:
    assert outcome.session.voice is not None
    memory = outcome.session.voice.memory
    assert memory is not None
    return sorted(memory.memory.pages.values(), key=lambda page: page.index)


def contents(messages: Sequence[Any], role: str) -> list[str]:
    return [str(message.get("content")) for message in messages if message["role"] == role]


async def talk(session: Session, *texts: str) -> None:
    for text in texts:
        await session.say(text)
        await session.answered()


def node(name: str, *functions: FlowsFunctionSchema, reset: bool = False) -> NodeConfig:
    made = NodeConfig(
        name=name,
        task_messages=[{"role": "developer", "content": f"Task: {name}."}],
        functions=list(functions),
        respond_immediately=False,
    )
    if reset:
        made["context_strategy"] = ContextStrategyConfig(strategy=ContextStrategy.RESET)
    return made


def flow_function(name: str, next_node: Any, properties: dict[str, Any]) -> FlowsFunctionSchema:
    async def handler(args: Any, manager: FlowManager) -> tuple[Any, Any]:
        return {"status": "ok"}, next_node

    return FlowsFunctionSchema(
        name=name, description=name, properties=properties, required=list(properties), handler=handler
    )


def test_flows_of_pipecat_keep_their_tasks_and_functions_through_a_long_call() -> None:
    last = node("say goodbye", reset=True)
    confirm = flow_function("confirm", last, {})
    second = node("confirm the table", confirm)
    record = flow_function("record_party", second, {"size": {"type": "integer"}})

    async def script(session: Session) -> None:
        assert session.voice is not None
        manager = FlowManager(
            llm=session.llm, context_aggregator=session.voice.aggregators, worker=session.worker
        )
        await manager.initialize(node("ask for the party", record))
        await session.listen(0.5)
        await talk(
            session, "we bring a dog called rex", "tell me a joke", "another joke", "we are two people"
        )
        await talk(session, "once more please", "that is right", "what is the name of the dog")

    outcome = ours(script, Books())
    requests = outcome.requests
    asked = [contents(request.messages, "user")[-1] for request in requests]
    recorded = asked.index("we are two people")
    # In the first node: its task and its function are there although three exchanges have left the window.
    assert "Task: ask for the party." in contents(requests[recorded].messages, "developer")
    assert {"record_party", "recall", "set_response_speed"} <= set(requests[recorded].tools)
    # In the second: both tasks (a flow appends by default) and the new function beside ours.
    confirmed = asked.index("that is right")
    tasks = contents(requests[confirmed].messages, "developer")
    assert [task for task in tasks if task.startswith("Task")] == [
        "Task: ask for the party.",
        "Task: confirm the table.",
    ]
    assert {"confirm", "recall", "set_response_speed"} <= set(requests[confirmed].tools)
    assert "record_party" not in requests[confirmed].tools
    # After a reset: what the flow threw out of the window is remembered.
    sent = "\n".join(contents(requests[-1].messages, "developer"))
    assert "Task: say goodbye." in sent
    assert "Task: ask" not in sent
    assert "User: we bring a dog called rex" in sent
    texts = [page.user_text for page in pages(outcome)]
    assert texts[0] == "we bring a dog called rex"
    assert len(texts) == 7


def test_a_context_that_is_replaced_whole_is_sent_as_it_is_and_what_was_said_is_remembered() -> None:
    mine = [
        {"role": "developer", "content": "You sell umbrellas now."},
        {"role": "user", "content": "An example question."},
        {"role": "assistant", "content": "An example answer."},
    ]

    async def script(session: Session) -> None:
        await talk(session, "my dog is called rex", "tell me a joke", "another joke")
        await session.worker.queue_frame(LLMMessagesUpdateFrame(messages=list(mine)))
        await session.listen(0.3)
        await talk(session, "what is the name of my dog", "and how old is it", "thank you")

    outcome = ours(script, Agrees())
    sent = outcome.session.sent(3)
    assert sent[1:4] == mine or sent[:3] == mine
    assert "User: my dog is called rex" in str(outcome.requests[3].messages)
    # It is the application's for good: three turns later it still stands.
    assert [m for m in outcome.session.sent(-1) if m in mine] == mine
    assert [page.user_text for page in pages(outcome)] == [
        "my dog is called rex",
        "tell me a joke",
        "another joke",
        "what is the name of my dog",
        "and how old is it",
        "thank you",
    ]


def test_pipecat_s_summary_stays_and_is_not_taken_for_words_of_the_caller() -> None:
    params = LLMAssistantAggregatorParams(
        enable_auto_context_summarization=True,
        auto_context_summarization_config=LLMAutoContextSummarizationConfig(
            max_context_tokens=None, max_unsummarized_messages=6
        ),
    )
    texts = ["my dog is called rex", "tell me a joke", "another joke", "and one more", "a last one", "enough"]

    async def script(session: Session) -> None:
        await talk(session, *texts)

    # The default window: a smaller one leaves Pipecat nothing to summarize.
    outcome = ours(script, Agrees(), assistant_params=params, config=VoiceContextConfig(facts=None))
    summaries = [text for text in contents(outcome.messages, "user") if "Rex" in text]
    assert len(summaries) == 1
    assert [page.user_text for page in pages(outcome)] == texts


def test_messages_appended_between_turns_stay_and_are_not_the_caller_s() -> None:
    async def script(session: Session) -> None:
        await talk(session, "hello there")
        note = {"role": "developer", "content": "The caller is a gold member."}
        await session.worker.queue_frame(LLMMessagesAppendFrame(messages=[note], run_llm=True))
        await session.answered()
        await talk(session, "tell me a joke", "another joke", "and one more")

    outcome = ours(script, Agrees())
    assert "The caller is a gold member." in contents(outcome.requests[-1].messages, "developer")
    assert [page.user_text for page in pages(outcome)] == [
        "hello there",
        "tell me a joke",
        "another joke",
        "and one more",
    ]


def test_application_code_that_takes_messages_out_and_puts_its_own_in_is_respected() -> None:
    own = {"role": "developer", "content": "Only today: free umbrellas."}

    async def script(session: Session) -> None:
        await talk(session, "my dog is called rex", "tell me a joke")

        def edited(messages: list[Any]) -> list[Any]:
            return [own, *[m for m in messages if "joke" not in str(m.get("content"))]]

        session.context.transform_messages(edited)
        await talk(session, "another question", "and one more", "thank you")

    outcome = ours(script, Agrees())
    for request in outcome.requests[2:]:
        assert request.messages.count(own) == 1
        assert "tell me a joke" not in contents(request.messages, "user")
    texts = [page.user_text for page in pages(outcome)]
    assert texts == [
        "my dog is called rex",
        "tell me a joke",
        "another question",
        "and one more",
        "thank you",
    ]


def test_a_message_in_one_service_s_own_format_stays_in_the_request() -> None:
    special = LLMSpecificMessage(llm="openai", message={"role": "assistant", "content": "In my own format."})

    async def script(session: Session) -> None:
        await talk(session, "hello there")
        session.context.add_message(special)
        await talk(session, "tell me a joke", "another joke", "and one more")

    outcome = ours(script, Agrees())
    assert "In my own format." in contents(outcome.requests[-1].messages, "assistant")


def test_a_call_that_runs_over_several_turns_stays_with_its_late_result() -> None:
    done = asyncio.Event()

    async def look_up(params: FunctionCallParams) -> None:
        await done.wait()
        await params.result_callback({"room": "seven"})

    async def script(session: Session) -> None:
        session.llm.register_function("look_up", look_up, cancel_on_interruption=False)
        await talk(session, "please look it up")
        await talk(session, "tell me a joke", "another joke", "and one more")
        asked = len(session.server.requests)
        assert [m for m in session.server.requests[-1].messages if m["role"] == "tool"]
        done.set()
        await session.answered()
        assert len(session.server.requests) > asked
        await talk(session, "thank you", "and goodbye", "really goodbye")

    schema = FunctionSchema(name="look_up", description="Looks it up.", properties={}, required=[])
    outcome = ours(script, Books(), tools=ToolsSchema(standard_tools=[schema]))
    texts = [page.user_text for page in pages(outcome)]
    assert texts[0] == "please look it up"
    assert len(texts) == 7
    assert not [page for page in pages(outcome) if "seven" in page.user_text or "async_tool" in page.bot_text]
