"""A bot that speaks a known text, in every way text and audio relate in Pipecat's synthesizers.

Every sample of speech carries the number of its word, so the audio itself says which words left the server.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from pipecat.frames.frames import (
    AggregatedTextFrame,
    ErrorFrame,
    Frame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    TTSAudioRawFrame,
    TTSSpeakFrame,
    TTSStoppedFrame,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.tts_service import TextAggregationMode, TTSService
from pipecat.utils.text.base_text_aggregator import TextType

__all__ = [
    "CODE",
    "RATE_HZ",
    "STREAMING_SHAPES",
    "Script",
    "ScriptedLLM",
    "ScriptedTTS",
    "Shape",
    "word_counts",
]

RATE_HZ = 24_000
CODE = "```\nprint('hello')\n```"
# A word's sample value is _BASE + _STEP * its number: loud enough to count as voice, far enough apart to read back.
_BASE, _STEP = 4000, 16


class Shape(Enum):
    """How text and audio relate in the synthesizer."""

    WORD = "word"
    """Word times."""
    WORD_STALL = "word_stall"
    """Word times; the model pauses for 2.9 s after the first sentence."""
    SENTENCE = "sentence"
    """A sentence's text after its audio (request and response)."""
    TOKEN = "token"
    """Streaming, fed token by token, no word times."""
    WS_AHEAD = "ws_ahead"
    """Streaming, whole sentences, text far ahead of the audio, no word times."""
    SLOW_TTS = "slow_tts"
    """Word times; audio is made at 0.9 of real time, so playback starves."""
    SLOW_SENTENCE = "slow_sentence"
    """As SLOW_TTS, with sentence-level text."""
    MULTI_CONTEXT = "multi_context"
    """Streaming without word times, a context for each sentence."""
    CODE_BLOCKS = "code_blocks"
    """Sentence-level text with a code block after every second sentence that is never spoken."""
    SPEAK_FRAME = "speak_frame"
    """The application speaks the sentences with `TTSSpeakFrame`s, without a model."""


STREAMING_SHAPES = (Shape.TOKEN, Shape.WS_AHEAD, Shape.MULTI_CONTEXT)
_WORD_TIMES = (Shape.WORD, Shape.WORD_STALL, Shape.SLOW_TTS)
_SLOW = (Shape.SLOW_TTS, Shape.SLOW_SENTENCE)


@dataclass(frozen=True)
class Script:
    """What the bot says, and how long each word takes."""

    sentences: tuple[str, ...] = (
        "First is the Alder desk with drawers.",
        "Second is the Birch lamp in copper.",
        "Third is the Cedar chair without arms.",
        "Fourth is the Durian shelf for books.",
        "Fifth is the Elm stool painted green.",
        "Sixth is the Fir table for eight.",
        "Seventh is the Gum bench with cushions.",
        "Eighth is the Hazel bed with storage.",
    )
    seed: int = 7
    tail_secs: float = 0.2
    """Silence after each sentence."""
    stall_secs: float = 2.9
    """How long the model pauses in WORD_STALL."""

    @property
    def words(self) -> list[str]:
        """All words in order."""
        return [word for sentence in self.sentences for word in sentence.split()]

    @property
    def durations(self) -> list[int]:
        """Samples of each word: 60 ms + 45 ms a letter, varied by a fifth."""
        rng = random.Random(self.seed)
        return [int(RATE_HZ * (0.06 + 0.045 * len(word)) * rng.uniform(0.8, 1.25)) for word in self.words]

    @property
    def secs(self) -> float:
        """Length of the speech."""
        return sum(self.durations) / RATE_HZ + len(self.sentences) * self.tail_secs

    def synthesize(
        self, first: int, count: int
    ) -> tuple[np.ndarray[Any, np.dtype[np.int16]], list[tuple[str, float]]]:
        """(PCM, [(word, start)]) of `count` words from number `first` on, with the silence after them."""
        words, durations = self.words, self.durations
        parts: list[np.ndarray[Any, np.dtype[np.int16]]] = []
        times: list[tuple[str, float]] = []
        at = 0
        for number in range(first, min(first + count, len(words))):
            times.append((words[number], at / RATE_HZ))
            parts.append(np.full(durations[number], _BASE + _STEP * number, np.int16))
            at += durations[number]
        parts.append(np.zeros(int(self.tail_secs * RATE_HZ), np.int16))
        return np.concatenate(parts), times


def word_counts(pcm: np.ndarray[Any, np.dtype[np.int16]]) -> dict[int, int]:
    """{word number: samples} of a piece of scripted speech."""
    if len(pcm) <= RATE_HZ // 100 and pcm[0] == pcm[-1]:  # 10 ms: within one word, or within silence
        return {int(pcm[0] - _BASE) // _STEP: len(pcm)} if pcm[0] else {}
    values, counts = np.unique(pcm[pcm != 0], return_counts=True)
    return {int(value - _BASE) // _STEP: int(count) for value, count in zip(values, counts, strict=True)}


class ScriptedLLM(FrameProcessor):
    """Answers every context with the script, token by token."""

    def __init__(self, script: Script, shape: Shape, *, token_secs: float = 0.004) -> None:
        super().__init__()
        self._script, self._shape, self._token_secs = script, shape, token_secs
        self._answering: asyncio.Task[None] | None = None

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, LLMContextFrame) and direction is FrameDirection.DOWNSTREAM:
            await self._answer()
        else:
            await self.push_frame(frame, direction)

    async def _answer(self) -> None:
        if self._shape is Shape.SPEAK_FRAME:
            for sentence in self._script.sentences:
                await self.push_frame(TTSSpeakFrame(sentence))
            return
        await self.push_frame(LLMFullResponseStartFrame())
        for number, sentence in enumerate(self._script.sentences):
            if self._shape is Shape.CODE_BLOCKS:
                await self.push_frame(AggregatedTextFrame(sentence, TextType.SENTENCE))
                if number % 2:
                    await self.push_frame(AggregatedTextFrame(CODE.strip("`\n"), "code", raw_text=CODE))
                await asyncio.sleep(self._token_secs)
                continue
            for index, word in enumerate(sentence.split()):
                if index == 1 and number == 1 and self._shape is Shape.WORD_STALL:
                    await asyncio.sleep(self._script.stall_secs)
                await self.push_frame(LLMTextFrame(("" if number == index == 0 else " ") + word))
                await asyncio.sleep(self._token_secs)
        await self.push_frame(LLMFullResponseEndFrame())


class ScriptedTTS(TTSService):
    """Synthesizes the script in one of the shapes."""

    def __init__(self, script: Script, shape: Shape, *, first_audio_secs: float = 0.12) -> None:
        super().__init__(
            push_text_frames=shape not in _WORD_TIMES,
            push_stop_frames=shape not in STREAMING_SHAPES,
            push_start_frame=True,
            sample_rate=RATE_HZ,
            stop_frame_timeout_s=6.0,
            text_aggregation_mode=TextAggregationMode.TOKEN
            if shape is Shape.TOKEN
            else TextAggregationMode.SENTENCE,
            reuse_context_id_within_turn=shape is not Shape.MULTI_CONTEXT,
            skip_text_types=["code"],
        )
        self._script, self._shape, self._first_audio_secs = script, shape, first_audio_secs
        self._speed = 0.9 if shape in _SLOW else 8.0
        self.fail_at_word: int | None = None
        """Dies before this word."""
        self._next_word = 0
        self._said_secs = 0.0
        self._requests: asyncio.Queue[tuple[str | None, str | None]] | None = None
        self._receiver: asyncio.Task[None] | None = None
        self._buffer = ""

    def can_generate_metrics(self) -> bool:
        return False

    def rewind(self) -> None:
        """Starts the script over, for another turn."""
        self._next_word, self._said_secs, self._buffer = 0, 0.0, ""

    def read_from(self, text: str) -> None:
        """Goes on with the script's tail that has as many words as `text`."""
        self._next_word, self._said_secs, self._buffer = len(self._script.words) - len(text.split()), 0.0, ""

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame | None, None]:
        if self._shape in STREAMING_SHAPES:
            if self._requests is None:
                self._requests = asyncio.Queue()
                self._receiver = self.create_task(self._receive(self._requests))
            await self._requests.put((text, context_id))
            yield None
            return
        pcm, times = self._synthesize(len(text.split()))
        await asyncio.sleep(self._first_audio_secs)
        if self.fail_at_word is not None and self._next_word > self.fail_at_word:
            said = len(times) - (self._next_word - self.fail_at_word)
            pcm, times = (
                pcm[: round(times[said][1] * RATE_HZ)] if said > 0 else pcm[:0],
                times[: max(0, said)],
            )
        if self._shape in _WORD_TIMES:
            await self.add_word_timestamps([(word, self._said_secs + at) for word, at in times], context_id)
        self._said_secs += len(pcm) / RATE_HZ
        async for frame in self._paced(pcm, context_id):
            yield frame
        if self.fail_at_word is not None and self._next_word > self.fail_at_word:
            yield ErrorFrame("the scripted voice has failed")

    async def flush_audio(self, context_id: str | None = None) -> None:
        if self._requests is not None:
            await self._requests.put((None, context_id))

    async def on_audio_context_interrupted(self, context_id: str) -> None:
        if self._receiver is not None:
            await self.cancel_task(self._receiver)
            self._receiver, self._requests = None, None

    async def cleanup(self) -> None:
        await super().cleanup()  # type: ignore[no-untyped-call]
        if self._receiver is not None:
            await self.cancel_task(self._receiver)
            self._receiver = None

    def _synthesize(self, count: int) -> tuple[np.ndarray[Any, np.dtype[np.int16]], list[tuple[str, float]]]:
        first, self._next_word = self._next_word, self._next_word + count
        return self._script.synthesize(first, count)

    async def _paced(
        self, pcm: np.ndarray[Any, np.dtype[np.int16]], context_id: str
    ) -> AsyncGenerator[Frame, None]:
        step = RATE_HZ // 5
        for start in range(0, len(pcm), step):
            chunk = pcm[start : start + step]
            yield TTSAudioRawFrame(chunk.tobytes(), RATE_HZ, 1, context_id=context_id)
            await asyncio.sleep(len(chunk) / RATE_HZ / self._speed)

    async def _receive(self, requests: asyncio.Queue[tuple[str | None, str | None]]) -> None:
        """The provider's side: speaks whole sentences, in order, whatever pieces they came in."""
        while True:
            text, context_id = await requests.get()
            if context_id is None:
                continue
            if text is None:
                await self._end_context(context_id)
                continue
            self._buffer += text + ("" if self._shape is Shape.TOKEN else " ")
            if self._shape is Shape.TOKEN and not self._buffer.rstrip().endswith("."):
                continue
            count, self._buffer = len(self._buffer.split()), ""
            await asyncio.sleep(self._first_audio_secs)
            async for frame in self._paced(self._synthesize(count)[0], context_id):
                await self.append_to_audio_context(context_id, frame)
            if self._shape is Shape.MULTI_CONTEXT:
                await self._end_context(context_id)

    async def _end_context(self, context_id: str) -> None:
        if self.audio_context_available(context_id):
            await self.append_to_audio_context(context_id, TTSStoppedFrame(context_id=context_id))
            await self.remove_audio_context(context_id)
