"""Whole calls with the scripted Realtime server, over a real WebSocket: what it is told, what it is asked for."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.frames.frames import LLMMessagesAppendFrame
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.services.llm_service import FunctionCallParams
from pipecat.services.openai.realtime import events
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService

from pipecat_voicectx.orchestrator.directives import Directive, SetVadSilenceDuration
from pipecat_voicectx.testing.realtime_call import RealtimeCall, play_call, spoken
from pipecat_voicectx.testing.realtime_script import Reply, ScriptedCall, ServerItem
from pipecat_voicectx.testing.realtime_server import RealtimeServer
from pipecat_voicectx.voice_context import VoiceContextConfig

ANSWER = "The first one is the Alder desk with three drawers."


def answering(*replies: Reply, **options: Any) -> RealtimeServer:
    return RealtimeServer(replies=list(replies), reply_by=lambda _server: [spoken(ANSWER)], **options)


def function(name: str, **arguments: object) -> ScriptedCall:
    return ScriptedCall(name=name, arguments=json.dumps(arguments))


def outputs(server: RealtimeServer) -> list[dict[str, Any]]:
    items = [event["item"] for event in server.of("conversation.item.create")]
    return [json.loads(item["output"]) for item in items if item["type"] == "function_call_output"]


def block(items: list[ServerItem], tag: str) -> list[int]:
    return [place for place, item in enumerate(items) if item.transcript.startswith(f"<{tag}>")]


def silences(server: RealtimeServer) -> list[int]:
    detections = [
        event["session"].get("audio", {}).get("input", {}).get("turn_detection")
        for event in server.of("session.update")
    ]
    return [detection["silence_duration_ms"] for detection in detections if detection]


def healthy(call: RealtimeCall) -> None:
    assert call.server.violations == []
    assert call.errors == []
    assert call.link.failures == call.link.socket.failures == call.link.socket.errors == 0


def test_a_call_runs_from_greeting_to_answers_and_the_context_says_what_was_heard() -> None:
    async def script(call: RealtimeCall) -> None:
        await call.begin()
        await call.answered()
        await call.say("Which furniture is there?")
        await call.answered()

    call = play_call(script, answering([spoken("Hello there.")]))
    healthy(call)
    said = [(message["role"], message["content"]) for message in call.context.messages]  # type: ignore[index,typeddict-item]
    assert [pair for pair in said if pair[0] != "developer"] == [
        ("assistant", "Hello there."),
        ("user", "Which furniture is there?"),
        ("assistant", ANSWER),
    ]


def test_the_four_functions_are_among_the_session_s_tools_beside_the_application_s() -> None:
    async def script(call: RealtimeCall) -> None:
        await call.begin()
        await call.answered()

    call = play_call(script, answering())
    healthy(call)
    names = {tool["name"] for tool in call.server.session["tools"]}
    assert {
        "set_response_instruction",
        "set_response_speed",
        "defer_response",
        "set_vad_silence_duration",
    } <= names


def test_a_speed_takes_effect_with_the_next_answer_and_is_never_sent_within_one() -> None:
    async def script(call: RealtimeCall) -> None:
        await call.begin()
        await call.answered()
        await call.say("Please speak more slowly.")
        await call.answered()
        await call.say("Thank you.")
        await call.answered()

    server = answering([spoken("Hello.")], [function("set_response_speed", words_per_minute=150)])
    call = play_call(script, server)
    healthy(call)
    assert server.errors == []
    # The answer that called is followed by the one that speaks, at 0.8 + (150 - 142.4) / 124.6 * 0.7.
    assert server.speeds == pytest.approx([1.0, 1.0, 0.84, 0.84], abs=0.005)
    assert outputs(server)[0]["status"] == "ok"
    assert outputs(server)[0]["words_per_minute"] == pytest.approx(150, abs=1)


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("set_response_speed", {"words_per_minute": 900}, "out_of_range"),
        ("set_vad_silence_duration", {"ms": "long"}, "wrong_type"),
    ],
)
def test_a_malformed_call_changes_nothing_and_is_answered(
    name: str, arguments: dict[str, object], error: str
) -> None:
    async def script(call: RealtimeCall) -> None:
        await call.begin()
        await call.answered()
        await call.say("Faster.")
        await call.answered()

    server = answering([spoken("Hello.")], [function(name, **arguments)])
    call = play_call(script, server)
    healthy(call)
    assert outputs(server)[0]["error"] == error
    assert set(server.speeds) == {1.0}
    assert silences(server) == []


def test_states_stand_in_front_of_the_user_s_words_without_a_request_more() -> None:
    async def script(call: RealtimeCall) -> None:
        await call.begin()
        await call.answered()
        for words in ("one two", "three four"):
            await call.say(words, secs=2.0)
            await call.answered()

    server = answering([spoken("Hello.")])
    call = play_call(script, server)
    healthy(call)
    assert len(server.of("response.create")) == 1  # the greeting
    items = server.read[-1]
    (place,) = block(items, "voice_state")
    assert items[place + 1].role == "user"
    assert place == len(items) - 2


def test_the_silence_the_model_asks_for_reaches_turn_detection_and_goes_back_by_itself() -> None:
    async def script(call: RealtimeCall) -> None:
        await call.begin()
        await call.answered()
        await call.say("I will read out a number.")
        await call.answered()
        await asyncio.sleep(31)

    server = answering([spoken("Hello.")], [function("set_vad_silence_duration", ms=1500)])
    call = play_call(script, server)
    healthy(call)
    assert silences(server) == [1500, 500]
    assert server.turn_detection["silence_duration_ms"] == 500
    assert server.turn_detection["create_response"] is True


def test_on_a_bad_line_one_answer_is_given_to_both_parts_of_what_the_user_said() -> None:
    seen: list[Directive] = []

    async def script(call: RealtimeCall) -> None:
        @call.voice.event_handler("on_directive")
        async def on_directive(_orchestrator: object, directive: Directive) -> None:
            seen.append(directive)

        await call.begin()
        await call.answered()
        await call.line(good=False)
        await asyncio.sleep(0.3)
        await call.line(good=False)
        assert call.server.turn_detection["create_response"] is False
        call.microphone = False  # the line breaks: the turn detection takes it for the end of the turn
        await call.server.user_speaks(ago_secs=0.2)
        await call.server.user_stops("Please book the train to")
        await asyncio.sleep(0.6)
        assert len(call.server.read) == 1
        call.microphone = True
        await call.say("Ghent on Friday.")
        await call.answered()

    server = answering([spoken("Hello.")])
    call = play_call(script, server)
    healthy(call)
    assert len(server.read) == 2
    said = [item.transcript for item in server.read[-1] if item.role == "user"]
    assert said == ["Please book the train to", "Ghent on Friday."]
    assert not any(
        isinstance(directive, SetVadSilenceDuration) and directive.duration_ms is None for directive in seen
    )


def test_an_answer_is_held_five_seconds_at_most() -> None:
    waited: list[float] = []

    async def script(call: RealtimeCall) -> None:
        await call.begin()
        await call.answered()
        await call.line(good=False)
        call.microphone = False
        await call.server.user_speaks(ago_secs=0.2)
        await call.server.user_stops("Hello?")
        stopped_secs = time.monotonic()
        async with asyncio.timeout(12):
            await call.bot_speaking.wait()
        waited.append(time.monotonic() - stopped_secs)
        await call.answered()

    call = play_call(script, answering([spoken("Hello.")]))
    assert call.server.violations == []
    assert 0.5 < waited[0] < 6.5


def test_when_the_line_is_good_again_the_server_answers_by_itself() -> None:
    async def script(call: RealtimeCall) -> None:
        await call.begin()
        await call.answered()
        await call.line(good=False)
        await call.line(good=True)
        await call.say("Still there?")
        await call.answered()

    server = answering([spoken("Hello.")])
    call = play_call(script, server)
    healthy(call)
    assert len(server.of("response.create")) == 1
    assert server.turn_detection["create_response"] is True
    assert len(server.read) == 2


def test_the_model_may_wait_and_is_asked_again_when_its_time_is_over() -> None:
    async def script(call: RealtimeCall) -> None:
        await call.begin()
        await call.answered()
        await call.say("Please book the train to")
        await call.answered()

    server = answering([spoken("Hello.")], [function("defer_response", reason="cut off")])
    call = play_call(script, server)
    healthy(call)
    assert outputs(server) == [{"status": "deferred"}]
    assert len(server.read) == 3
    (place,) = block(server.read[-1], "voice_state")
    assert "Answer now" in server.read[-1][place].transcript


def test_the_server_s_conversation_stays_bounded_and_the_rest_is_recalled() -> None:
    async def script(call: RealtimeCall) -> None:
        await call.begin()
        await call.answered()
        for number in range(9):
            await call.say(f"Remember that item {number} is called Zebra{number}.")
            await call.answered()

    server = answering([spoken("Hello.")])
    call = play_call(script, server)
    healthy(call)
    sizes = [len(items) for items in server.read]
    assert max(sizes) <= 12
    assert sizes[-1] == sizes[-2] == sizes[-3]
    assert len(block(server.items, "recalled_context")) == 1
    assert call.link.items.deleted >= 10


def test_tool_calls_leave_with_their_results_and_the_application_s_items_stay() -> None:
    async def look_up(params: FunctionCallParams) -> None:
        await params.result_callback({"price": 12})

    async def script(call: RealtimeCall) -> None:
        await call.begin()
        await call.answered()
        note = {"role": "developer", "content": "The shop closes at six."}
        await call.llm.queue_frame(LLMMessagesAppendFrame([note], run_llm=False))
        for number in range(7):
            call.server.replies.append([function("look_up", thing=f"thing {number}")])
            await call.say(f"What does thing {number} cost?")
            await call.answered()

    schema = FunctionSchema(
        name="look_up", description="", properties={"thing": {"type": "string"}}, required=[]
    )
    server = answering([spoken("Hello.")])
    context = LLMContext(tools=ToolsSchema(standard_tools=[schema]))
    call = play_call(script, server, context=context, functions={"look_up": look_up})
    healthy(call)
    assert [item for item in server.items if item.transcript == "The shop closes at six."]
    called = {item.call_id for item in server.items if item.role == "function_call"}
    answered = {item.call_id for item in server.items if item.role == "function_call_output"}
    assert called == answered
    # Four exchanges, and the one that leaves while the newest is being answered.
    assert 0 < len(called) <= 5


def test_azure_s_service_is_served_alike() -> None:
    from pipecat.services.azure.realtime.llm import AzureRealtimeLLMService

    from pipecat_voicectx.processors.speech_to_speech import SpeechToSpeech

    service = AzureRealtimeLLMService(api_key="none", base_url="wss://localhost/openai/v1/realtime")
    speech = SpeechToSpeech.of(service)
    assert speech is not None
    assert len(speech.processors(orchestrator=None, ledger=None, remembers=True, holds=True)) == 1


def test_with_the_server_s_turn_detection_off_turns_are_pipecat_s() -> None:
    async def script(call: RealtimeCall) -> None:
        await call.begin()
        await call.answered()
        await call.line(good=False)

    off = events.SessionProperties(
        audio=events.AudioConfiguration(input=events.AudioInput(turn_detection=False))
    )
    call = play_call(
        script,
        answering(),
        settings=OpenAIRealtimeLLMService.Settings(session_properties=off),
        config=VoiceContextConfig(),
    )
    assert call.server.violations == []
    assert not call.link.settings.detects_turns
    assert silences(call.server) == []
