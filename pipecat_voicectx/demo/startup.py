"""What a bot's process does before anybody is on the line: it says what is missing, and loads what takes seconds."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NoReturn

from pipecat_voicectx.demo.environment import (
    EMBEDDINGS_ENV,
    SCRIPTED_LLM_ENV,
    missing_ears_or_voice,
    missing_to_think,
    wrong_settings,
)
from pipecat_voicectx.demo.parts import BotSettings, local_embedder
from pipecat_voicectx.demo.transport_keys import (
    TELEPHONES,
    asked_transport,
    installed,
    missing_for,
    missing_transport,
    not_taken,
)
from pipecat_voicectx.errors import UnavailableError, UsageError

__all__ = [
    "load_memory",
    "preload",
    "preload_speech",
    "prepare",
]


def preload(transports: Collection[str], *, show: Callable[[], object]) -> None:
    """For the bots on OpenAI's chat: checks, then `prepare`.

    Exits with code 2 and one line when something is missing or wrong. Whose calls a bot without `-t` cannot take, it
    says in one line and goes on.

    Args:
        transports: What the bot can be asked for with `-t`.
        show: Puts the inspector beside Pipecat's runner.
    """
    _read_dotenv()
    words = sys.argv[1:]
    asked = asked_transport(words)
    problem = (
        missing_to_think(os.environ)
        or missing_transport(words, transports)
        or missing_for(asked, os.environ)
        or _wrong_setting()
        or missing_ears_or_voice(os.environ)
    )
    if problem:
        _stop(problem)
    if asked is None and set(transports) <= set(TELEPHONES) and (line := not_taken(transports, os.environ)):
        print(line, flush=True)
    prepare(show=show)


def preload_speech(
    transports: Collection[str],
    *,
    key: str,
    show: Callable[[], object],
    library: tuple[str, str] | None = None,
) -> None:
    """For the bots on a speech-to-speech service: the same, with its one key.

    Args:
        transports: What the bot can be asked for with `-t`.
        key: The service's environment variable.
        show: Puts the inspector beside Pipecat's runner.
        library: The service's library, by import name, and the extra of this package that installs it.
    """
    _read_dotenv()
    problem = missing_transport(sys.argv[1:], transports) or _wrong_setting()
    if problem is None and not os.environ.get(key):
        problem = f"missing {key}; without a key there is `voicectx demo`"
    if problem is None and library is not None and not installed(library[0]):
        problem = f"missing {library[0]}; run: pip install 'pipecat-voicectx[{library[1]}]'"
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


def _wrong_setting() -> str | None:
    return next((f"{name} {trouble}" for name, trouble in wrong_settings(os.environ)), None)


def _read_dotenv() -> None:
    """Keys from `.env` in the folder the bot is started from, or above it; what is set already stays."""
    with contextlib.suppress(ImportError):  # comes with Pipecat's runner
        from dotenv import find_dotenv, load_dotenv

        load_dotenv(find_dotenv(usecwd=True))


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
