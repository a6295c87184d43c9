import asyncio
import json
import time

import httpx
import openai
import pytest
from openai import AsyncOpenAI

from pipecat_voicectx.testing.openai_server import (
    ApiError,
    ChatRequest,
    OpenAIServer,
    Pause,
    Reply,
    ReplyRecord,
    RequestRecord,
    ToolCall,
)
from pipecat_voicectx.testing.tokens import estimate_tokens, request_parts
from pipecat_voicectx.testing.virtual_time import run

FIND = {
    "type": "function",
    "function": {
        "name": "find_trips",
        "description": "Finds.",
        "parameters": {"type": "object", "properties": {}},
    },
}
USER = {"role": "user", "content": "Hello there"}


class Fixed:
    def __init__(self, reply: Reply | ApiError) -> None:
        self.reply_given = reply
        self.seen: list[ChatRequest] = []

    def reply(self, request: ChatRequest) -> Reply:
        self.seen.append(request)
        if isinstance(self.reply_given, ApiError):
            raise self.reply_given
        return self.reply_given


def client(server: OpenAIServer) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0)


def test_a_streamed_text_arrives_in_pieces_and_ends_with_stop_and_usage() -> None:
    async def main() -> None:
        async with OpenAIServer(Fixed(Reply(text="One two three."))) as server, client(server) as api:
            stream = await api.chat.completions.create(
                model="m", messages=[USER], stream=True, stream_options={"include_usage": True}
            )
            chunks = [chunk async for chunk in stream]
        deltas = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
        assert deltas == ["", "One", " two", " three.", None]
        assert chunks[-2].choices[0].finish_reason == "stop"
        assert chunks[-1].usage is not None
        assert chunks[-1].usage.prompt_tokens == server.requests[0].tokens > 0
        assert chunks[-1].usage.completion_tokens == estimate_tokens("One two three.")

    run(main())


def test_no_usage_chunk_unless_asked_for() -> None:
    async def main() -> None:
        async with OpenAIServer(Fixed(Reply(text="One."))) as server, client(server) as api:
            stream = await api.chat.completions.create(model="m", messages=[USER], stream=True)
            assert all([chunk.choices async for chunk in stream])

    run(main())


def test_tool_call_arguments_arrive_in_pieces_under_one_id() -> None:
    call = ToolCall(name="find_trips", arguments={"month": "October", "travellers": 2})

    async def main() -> None:
        async with OpenAIServer(Fixed(Reply(tool_calls=(call,)))) as server, client(server) as api:
            stream = await api.chat.completions.create(model="m", messages=[USER], tools=[FIND], stream=True)
            choices = [chunk.choices[0] async for chunk in stream]
        deltas = [choice.delta.tool_calls[0] for choice in choices if choice.delta.tool_calls]
        assert deltas[0].id == "call_1_0"
        assert deltas[0].function is not None
        assert deltas[0].function.name == "find_trips"
        assert len(deltas) > 3
        assert json.loads("".join(d.function.arguments or "" for d in deltas if d.function)) == call.arguments
        assert choices[-1].finish_reason == "tool_calls"

    run(main())


def test_without_streaming_one_whole_message_is_returned() -> None:
    call = ToolCall(name="find_trips", arguments={})

    async def main() -> None:
        async with (
            OpenAIServer(Fixed(Reply(text="Let me see.", tool_calls=(call,)))) as server,
            client(server) as api,
        ):
            completion = await api.chat.completions.create(model="m", messages=[USER], tools=[FIND])
        message = completion.choices[0].message
        assert message.content == "Let me see."
        assert message.tool_calls is not None
        assert message.tool_calls[0].function.name == "find_trips"
        assert completion.usage is not None

    run(main())


def test_a_policys_refusal_reaches_the_client_as_its_own_error_class() -> None:
    async def main() -> None:
        refusal = ApiError(429, "Rate limit reached", kind="tokens", code="rate_limit_exceeded")
        async with OpenAIServer(Fixed(refusal)) as server, client(server) as api:
            with pytest.raises(openai.RateLimitError, match="Rate limit reached") as caught:
                await api.chat.completions.create(model="m", messages=[USER], stream=True)
        assert caught.value.code == "rate_limit_exceeded"

    run(main())


CALLING = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "find_trips", "arguments": "{}"}}],
}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "{}"}


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([], "messages"),
        ([{"role": "caller", "content": "x"}], "messages\\[0\\].role"),
        ([USER, RESULT], "must be a response to a preceding message"),
        ([USER, CALLING, USER], "did not have response messages: c1"),
        ([USER, CALLING], "did not have response messages: c1"),
        ([USER, CALLING, RESULT, RESULT], "must be a response to a preceding message"),
    ],
)
def test_a_history_the_real_api_refuses_is_refused(messages: list[dict[str, object]], complaint: str) -> None:
    async def main() -> None:
        policy = Fixed(Reply(text="x"))
        async with OpenAIServer(policy) as server, client(server) as api:
            with pytest.raises(openai.BadRequestError, match=complaint):
                await api.chat.completions.create(model="m", messages=messages)
        assert policy.seen == []

    run(main())


def test_a_tool_call_followed_by_its_result_is_accepted() -> None:
    async def main() -> None:
        policy = Fixed(Reply(text="Done."))
        async with OpenAIServer(policy) as server, client(server) as api:
            await api.chat.completions.create(model="m", messages=[USER, CALLING, RESULT], tools=[FIND])
        assert policy.seen[0].tool_names == {"find_trips"}

    run(main())


@pytest.mark.parametrize("body", [b"{not json", b"[]", b'{"messages": []}', b'{"model": "m", "messages": 3}'])
def test_a_body_that_is_no_request_is_answered_with_400(body: bytes) -> None:
    async def main() -> None:
        async with OpenAIServer(Fixed(Reply())) as server, httpx.AsyncClient() as raw:
            response = await raw.post(f"{server.base_url}/chat/completions", content=body)
        assert response.status_code == 400
        assert response.json()["error"]["type"] == "invalid_request_error"

    run(main())


def test_delays_follow_the_loops_clock() -> None:
    reply = Reply(
        text="a b c d", first_token_secs=0.5, token_secs=0.25, pause=Pause(after_words=2, secs=10.0)
    )

    async def main() -> list[float]:
        async with OpenAIServer(Fixed(reply)) as server, client(server) as api:
            begin = time.monotonic()
            stream = await api.chat.completions.create(model="m", messages=[USER], stream=True)
            return [time.monotonic() - begin async for chunk in stream if chunk.choices[0].delta.content]

    assert run(main()) == pytest.approx([0.5, 0.75, 11.0, 11.25], abs=0.02)


def test_a_client_that_hangs_up_ends_the_reply_where_it_was() -> None:
    replies: list[ReplyRecord] = []
    reply = Reply(text="a b c d e f", token_secs=1.0)

    async def main() -> None:
        async with OpenAIServer(Fixed(reply), on_reply=replies.append) as server, client(server) as api:
            stream = await api.chat.completions.create(model="m", messages=[USER], stream=True)
            async for chunk in stream:
                if chunk.choices[0].delta.content == " c":
                    break
            await stream.close()
            await asyncio.sleep(2)

    run(main())
    assert not replies[0].complete
    assert replies[0].text.startswith("a b c")
    assert "f" not in replies[0].text


def test_requests_are_recorded_with_their_parts() -> None:
    records: list[RequestRecord] = []
    messages = [
        {"role": "system", "content": "You are Ada."},
        USER,
        {"role": "developer", "content": "<recalled_context>\nshe likes trains\n</recalled_context>"},
        {"role": "user", "content": "<voice_state> 225 WPM </voice_state>"},
    ]

    async def main() -> None:
        async with (
            OpenAIServer(Fixed(Reply(text="x")), on_request=records.append) as server,
            client(server) as api,
        ):
            await api.chat.completions.create(model="m", messages=messages, tools=[FIND])

    run(main())
    assert records[0].n == 1
    assert records[0].tools == ("find_trips",)
    assert all(records[0].parts[part] > 4 for part in ("system", "tools", "history", "recalled", "state"))
    assert records[0].tokens == sum(records[0].parts.values())


def test_english_prose_costs_about_four_tokens_to_three_words() -> None:
    prose = (
        "I would like a short trip in October for two people, and it has to stay under nine hundred euros."
    )
    assert 1.0 <= estimate_tokens(prose) / len(prose.split()) <= 1.4


def test_json_costs_its_punctuation_and_digits() -> None:
    assert estimate_tokens('{"total_price": 1180}') >= 7


def test_other_scripts_are_not_undercounted() -> None:
    assert estimate_tokens("我想在十月旅行") >= 4


def test_tool_calls_and_content_lists_count_as_history() -> None:
    listed = {"role": "user", "content": [{"type": "text", "text": "Hello there"}]}
    assert request_parts([listed], []) == request_parts([USER], [])
    assert request_parts([CALLING], [])["history"] > 10
