"""What a bot's process does before anybody is on the line: it says what is missing, and loads what takes seconds."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from pipecat_voicectx.demo.llm_host import SCRIPTED_LLM_ENV
from pipecat_voicectx.demo.parts import EMBEDDINGS_ENV, WHISPER_ENV, BotSettings, local_embedder
from pipecat_voicectx.errors import UnavailableError, UsageError

__all__ = [
    "load_memory",
    "missing_for_daily",
    "missing_to_think",
    "missing_transport",
    "preload",
    "prepare",
    "wrong_settings",
]


def missing_to_think(environ: Mapping[str, str]) -> str | None:
    """What to say when there is no language model to ask; None when there is one."""
    if environ.get("OPENAI_API_KEY") or environ.get("OPENAI_BASE_URL"):
        return None
    return "missing OPENAI_API_KEY, or OPENAI_BASE_URL of a compatible server: nothing to think with"


def missing_for_daily(arguments: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """What to say when `-t daily` (or `-d`) is asked for and cannot be; None otherwise."""
    asked = any(a in ("-d", "--direct", "-tdaily", "--transport=daily") for a in arguments) or any(
        pair in (("-t", "daily"), ("--transport", "daily")) for pair in itertools.pairwise(arguments)
    )
    if not asked:
        return None
    if importlib.util.find_spec("daily") is None:
        return "missing daily-python; run: pip install 'pipecat-voicectx[daily]'"
    if not environ.get("DAILY_API_KEY"):
        return (
            "missing DAILY_API_KEY: a room is made with it; the key is in Daily's dashboard, under Developers"
        )
    return None


def missing_transport(arguments: Sequence[str], known: Collection[str]) -> str | None:
    """What to say when another transport is asked for with `-t` than the bot has; None otherwise."""
    asked = [b for a, b in itertools.pairwise(arguments) if a in ("-t", "--transport")]
    unknown = next((each for each in asked if each not in known), None)
    if unknown is None:
        return None
    other = "bots/phone_bot.py" if unknown in ("twilio", "telnyx", "plivo", "exotel") else "bots/local_bot.py"
    return f"this bot has no transport {unknown!r}, only {', '.join(known)}; see {other} for others"


def wrong_settings(environ: Mapping[str, str]) -> str | None:
    """What to say about a setting that would only fail in the first call; None when all can be used."""
    folder = environ.get(WHISPER_ENV)
    if folder and not Path(folder).is_dir():
        return f"{WHISPER_ENV} is {folder!r}, which is no folder; name that of a faster-whisper model"
    url = environ.get("OPENAI_BASE_URL")
    if url and not url.startswith(("http://", "https://")):
        return f"OPENAI_BASE_URL is {url!r}; give it as http://HOST:PORT/v1"
    return None


def preload(transports: Collection[str], *, show: Callable[[], object]) -> None:
    """For the bots on OpenAI's chat: checks, then `prepare`.

    Exits with code 2 and one line when something is missing or wrong.

    Args:
        transports: What the bot can be asked for with `-t`.
        show: Puts the inspector beside Pipecat's runner.
    """
    words = sys.argv[1:]
    problem = (
        missing_to_think(os.environ)
        or missing_transport(words, transports)
        or missing_for_daily(words, os.environ)
        or wrong_settings(os.environ)
    )
    if problem:
        _stop(problem)
    prepare(show=show)


def prepare(*, show: Callable[[], object]) -> None:
    """`load_memory` and `show`; exits with code 2 and one line when a setting is wrong."""
    try:
        if BotSettings.of_session(None).plugin:
            load_memory()
        show()
    except UsageError as error:
        _stop(str(error))


def _stop(problem: str) -> NoReturn:
    print(problem, flush=True)
    raise SystemExit(2)


def load_memory() -> None:
    """Facts are kept by Mem0, whose import holds Python for 200 ms: before a call, never in one."""
    import pipecat_voicectx.voice_context  # noqa: F401
    from pipecat_voicectx.stores.mem0_engine import load_mem0

    with contextlib.suppress(UnavailableError):  # not installed: facts say so, once
        load_mem0(Path(tempfile.mkdtemp(prefix="voicectx-mem0-")))
    folder = os.environ.get(EMBEDDINGS_ENV)
    if folder or os.environ.get(SCRIPTED_LLM_ENV) == "1":
        local_embedder(folder or None)
