"""What a bot's process does before anybody is on the line: it says what is missing, and loads what takes seconds."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipecat_voicectx.demo.llm_host import SCRIPTED_LLM_ENV
from pipecat_voicectx.demo.parts import EMBEDDINGS_ENV, local_embedder
from pipecat_voicectx.errors import UnavailableError

__all__ = ["load_memory", "missing_for_daily", "missing_to_think", "preload"]


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


def preload() -> None:
    """For the bots on OpenAI's chat: checks, then `load_memory`.

    Exits with code 2 and one line when something is missing.
    """
    missing = missing_to_think(os.environ) or missing_for_daily(sys.argv[1:], os.environ)
    if missing:
        print(missing, flush=True)
        raise SystemExit(2)
    if os.environ.get("VOICECTX_DEMO_PLUGIN", "1") != "0":
        load_memory()


def load_memory() -> None:
    """Facts are kept by Mem0, whose import holds Python for 200 ms: before a call, never in one."""
    import pipecat_voicectx.voice_context  # noqa: F401
    from pipecat_voicectx.stores.mem0_engine import load_mem0

    with contextlib.suppress(UnavailableError):  # not installed: facts say so, once
        load_mem0(Path(tempfile.mkdtemp(prefix="voicectx-mem0-")))
    folder = os.environ.get(EMBEDDINGS_ENV)
    if folder or os.environ.get(SCRIPTED_LLM_ENV) == "1":
        local_embedder(folder or None)
