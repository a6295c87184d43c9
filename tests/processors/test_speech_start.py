"""Coughs, backchannels and words over the bot's voice, in whole sessions as `VoiceContext` builds them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from pipecat.frames.frames import (
    InterimTranscriptionFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.processors.aggregators.llm_response_universal import LLMUserAggregatorParams
from pipecat.turns.user_start import MinWordsUserTurnStartStrategy
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies

from pipecat_voicectx.demo.espeak_tts import EspeakTTSService, TextTiming
from pipecat_voicectx.playback.heard import CUT_OFF_NOTE
from pipecat_voicectx.processors.speech_start import CandidateTurnStartStrategy
from pipecat_voicectx.testing.openai_server import ChatRequest, Reply
from pipecat_voicectx.testing.scripted_session import Outcome, Script, Session, play
from pipecat_voicectx.voice_context import VoiceContextConfig

LISTING = (
    "First comes the old bridge over the river. Second comes the market with its wooden stalls. "
    "Third comes the tower that leans a little. Fourth comes the garden behind the wall."
)


def last_words(request: ChatRequest) -> str:
    return str([message["content"] for message in request.messages if message["role"] == "user"][-1])


class Guide:
    def reply(self, request: ChatRequest) -> Reply:
        return Reply(text=LISTING if last_words(request) == "what is there to see" else "Gladly.")


def session(script: Script, **options: Any) -> Outcome:
    return play(script, Guide(), ours=True, tts=EspeakTTSService, **options)


async def asked(call: Session) -> None:
    await call.say("what is there to see")
    await call.speaking()
    await call.listen(3.0)


async def sound(call: Session, secs: float) -> None:
    """A sound of the user's that a detector takes for speech."""
    await call.worker.queue_frame(VADUserStartedSpeakingFrame(start_secs=0.2))
    await call.listen(secs)
    await call.worker.queue_frame(VADUserStoppedSpeakingFrame(stop_secs=0.2))
    await call.listen(0.2)


def conversation(outcome: Outcome) -> list[tuple[str, str]]:
    """(role, text) of every message but our own blocks."""
    return [
        (message["role"], message["content"])
        for message in outcome.messages
        if not message["content"].startswith(("<voice_state>", "<recalled_context>"))
    ]


@pytest.mark.parametrize("text", ["", "Mhm.", "yeah okay"])
def test_a_cough_or_a_backchannel_cancels_nothing_and_starts_no_turn(text: str) -> None:
    async def script(call: Session) -> None:
        await asked(call)
        await sound(call, 0.3)
        if text:
            await call.transcript(text)
        await call.answered()

    outcome = session(script)
    assert conversation(outcome)[-1] == ("assistant", LISTING)
    assert len(outcome.requests) == 1
    assert outcome.log.kinds("user_turn_stopped") == ["user_turn_stopped: what is there to see"]


@pytest.mark.parametrize("timing", TextTiming)
@pytest.mark.parametrize(
    ("answer", "at_secs", "heard"),
    [
        ("Shall I book the train at nine? It is the cheapest one today by far.", 2.6, True),
        ("It is the cheapest one today by far. Shall I book the train at nine?", 3.6, True),
        (
            "Shall I book the train at nine? It is the cheapest one today by far. I would take it in your place.",
            6.3,
            False,
        ),
        ("There is a train at nine. It is the cheapest one today by far.", 2.6, False),
    ],
)
def test_a_yes_over_the_bot_answers_the_question_it_follows_and_nothing_else(
    answer: str, at_secs: float, heard: bool, timing: TextTiming
) -> None:
    class Clerk:
        def reply(self, request: ChatRequest) -> Reply:
            return Reply(text="Booked." if last_words(request) == "yes" else answer)

    async def script(call: Session) -> None:
        await call.say("is there a train")
        await call.speaking()
        await call.listen(at_secs)
        await sound(call, 0.3)
        await call.transcript("yes")
        await call.answered()
        await call.listen(3.0)

    outcome = play(script, Clerk(), ours=True, tts=partial(EspeakTTSService, text_timing=timing))
    said = [text for role, text in conversation(outcome) if role == "user"]
    assert said == (["is there a train", "yes"] if heard else ["is there a train"])
    last = conversation(outcome)[-1]
    assert last == ("assistant", "Booked." if heard else answer)


def test_a_backchannel_does_not_end_up_in_front_of_the_next_words() -> None:
    async def script(call: Session) -> None:
        await asked(call)
        await sound(call, 0.3)
        await call.transcript("Mhm.")
        await call.answered()
        await call.say("thank you")
        await call.answered()

    outcome = session(script)
    assert outcome.log.kinds("user_turn_stopped")[-1] == "user_turn_stopped: thank you"


def test_words_interrupt_whenever_they_are_known() -> None:
    async def script(call: Session) -> None:
        await asked(call)
        await sound(call, 0.3)
        await call.transcript("Stop.")
        call.bot_speaking.clear()
        await call.answered()

    outcome = session(script)
    assert outcome.log.kinds("user_turn_stopped")[-1] == "user_turn_stopped: Stop."
    assert CUT_OFF_NOTE in conversation(outcome)[1][1]
    assert conversation(outcome)[-1][1] == "Gladly."


def test_interim_words_interrupt_before_the_speech_is_over() -> None:
    async def script(call: Session) -> None:
        await asked(call)
        await call.worker.queue_frame(VADUserStartedSpeakingFrame(start_secs=0.2))
        await call.listen(0.2)
        before = len(call.log.kinds("InterruptionFrame"))
        await call.worker.queue_frame(InterimTranscriptionFrame("wait a", "u", ""))
        await call.listen(0.1)
        assert len(call.log.kinds("InterruptionFrame")) == before + 1
        await call.worker.queue_frame(VADUserStoppedSpeakingFrame(stop_secs=0.2))
        await call.transcript("wait a moment")
        await call.answered()

    assert session(script).log.kinds("user_turn_stopped")[-1] == "user_turn_stopped: wait a moment"


def test_speech_that_lasts_interrupts_without_words_and_the_boundary_is_its_onset() -> None:
    spoken: list[str] = []

    async def script(call: Session) -> None:
        await asked(call)
        assert call.voice is not None
        assert call.voice.playback is not None
        await sound(call, 1.2)
        remainder = call.voice.playback.last_unheard
        assert remainder is not None
        spoken.append(remainder.heard_text)
        await call.transcript("could you say that again")
        await call.answered()

    outcome = session(script)
    assert 5 <= len(spoken[0].split()) <= 12
    assert outcome.log.kinds("user_turn_stopped")[-1] == "user_turn_stopped: could you say that again"


def test_an_interruption_without_words_ends_in_the_rest_of_the_answer() -> None:
    recovered: list[str] = []

    async def script(call: Session) -> None:
        assert call.voice is not None

        async def on_recovered(_source: object, recovery: Any) -> None:
            recovered.append(recovery.value)

        call.voice.add_event_handler("on_recovered", on_recovered)
        await asked(call)
        await sound(call, 1.0)
        await call.listen(2.0)
        call.bot_speaking.clear()
        while not call.bot_silent.is_set():
            await call.listen(0.2)

    outcome = session(script)
    assert recovered == ["resumed"]
    said = " ".join(text for role, text in conversation(outcome) if role == "assistant")
    assert said.split() == LISTING.split()


def test_an_interruption_without_words_while_the_bot_thinks_does_not_end_in_silence() -> None:
    class Slow(Guide):
        def reply(self, request: ChatRequest) -> Reply:
            return Reply(text="Here I am.", first_token_secs=1.5)

    async def script(call: Session) -> None:
        await call.say("hello there")
        await call.listen(1.2)
        await sound(call, 0.6)
        await call.answered()

    outcome = play(script, Slow(), ours=True, tts=EspeakTTSService)
    assert conversation(outcome)[-1] == ("assistant", "Here I am.")
    assert len(outcome.requests) == 2


def test_an_answer_cut_while_it_was_made_is_gone_on_with() -> None:
    class Streams(Guide):
        def reply(self, request: ChatRequest) -> Reply:
            if len(request.messages) > 3:
                return Reply(text="And that was the rest.")
            return Reply(text=LISTING, first_token_secs=0.2, token_secs=0.3)

    async def script(call: Session) -> None:
        await asked(call)
        await sound(call, 1.0)
        await call.listen(2.0)
        while not call.bot_silent.is_set():
            await call.listen(0.2)

    outcome = play(script, Streams(), ours=True, tts=EspeakTTSService)
    messages = conversation(outcome)
    assert [role for role, _ in messages] == ["user", "assistant", "developer", "assistant"]
    assert CUT_OFF_NOTE not in messages[1][1]
    assert messages[-1][1] == "And that was the rest."


def test_everything_can_be_switched_off() -> None:
    async def script(call: Session) -> None:
        await asked(call)
        await sound(call, 0.3)
        await call.listen(0.3)
        await asyncio.sleep(0)

    config = VoiceContextConfig(recovery=None, speech_start=None)
    outcome = session(script, config=config)
    assert len(outcome.log.kinds("InterruptionFrame")) == 2
    assert outcome.session.voice is not None
    assert outcome.session.voice.recovery is None


def test_start_strategies_of_the_host_are_left_alone() -> None:
    def params() -> LLMUserAggregatorParams:
        strategies = UserTurnStrategies(
            start=[MinWordsUserTurnStartStrategy(min_words=3)],
            stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0.6)],
        )
        return LLMUserAggregatorParams(user_turn_strategies=strategies)

    async def script(call: Session) -> None:
        start = call.voice.aggregators.user()._user_turn_controller.user_turn_strategies.start  # type: ignore[union-attr]
        assert not any(isinstance(strategy, CandidateTurnStartStrategy) for strategy in start or [])
        await asked(call)

    session(script, user_params=params)
