"""`voicectx demo`: checks, two passes one after the other, numbers and report.

Everything a pass does happens in child processes, which are gone when this returns, however it returns. Files appear
whole, at the end, or not at all.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from pipecat_voicectx.demo import preflight
from pipecat_voicectx.demo.children import Child, Group, interruptions_deferred
from pipecat_voicectx.demo.events import EventTail, read_events
from pipecat_voicectx.demo.microphone import caller_audio
from pipecat_voicectx.demo.pass_files import PART_LABELS, PassFiles
from pipecat_voicectx.demo.report import render_report
from pipecat_voicectx.demo.scenario import DEFAULT_SCENARIO_PATH, Scenario, load_scenario
from pipecat_voicectx.demo.score import score_pass
from pipecat_voicectx.demo.timeline import Timeline, shown_secs
from pipecat_voicectx.errors import UnavailableError, UsageError

__all__ = ["play_pass", "run_demo", "write_whole"]

_KEEP_ENV = "VOICECTX_DEMO_KEEP"
_POLL_SECS = 0.1
# Chosen: a pass on a virtual clock takes half its call's length on an idle core.
_FAST_PASS_SECS = 600.0
_LIVE_PASS_SECS = 300.0


def run_demo(
    *, fast: bool, json_path: Path | None, report_path: Path | None, scenario_path: Path | None = None
) -> int:
    """Plays the scenario against stock Pipecat and against the plugin; returns the exit code.

    Raises:
        UsageError, BadInputError: Something is not in order; the message is one line and says what to do.
        UnavailableError: A pass broke off.
    """
    scenario, path = _prepare(
        fast=fast, json_path=json_path, report_path=report_path, scenario_path=scenario_path
    )
    with contextlib.ExitStack() as stack:
        stack.enter_context(preflight.single_demo())
        stack.enter_context(_ending_on_signals())
        folder = stack.enter_context(_pass_folder())
        timeline = stack.enter_context(Timeline(scenario))
        passes = [
            _Pass(plugin=plugin, fast=fast, folder=folder, scenario_path=path) for plugin in (False, True)
        ]
        for each in passes:
            stack.callback(each.stop)
        if fast:
            for each in passes:
                each.start()  # on a virtual clock they cannot disturb each other
        for each in passes:
            timeline.begin(plugin=each.plugin)
            each.play(timeline)
            timeline.end()
        _conclude(
            scenario, passes, fast=fast, json_path=json_path, report_path=report_path, timeline=timeline
        )
    return 0


def play_pass(
    *, plugin: bool, fast: bool, folder: Path, scenario_path: Path, timeline: Timeline
) -> list[dict[str, object]]:
    """Plays one pass in child processes and returns its events.

    Raises:
        UnavailableError: It broke off or took too long; the message names the reason.
    """
    one = _Pass(plugin=plugin, fast=fast, folder=folder, scenario_path=scenario_path)
    try:
        one.play(timeline)
    finally:
        one.stop()
    return one.events


class _Pass:
    """One pass: a child process and the files it fills."""

    def __init__(self, *, plugin: bool, fast: bool, folder: Path, scenario_path: Path) -> None:
        self.plugin = plugin
        self.events: list[dict[str, object]] = []
        self._fast = fast
        self._files = PassFiles(folder / ("voicectx" if plugin else "stock"))
        self._scenario_path = scenario_path
        self._child: Child | None = None
        self._deadline_secs = 0.0

    def start(self) -> Child:
        """Starts the child, unless it runs already."""
        if self._child is None:
            self._files.folder.mkdir()
            args = ["--folder", str(self._files.folder), "--scenario", str(self._scenario_path)]
            args += ["--bot", str(bot_path()), "--plugin", "1" if self.plugin else "0"]
            if not self._fast:
                args += ["--port", str(preflight.demo_port())]
            module = "pipecat_voicectx.demo." + ("fast_pass" if self._fast else "live_pass")
            self._deadline_secs = time.monotonic() + (_FAST_PASS_SECS if self._fast else _LIVE_PASS_SECS)
            with interruptions_deferred():
                self._child = Child(module, args, output=self._files.log, group=Group.OWN)
        return self._child

    def play(self, timeline: Timeline) -> None:
        """Shows the pass to its end and leaves its events in `events`.

        Raises:
            UnavailableError: It broke off or took too long.
        """
        child = self.start()
        tail = EventTail(self._files.event_files)
        while child.exit_code is None and time.monotonic() < self._deadline_secs:
            _show(tail.read(), self._files, timeline)
            time.sleep(_POLL_SECS)
        exit_code = child.exit_code
        self.stop()
        _show(tail.read(), self._files, timeline)
        if exit_code != 0:
            raise UnavailableError(_failure(self._files, exit_code))
        self.events = list(read_events(self._files.event_files))

    def stop(self) -> None:
        """Ends the child; safe to call at any time."""
        if self._child is not None:
            self._child.stop()


def _show(events: list[dict[str, object]], files: PassFiles, timeline: Timeline) -> None:
    for event in sorted(events, key=shown_secs):
        if event["kind"] == "call_start" and event.get("call") == 1:
            for line in _parts_lines(files):
                timeline.note(line)
        timeline.event(event)


def _parts_lines(files: PassFiles) -> list[str]:
    """What the bot's first session said about its parts."""
    output = files.log.read_text(encoding="utf-8", errors="replace") if files.log.exists() else ""
    lines: dict[str, str] = {}
    for line in output.splitlines():
        part = line.strip().partition(" ")[0]
        if line.startswith("  ") and part in PART_LABELS:
            lines.setdefault(part, line)
    return list(lines.values())


def bot_path() -> Path:
    """The bot file: the checkout's `bots/local_bot.py`, or its copy in an installed package."""
    here = Path(__file__).parent
    for path in (here.parent.parent / "bots" / "local_bot.py", here / "local_bot.py"):
        if path.is_file():
            return path
    raise UsageError("local_bot.py is missing from this installation; reinstall pipecat-voicectx")


def _prepare(
    *, fast: bool, json_path: Path | None, report_path: Path | None, scenario_path: Path | None
) -> tuple[Scenario, Path]:
    """Everything that can be found out before anything runs, cheapest first."""
    preflight.check_python()
    for path, option in ((json_path, "--json"), (report_path, "--report")):
        if path is not None:
            preflight.check_output(path, option)
    path = (scenario_path or DEFAULT_SCENARIO_PATH).absolute()
    scenario = load_scenario(path)
    caller_audio(scenario)  # decodes every recording, so that a truncated one is found now
    preflight.check_disk(Path(tempfile.gettempdir()))
    for module in ("espeakng_loader", "aiohttp", "aiortc"):
        if importlib.util.find_spec(module) is None:
            raise UsageError(f"{module} is not installed; run: pip install 'pipecat-voicectx[demo]'")
    if not fast:
        preflight.check_port(preflight.demo_port())
    return scenario, path


def _failure(files: PassFiles, exit_code: int | None) -> str:
    """One line about a broken pass: what it said itself, else where its output is kept."""
    output = files.log.read_text(encoding="utf-8", errors="replace") if files.log.exists() else ""
    said = [line.removeprefix("voicectx: ") for line in output.splitlines() if line.startswith("voicectx: ")]
    kept = Path(tempfile.gettempdir()) / "voicectx-demo-failed.log"
    with contextlib.suppress(OSError):
        kept.write_text(output, encoding="utf-8")
    reason = (
        said[0]
        if said
        else "it took too long"
        if exit_code is None
        else f"it ended with exit code {exit_code}"
    )
    return f"the {files.folder.name} pass broke off: {reason} (its output: {kept})"


@contextlib.contextmanager
def _pass_folder() -> Iterator[Path]:
    """A temporary folder for events and stores; with VOICECTX_DEMO_KEEP, one that stays."""
    kept = os.environ.get(_KEEP_ENV)
    if kept:
        folder = Path(kept)
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise UsageError(f"{_KEEP_ENV} is {kept!r}: {error.strerror}; name a folder to be made") from None
        yield folder
    else:
        with tempfile.TemporaryDirectory(prefix="voicectx-demo-") as temporary:
            yield Path(temporary)


@contextlib.contextmanager
def _ending_on_signals() -> Iterator[None]:
    """Turns SIGTERM and SIGHUP into KeyboardInterrupt, so that every `finally` runs."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    saved = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in saved.items():
            signal.signal(number, handler)


def _conclude(
    scenario: Scenario,
    passes: list[_Pass],
    *,
    fast: bool,
    json_path: Path | None,
    report_path: Path | None,
    timeline: Timeline,
) -> None:
    stock, voicectx = (p.events for p in passes)
    transport = "in-process" if fast else "webrtc"
    scores = (score_pass(stock, scenario), score_pass(voicectx, scenario))
    outputs: list[tuple[Path, str]] = []
    if json_path is not None:
        numbers = {"stock": scores[0].as_json(), "voicectx": scores[1].as_json(), "transport": transport}
        outputs.append((json_path, json.dumps(numbers, indent=2) + "\n"))
    if report_path is not None:
        page = render_report(scenario, stock=stock, voicectx=voicectx, transport=transport)
        outputs.append((report_path, page))
    write_whole(outputs)
    timeline.summary(*scores)
    for path, _ in outputs:
        timeline.note(f"written: {path}")


def write_whole(outputs: list[tuple[Path, str]]) -> None:
    """Writes all files beside their places first and moves them only when all are there."""
    staged: list[tuple[Path, Path]] = []
    try:
        for path, text in outputs:
            handle, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
            staged.append((Path(name), path))
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(name, 0o644)
        for temporary, path in staged:
            os.replace(temporary, path)
    except OSError as error:
        raise UsageError(
            f"cannot write {error.filename or 'the results'} ({error.strerror}); name another place"
        ) from None
    finally:
        for temporary, _ in staged:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()
