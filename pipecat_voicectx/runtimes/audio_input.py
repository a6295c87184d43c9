"""Whether an LLM service can be given recordings in its messages."""

from __future__ import annotations

from pipecat.processors.frame_processor import FrameProcessor

from pipecat_voicectx.private_reads import private

__all__ = ["takes_audio"]

# OpenAI's chat models that listen are named gpt-audio and gpt-4o-audio-preview; the others refuse the part.
_LISTENING_OPENAI_MODEL = "audio"
# Every Gemini chat model listens, and Pipecat's adapter turns `input_audio` parts into inline data.
_LISTENING_SERVICES = frozenset({"GoogleLLMService"})
_OPENAI_SERVICE = "OpenAILLMService"


def takes_audio(llm: FrameProcessor) -> bool:
    """Whether `llm` is a service, with a model, that is known to take `input_audio` parts. By name, without an import.

    Services that only speak OpenAI's protocol are not taken to listen, whatever their model is called.
    """
    names = {kind.__name__ for kind in type(llm).__mro__}
    if names & _LISTENING_SERVICES:
        return True
    model = getattr(private(llm, "_settings"), "model", None)
    return (
        type(llm).__name__ == _OPENAI_SERVICE and isinstance(model, str) and _LISTENING_OPENAI_MODEL in model
    )
