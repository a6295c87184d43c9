"""A Realtime server that misbehaves: the conversation goes on, and counters show what happened."""

from __future__ import annotations

import asyncio
import json

import pytest

from pipecat_voicectx.testing.realtime_call import RealtimeCall, play_call, spoken
from pipecat_voicectx.testing.realtime_script import ScriptedCall
from pipecat_voicectx.testing.realtime_server import RealtimeServer
from pipecat_voicectx.voice_context import Part, VoiceContextConfig

LONG = " ".join(f"word{number}" for number in range(24))
PARTS = VoiceContextConfig(parts=frozenset({Part.PLAYBACK, Part.ORCHESTRATOR, Part.MEMORY}))


def answering(**options: object) -> RealtimeServer:
    return RealtimeServer(
        replies=[[spoken("Hello.")]],
        reply_by=lambda _server: [spoken("That is the answer.")],
        **options,  # type: ignore[arg-type]
    )


def test_a_connection_that_breaks_off_within_an_answer_comes_back_with_the_conversation() -> None:
    async def script(call: RealtimeCall) -> None:
        await call.begin()
        await call.answered()
        call.server.replies.append([spoken(LONG)])
        await call.say("Tell me everything.")
        async with asyncio.timeout(10):
            await call.bot_speaking.wait()
        await asyncio.sleep(0.5)
        await call.server.drop()
        await call.answered()
        await asyncio.sleep(14)
        await call.say("Are you still there?")
        await asyncio.sleep(3)

    server = answering()
    call = play_call(script, server, config=PARTS)
    assert server.connections == 2
    assert server.violations == []
    assert call.link.renewal is not None
    assert call.link.renewal.renewals == 1
    # The new session knows what was said, and is asked to go on.
    after = " ".join(item.transcript for item in server.read[2])
    assert "Tell me everything." in after
    assert "broke off" in after
    # And it goes on hearing and answering.
    assert [item.transcript for item in server.read[-1] if item.role == "user"][-1] == "Are you still there?"


def test_what_the_user_says_while_there_is_no_connection_is_held() -> None:
    async def script(call: RealtimeCall) -> None:
        await call.begin()
        await call.answered()
        call.server.away = True
        await call.server.drop()
        await asyncio.sleep(1.2)
        call.server.away = False
        await asyncio.sleep(4.0)

    call = play_call(script, answering(), config=PARTS)
    assert call.server.connections == 2
    # All audio since the drop reached the new session, less what the end of the call caught.
    assert call.server.received_ms > 4800
    assert call.link.socket.dropped_audio_secs == 0.0


@pytest.mark.parametrize(
    "refused", ["conversation.item.truncate", "conversation.item.delete", "conversation.item.create"]
)
def test_refused_requests_are_counted_and_the_conversation_goes_on(refused: str) -> None:
    async def script(call: RealtimeCall) -> None:
        await call.begin()
        await call.answered()
        call.server.refuse[refused] = "server_busy"
        for number in range(4):
            call.server.replies.append([spoken(LONG)])
            await call.say(f"Question {number}.")
            async with asyncio.timeout(10):
                await call.bot_speaking.wait()
            await asyncio.sleep(0.7)
        await call.say("Stop.")
        await call.answered()

    call = play_call(script, answering(), config=PARTS)
    assert call.server.connections == 1
    assert call.server.errors
    assert call.link.socket.refused == len(call.server.errors)
    assert call.errors == []
    assert call.link.failures == 0
    assert call.server.read[-1][-1].transcript == "Stop."


def test_late_acknowledgements_of_settings_hold_nothing_up() -> None:
    async def script(call: RealtimeCall) -> None:
        await call.begin()
        await call.answered()
        call.server.updated_after_secs = 2.0
        arguments = json.dumps({"words_per_minute": 250})
        call.server.replies.append([ScriptedCall(name="set_response_speed", arguments=arguments)])
        await call.say("Faster, please.")
        await call.answered(within_secs=6)
        await call.say("Thanks.")
        await call.answered(within_secs=6)

    call = play_call(script, answering(), config=PARTS)
    assert call.server.violations == []
    assert call.server.speeds[-1] == pytest.approx(1.4, abs=0.01)
    assert (
        len([e for e in call.server.of("session.update") if "output" in e["session"].get("audio", {})]) == 1
    )


def test_a_refused_speed_is_not_asked_for_again() -> None:
    async def script(call: RealtimeCall) -> None:
        await call.begin()
        await call.answered()
        call.server.refuse["session.update"] = "invalid_value"
        arguments = json.dumps({"words_per_minute": 250})
        call.server.replies.append([ScriptedCall(name="set_response_speed", arguments=arguments)])
        await call.say("Faster, please.")
        await call.answered()
        await call.say("Thanks.")
        await call.answered()

    call = play_call(script, answering(), config=PARTS)
    assert call.link.settings.refusals == 1
    assert call.link.socket.refused == 1
    assert call.errors == []
    assert call.server.speeds[-1] == 1.0


def test_an_error_of_the_server_s_own_is_reported_and_read_over() -> None:
    async def script(call: RealtimeCall) -> None:
        await call.begin()
        await call.answered()
        await call.server._error("server_error", "The server had an error", {})
        await call.say("Go on.")
        await call.answered()

    call = play_call(script, answering(), config=PARTS)
    assert call.link.socket.errors == 1
    assert len(call.errors) == 1
    assert len(call.server.read) == 2
