"""Checks this installation and says in plain words how to mend what is missing.

Nothing is changed, nothing is downloaded, no service is called. Exit code 0 when everything the core needs is
there (optional parts may be missing), 1 otherwise.
"""

from __future__ import annotations

import argparse
import getpass
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pipecat_voicectx.demo.environment import (
    EMBEDDINGS_ENV,
    missing_ears_or_voice,
    missing_to_think,
    wrong_settings,
)
from pipecat_voicectx.errors import UsageError, VoiceContextError
from pipecat_voicectx.inspector.access import TOKEN_ENV, check_token
from pipecat_voicectx.stores.folder_lock import lock_folder, unlock
from pipecat_voicectx.stores.model_cache import MINILM, holds_model, model_cache

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

__all__ = ["Finding", "Verdict", "add_arguments", "findings", "run"]


class Verdict(Enum):
    """How a checked part stands."""

    GOOD = "ok"
    OPTIONAL = "--"
    """Missing, and only an optional feature wants it."""
    BAD = "!!"
    """Missing or broken, and the core needs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the check-up."""

    part: str
    """What was looked at."""
    verdict: Verdict
    """How it stands."""
    detail: str
    """What was found and, unless all is well, the fix."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store",
        type=Path,
        metavar="DIR",
        help="the folder you give your bot as store_path: whether it is free, writable and of which embedder",
    )
    parser.add_argument(
        "--port",
        type=_port_number,
        default=7860,
        help="the port your bot will listen on (default 7860, Pipecat's runner)",
    )


def _port_number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; give a number from 1 to 65535")
    return int(text)


def run(args: argparse.Namespace) -> int:
    worst_is_bad = False
    for finding in findings(port=args.port, store=args.store):
        print(f"{finding.verdict.value}  {finding.part:<22} {finding.detail}")
        worst_is_bad |= finding.verdict is Verdict.BAD
    return 1 if worst_is_bad else 0


def findings(*, port: int, store: Path | None = None) -> Iterator[Finding]:
    """Every check, in print order."""
    yield _python()
    for name in ("pipecat-ai", "mem0ai", "qdrant-client", "fastembed", "openai", "numpy", "loguru"):
        yield _distribution(name, missing=Verdict.BAD, fix="pip install pipecat-voicectx")
    yield _distribution(
        "aiortc", missing=Verdict.OPTIONAL, fix="WebRTC: pip install 'pipecat-voicectx[webrtc]'"
    )
    yield _distribution(
        "daily-python", missing=Verdict.OPTIONAL, fix="Daily: pip install 'pipecat-voicectx[daily]'"
    )
    yield _distribution(
        "espeakng-loader",
        missing=Verdict.OPTIONAL,
        fix="demo voice (GPL): pip install 'pipecat-voicectx[demo]'",
    )
    yield _distribution(
        "faster-whisper", missing=Verdict.OPTIONAL, fix="local STT: pip install 'pipecat-voicectx[whisper]'"
    )
    yield _devices()
    yield _vad_model()
    yield _embedder_model()
    if store is not None:
        yield _store(store)
    yield _key()
    yield from _settings()
    yield _port(port)
    yield _disk()


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    good = (3, 11) <= sys.version_info[:2] <= (3, 13)
    return Finding(
        part="Python",
        verdict=Verdict.GOOD if good else Verdict.BAD,
        detail=found if good else f"{found}; needs 3.11, 3.12 or 3.13",
    )


def _distribution(name: str, *, missing: Verdict, fix: str) -> Finding:
    try:
        found = version(name)
    except PackageNotFoundError:
        return Finding(part=name, verdict=missing, detail=f"not installed; {fix}")
    allowed = _allowed(name)
    if allowed is not None and not allowed.contains(found, prereleases=True):
        detail = f"{found}, but {allowed} is needed; run: pip install '{name}{allowed}'"
        return Finding(part=name, verdict=missing, detail=detail)
    return Finding(part=name, verdict=Verdict.GOOD, detail=found)


@cache
def _ranges() -> Mapping[str, SpecifierSet]:
    """What this package asks of each distribution, by name; empty where that cannot be told."""
    try:
        from packaging.requirements import Requirement

        lines = requires("pipecat-voicectx") or []
    except (ImportError, PackageNotFoundError):  # half an installation, or a bare source tree
        return {}
    wanted = [Requirement(line) for line in lines]
    return {each.name: each.specifier for each in wanted if each.specifier}


def _allowed(name: str) -> SpecifierSet | None:
    return _ranges().get(name)


def _devices() -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    detail = f"{cores} CPU core{'s' if cores != 1 else ''} for this process; no GPU is needed or used"
    return Finding(part="devices", verdict=Verdict.GOOD, detail=detail)


def _vad_model() -> Finding:
    if find_spec("onnxruntime") is None:
        return Finding(
            part="Silero VAD",
            verdict=Verdict.OPTIONAL,
            detail="onnxruntime is not installed; pip install 'pipecat-voicectx[webrtc]'",
        )
    return Finding(part="Silero VAD", verdict=Verdict.GOOD, detail="in pipecat-ai, runs on the CPU")


def _embedder_model(environ: Mapping[str, str] = os.environ) -> Finding:
    given = environ.get(EMBEDDINGS_ENV)
    if given and (Path(given) / "tokenizer.json").is_file():
        return Finding(part="embedder", verdict=Verdict.GOOD, detail=f"of the bots: the model in {given}")
    folder = model_cache(environ)
    if holds_model(folder, MINILM):
        return Finding(part="embedder", verdict=Verdict.GOOD, detail=f"all-MiniLM-L6-v2 cached in {folder}")
    detail = f"all-MiniLM-L6-v2 is not in {folder}; fetched at first use (90 MB), or give the embedder a model folder"
    return Finding(part="embedder", verdict=Verdict.OPTIONAL, detail=detail)


def _settings(environ: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """One finding for each variable that would stop a bot."""
    for name, trouble in wrong_settings(environ):
        yield Finding(part=name, verdict=Verdict.BAD, detail=trouble)
    try:
        check_token(environ.get(TOKEN_ENV))
    except UsageError as error:
        yield Finding(part=TOKEN_ENV, verdict=Verdict.BAD, detail=str(error))


def _store(folder: Path) -> Finding:
    part = f"store {folder}"
    if not folder.exists():
        parent = next(each for each in folder.absolute().parents if each.exists())
        if os.access(parent, os.W_OK):
            return Finding(part=part, verdict=Verdict.GOOD, detail="not there yet; made by the first call")
        detail = f"cannot be made: {parent} is not writable; give your bot another store_path"
        return Finding(part=part, verdict=Verdict.BAD, detail=detail)
    if not folder.is_dir():
        return Finding(
            part=part, verdict=Verdict.BAD, detail="is a file; give your bot a folder as store_path"
        )
    if not os.access(folder, os.W_OK):
        detail = f"not writable; run: chown -R {getpass.getuser()} {folder}, or use another folder"
        return Finding(part=part, verdict=Verdict.BAD, detail=detail)
    made_with = sorted(each.name for each in folder.glob("qdrant/collection/voicectx_pages_*"))
    if not made_with:
        return Finding(part=part, verdict=Verdict.GOOD, detail="writable; no memory in it yet")
    try:
        unlock(lock_folder(folder))
    except VoiceContextError:
        detail = (
            "in use by another process, and embedded stores serve one; stop that bot, or use another folder"
        )
        return Finding(part=part, verdict=Verdict.OPTIONAL, detail=detail)
    names = ", ".join(name.removeprefix("voicectx_pages_") for name in made_with)
    return Finding(part=part, verdict=Verdict.GOOD, detail=f"free; embedder and dimension: {names}")


def _key(environ: Mapping[str, str] = os.environ) -> Finding:
    part = "OPENAI_API_KEY"
    if environ.get(part):
        return Finding(part=part, verdict=Verdict.GOOD, detail="set; bots use hosted parts")
    missing = missing_to_think(environ) or missing_ears_or_voice(environ)
    if missing is None:
        return Finding(
            part=part, verdict=Verdict.GOOD, detail="not set, nor needed: local_bot.py has local parts"
        )
    detail = f"not set; local_bot.py stops: {missing}. `voicectx demo` needs no key"
    return Finding(part=part, verdict=Verdict.OPTIONAL, detail=detail)


def _port(port: int) -> Finding:
    part = f"port {port}"
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            detail = f"not free ({error.strerror}); stop the other program or give your bot --port"
            return Finding(part=part, verdict=Verdict.OPTIONAL, detail=detail)
    return Finding(part=part, verdict=Verdict.GOOD, detail="free")


def _disk(usage: Callable[[str], object] = shutil.disk_usage) -> Finding:
    # Chosen: a store of 10,000 pages takes about 50 MB; below 200 MB the next write may fail in mid-call.
    needed_mb = 200
    free_mb = int(getattr(usage(tempfile.gettempdir()), "free", 0)) // 2**20
    if free_mb >= needed_mb:
        return Finding(part="disk", verdict=Verdict.GOOD, detail=f"{free_mb} MB free for temporary files")
    return Finding(part="disk", verdict=Verdict.BAD, detail=f"{free_mb} MB free; needs {needed_mb} MB")
