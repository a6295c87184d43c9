"""Calls for fault tests: a voice that fails to order, a policy made of steps, and what "the call goes on" means."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from enum import Enum
from typing import Any

from pipecat.frames.frames import ErrorFrame, Frame, TTSAudioRawFrame

from pipecat_voicectx.demo.espeak_tts import EspeakTTSService
from pipecat_voicectx.testing.openai_server import ChatPolicy, ChatRequest, Reply
from pipecat_voicectx.testing.scripted_session import Outcome, Session, play_in_loop
from pipecat_voicectx.testing.virtual_time import run
from pipecat_voicectx.voice_context import VoiceContextConfig

__all__ = ["Counting", "Steps", "Trouble", "TroubledVoice", "call", "exchange"]


class Counting:
    """Answers with the number of requests so far."""

    def __init__(self) -> None:
        self.n = 0

    def reply(self, request: ChatRequest) -> Reply:
        self.n += 1
        return Reply(text=f"This is answer number {self.n}.")


class Steps:
    """One step per request: a reply, or an exception to raise. After the last, plain answers."""

    def __init__(self, *steps: Reply | Exception) -> None:
        self._steps = list(steps)
        self.asked = 0

    def reply(self, request: ChatRequest) -> Reply:
        self.asked += 1
        step = self._steps.pop(0) if self._steps else Reply(text=f"Plain answer after {self.asked} requests.")
        if isinstance(step, Exception):
            raise step
        return step


class Trouble(Enum):
    """What a voice does with one sentence."""

    NONE = "none"
    SLOW = "slow"
    HANGS = "hangs"
    RAISES = "raises"
    GARBAGE = "garbage"
    REPORTS = "reports"
    """Ends with an error frame, as Pipecat's services do when their connection is gone."""
    DIES = "dies"
    """Some sound, then an exception."""


class TroubledVoice(EspeakTTSService):
    """eSpeak, with one trouble per synthesized sentence."""

    troubles: Sequence[Trouble] = ()

    def __init__(self) -> None:
        super().__init__()
        self._left = list(self.troubles)

    @classmethod
    def with_troubles(cls, *troubles: Trouble) -> type[TroubledVoice]:
        """A class whose first sentences meet these."""
        return type("TroubledVoiceToOrder", (cls,), {"troubles": troubles})

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame, None]:
        trouble = self._left.pop(0) if self._left else Trouble.NONE
        match trouble:
            case Trouble.SLOW:
                await asyncio.sleep(4)
            case Trouble.HANGS:
                await asyncio.Event().wait()
            case Trouble.RAISES:
                raise ConnectionError("the synthesizer is gone")
            case Trouble.REPORTS:
                yield ErrorFrame(error="the synthesizer is gone")
                return
            case Trouble.GARBAGE:
                await self.add_word_timestamps([("", -5.0), ("x" * 5000, 1e9), ("\x00", 0.0)], context_id)
                yield TTSAudioRawFrame(b"\x01\x02\x03", self.sample_rate, 1, context_id=context_id)
                yield TTSAudioRawFrame(b"", self.sample_rate, 1, context_id=context_id)
                yield TTSAudioRawFrame(b"\x00\x01" * 2400, self.sample_rate, 1, context_id="nobody's")
        async for frame in super().run_tts(text, context_id):
            yield frame
            if trouble is Trouble.DIES and isinstance(frame, TTSAudioRawFrame):
                raise ConnectionError("the synthesizer died")


async def exchange(session: Session, text: str, *, within_secs: float = 30.0) -> str:
    """The caller says something and gets an answer; returns what the conversation says was answered."""
    session.bot_speaking.clear()
    session.log.note("exchange")
    await session.say(text)
    await session.answered(within_secs=within_secs)
    kinds = session.log.kinds("exchange", "assistant")
    said = [kind for kind in kinds[len(kinds) - kinds[::-1].index("exchange") :] if kind != "assistant: "]
    assert said, f"no answer to {text!r}"
    return said[-1].removeprefix("assistant: ")


def assistant_texts(session: Session) -> list[str]:
    """What the conversation says the bot said."""
    return [
        str(message["content"])
        for message in session.context.messages
        if isinstance(message, dict) and message.get("role") == "assistant" and message.get("content")
    ]


def call(
    script: Callable[[Session], Awaitable[None]],
    policy: ChatPolicy | None = None,
    *,
    tts: type[EspeakTTSService] = EspeakTTSService,
    config: VoiceContextConfig | None = None,
    ours: bool = True,
    **memory: Any,
) -> Outcome:
    """One whole call with every part of ours, on virtual time. It must end by itself, whatever happened in it."""

    async def bounded() -> Outcome:
        async with asyncio.timeout(900):
            return await play_in_loop(
                script, policy or Counting(), ours=ours, tts=tts, config=config, memory=memory
            )

    return run(bounded())
