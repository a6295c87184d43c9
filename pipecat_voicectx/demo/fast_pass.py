"""One pass of `--fast`: caller, bot and scripted model in one process, on a virtual clock.

Run as `python -m pipecat_voicectx.demo.fast_pass`; the runner starts it as a child and reads its events.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import random
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from loguru import logger

from pipecat_voicectx.demo.caller import run_caller
from pipecat_voicectx.demo.children import end_with_parent
from pipecat_voicectx.demo.events import EventLog
from pipecat_voicectx.demo.llm_host import scripted_llm
from pipecat_voicectx.demo.pass_files import PassFiles
from pipecat_voicectx.demo.scenario import Scenario, load_scenario
from pipecat_voicectx.errors import VoiceContextError
from pipecat_voicectx.testing import virtual_time

__all__ = ["main", "run_fast_pass"]

Bot = Callable[[Any], Awaitable[None]]

# aiortc draws its RTCP intervals from `random`; fixed, so that a run repeats.
_SEED = 20
# Chosen: a bot that has not ended this long after the caller hung up is cancelled.
_BOT_END_SECS = 10.0


async def run_fast_pass(
    scenario: Scenario, scenario_path: Path, *, plugin: bool, files: PassFiles, bot_path: Path
) -> None:
    """Plays the whole scenario once and leaves its events in `files`."""
    from pipecat.runner.types import SmallWebRTCRunnerArguments

    from pipecat_voicectx.demo import inprocess

    asyncio.get_running_loop().set_default_executor(_InlineExecutor())
    start_secs = time.monotonic()
    bot = _load_bot(bot_path)
    sessions: list[asyncio.Task[None]] = []

    async def connect(peer: Any, call: int) -> None:
        connection = inprocess.InProcessConnection()
        args = SmallWebRTCRunnerArguments(
            webrtc_connection=connection,
            body=files.session_body(
                plugin=plugin, scenario_path=scenario_path, call=call, start_secs=start_secs
            ),
        )
        await _ended(sessions)
        await inprocess.connect(
            peer, connection, lambda: sessions.append(asyncio.ensure_future(_as_coroutine(bot(args))))
        )

    async with scripted_llm(scenario, EventLog(files.llm_events, "llm", start_secs), files.caller_events):
        log = EventLog(files.caller_events, "caller", start_secs)
        try:
            await run_caller(scenario, log=log, new_peer=inprocess.InProcessPeer, connect=connect)
        finally:
            await _ended(sessions)


class _InlineExecutor(ThreadPoolExecutor):
    """Runs a job at once: on a virtual clock a thread only costs, 10,000 Opus packets' worth of switching."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


async def _as_coroutine(session: Awaitable[None]) -> None:
    await session


async def _ended(sessions: list[asyncio.Task[None]]) -> None:
    """Waits for the previous session's end, as a caller who dials again takes a moment."""
    for session in sessions:
        if not session.done():
            await asyncio.wait([session], timeout=_BOT_END_SECS)
            session.cancel()
        await asyncio.gather(session, return_exceptions=True)
        if not session.cancelled() and (error := session.exception()) is not None:
            raise error
    sessions.clear()


def _load_bot(path: Path) -> Bot:
    spec = importlib.util.spec_from_file_location("voicectx_demo_bot", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    loaded: Bot = module.bot
    return loaded


def main(argv: list[str] | None = None) -> int:
    """Entry point of the child process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--scenario", type=Path, required=True)
    parser.add_argument("--bot", type=Path, required=True)
    parser.add_argument("--plugin", choices=("0", "1"), required=True)
    parser.add_argument("--log-level", default="ERROR")
    args = parser.parse_args(argv)
    logger.remove()
    logger.add(sys.stderr, level=args.log_level)
    random.seed(_SEED)
    end_with_parent()
    try:
        virtual_time.run(
            run_fast_pass(
                load_scenario(args.scenario),
                args.scenario,
                plugin=args.plugin == "1",
                files=PassFiles(args.folder),
                bot_path=args.bot,
            )
        )
    except VoiceContextError as error:
        print(f"voicectx: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
