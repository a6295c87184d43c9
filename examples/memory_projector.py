"""`MemoryProjector` alone: the request stays small however long the talk, and old things come back when they matter."""

from __future__ import annotations

from loguru import logger

from pipecat_voicectx.demo.espeak_tts import EspeakTTSService
from pipecat_voicectx.testing.openai_server import ChatRequest, Reply
from pipecat_voicectx.testing.scripted_session import Session, play
from pipecat_voicectx.voice_context import Part, VoiceContextConfig

TALK = [
    "my daughter is allergic to peanuts",
    "what is the weather in Ghent",
    "and in Lyon",
    "how long is the train ride",
    "is there a dining car",
    "what could my daughter eat there with her allergy",
]


class Host:
    def reply(self, request: ChatRequest) -> Reply:
        return Reply(
            text="That is a good question. Let me tell you what I know about it in a sentence or two."
        )


async def call(session: Session) -> None:
    for text in TALK:
        await session.say(text)
        await session.answered()


if __name__ == "__main__":
    logger.remove()  # only what this example prints
    stock = play(call, Host(), ours=False, tts=EspeakTTSService)
    only_memory = VoiceContextConfig(parts=frozenset({Part.MEMORY}))
    ours = play(call, Host(), ours=True, tts=EspeakTTSService, config=only_memory)
    print("tokens per request, stock:", [request.tokens for request in stock.requests])
    print("tokens per request, ours: ", [request.tokens for request in ours.requests])
    for message in ours.requests[-1].messages:
        print(f"  {message['role']}: {message['content']}")
