"""`PlaybackLedger` alone: the caller barges in, and the context holds what was played instead of what was generated."""

from __future__ import annotations

from loguru import logger

from pipecat_voicectx.demo.espeak_tts import EspeakTTSService
from pipecat_voicectx.testing.openai_server import ChatRequest, Reply
from pipecat_voicectx.testing.scripted_session import Session, play
from pipecat_voicectx.voice_context import Part, VoiceContextConfig


class Reader:
    def reply(self, request: ChatRequest) -> Reply:
        if len([m for m in request.messages if m["role"] == "user"]) > 1:
            return Reply(text="Of course.")
        return Reply(
            text="First is the alder desk. Second is the birch lamp. Third is the cedar chair. Fourth is the elm."
        )


async def call(session: Session) -> None:
    await session.say("which furniture do you have")
    await session.speaking()
    await session.listen(2.2)
    session.bot_speaking.clear()
    await session.say("that one please", secs=1.0)
    await session.answered()


if __name__ == "__main__":
    logger.remove()  # only what this example prints
    only_the_ledger = VoiceContextConfig(parts=frozenset({Part.PLAYBACK}))
    outcome = play(call, Reader(), ours=True, tts=EspeakTTSService, config=only_the_ledger)
    cut = next(message for message in outcome.session.sent() if message["role"] == "assistant")
    print(f"the model is told it said: {cut['content']}")
    ledger = outcome.session.voice.playback if outcome.session.voice else None
    assert ledger is not None
    assert ledger.last_unheard is not None
    print(f"kept aside, unheard:       {ledger.last_unheard.unheard_text}")
