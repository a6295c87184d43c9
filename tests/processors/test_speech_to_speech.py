"""Gemini Live with Pipecat's own service and Google's own client, over a WebSocket: what the model is made to hear."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

pytest.importorskip("google.genai", reason="google-genai is not installed")

from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameProcessor

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.processors.speech_to_speech import SpeechToSpeech, SpeechToSpeechConfig
from pipecat_voicectx.runtimes.reinject import ReinjectionConfig
from pipecat_voicectx.testing.gemini_call import USER_LEVEL, GeminiCall, play_gemini
from pipecat_voicectx.testing.gemini_server import GeminiServer
from pipecat_voicectx.testing.playback_harness import Script
from pipecat_voicectx.voice_context import Part, VoiceContext, VoiceContextConfig

SCRIPT = Script()
# What is not tested here costs time.
PARTS = frozenset({Part.PLAYBACK, Part.ORCHESTRATOR, Part.MEMORY})


async def cut_in(call: GeminiCall, after_secs: float) -> int:
    """The bot speaks; the user cuts in. Returns the words that were heard."""
    pcm = SCRIPT.synthesize(0, len(SCRIPT.words))[0].tobytes()
    call.server.speak(" ".join(SCRIPT.sentences), pcm)
    async with asyncio.timeout(10):
        await call.bot_speaking.wait()
    await asyncio.sleep(after_secs)
    heard = call.heard_words(SCRIPT)
    await call.interrupt()
    await asyncio.sleep(1.0)
    return heard


@pytest.mark.parametrize("secs", [2.5, 5.0])
def test_the_model_hears_the_last_seconds_the_user_heard_between_the_user_s_own_words(secs: float) -> None:
    seen: dict[str, Any] = {}

    async def script(call: GeminiCall) -> None:
        seen["heard"] = await cut_in(call, 6.0)
        seen["pcm"] = np.frombuffer(bytes(call.server.pcm), np.int16)

    config = VoiceContextConfig(
        parts=PARTS, speech_to_speech=SpeechToSpeechConfig(reinjection=ReinjectionConfig(secs=secs))
    )
    call = play_gemini(script, GeminiServer(), config=config)
    assert call.server.violations == []
    assert call.errors == []
    assert call.server.rates_hz == {16_000}
    pcm = seen["pcm"]
    loud = np.flatnonzero(pcm > 2000)
    pauses = 0.2 * 4 / 16_000  # between sentences, at most four in five seconds
    assert secs - 1.0 - pauses <= len(loud) / 16_000 <= secs
    last_word = round((float(np.median(pcm[loud[-400:]])) - 4000) / 16)
    assert abs(last_word + 1 - seen["heard"]) <= 1
    user = np.flatnonzero(np.abs(pcm - USER_LEVEL) <= 1)
    assert user[0] < loud[0] < loud[-1] < user[-1]
    # Nothing of the user's stands inside what was re-injected, and nothing of it was dropped.
    assert not ((user > loud[0]) & (user < loud[-1])).any()
    assert (call.gate.injections, call.gate.failures) == (1, 0)


def test_a_new_session_is_given_the_conversation_as_it_was_heard() -> None:
    async def script(call: GeminiCall) -> None:
        await cut_in(call, 3.0)
        await call.server.drop()
        await asyncio.sleep(2.0)

    call = play_gemini(script, GeminiServer(), config=VoiceContextConfig(parts=PARTS))
    handed_over = call.server.history[-1]
    assert [turn["role"] for turn in handed_over][:2] == ["user", "model"]
    said = handed_over[1]["parts"][0]["text"]
    assert said.endswith("[cut off here by the user]")
    assert len(said.split()) < len(SCRIPT.words)
    assert len(call.server.setups) == 2


def test_a_service_that_neither_speaks_nor_is_given_a_voice_is_refused() -> None:
    from pipecat_voicectx.testing.scripted_session import PassThrough, Transport

    service: FrameProcessor = PassThrough()
    assert SpeechToSpeech.of(service) is None
    with pytest.raises(UsageError, match="tts is missing"):
        VoiceContext(context=LLMContext(), transport=Transport(), llm=service)  # type: ignore[arg-type]
