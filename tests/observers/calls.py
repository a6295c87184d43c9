"""A call with everything in it, on virtual time: loss, a held turn, a barge-in, model functions, memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pipecat.frames.frames import InputAudioRawFrame, VADUserStartedSpeakingFrame, VADUserStoppedSpeakingFrame

from pipecat_voicectx.demo.espeak_tts import EspeakTTSService
from pipecat_voicectx.observers import RecorderConfig, SessionRecorder
from pipecat_voicectx.testing.openai_server import ChatRequest, Reply, ToolCall
from pipecat_voicectx.testing.scripted_session import Outcome, Session, play

FRAME_SECS = 0.02
SPEECH = bytes([0, 8, 0, 248] * 160)


class Model:
    """Calls functions of ours, one of them wrongly, and answers."""

    def reply(self, request: ChatRequest) -> Reply:
        said = [str(m["content"]) for m in request.messages if m["role"] == "user"]
        asked = said[-1] if said else ""
        if request.messages[-1]["role"] == "tool":
            return Reply(text="Of course. The train leaves at nine, and the second one at noon.")
        if "slower" in asked:
            return Reply(
                tool_calls=[
                    ToolCall(name="set_response_speed", arguments={"words_per_minute": 140}),
                    ToolCall(name="set_vad_silence_duration", arguments={"ms": 99_999}),
                ]
            )
        return Reply(text="There are three trains to Ghent. The first leaves at nine. The last one is late.")


async def lossy_turn(session: Session) -> None:
    """A second of audio never arrives, in the middle of a sentence."""
    clock = 0

    async def speak(secs: float) -> None:
        nonlocal clock
        for _ in range(round(secs / FRAME_SECS)):
            frame = InputAudioRawFrame(audio=SPEECH, sample_rate=16_000, num_channels=1)
            frame.pts, clock = clock, clock + 960
            await session.worker.queue_frame(frame)
            await session.pause(FRAME_SECS)

    await session.worker.queue_frame(VADUserStartedSpeakingFrame(start_secs=0.2))
    await speak(1.5)
    await session.transcript("please book the early train")
    await session.worker.queue_frame(VADUserStoppedSpeakingFrame(stop_secs=0.2))
    clock += 48_000
    await session.pause(1.0)
    await session.worker.queue_frame(VADUserStartedSpeakingFrame(start_secs=0.2))
    await speak(1.5)
    await session.transcript("to Ghent on Friday")
    await session.worker.queue_frame(VADUserStoppedSpeakingFrame(stop_secs=0.2))
    await session.answered()


async def whole_call(session: Session) -> None:
    """Loss, a barge-in, a wish for a slower voice."""
    await lossy_turn(session)
    await session.say("what about the way back then", secs=2.0)
    await session.speaking()
    await session.listen(2.0)
    session.bot_speaking.clear()
    await session.say("wait please speak slower to me", secs=2.0)
    await session.answered()


def play_call(
    script: Callable[[Session], Awaitable[None]] = whole_call,
    *,
    before: Callable[[Session], Awaitable[None]] | None = None,
    after: Callable[[Session], Awaitable[None]] | None = None,
    **options: Any,
) -> Outcome:
    """The call, with something done before it and after its last word."""

    async def wrapped(session: Session) -> None:
        if before is not None:
            await before(session)
        await script(session)
        if after is not None:
            await after(session)

    return play(wrapped, Model(), ours=True, tts=EspeakTTSService, **options)


def record_call(path: Path, *, config: RecorderConfig | None = None, **options: Any) -> SessionRecorder:
    """Records `whole_call` to `path`."""
    kept: list[SessionRecorder] = []

    async def attach(session: Session) -> None:
        kept.append(SessionRecorder(path, title="test bot", config=config).attach(session.worker))

    async def close(_session: Session) -> None:
        await kept[0].close()

    play_call(before=attach, after=close, **options)
    return kept[0]
