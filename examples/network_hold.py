"""`NetworkTracker` and the turn hold: a second of lost packets in mid-sentence does not end the caller's turn."""

from __future__ import annotations

from loguru import logger
from pipecat.frames.frames import InputAudioRawFrame, VADUserStartedSpeakingFrame, VADUserStoppedSpeakingFrame

from pipecat_voicectx.demo.espeak_tts import EspeakTTSService
from pipecat_voicectx.testing.openai_server import ChatRequest, Reply
from pipecat_voicectx.testing.scripted_session import Session, play

FRAME_SECS = 0.02
SPEECH = bytes([0, 8, 0, 248] * 160)


class Host:
    def reply(self, request: ChatRequest) -> Reply:
        said = [str(message["content"]) for message in request.messages if message["role"] == "user"]
        return Reply(text=f"I heard {len(said[-1].split())} words.")


async def call(session: Session) -> None:
    if session.voice:

        @session.voice.event_handler("on_turn_held")
        async def on_turn_held(_strategy: object, held: object) -> None:
            print(f"  held: {held}")

    clock = 0  # presentation time in 48 kHz samples, as SmallWebRTC gives it

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
    clock += 48_000  # a second of audio never arrives ...
    await session.pause(1.0)
    await session.worker.queue_frame(VADUserStartedSpeakingFrame(start_secs=0.2))
    await speak(1.5)  # ... and the caller goes on, unaware
    await session.transcript("to Ghent on Friday")
    await session.worker.queue_frame(VADUserStoppedSpeakingFrame(stop_secs=0.2))
    await session.answered()


if __name__ == "__main__":
    logger.remove()  # only what this example prints
    for ours in (False, True):
        print("with the turn hold" if ours else "stock Pipecat")
        outcome = play(call, Host(), ours=ours, tts=EspeakTTSService)
        for turn in outcome.log.kinds("user_turn_stopped"):
            print(f"  {turn}")
