from __future__ import annotations

from pipecat.frames.frames import TTSSpeakFrame

from pipecat_voicectx.demo.espeak_tts import EspeakTTSService
from pipecat_voicectx.playback.boundary import UnheardRemainder
from pipecat_voicectx.testing.openai_server import ChatRequest, Reply
from pipecat_voicectx.testing.scripted_session import Session, play

ANSWER = "The trains to Berlin go every hour this morning. All of them are quick."
NOTICE = "By the way, I have another call. It will not take long."


class Clerk:
    def reply(self, request: ChatRequest) -> Reply:
        asked = [message for message in request.messages if message["role"] == "user"]
        return Reply(text=ANSWER if len(asked) == 1 else "Gladly.")


def test_an_interruption_of_two_turns_leaves_the_rest_of_both() -> None:
    rests: list[UnheardRemainder | None] = []

    async def script(call: Session) -> None:
        assert call.voice is not None
        assert call.voice.playback is not None
        await call.say("a train please")
        await call.speaking()
        await call.worker.queue_frame(TTSSpeakFrame(NOTICE))
        await call.listen(2.0)
        rests.append(call.voice.playback.unheard)
        await call.say("no wait a moment", secs=1.0)
        rests.append(call.voice.playback.unheard)
        await call.listen(3.0)

    play(script, Clerk(), ours=True, tts=EspeakTTSService)
    before, rest = rests
    assert before is None
    assert rest is not None
    # Both in their order, each word once, and nothing of what was heard.
    assert f"{ANSWER} {NOTICE}".endswith(rest.text)
    assert len(NOTICE.split()) < len(rest.text.split()) < len(f"{ANSWER} {NOTICE}".split())
    assert [span.text for span in rest.spans][-2:] == ["All of them are quick.", NOTICE]
