"""One long call with everything in the pipeline: what a turn costs does not grow with the call.

`make soak` simulates four hours (VOICECTX_SOAK_HOURS); by default a few minutes.
"""

from __future__ import annotations

import gc
import os
import tracemalloc

from pipecat_voicectx.demo.espeak_tts import EspeakTTSService
from pipecat_voicectx.testing.openai_server import ChatRequest, Reply
from pipecat_voicectx.testing.scripted_session import Session, play

# One exchange takes about eight simulated seconds.
EXCHANGES = int(float(os.environ.get("VOICECTX_SOAK_HOURS", "0.04")) * 3600 / 8)
TOPICS = (
    "the museum in Ghent",
    "a train to Lyon",
    "the lake in Lucerne",
    "the old harbour",
    "the night market",
)


class Talkative:
    def reply(self, request: ChatRequest) -> Reply:
        return Reply(text="It opens at nine in the morning. People say that it is best before noon.")


def test_tokens_messages_and_memory_stay_flat() -> None:
    heap_bytes: list[int] = []
    messages: list[int] = []
    turns: list[int] = []

    async def script(session: Session) -> None:
        assert session.voice is not None
        assert session.voice.playback is not None
        for number in range(EXCHANGES):
            await session.say(f"question {number} about {TOPICS[number % len(TOPICS)]}")
            await session.answered()
            # The server's own record of requests is not what is measured.
            tokens.append(session.server.requests[-1].tokens)
            session.server.requests[:-1] = []
            session.log.events.clear()
            if number % max(1, EXCHANGES // 10) == 0:
                gc.collect()
                heap_bytes.append(tracemalloc.get_traced_memory()[0])
                messages.append(len(session.context.messages))
                turns.append(len(session.voice.playback.turns))

    tokens: list[int] = []
    tracemalloc.start()
    try:
        outcome = play(script, Talkative(), ours=True, tts=EspeakTTSService)
    finally:
        tracemalloc.stop()
    assert outcome.log.errors == []
    assert len(tokens) == EXCHANGES
    settled = tokens[len(tokens) // 3 :]
    assert max(settled) <= 1.35 * min(settled) + 60, settled
    assert max(messages) <= messages[2] + 6
    assert max(turns) <= 9
    # The page index grows by design: text and a vector a page, below 20 kB. Nothing else may.
    third = len(heap_bytes) // 3
    grown_pages = EXCHANGES * 2 // 3
    assert heap_bytes[-1] - heap_bytes[third] <= grown_pages * 20_000 + 2_000_000
