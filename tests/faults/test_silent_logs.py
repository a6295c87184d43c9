"""No word of a caller or of an answer in any log of ours, at the finest level."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from loguru import logger

from pipecat_voicectx.testing.openai_server import Reply, ToolCall
from pipecat_voicectx.testing.scripted_session import Session
from tests.faults.calls import Steps, Trouble, TroubledVoice, call, exchange

# Words that nothing but the caller, the model or the caller's id could have brought into a log.
CALLER = ["zanzibar", "pumpernickel", "quetzal", "xylophone"]
BOT = ["marzipan", "rhododendron"]
OWNER = "caller-jabberwocky"


def test_the_logs_of_a_call_with_troubles_hold_no_word_of_it(tmp_path: Path) -> None:
    lines: list[str] = []

    def ours(record: Any) -> bool:
        return str(record["name"]).startswith("pipecat_voicectx")

    class Stdlib(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name.startswith("pipecat_voicectx"):
                lines.append(self.format(record))

    sink = logger.add(lambda message: lines.append(str(message)), level=0, filter=ours, diagnose=False)
    handler = Stdlib(level=0)
    root, level = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(1)

    async def script(session: Session) -> None:
        await exchange(session, "my name is quetzal and i live in zanzibar")
        await session.say("i like pumpernickel")
        await session.listen(20)
        session.bot_speaking.clear()
        await session.say("tell me of the xylophone")
        await session.speaking()
        await session.say("no wait xylophone")
        await session.listen(20)
        session.bot_speaking.clear()
        await exchange(session, "where do i live and what do i like")

    policy = Steps(
        Reply(text="I like marzipan."),
        Reply(tool_calls=(ToolCall(name="set_response_instruction", arguments={"text": "rhododendron"}),)),
        Reply(text="The rhododendron is in flower. It has many leaves. All of them are green."),
    )
    voice = TroubledVoice.with_troubles(Trouble.NONE, Trouble.NONE, Trouble.NONE, Trouble.RAISES)
    try:
        for _ in range(2):
            call(script, policy, tts=voice, user_id=OWNER, store_path=tmp_path / "m")
    finally:
        logger.remove(sink)
        root.removeHandler(handler)
        root.setLevel(level)
    assert len(lines) > 10, "the logs were read"
    told = [line for line in lines if any(word in line.lower() for word in [*CALLER, *BOT, OWNER])]
    assert told == []


PACKAGE = Path(__file__).parents[2] / "pipecat_voicectx"
# Said by nobody but the caller, the bot, and what the bot looked up.
DEMO_WORDS = ("october", "euros", "ghent", "lyon", "turin", "lucerne", "aarhus")


def test_the_logs_of_the_recorded_call_hold_no_word_of_it(tmp_path: Path) -> None:
    """The demo's call, shortened: a request, an answer that is interrupted, and a second call."""
    scenario = json.loads((PACKAGE / "demo/scenario.json").read_text())
    first = scenario["calls"][0]["utterances"]
    scenario["calls"][0]["utterances"] = [
        each for each in first if each["id"] in ("budget", "no_flights", "this_one")
    ]
    (tmp_path / "scenario.json").write_text(json.dumps(scenario))
    (tmp_path / "recordings").symlink_to(PACKAGE / "demo/recordings")
    folder = tmp_path / "pass"
    folder.mkdir()
    command = [
        sys.executable,
        "-m",
        "pipecat_voicectx.demo.fast_pass",
        "--folder",
        str(folder),
        "--plugin",
        "1",
    ]
    command += [
        "--scenario",
        str(tmp_path / "scenario.json"),
        "--bot",
        str(PACKAGE.parent / "bots/local_bot.py"),
    ]
    ended = subprocess.run([*command, "--log-level", "DEBUG"], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-1000:]
    said = " ".join((folder / "bot.jsonl").read_text().split()).lower()
    assert [word for word in DEMO_WORDS if word not in said] == [], "the call was had"
    # "time | LEVEL | module:function:line - message", and what belongs to the message before.
    lines = re.split(r"\n(?=\d{4}-\d\d-\d\d )", ended.stderr)
    ours = [line for line in lines if re.search(r"\| (pipecat_voicectx|voicectx_demo_bot)[.:]", line)]
    assert len(ours) > 20, "the logs were read"
    assert [line for line in ours if any(word in line.lower() for word in DEMO_WORDS)] == []
    assert [line for line in ours if "demo-caller" in line] == []
