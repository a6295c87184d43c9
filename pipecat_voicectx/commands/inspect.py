"""Look at a recorded session: one HTML page, and whether fresh cores decide the same.

The page is the inspector's own, with the recording in it; it loads nothing. `--check` replays the recording through the
pure cores and ends with 1 when a decision differs.
"""

from __future__ import annotations

import argparse
import webbrowser
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from pipecat_voicectx.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from pipecat_voicectx.observers.codec import Json

__all__ = ["add_arguments", "run"]

# Chosen: a screenful; the first ones tell what changed.
_MOST_SHOWN = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line."""
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path, help="a recording of SessionRecorder")
    parser.add_argument(
        "--out", metavar="PAGE", type=Path, help="where the page goes; default: FILE with .html"
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.add_argument(
        "--check", action="store_true", help="replay the decisions; no page unless --out is given"
    )
    parser.add_argument(
        "--setup-file",
        action="store_true",
        help="print the path to give Pipecat in PIPECAT_SETUP_FILES, to record and show any bot's sessions",
    )


def run(args: argparse.Namespace) -> int:
    """Runs the command and returns its exit code."""
    if args.setup_file:
        print(files("pipecat_voicectx.inspector") / "pipecat_setup.py")
        return 0
    if args.file is None:
        raise UsageError("inspect needs a recorded session FILE; see docs/inspector.md on how to record one")
    same = _check(args.file) if args.check else True
    if not args.check or args.out is not None:
        _write_page(args.file, args.out or args.file.with_suffix(".html"), show=args.open)
    return 0 if same else 1


def _check(path: Path) -> bool:
    from pipecat_voicectx.observers.events import read_session
    from pipecat_voicectx.observers.replay import replay

    result = replay(read_session(path)[1])
    print(f"{result.calls} calls to cores repeated, {result.answers} decisions compared")
    print(f"{len(result.directives)} directives, {len(result.holds)} holds and releases came out")
    if result.unread:
        print(f"{result.unread} lines could not be read by this version")
    for each in result.differences[:_MOST_SHOWN]:
        recorded, now = _differing(each.recorded, each.replayed)
        print(f"  {each.at_secs:9.2f} s  {each.where}: recorded {recorded}, now {now}")
    print("the same" if result.same else f"{result.different} differ")
    return result.same


def _differing(recorded: Json, now: Json) -> tuple[Json, Json]:
    """Of two objects, the fields that differ."""
    if not isinstance(recorded, dict) or not isinstance(now, dict):
        return recorded, now
    keys = [key for key, value in recorded.items() if now.get(key) != value]
    return {key: recorded[key] for key in keys}, {key: now.get(key) for key in keys}


def _write_page(path: Path, out: Path, *, show: bool) -> None:
    from pipecat_voicectx.inspector.pages import recorded_page

    if out.absolute() == path.absolute():
        raise UsageError(
            f"the page would take the place of the recording {path}; name another with --out PAGE"
        )
    page = recorded_page(path)
    try:
        out.write_text(page, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UnavailableError(f"{out} cannot be written: {error.strerror}") from error
    print(out)
    if show:
        webbrowser.open(out.resolve().as_uri())
