"""A speech-to-speech bot: cut in on it, make it slower, lose the connection, and see what the server was told."""

from __future__ import annotations

import asyncio
import json

from loguru import logger

from pipecat_voicectx.testing.realtime_call import RealtimeCall, play_call, spoken
from pipecat_voicectx.testing.realtime_script import ScriptedCall
from pipecat_voicectx.testing.realtime_server import RealtimeServer

ANSWER = "The castle opens at nine and the old town is best before noon"


async def call(session: RealtimeCall) -> None:
    await session.begin()
    await session.answered()

    slower = ScriptedCall(name="set_response_speed", arguments=json.dumps({"words_per_minute": 150}))
    session.server.replies.append([slower])
    await session.say("Please speak a little slower.")
    await session.answered()
    print("speed of the answers:", session.server.speeds)

    await session.say("What should we see in Ghent?")
    await session.bot_speaking.wait()
    await asyncio.sleep(1.5)
    session.bot_speaking.clear()
    await session.say("Wait, when does it open?")
    for event in session.server.of("conversation.item.truncate"):
        print("truncated at", event["audio_end_ms"], "ms of audio")
    await session.answered()

    await session.server.drop()
    await asyncio.sleep(2)
    await session.say("Are you still there?")
    await session.answered()
    print("connections:", session.server.connections)


if __name__ == "__main__":
    logger.remove()  # only what this example prints
    server = RealtimeServer(replies=[[spoken("Hello.")]], reply_by=lambda _server: [spoken(ANSWER)])
    finished = play_call(call, server)
    for message in finished.context.messages:
        print(f"{message['role']}: {message['content'][:100]!r}")
