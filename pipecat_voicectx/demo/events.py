"""The demo's events: one JSON object a line, `at` in seconds since the pass began, one file per process.

The monotonic clock is one for all processes of a machine, so a pass is timed by handing its start from process to
process. A line is written whole and at once; what a killed process leaves behind is still readable.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["EventLog", "EventTail", "read_events"]


@dataclass(slots=True)
class EventLog:
    """Appends events of one source. Not for threads: call it from the event loop."""

    path: Path
    source: str
    start_secs: float
    """Monotonic time at which the pass began."""
    listeners: list[Callable[[Mapping[str, object]], None]] = field(default_factory=list)

    def now_secs(self) -> float:
        """Seconds since the pass began."""
        return time.monotonic() - self.start_secs

    def at(self, monotonic_secs: float) -> float:
        """A monotonic time as seconds since the pass began."""
        return monotonic_secs - self.start_secs

    def write(self, kind: str, *, at: float | None = None, **fields: object) -> None:
        """Appends one event, by default of this moment."""
        moment = self.now_secs() if at is None else at
        event: dict[str, object] = {"src": self.source, "kind": kind, "at": round(moment, 4), **fields}
        line = json.dumps(event, ensure_ascii=False, separators=(",", ":"), default=str)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        for listener in self.listeners:
            listener(event)


def read_events(paths: list[Path]) -> Iterator[dict[str, object]]:
    """All whole events of several files, in order of time; files that do not exist are empty."""
    events: list[dict[str, object]] = []
    for path in paths:
        if path.exists():
            events += _parsed(path.read_text(encoding="utf-8").splitlines())
    return iter(sorted(events, key=_moment))


class EventTail:
    """Reads what was appended to event files since the last look."""

    def __init__(self, paths: list[Path]) -> None:
        self._offsets = dict.fromkeys(paths, 0)

    def read(self) -> list[dict[str, object]]:
        """New whole lines of all files, in order of time."""
        events: list[dict[str, object]] = []
        for path, offset in self._offsets.items():
            if not path.exists():
                continue
            with path.open("rb") as file:
                file.seek(offset)
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._offsets[path] = offset + len(whole)
            events += _parsed(whole.decode("utf-8").splitlines())
        return sorted(events, key=_moment)


def _parsed(lines: list[str]) -> list[dict[str, object]]:
    events = []
    for line in lines:
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue  # the last line of a killed process
        if isinstance(event, dict) and isinstance(event.get("at"), (int, float)):
            events.append(event)
    return events


def _moment(event: dict[str, object]) -> float:
    at = event["at"]
    return float(at) if isinstance(at, (int, float)) else 0.0
