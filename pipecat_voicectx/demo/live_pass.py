"""One pass over real WebRTC: the bot's process, the caller's process, and the scripted model in this one.

Run as `python -m pipecat_voicectx.demo.live_pass`; the runner starts it as a child and reads its events.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from pipecat_voicectx.demo.children import Child, Group, end_with_parent, interruptions_deferred
from pipecat_voicectx.demo.events import EventLog
from pipecat_voicectx.demo.llm_host import scripted_llm
from pipecat_voicectx.demo.pass_files import PassFiles
from pipecat_voicectx.demo.scenario import load_scenario
from pipecat_voicectx.errors import UnavailableError, VoiceContextError

__all__ = ["main"]

# Chosen: twice what the packaged scenario takes; both passes must fit four minutes.
_CALL_SECS = 220.0
_POLL_SECS = 0.05


async def _run(args: argparse.Namespace) -> None:
    files = PassFiles(args.folder)
    scenario = load_scenario(args.scenario)
    log = EventLog(files.llm_events, "llm", time.monotonic())
    children: list[Child] = []
    try:
        async with scripted_llm(scenario, log, files.caller_events):
            bot_args = [str(args.bot), "-t", "webrtc", "--host", "127.0.0.1", "--port", str(args.port)]
            os.environ["VOICECTX_DEMO_PLUGIN"] = args.plugin
            bot = _start(children, "bot_host", bot_args, files)
            caller_args = ["--url", f"http://127.0.0.1:{args.port}", "--folder", str(args.folder)]
            caller_args += ["--scenario", str(args.scenario), "--plugin", args.plugin]
            caller = _start(children, "caller_main", caller_args, files)
            log.start_secs = await _begun(files, caller, bot)
            await _ended(caller, bot)
    finally:
        for child in reversed(children):
            child.stop()


def _start(children: list[Child], name: str, args: list[str], files: PassFiles) -> Child:
    with interruptions_deferred():
        children.append(Child(f"pipecat_voicectx.demo.{name}", args, output=files.log, group=Group.PARENT))
    return children[-1]


async def _begun(files: PassFiles, caller: Child, bot: Child) -> float:
    """Waits until the caller found the bot ready; the moment the pass began."""
    while not files.start.exists():
        if bot.exit_code is not None:
            raise UnavailableError(f"the bot ended with exit code {bot.exit_code} before it could be called")
        if caller.exit_code is not None:
            raise UnavailableError(f"the caller ended with exit code {caller.exit_code}")
        await asyncio.sleep(_POLL_SECS)
    return float(files.start.read_text(encoding="utf-8"))


async def _ended(caller: Child, bot: Child) -> None:
    deadline_secs = time.monotonic() + _CALL_SECS
    while caller.exit_code is None:
        if bot.exit_code is not None:
            raise UnavailableError(f"the bot ended with exit code {bot.exit_code} during the call")
        if time.monotonic() > deadline_secs:
            raise UnavailableError(f"the call did not end within {_CALL_SECS:.0f} s")
        await asyncio.sleep(_POLL_SECS)
    if caller.exit_code != 0:
        raise UnavailableError(f"the caller ended with exit code {caller.exit_code}")


def main(argv: list[str] | None = None) -> int:
    """Entry point of the child process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--scenario", type=Path, required=True)
    parser.add_argument("--bot", type=Path, required=True)
    parser.add_argument("--plugin", choices=("0", "1"), required=True)
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args(argv)
    end_with_parent()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        asyncio.run(_run(args))
    except VoiceContextError as error:
        print(f"voicectx: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
