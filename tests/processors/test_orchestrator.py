from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest
from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.frames.frames import InterruptionFrame, LLMContextFrame
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.services.llm_service import FunctionCallParams
from pipecat.services.openai.llm import OpenAILLMService

from pipecat_voicectx.orchestrator.directives import (
    DeferResponse,
    DirectiveOrigin,
    SetResponseInstruction,
    SetResponseSpeed,
    SetVadSilenceDuration,
)
from pipecat_voicectx.orchestrator.functions import CallError
from pipecat_voicectx.orchestrator.modes import ControlMode
from pipecat_voicectx.processors.orchestrator import OrchestratorConfig
from pipecat_voicectx.states.network import LinkBand
from pipecat_voicectx.testing.openai_server import ChatRequest, Reply, ToolCall
from pipecat_voicectx.testing.tokens import estimate_tokens
from tests.processors.orchestrator_call import Call, Mute, Policy, play

OURS = ("defer_response", "set_response_instruction", "set_response_speed", "set_vad_silence_duration")


def text(answer: str) -> Policy:
    return lambda _request: Reply(text=answer)


def calls_once(
    *calls: tuple[str, Any], then: str = "All right.", along: str = "", call_id: str | None = None
) -> Policy:
    """Calls functions on the first request that has no result of one yet, and answers all others."""
    done: list[bool] = []

    def answer(request: ChatRequest) -> Reply:
        if done:
            return Reply(text=then)
        done.append(True)
        return Reply(
            text=along, tool_calls=tuple(ToolCall(name=n, arguments=a, call_id=call_id) for n, a in calls)
        )

    return answer


def results(call: Call, n: int = -1) -> list[dict[str, Any]]:
    return [json.loads(content) for role, content in call.texts(n) if role == "tool"]


def test_a_turn_without_anything_worth_saying_is_sent_as_it_is() -> None:
    async def scene(call: Call) -> None:
        await call.says("hello there")

    call = play(scene, text("Hi."))
    assert call.requests == 1
    assert call.texts() == [("system", "You plan trips."), ("user", "hello there")]
    assert call.server.requests[0].tools == OURS


def test_the_callers_rate_is_shown_behind_the_history_and_replaced_never_piled_up() -> None:
    async def scene(call: Call) -> None:
        await call.rate(221)
        await call.says("first question")
        await call.rate(230)
        await call.says("second question")

    call = play(scene, text("An answer."))
    assert call.requests == 2
    assert "221 wpm" in call.block(0)
    assert "178 wpm" in call.block(0)
    roles = [role for role, _ in call.texts(1)]
    assert roles == ["system", "user", "assistant", "user", "developer"]
    assert "230 wpm" in call.block(1)
    assert call.texts(1)[:2] == call.texts(0)[:2]


def test_the_block_disappears_when_nothing_is_worth_saying_any_more() -> None:
    async def scene(call: Call) -> None:
        await call.rate(221)
        await call.says("first question")
        await call.rate(180)
        await call.says("second question")

    call = play(scene, text("An answer."))
    assert call.block(0)
    assert not call.block(1)


def test_every_request_begins_with_the_bytes_of_the_one_before() -> None:
    async def scene(call: Call) -> None:
        await call.rate(221)
        await call.says("first question")
        await call.network(LinkBand.POOR, lost=0.5)
        await call.says("second question")
        await call.network(LinkBand.GOOD)
        await call.rate(178)
        await call.says("third question")

    call = play(scene, text("An answer."))
    bodies = [request.body.decode() for request in call.server.requests]
    assert len(bodies) == 3
    assert "221 wpm" in bodies[0]
    assert "losing audio now" in bodies[1]
    for before, after in pairwise(bodies):
        tools = [body[body.index('"tools":') :] for body in (before, after)]
        assert tools[0] == tools[1]
        history = before[: before.index(',{"role":"developer"')]
        assert after.startswith(history)
        assert '"content":"An answer."' in after


def test_a_turn_without_a_call_costs_one_request_and_no_message() -> None:
    async def scene(call: Call) -> None:
        for n in range(5):
            await call.says(f"question {n}")

    call = play(scene, text("An answer."))
    assert call.requests == 5
    assert [role for role, _ in call.texts(4)] == ["system", *["user", "assistant"] * 4, "user"]


def test_a_state_costs_at_most_sixty_tokens_beside_the_principle() -> None:
    async def scene(call: Call) -> None:
        await call.rate(221)
        await call.worker.queue_frame(InterruptionFrame())
        await call.network(LinkBand.POOR, lost=0.5)
        await call.says("first question")

    call = play(scene, text("An answer."))
    lines = call.block().splitlines()
    assert estimate_tokens(lines[2]) <= 60
    assert estimate_tokens(lines[1]) <= 80


def test_a_speed_set_by_the_model_reaches_the_voice_and_costs_one_more_request() -> None:
    async def scene(call: Call) -> None:
        await call.rate(221)
        await call.says("tell me about Lisbon")

    call = play(scene, calls_once(("set_response_speed", {"words_per_minute": 221}), then="Lisbon is sunny."))
    assert call.requests == 2
    assert call.voice.speeds == [pytest.approx(221 / 178, abs=0.01)]
    assert call.directives == [SetResponseSpeed(words_per_minute=221)]
    assert results(call) == [{"status": "ok", "words_per_minute": 221}]
    assert "".join(call.voice.spoken) == "Lisbon is sunny."
    # The state it changed is not shown in the follow-up.
    assert not call.block(1)


def test_a_call_along_with_an_answer_costs_no_second_answer() -> None:
    async def scene(call: Call) -> None:
        await call.says("tell me about Lisbon")

    policy = calls_once(("set_response_speed", {"words_per_minute": 200}), along="Lisbon is sunny.")
    call = play(scene, policy)
    assert call.requests == 1
    assert call.voice.speeds != []
    assert "".join(call.voice.spoken) == "Lisbon is sunny."


def test_an_instruction_holds_for_the_next_response_only() -> None:
    async def scene(call: Call) -> None:
        await call.says("first question")
        await call.says("second question")

    call = play(scene, calls_once(("set_response_instruction", {"text": "Speak in one short sentence."})))
    assert call.directives == [SetResponseInstruction(text="Speak in one short sentence.")]
    assert "one short sentence" in json.dumps(call.sent(1))
    assert "one short sentence" not in json.dumps(call.sent(2))
    assert [role for role, _ in call.texts(2)] == ["system", "user", "assistant", "user"]


def test_a_longer_silence_is_announced_both_ways() -> None:
    async def scene(call: Call) -> None:
        await call.says("my number is")

    call = play(scene, calls_once(("set_vad_silence_duration", {"ms": 1500})))
    assert call.directives == [SetVadSilenceDuration(duration_ms=1500)]
    assert call.orchestrator.snapshot.vad_silence_ms == 1500


BAD_CALLS = [
    (("set_response_speed", {"words_per_minute": "200"}), CallError.WRONG_TYPE),
    (("set_response_speed", {"words_per_minute": True}), CallError.WRONG_TYPE),
    (("set_response_speed", {"words_per_minute": "２００"}), CallError.WRONG_TYPE),
    (("set_response_speed", {"words_per_minute": 99}), CallError.OUT_OF_RANGE),
    (("set_response_speed", {"words_per_minute": 301}), CallError.OUT_OF_RANGE),
    (("set_response_speed", {}), CallError.MISSING_ARGUMENT),
    (("set_response_speed", {"words_per_minute": 200, "voice": "x"}), CallError.UNEXPECTED_ARGUMENT),
    (("set_response_instruction", {"text": "x" * 301}), CallError.OUT_OF_RANGE),
    (("set_response_instruction", {"text": "  "}), CallError.OUT_OF_RANGE),
    (("set_response_instruction", {"text": 7}), CallError.WRONG_TYPE),
    (("defer_response", {"reason": "x" * 121}), CallError.OUT_OF_RANGE),
    (("set_vad_silence_duration", {"ms": 199}), CallError.OUT_OF_RANGE),
    (("set_vad_silence_duration", {"ms": 1500.5}), CallError.WRONG_TYPE),
]


@pytest.mark.parametrize(("wrong", "error"), BAD_CALLS)
def test_a_call_that_does_not_fit_changes_nothing_and_says_why(
    wrong: tuple[str, dict[str, Any]], error: CallError
) -> None:
    async def scene(call: Call) -> None:
        await call.says("hello there")

    call = play(scene, calls_once(wrong))
    assert call.requests == 2
    assert results(call)[0]["error"] == error.value
    assert [item.error for item in call.rejected] == [error]
    assert call.orchestrator.rejected_calls == 1
    assert call.directives == []
    assert call.voice.speeds == []
    assert call.orchestrator.snapshot.vad_silence_ms is None
    assert call.voice.spoken != []


def test_a_voice_without_speed_control_is_named_in_the_error() -> None:
    """F07"""

    async def scene(call: Call) -> None:
        await call.rate(221)
        await call.says("hello there")

    call = play(scene, calls_once(("set_response_speed", {"words_per_minute": 200})), voice=Mute())
    assert results(call)[0]["error"] == "not_supported"
    assert "not supported by Mute" in results(call)[0]["detail"]
    assert not call.block(0)


def test_ten_calls_in_one_response_change_nothing_and_cost_one_follow_up() -> None:
    async def scene(call: Call) -> None:
        await call.says("hello there")

    ten = [("set_response_speed", {"words_per_minute": 150 + n}) for n in range(9)]
    call = play(scene, calls_once(*ten, ("set_vad_silence_duration", {"ms": 900})))
    assert call.requests == 2
    assert call.directives == []
    assert call.voice.speeds == []
    assert call.orchestrator.snapshot.vad_silence_ms is None
    assert [item.error for item in call.rejected] == [CallError.REPEATED] * 10
    assert call.orchestrator.rejected_calls == 10
    assert [item["error"] for item in results(call)] == ["repeated"] * 10
    assert call.voice.spoken != []


def test_a_tool_call_id_used_twice_in_a_response_changes_nothing() -> None:
    async def scene(call: Call) -> None:
        await call.says("hello there")

    twice = [
        ("set_response_speed", {"words_per_minute": 150}),
        ("set_response_speed", {"words_per_minute": 250}),
    ]
    call = play(scene, calls_once(*twice, call_id="call_0"))
    assert call.directives == []
    assert call.voice.speeds == []
    assert call.orchestrator.rejected_calls >= 1
    assert call.voice.spoken != []


def test_an_id_that_a_provider_uses_again_in_the_next_response_is_another_call() -> None:
    async def scene(call: Call) -> None:
        await call.says("first question")
        await call.says("second question")

    speeds = iter((150, 250))

    def policy(request: ChatRequest) -> Reply:
        if request.messages[-1]["role"] == "tool":
            return Reply(text="All right.")
        call = ToolCall(
            name="set_response_speed", arguments={"words_per_minute": next(speeds)}, call_id="call_0"
        )
        return Reply(tool_calls=(call,))

    call = play(scene, policy)
    assert call.directives == [SetResponseSpeed(words_per_minute=150), SetResponseSpeed(words_per_minute=250)]
    assert call.orchestrator.rejected_calls == 0


# Deferral


def defers(then: str = "All right.") -> Policy:
    return calls_once(("defer_response", {"reason": "cut off"}), then=then)


def test_a_deferred_response_is_given_at_the_soft_deadline_when_the_line_is_healthy() -> None:
    async def scene(call: Call) -> None:
        await call.network(LinkBand.GOOD)
        await call.speaks("I would like to")
        await asyncio.sleep(1.7)
        assert call.requests == 1
        await asyncio.sleep(1.0)
        assert call.requests == 2

    call = play(scene, defers(then="Could you say that again?"))
    assert call.directives == [DeferResponse(reason="cut off")]
    assert [role for role, _ in call.texts(1)] == ["system", "user", "developer"]
    assert "Answer now" in call.block(1)
    assert "".join(call.voice.spoken) == "Could you say that again?"


def test_on_a_bad_line_it_waits_for_recovery_and_no_longer_than_the_hard_deadline() -> None:
    async def recovering(call: Call) -> None:
        await call.network(LinkBand.POOR, lost=0.5)
        await call.speaks("I would like to")
        await asyncio.sleep(3.0)
        assert call.requests == 1
        await call.network(LinkBand.RECOVERING)
        await asyncio.sleep(0.3)
        assert call.requests == 2

    async def dead(call: Call) -> None:
        await call.network(LinkBand.POOR, lost=0.5)
        await call.speaks("I would like to")
        await asyncio.sleep(5.0)
        assert call.requests == 1
        await asyncio.sleep(1.0)
        assert call.requests == 2

    assert play(recovering, defers()).requests == 2
    assert play(dead, defers()).requests == 2


def test_a_continuation_becomes_one_message_and_one_answer_and_lengthens_the_silence() -> None:
    async def scene(call: Call) -> None:
        await call.network(LinkBand.POOR, lost=0.5)
        await call.speaks("I would like to fly")
        await asyncio.sleep(1.2)
        await call.says("to Lisbon in May")

    call = play(scene, defers(then="To Lisbon, then."))
    assert call.requests == 2
    users = [content for role, content in call.texts(1) if role == "user"]
    assert users == ["I would like to fly to Lisbon in May"]
    assert "defer_response" not in json.dumps(call.sent(1))
    assert "".join(call.voice.spoken) == "To Lisbon, then."
    # 0.2 s before the stop, 1.25 s after, less 0.2 s before the start: the gap; 0.2 + 1.25 + 0.2 s, rounded up.
    assert call.directives[1:] == [SetVadSilenceDuration(duration_ms=1700, origin=DirectiveOrigin.DEFERRAL)]


def test_noise_while_a_response_waits_does_not_cost_the_caller_the_answer() -> None:
    async def scene(call: Call) -> None:
        await call.network(LinkBand.POOR, lost=0.5)
        await call.speaks("what is the weather")
        await asyncio.sleep(1.0)
        await call.speaks("", secs=0.4)
        await asyncio.sleep(4.0)

    call = play(scene, defers(then="Sunny."))
    assert call.requests == 2
    assert "".join(call.voice.spoken) == "Sunny."


def test_a_response_is_deferred_once() -> None:
    async def scene(call: Call) -> None:
        await call.says("I would like to")
        await asyncio.sleep(8.0)

    def always(request: ChatRequest) -> Reply:
        if any(json.loads(str(m["content"])).get("error") for m in request.messages if m["role"] == "tool"):
            return Reply(text="Go on.")
        return Reply(tool_calls=(ToolCall(name="defer_response", arguments={"reason": "cut off"}),))

    call = play(scene, always)
    assert call.requests == 3
    assert [item.error for item in call.rejected] == [CallError.NOT_NOW]
    assert "".join(call.voice.spoken) == "Go on."


def test_deferring_beside_another_call_still_waits() -> None:
    async def scene(call: Call) -> None:
        await call.speaks("I would like to")
        await asyncio.sleep(1.2)
        assert call.requests == 1
        await asyncio.sleep(2.0)

    two = [("set_response_speed", {"words_per_minute": 200}), ("defer_response", {"reason": "cut off"})]
    assert play(scene, calls_once(*two)).requests == 2
    assert play(scene, calls_once(*reversed(two))).requests == 2


def test_a_call_that_ends_while_a_response_waits_leaves_no_task() -> None:
    async def scene(call: Call) -> None:
        await call.speaks("I would like to")
        await asyncio.sleep(0.8)

    call = play(scene, defers())
    assert call.requests == 1
    assert call.orchestrator._timer is None


# Manners


def lookup_tool(seen: list[dict[str, Any]]) -> LLMContext:
    async def lookup(params: FunctionCallParams) -> None:
        seen.append(dict(params.arguments))
        await params.result_callback({"trips": 3})

    schema = FunctionSchema(
        name="lookup",
        description="Finds trips",
        properties={"q": {"type": "string"}},
        required=["q"],
        handler=lookup,
    )
    return LLMContext([{"role": "system", "content": "You plan trips."}], tools=[schema])


def test_the_applications_own_tools_stay_in_front_and_work() -> None:
    seen: list[dict[str, Any]] = []

    async def scene(call: Call) -> None:
        await call.says("find me a trip")
        await call.says("thank you")

    both = [("lookup", {"q": "May"}), ("set_response_speed", {"words_per_minute": 200})]
    call = play(scene, calls_once(*both), context=lookup_tool(seen))
    assert seen == [{"q": "May"}]
    assert call.requests == 3
    assert set(call.server.requests[0].tools) == {"lookup", *OURS}
    # Ours leave with the next turn, theirs stay as a pair.
    assert [role for role, _ in call.texts(2)] == ["system", "user", "assistant", "tool", "assistant", "user"]


def test_an_answer_along_with_our_call_does_not_swallow_the_applications_result() -> None:
    seen: list[dict[str, Any]] = []

    async def scene(call: Call) -> None:
        await call.says("find me a trip")

    both = [("lookup", {"q": "May"}), ("set_response_speed", {"words_per_minute": 200})]
    call = play(scene, calls_once(*both, along="One moment."), context=lookup_tool(seen))
    assert call.requests == 2


def test_a_function_of_the_application_with_one_of_our_names_is_left_alone() -> None:
    own: list[str] = []

    async def theirs(params: FunctionCallParams) -> None:
        own.append(params.function_name)
        await params.result_callback({"theirs": True})

    def prepare(llm: OpenAILLMService) -> None:
        llm.register_function("set_response_speed", theirs)

    async def scene(call: Call) -> None:
        await call.says("hello")

    call = play(scene, calls_once(("set_response_speed", {"words_per_minute": 200})), prepare=prepare)
    assert own == ["set_response_speed"]
    assert call.directives == []


def test_speculative_inference_is_shown_the_states_and_changes_nothing() -> None:
    async def scene(call: Call) -> None:
        await call.rate(221)
        before = list(call.context.messages)
        copy = LLMContext([*before, {"role": "user", "content": "maybe"}])
        await call.orchestrator.queue_frame(LLMContextFrame(context=copy, speculation=True))
        await asyncio.sleep(0.3)
        assert list(call.context.messages) == before
        assert "221 wpm" in str(copy.messages[-1])

    play(scene, text("Hi."))


def test_switched_off_nothing_is_advertised_or_shown() -> None:
    async def scene(call: Call) -> None:
        await call.rate(221)
        await call.says("hello")

    call = play(scene, text("Hi."), config=OrchestratorConfig(mode=ControlMode.OFF))
    assert call.texts() == [("system", "You plan trips."), ("user", "hello")]
    assert call.server.requests[0].tools == ()


def test_with_the_reflex_alone_the_model_cannot_defer() -> None:
    async def scene(call: Call) -> None:
        await call.says("hello")

    config = OrchestratorConfig(mode=ControlMode.REFLEX)
    call = play(scene, defers(), config=config)
    assert call.server.requests[0].tools == ("set_response_instruction", "set_response_speed")
    assert call.directives == []
    assert call.voice.spoken != []


def test_loss_within_the_turn_is_told_once_it_matters() -> None:
    async def scene(call: Call) -> None:
        await call.network(LinkBand.GOOD)
        await call.worker.queue_frame(InterruptionFrame())
        speaking = asyncio.create_task(call.speaks("I would like", secs=2.0))
        await asyncio.sleep(1.0)
        await call.network(LinkBand.POOR, lost=0.8)
        await speaking
        await call.network(LinkBand.RECOVERING)
        await asyncio.sleep(1.0)
        await call.network(LinkBand.GOOD)
        await call.says("another one")

    call = play(scene, text("Hm?"))
    assert "0.8 s of the caller's audio was lost" in call.block(0)
    assert not call.block(1)
