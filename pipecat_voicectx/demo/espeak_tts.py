"""Text to speech without a key or a network: eSpeak NG as a Pipecat service, with word timestamps.

A demo's voice: robotic, but its words are timed to the sample and its speed can be changed between two sentences.
eSpeak NG is GPL-3.0; installing the `demo` extra is what brings it in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from enum import StrEnum

from pipecat.frames.frames import ErrorFrame, Frame, TTSAudioRawFrame
from pipecat.services.settings import TTSSettings
from pipecat.services.tts_service import TTSService
from pipecat.utils.types import NOT_GIVEN, NotGiven, is_given

from pipecat_voicectx.demo.espeak import Synthesis, synthesize
from pipecat_voicectx.errors import VoiceContextError

__all__ = ["EspeakTTSService", "EspeakTTSSettings", "SpeechListener", "TextTiming"]

# Chosen: audio goes downstream in pieces of this size, as a streaming provider's does.
_PIECE_SECS = 0.2

SpeechListener = Callable[[str, str, Synthesis], None]
"""Context id, text, sound: told of each synthesis before its audio leaves."""


class TextTiming(StrEnum):
    """How the spoken text travels downstream."""

    WORD = "word"
    """Word by word, each with its time."""
    SENTENCE = "sentence"
    """Sentence by sentence behind its audio, as services without word times do."""


@dataclass
class EspeakTTSSettings(TTSSettings):
    """Settings for `EspeakTTSService`.

    Parameters:
        words_per_minute: Speaking rate to deliver, pauses between sentences included; 95..450. Each sentence is
            measured and spoken again at a corrected speed: 95% of the demo's replies come within 5% of it.
            Changes apply from the next sentence on.
    """

    words_per_minute: float | NotGiven = field(default_factory=lambda: NOT_GIVEN)


class EspeakTTSService(TTSService):
    """Speaks with eSpeak NG in this process; synthesis runs in a worker thread."""

    Settings = EspeakTTSSettings
    _settings: EspeakTTSSettings

    def __init__(
        self,
        *,
        text_timing: TextTiming = TextTiming.WORD,
        settings: EspeakTTSSettings | None = None,
        sample_rate: int | None = None,
    ) -> None:
        """Without `settings`: voice en-us at 170 words per minute.

        Args:
            text_timing: How the text is timed.
            settings: What to change from the defaults.
            sample_rate: Output rate in Hz; the pipeline's without it.
        """
        defaults = EspeakTTSSettings(model=None, voice="en-us", language=None, words_per_minute=170.0)
        if settings is not None:
            defaults.apply_update(settings)
        super().__init__(
            push_text_frames=text_timing is TextTiming.SENTENCE,
            push_start_frame=True,
            push_stop_frames=True,
            sample_rate=sample_rate,
            settings=defaults,
        )
        self._text_timing = text_timing
        self._listeners: list[SpeechListener] = []
        self._spoken_secs: dict[str, float] = {}

    def add_speech_listener(self, listener: SpeechListener) -> None:
        """Has `listener` called, synchronously, with every synthesis of this service."""
        self._listeners.append(listener)

    def can_generate_metrics(self) -> bool:
        return True

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame, None]:
        """Yields the audio of `text`; its words are queued before it."""
        await self.start_tts_usage_metrics(text)
        words_per_minute = self._settings.words_per_minute
        voice = self._settings.voice
        try:
            speech = await asyncio.to_thread(
                synthesize,
                text,
                words_per_minute=words_per_minute if is_given(words_per_minute) else 170.0,
                sample_rate_hz=self.sample_rate,
                voice=voice if isinstance(voice, str) else "en-us",
            )
        except VoiceContextError as error:
            yield ErrorFrame(error=f"{self}: {error}")
            return
        for listener in self._listeners:
            listener(context_id, text, speech)
        before_secs = self._spoken_secs.get(context_id, 0.0)
        if self._text_timing is TextTiming.WORD:
            await self.add_word_timestamps(
                [
                    (word.text, before_secs + word.start_sample / speech.sample_rate_hz)
                    for word in speech.words
                ],
                context_id,
            )
        self._spoken_secs[context_id] = before_secs + len(speech.samples) / speech.sample_rate_hz
        piece_samples = round(_PIECE_SECS * speech.sample_rate_hz)
        for start in range(0, len(speech.samples), piece_samples):
            piece = speech.samples[start : start + piece_samples]
            yield TTSAudioRawFrame(piece.tobytes(), speech.sample_rate_hz, 1, context_id=context_id)

    async def on_audio_context_completed(self, context_id: str) -> None:
        self._spoken_secs.pop(context_id, None)
        await super().on_audio_context_completed(context_id)

    async def on_audio_context_interrupted(self, context_id: str) -> None:
        self._spoken_secs.pop(context_id, None)
        await super().on_audio_context_interrupted(context_id)
