"""`SessionRecorder`: a call as a file, for `voicectx inspect`, and its decisions made again by fresh cores."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from loguru import logger

from pipecat_voicectx.demo.espeak_tts import EspeakTTSService
from pipecat_voicectx.observers import SessionRecorder, read_session, replay
from pipecat_voicectx.testing.openai_server import ChatRequest, Reply, ToolCall
from pipecat_voicectx.testing.scripted_session import Session, play


class Guide:
    """Stands in for the hosted model, behind the real chat-completions protocol."""

    def reply(self, request: ChatRequest) -> Reply:
        said = [str(message["content"]) for message in request.messages if message["role"] == "user"]
        if request.messages[-1]["role"] != "tool" and "slowly" in said[-1]:
            return Reply(
                tool_calls=[ToolCall(name="set_response_speed", arguments={"words_per_minute": 140})]
            )
        return Reply(text="The castle opens at nine. The old town is best before noon.")


def record(path: Path) -> None:
    async def call(session: Session) -> None:
        recorder = SessionRecorder(path, title="guide").attach(session.worker)
        await session.say("what should we see in ghent tomorrow", secs=2.0)
        await session.answered()
        await session.say("please say that more slowly to me", secs=2.0)
        await session.answered()
        await recorder.close()

    play(call, Guide(), ours=True, tts=EspeakTTSService)


if __name__ == "__main__":
    logger.remove()  # only what this example prints
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "call.jsonl"
        record(path)
        header, lines = read_session(path)
        kinds = Counter(str(line["k"]) for line in lines)
        print(
            f"{header.title}: {kinds['context']} requests, {kinds['heard']} answers heard, {path.stat().st_size} bytes"
        )
        result = replay(read_session(path)[1])
        print(f"replayed {result.calls} calls to the cores: {'the same' if result.same else 'different'}")
        for directive in result.directives:
            print(f"came out: {directive}")
