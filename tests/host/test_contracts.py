"""Contracts of Pipecat's aggregators and voices, on its own test utilities: each script bare and with ours around it.

Every frame that a bare aggregator or voice lets out, in either direction, comes out with ours inserted, in the same
order and with the same content; what the context holds is the same. Left out of the comparison is what is ours: frames
of this package, messages with our blocks. Bare means with processors around it that only pass things on, since system
frames overtake others wherever there is a queue. Turn strategies: `processors/test_turn_hold_strategy.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    Frame,
    InterimTranscriptionFrame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMMessagesAppendFrame,
    LLMMessagesUpdateFrame,
    LLMRunFrame,
    LLMTextFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
    TTSSpeakFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMUserAggregator,
)
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.tests.utils import SleepFrame, run_test

from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.processors.memory_projector import MemoryProjector
from pipecat_voicectx.processors.network_tracker import NetworkTracker
from pipecat_voicectx.processors.orchestrator import Orchestrator
from pipecat_voicectx.processors.playback_ledger import PlaybackLedger
from pipecat_voicectx.processors.speaking_rate_tracker import SpeakingRateTracker
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.testing import virtual_time
from pipecat_voicectx.testing.scripted_session import PassThrough, default_user_params
from pipecat_voicectx.testing.scripted_voice import Script, ScriptedTTS, Shape

Frames = Callable[[], list[Frame]]
Insert = Callable[[LLMContext], list[FrameProcessor]]


def wait(secs: float) -> Frame:
    return SleepFrame(sleep=secs)


def words(text: str, *, finalized: bool = True) -> Frame:
    return TranscriptionFrame(text=text, user_id="u", timestamp="t", finalized=finalized)


def spoken(*inside: Frame) -> list[Frame]:
    """A user turn around what is recognised in it, and the time in which a strategy ends it."""
    return [
        VADUserStartedSpeakingFrame(start_secs=0.2),
        wait(0.6),
        *inside,
        VADUserStoppedSpeakingFrame(stop_secs=0.2),
        wait(1.5),
    ]


def interim(text: str) -> Frame:
    return InterimTranscriptionFrame(text=text, user_id="u", timestamp="t")


USER: dict[str, Frames] = {
    "one turn": lambda: spoken(words("hello there")),
    "interim words": lambda: spoken(interim("hel"), interim("hello"), words("hello there")),
    "a turn in two parts": lambda: spoken(words("hello", finalized=False), wait(0.1), words("there")),
    "words after the silence": lambda: [*spoken(), words("late words"), wait(2.0)],
    "words without voice activity": lambda: [words("out of nowhere"), wait(6.0)],
    "speech without words": lambda: [*spoken(), wait(6.0)],
    "two turns": lambda: [*spoken(words("hello there")), *spoken(words("and again"))],
    "a turn over the bot": lambda: [
        BotStartedSpeakingFrame(),
        *spoken(words("stop it")),
        BotStoppedSpeakingFrame(),
    ],
    "a message of the application": lambda: [
        LLMMessagesAppendFrame(messages=[{"role": "user", "content": "greet"}], run_llm=True),
        wait(0.5),
    ],
    "other messages": lambda: [
        LLMMessagesUpdateFrame(messages=[{"role": "user", "content": "anew"}], run_llm=True),
        wait(0.5),
    ],
    "a run without a turn": lambda: [LLMRunFrame(), wait(0.5)],
    "an interruption of nothing": lambda: [InterruptionFrame(), wait(0.5), *spoken(words("hello there"))],
}


def pieces(text: str) -> list[str]:
    """As a model streams it."""
    return re.findall(r"\S+\s*", text)


def answer(*texts: str) -> list[Frame]:
    return [LLMFullResponseStartFrame(), *map(LLMTextFrame, texts), LLMFullResponseEndFrame()]


FIRST, SECOND = Script().sentences[:2]
VOICE: dict[str, Frames] = {
    "one sentence": lambda: [*answer(*pieces(FIRST)), wait(6.0)],
    "two sentences": lambda: [*answer(*pieces(f"{FIRST} {SECOND}")), wait(9.0)],
    "two answers": lambda: [*answer(*pieces(FIRST)), wait(6.0), *answer(*pieces(SECOND)), wait(6.0)],
    "an answer cut short": lambda: [*answer(*pieces(FIRST)), wait(0.3), InterruptionFrame(), wait(3.0)],
    "an empty answer": lambda: [*answer(), wait(1.0)],
    "a line of the application": lambda: [TTSSpeakFrame(FIRST), wait(6.0)],
    "a line before an answer": lambda: [TTSSpeakFrame(FIRST), *answer(*pieces(SECOND)), wait(9.0)],
}
SHAPES = (Shape.WORD, Shape.SENTENCE, Shape.TOKEN, Shape.WS_AHEAD, Shape.MULTI_CONTEXT)


def described(frame: Frame) -> tuple[object, ...]:
    """What of a frame anybody after it could act on."""
    kind = type(frame).__name__
    if isinstance(frame, TTSAudioRawFrame):
        return kind, frame.sample_rate, frame.audio
    text = getattr(frame, "text", None)
    context = getattr(frame, "context", None)
    messages = plain(context.messages) if isinstance(context, LLMContext) else None
    return kind, text, str(messages)


def plain(messages: Sequence[Any]) -> list[Any]:
    return [
        m for m in messages if not str(m.get("content")).startswith(("<voice_state>", "<recalled_context>"))
    ]


def ours(frame: Frame) -> bool:
    return type(frame).__module__.startswith("pipecat_voicectx")


def run(processors: Callable[[LLMContext], list[FrameProcessor]], script: Frames) -> dict[str, object]:
    context = LLMContext([{"role": "system", "content": "Be brief."}])

    async def main() -> dict[str, object]:
        down, up = await run_test(Pipeline(processors(context)), frames_to_send=script())
        return {
            "down": [described(frame) for frame in down if not ours(frame)],
            "up": [described(frame) for frame in up if not ours(frame)],
            "context": plain(context.messages),
        }

    return virtual_time.run(main())


def bare_user(context: LLMContext) -> list[FrameProcessor]:
    return [PassThrough(), PassThrough(), aggregator(context), PassThrough(), PassThrough()]


def aggregator(context: LLMContext) -> LLMUserAggregator:
    return LLMUserAggregator(context, params=default_user_params())


def user_with_ours(context: LLMContext) -> list[FrameProcessor]:
    return [
        SpeakingRateTracker(),
        NetworkTracker(),
        aggregator(context),
        MemoryProjector(owner=Owner(user_id="ann"), embedder=LexicalEmbedder()),
        Orchestrator(),
    ]


@pytest.mark.parametrize("name", USER)
def test_a_user_aggregator_lets_out_the_same_with_ours_around_it(name: str) -> None:
    bare = run(bare_user, USER[name])
    assert bare["down"] or bare["up"], "something comes out"
    assert run(user_with_ours, USER[name]) == bare


def voice_chain(shape: Shape, *, with_ours: bool) -> Insert:
    def made(context: LLMContext) -> list[FrameProcessor]:
        tts, output = ScriptedTTS(Script(), shape), PassThrough()
        last = PlaybackLedger(context=context, tts=tts, output=output) if with_ours else PassThrough()
        return [tts, output, last]

    return made


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", VOICE)
def test_a_voice_lets_out_the_same_with_a_ledger_listening_to_it(name: str, shape: Shape) -> None:
    bare = run(voice_chain(shape, with_ours=False), VOICE[name])
    assert bare["down"], "something comes out"
    listened = run(voice_chain(shape, with_ours=True), VOICE[name])
    assert without_ends(listened) == without_ends(bare)
    assert listened["up"] == bare["up"]


def without_ends(outcome: dict[str, Any]) -> list[Any]:
    """The end of an answer is the one frame that the ledger holds, until the answer's audio is written."""
    return [each for each in outcome["down"] if each[0] != LLMFullResponseEndFrame.__name__]
