"""The inspector on any FastAPI application: a page at /voicectx that follows the call, and costs nothing while closed.

python examples/inspector.py           one scripted call, and what the page is sent
python examples/inspector.py serve     calls without end, at http://localhost:7860/voicectx
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter

import uvicorn
from fastapi import FastAPI
from loguru import logger

from pipecat_voicectx.demo.espeak_tts import EspeakTTSService
from pipecat_voicectx.inspector.mount import mount
from pipecat_voicectx.testing.openai_server import ChatRequest, Reply
from pipecat_voicectx.testing.scripted_session import Session, play, play_in_loop

app = FastAPI()
inspector = mount(app)  # on Pipecat's development runner: mount_on_runner()


class Guide:
    """Stands in for the hosted model, behind the real chat-completions protocol."""

    def reply(self, request: ChatRequest) -> Reply:
        return Reply(
            text="The castle opens at nine. The old town is best before noon. Lunch is by the river."
        )


async def talk(session: Session) -> None:
    for question in ("what should we see in ghent tomorrow", "and where do we eat after that"):
        await session.say(question, secs=2.0)
        await session.speaking()
        await session.listen(3.0)
        session.bot_speaking.clear()


async def call_that_is_looked_at(session: Session) -> None:
    hub = inspector.add(session.worker, title="guide")
    print(f"before: {hub.viewers} viewers, {'subscribed' if hub.watching else 'nothing subscribed'}")
    hub.join()  # what opening the page does
    await talk(session)
    events, _, _ = await hub.read(None)
    kinds = Counter(event.kind.value for event in events)
    print(f"seen: {kinds['context']} requests with their parts, {kinds['heard']} answers as heard")
    hub.leave()


async def call_for_the_page(session: Session) -> None:
    inspector.add(session.worker, title="guide")
    await talk(session)


async def serve() -> None:
    server = uvicorn.Server(uvicorn.Config(app, host="localhost", port=7860, log_level="warning"))
    serving = asyncio.create_task(server.serve())
    print("http://localhost:7860/voicectx")
    while not serving.done():
        await play_in_loop(call_for_the_page, Guide(), ours=True, tts=EspeakTTSService)


if __name__ == "__main__":
    logger.remove()  # only what this example prints
    if "serve" in sys.argv:
        asyncio.run(serve())
    else:
        play(call_that_is_looked_at, Guide(), ours=True, tts=EspeakTTSService)
