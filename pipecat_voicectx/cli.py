"""The `voicectx` command: the demo, the benches, what is remembered, and a check-up of the installation.

Exit codes: 0 done, 1 the work itself failed, 2 bad arguments or a missing part. A sub-command is a module with
`add_arguments(parser)` and `run(args) -> exit code`, imported only when it was asked for, so that `voicectx --help`
answers at once and without the optional extras.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

from pipecat_voicectx.errors import BadInputError, UsageError, VoiceContextError

__all__ = ["main"]

_EXIT_FAILED = 1
_EXIT_USAGE = 2
_EXIT_INTERRUPTED = 130

_COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": (
        "pipecat_voicectx.commands.demo",
        "play one recorded call against stock Pipecat and against ours",
    ),
    "bench": ("", "measure against named baselines"),
    "memory": (
        "pipecat_voicectx.commands.memory",
        "inspect, export, erase or consolidate what is remembered",
    ),
    "inspect": ("pipecat_voicectx.commands.inspect", "look at a recorded session, or replay its decisions"),
    "doctor": ("pipecat_voicectx.commands.doctor", "check this installation and say how to mend it"),
}

# Print order; a bench is listed when its module is there.
_BENCHES = ("loss", "rate", "bargein", "longcontext", "memory", "updates", "overhead", "load", "inspector")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code; `argv` without the program's name, default `sys.argv`."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except (UsageError, BadInputError) as error:
        print(f"voicectx: {error}", file=sys.stderr)
        return _EXIT_USAGE
    except VoiceContextError as error:
        print(f"voicectx: {error}", file=sys.stderr)
        return _EXIT_FAILED
    except KeyboardInterrupt:
        print("voicectx: interrupted", file=sys.stderr)
        return _EXIT_INTERRUPTED


def package_version() -> str:
    """The installed distribution's version, or "unknown" when run from a bare source tree."""
    try:
        return version("pipecat-voicectx")
    except PackageNotFoundError:
        return "unknown"


def _dispatch(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="voicectx",
        description="The voice-context layer for Pipecat.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="commands:\n" + "\n".join(f"  {name:<8}{text}" for name, (_, text) in _COMMANDS.items()),
    )
    parser.add_argument("--version", action="version", version=f"pipecat-voicectx {package_version()}")
    parser.add_argument("command", metavar="COMMAND", choices=list(_COMMANDS))
    command = parser.parse_args(words[:1]).command
    rest = words[1:]
    if command != "bench":
        return _run_module(_COMMANDS[command][0], prog=f"voicectx {command}", words=rest)

    parser = argparse.ArgumentParser(prog="voicectx bench", description="Measure against named baselines.")
    available = bench_names()
    parser.add_argument(
        "name", metavar="NAME", choices=[*available, "all"], help=", ".join([*available, "all"])
    )
    name = parser.parse_args(rest[:1]).name
    if name != "all":
        return _run_module(f"pipecat_voicectx.bench.{name}", prog=f"voicectx bench {name}", words=rest[1:])
    return _run_every_bench(available, rest[1:])


def _run_every_bench(names: Sequence[str], words: Sequence[str]) -> int:
    """Each bench writes its figures by itself; `--json FILE` gets them all as one object, by the benches' names."""
    parser = argparse.ArgumentParser(prog="voicectx bench all", add_help=False, allow_abbrev=False)
    parser.add_argument("--json", type=Path, metavar="FILE")
    ours, words = parser.parse_known_args(words)
    _check_writable(ours.json)
    figures: dict[str, object] = {}
    worst = 0
    with tempfile.TemporaryDirectory(prefix="voicectx-bench-") as folder:
        for name in names:
            written = Path(folder) / f"{name}.json"
            code = _run_one_of_all(name, [*words, *(("--json", str(written)) if ours.json else ())])
            worst = max(worst, code)
            if written.is_file():
                figures[name] = json.loads(written.read_text("utf-8"))
            if code == _EXIT_INTERRUPTED:
                break
    if ours.json is not None:
        ours.json.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    return worst


def _run_one_of_all(name: str, words: Sequence[str]) -> int:
    print(f"== bench {name}", flush=True)
    try:
        code = main(["bench", name, *words])
    except SystemExit as stopped:  # argparse: a required argument is missing
        code = stopped.code if isinstance(stopped.code, int) else _EXIT_USAGE
    if code == _EXIT_USAGE:
        print(f"   skipped: it needs data or parts that were not given; see voicectx bench {name} --help")
        return 0
    return code


def bench_names() -> list[str]:
    """The benches that are there, in print order."""
    import pipecat_voicectx.bench as package

    found = {module.name for module in pkgutil.iter_modules(package.__path__)}
    return [name for name in _BENCHES if name in found]


def _run_module(module_name: str, *, prog: str, words: Sequence[str]) -> int:
    module = _load(module_name)
    parser = argparse.ArgumentParser(prog=prog, description=(module.__doc__ or "").strip().split("\n\n")[0])
    module.add_arguments(parser)
    args = parser.parse_args(words)
    _check_writable(getattr(args, "json", None))
    return int(module.run(args))


def _check_writable(file: Path | None) -> None:
    """Before an hour of measuring, not after it.

    Raises:
        UsageError: `--json` names a place that cannot be written.
    """
    if file is None:
        return
    folder = file.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"--json {file}: folder {folder} does not exist; create it or name another")
    if file.is_dir() or not os.access(file if file.exists() else folder, os.W_OK):
        raise UsageError(f"--json {file} cannot be written; name another place")


def _load(module_name: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("pipecat_voicectx"):
            raise
        raise UsageError(
            f"{error.name} is not installed; run: pip install 'pipecat-voicectx[demo]'"
        ) from error


if __name__ == "__main__":
    raise SystemExit(main())
