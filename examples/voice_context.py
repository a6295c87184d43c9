"""The whole layer in one bot: say something, be answered, interrupt, and see what each part reports."""

from __future__ import annotations

from loguru import logger

from pipecat_voicectx import HeardTurn, SpeakingRateState
from pipecat_voicectx.demo.espeak_tts import EspeakTTSService
from pipecat_voicectx.testing.openai_server import ChatRequest, Reply
from pipecat_voicectx.testing.scripted_session import Session, play


class Guide:
    """Stands in for the hosted model, behind the real chat-completions protocol."""

    def reply(self, request: ChatRequest) -> Reply:
        return Reply(
            text="The castle opens at nine. The old town is best before noon. Lunch is by the river."
        )


async def call(session: Session) -> None:
    voice = session.voice
    assert voice is not None

    @voice.event_handler("on_speaking_rate")
    async def on_speaking_rate(_tracker: object, state: SpeakingRateState) -> None:
        print(f"the caller speaks at {state.rate:.0f} words a minute")

    @voice.event_handler("on_heard")
    async def on_heard(_ledger: object, turn: HeardTurn) -> None:
        print(f"heard:   {turn.heard_text}")
        print(f"unheard: {turn.unheard_text or '-'}")

    await session.say("what should we see in ghent tomorrow", secs=2.0)
    await session.speaking()
    await session.listen(2.5)
    session.bot_speaking.clear()
    await session.say("wait, when does it open", secs=1.5)
    await session.answered()


if __name__ == "__main__":
    logger.remove()  # only what this example prints
    play(call, Guide(), ours=True, tts=EspeakTTSService)
