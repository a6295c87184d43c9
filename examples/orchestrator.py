"""`Orchestrator`: the measured pace goes to the model, the model sets its own; a wrong call changes nothing."""

from __future__ import annotations

from loguru import logger

from pipecat_voicectx.demo.espeak_tts import EspeakTTSService
from pipecat_voicectx.testing.openai_server import ChatRequest, Reply, ToolCall
from pipecat_voicectx.testing.scripted_session import Session, play


class Matches:
    """First asks for an impossible speed, then for the caller's; answers when the speed is set."""

    def __init__(self) -> None:
        self._wanted = [900, 150]

    def reply(self, request: ChatRequest) -> Reply:
        last = request.messages[-1]
        if "<voice_state>" in str(last["content"]):
            print(str(last["content"]))
        if last["role"] == "tool":
            print("answer to the call:", last["content"])
        if self._wanted and (last["role"] == "tool" or "<voice_state>" in str(last["content"])):
            speed = self._wanted.pop(0)
            return Reply(
                tool_calls=(ToolCall(name="set_response_speed", arguments={"words_per_minute": speed}),)
            )
        return Reply(text="Gladly, and slowly.")


async def call(session: Session) -> None:
    assert session.voice is not None

    @session.voice.event_handler("on_directive")
    async def on_directive(_orchestrator: object, directive: object) -> None:
        print("took effect:", directive)

    await session.say("good morning I would like to ask something", secs=4.0)
    await session.answered()
    await session.say("could you tell me the way to the station", secs=4.0)
    await session.answered()


if __name__ == "__main__":
    logger.remove()  # only what this example prints
    play(call, Matches(), ours=True, tts=EspeakTTSService)
