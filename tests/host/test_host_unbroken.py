"""What a Pipecat bot does without us, it does with us: the same events, at the same times, on a clean line."""

from __future__ import annotations

from typing import Any

from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.frames.frames import LLMMessagesAppendFrame
from pipecat.processors.aggregators.llm_response_universal import (
    LLMAssistantAggregatorParams,
    LLMUserAggregatorParams,
)
from pipecat.services.llm_service import FunctionCallParams
from pipecat.turns.user_mute import MuteUntilFirstBotCompleteUserMuteStrategy
from pipecat.utils.context.llm_context_summarization import LLMAutoContextSummarizationConfig

from pipecat_voicectx.demo.espeak_tts import EspeakTTSService
from pipecat_voicectx.testing.openai_server import ChatRequest, Reply, ToolCall
from pipecat_voicectx.testing.scripted_session import Outcome, Script, Session, default_user_params, play
from pipecat_voicectx.voice_context import VoiceContextConfig

WEATHER = FunctionSchema(
    name="get_weather",
    description="The weather of a place.",
    properties={"place": {"type": "string"}},
    required=[],
)


class Echo:
    """Answers with the number of the user message it answers."""

    def reply(self, request: ChatRequest) -> Reply:
        users = [message for message in request.messages if message["role"] == "user"]
        return Reply(text=f"This is answer number {len(users)}. It has two sentences.", first_token_secs=0.2)


class CallsWeather:
    """Calls the application's tool on a user message, answers on its result."""

    def reply(self, request: ChatRequest) -> Reply:
        last = next(m for m in reversed(request.messages) if m["role"] in ("user", "tool"))
        if last["role"] == "user" and "weather" in str(last["content"]):
            return Reply(tool_calls=(ToolCall(name="get_weather", arguments={"place": "Ghent"}),))
        return Reply(text="It is sunny in Ghent." if last["role"] == "tool" else "All right.")


def both(script: Script, policy: Any, **options: Any) -> tuple[Outcome, Outcome]:
    return tuple(play(script, policy, ours=ours, tts=EspeakTTSService, **options) for ours in (False, True))  # type: ignore[return-value]


def assert_same_events(ours: Outcome, bare: Outcome) -> None:
    """The same events in the same order; times may differ by one tick of the output track (10 ms).

    One event is meant to come later: the end of an assistant turn carries what was heard, so it waits for the end of
    playback, where stock reports the generated text while the bot still speaks. Its text must be the same.
    """
    (our_events, our_answers), (bare_events, bare_answers) = (_apart(outcome) for outcome in (ours, bare))
    assert [what for _, what in our_events] == [what for _, what in bare_events]
    shifts = [abs(a - b) for (a, _), (b, _) in zip(our_events, bare_events, strict=True)]
    assert max(shifts) <= 0.0101
    assert our_answers == bare_answers


def _apart(outcome: Outcome) -> tuple[list[tuple[float, str]], list[str]]:
    events = [event for event in outcome.log.events if not event[1].startswith("assistant:")]
    return events, outcome.log.kinds("assistant")


def requests_of(outcome: Outcome) -> list[list[tuple[str, str]]]:
    """(role, content) of each request, without our blocks."""
    session = outcome.session
    return [
        [(str(m["role"]), str(m.get("content"))) for m in session.sent(index)]
        for index in range(len(outcome.requests))
    ]


def test_two_turns_have_the_same_events_at_the_same_times_and_the_same_requests() -> None:
    async def script(session: Session) -> None:
        await session.say("hello there")
        await session.answered()
        await session.say("and one more thing")
        await session.answered()

    bare, ours = both(script, Echo())
    assert bare.log.kinds("user_turn_stopped") == [
        "user_turn_stopped: hello there",
        "user_turn_stopped: and one more thing",
    ]
    assert_same_events(ours, bare)
    assert requests_of(ours) == requests_of(bare)
    assert ours.log.errors == bare.log.errors == []


def test_a_tool_call_is_executed_once_and_its_result_reaches_the_model() -> None:
    calls: list[str] = []

    async def get_weather(params: FunctionCallParams) -> None:
        calls.append(str(params.arguments["place"]))
        await params.result_callback({"sky": "sunny"})

    async def script(session: Session) -> None:
        await session.say("how is the weather")
        await session.answered()

    bare, ours = both(
        script,
        CallsWeather(),
        tools=ToolsSchema(standard_tools=[WEATHER]),
        functions={"get_weather": get_weather},
    )
    assert calls == ["Ghent", "Ghent"]
    assert_same_events(ours, bare)
    assert [len(request) for request in requests_of(ours)] == [len(request) for request in requests_of(bare)]
    assert "get_weather" in ours.requests[0].tools


def test_an_interruption_cancels_the_same_answer_at_the_same_time() -> None:
    async def script(session: Session) -> None:
        await session.say("tell me everything")
        await session.speaking()
        await session.listen(0.8)
        session.bot_speaking.clear()
        await session.say("stop")
        await session.answered()

    bare, ours = both(script, Echo(), config=VoiceContextConfig(speech_start=None))
    timed = ("user_turn_started", "user_turn_stopped", "InterruptionFrame", "BotStartedSpeakingFrame")
    assert [e for e in ours.log.events if e[1].split(":")[0] in timed] == [
        e for e in bare.log.events if e[1].split(":")[0] in timed
    ]
    assert len(ours.requests) == len(bare.requests) == 2
    assert ours.log.errors == []


def test_an_interruption_that_must_not_be_a_cough_cancels_half_a_second_later() -> None:
    async def script(session: Session) -> None:
        await session.say("tell me everything")
        await session.speaking()
        await session.listen(0.8)
        session.bot_speaking.clear()
        await session.say("stop")
        await session.answered()

    bare, ours = (
        [at for at, what in outcome.log.events if what == "InterruptionFrame"]
        for outcome in both(script, Echo())
    )
    assert [round(late, 2) for late in (ours[0] - bare[0], ours[1] - bare[1])] == [0.0, 0.5]
    assert len(ours) == len(bare) == 2


def test_a_muted_user_stays_muted() -> None:
    def params() -> LLMUserAggregatorParams:
        made = default_user_params()
        made.user_mute_strategies = [MuteUntilFirstBotCompleteUserMuteStrategy()]
        return made

    async def script(session: Session) -> None:
        await session.say("am I heard before you spoke")
        await session.listen(2.0)
        await session.worker.queue_frame(
            LLMMessagesAppendFrame(messages=[{"role": "user", "content": "greet"}], run_llm=True)
        )
        await session.answered()
        await session.say("and now")
        await session.answered()

    bare, ours = both(script, Echo(), user_params=params)
    assert bare.log.kinds("user_turn_stopped") == ["user_turn_stopped: and now"]
    assert_same_events(ours, bare)


def test_messages_the_application_appends_reach_the_model_and_stay() -> None:
    async def script(session: Session) -> None:
        await session.say("hello")
        await session.answered()
        note = {"role": "developer", "content": "The caller is a gold member."}
        await session.worker.queue_frame(LLMMessagesAppendFrame(messages=[note], run_llm=False))
        for number in range(4):
            await session.say(f"question number {number}")
            await session.answered()

    ours = play(script, Echo(), ours=True, tts=EspeakTTSService)
    assert any(message.get("content") == "The caller is a gold member." for message in ours.session.sent())
    assert ours.log.errors == []


def test_pipecat_s_own_summarization_beside_ours_never_breaks_a_request() -> None:
    class Summarizes(Echo):
        def reply(self, request: ChatRequest) -> Reply:
            if not any(
                message["role"] == "user" and "question" in str(message["content"])
                for message in request.messages
            ):
                return Reply(text="A summary.")
            return super().reply(request)

    params = LLMAssistantAggregatorParams(
        enable_auto_context_summarization=True,
        auto_context_summarization_config=LLMAutoContextSummarizationConfig(
            max_context_tokens=None, max_unsummarized_messages=6
        ),
    )

    async def script(session: Session) -> None:
        for number in range(6):
            await session.say(f"question number {number}")
            await session.answered()

    bare, ours = both(script, Summarizes(), assistant_params=params)
    assert ours.log.kinds("user_turn_stopped") == [
        f"user_turn_stopped: question number {n}" for n in range(6)
    ]
    assert ours.log.errors == bare.log.errors == []
    for outcome in (bare, ours):
        assert any("Conversation summary" in str(message) for message in outcome.messages)
    asked = [request for request in requests_of(ours) if request[-1][0] == "user"]
    assert any("question number 5" in request[-1][1] for request in asked)
