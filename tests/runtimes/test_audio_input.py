from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.openai.llm import OpenAILLMService

from pipecat_voicectx.projection.block import block_message
from pipecat_voicectx.runtimes.audio_input import takes_audio


def openai(model: str) -> OpenAILLMService:
    return OpenAILLMService(api_key="x", settings=OpenAILLMService.Settings(model=model))


def test_only_openai_s_models_that_listen_are_given_recordings() -> None:
    assert takes_audio(openai("gpt-audio"))
    assert takes_audio(openai("gpt-4o-audio-preview"))
    assert not takes_audio(openai("gpt-4.1"))
    assert not takes_audio(FrameProcessor())


def test_a_service_that_only_speaks_openai_s_protocol_is_not_taken_to_listen() -> None:
    class Other(OpenAILLMService):
        pass

    assert not takes_audio(Other(api_key="x", settings=OpenAILLMService.Settings(model="audio-llama")))


def test_gemini_listens_whatever_its_model_and_wherever_it_is_served() -> None:
    class GoogleLLMService(FrameProcessor):
        """Of the name that counts: the real one needs an extra."""

    class Vertex(GoogleLLMService):
        pass

    assert takes_audio(GoogleLLMService())
    assert takes_audio(Vertex())


def test_gemini_gets_the_recording_as_inline_audio() -> None:
    adapters: Any = pytest.importorskip(
        "pipecat.adapters.llm.services.gemini_adapter", reason="Gemini needs pip install 'pipecat-ai[google]'"
    )
    block: Any = block_message("<recalled_context>\n- User: [recording 1]\n</recalled_context>", ["UklGRg=="])
    context = LLMContext([block, {"role": "user", "content": "What did I say?"}])
    params = adapters.GeminiLLMAdapter().get_llm_invocation_params(context)
    parts = [part for content in asyncio.run(params)["messages"] for part in content.parts]
    (audio,) = [part.inline_data for part in parts if part.inline_data is not None]
    assert (audio.mime_type, audio.data) == ("audio/wav", b"RIFF")
