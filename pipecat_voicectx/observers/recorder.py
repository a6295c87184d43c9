"""`SessionRecorder`: a session as a file of JSON lines, for looking at it later and for replaying its decisions.

    recorder = SessionRecorder("call.jsonl").attach(worker)
    await runner.run()
    await recorder.close()

Events go into a bounded queue that a thread of its own writes out. When the disk is slower than the call, events are
dropped and counted, and the file says where. A file that has reached `max_bytes` takes no more; its end says so.
The words of both sides are in the file unless `texts=TextPolicy.MASKED`.
"""

from __future__ import annotations

import asyncio
import json
import queue
import re
import threading
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import IO

from loguru import logger
from pipecat.pipeline.worker import PipelineWorker

from pipecat_voicectx.errors import UnavailableError, UsageError
from pipecat_voicectx.observers.captures import KnowsFacts
from pipecat_voicectx.observers.codec import Json, encode
from pipecat_voicectx.observers.core_taps import NOT_KEPT, CoreCall
from pipecat_voicectx.observers.events import EventKind, SessionEvent, SessionHeader, encode_event
from pipecat_voicectx.observers.watch import SessionWatch
from pipecat_voicectx.states.network import LinkBand, NetworkState

__all__ = ["RecorderConfig", "SessionRecorder", "TextPolicy"]

# Chosen: calls to the cores are written so many at a time, or when something else is written.
_CALLS_PER_LINE = 64
# Chosen: memory drains for three seconds after the pipeline's end; a recorder that nobody closes waits twice as long.
_LAST_EVENTS_SECS = 6.0


class TextPolicy(Enum):
    """Whether words are kept."""

    FULL = "full"
    MASKED = "masked"
    """Every letter is an x and every digit a 0: lengths and times stay, what was said does not. The speaking rate of
    such a file is not replayed, because corrections of a transcript are found by its words."""


class _Mark(Enum):
    """What the writing thread is told besides events."""

    ENDING = "ending"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderConfig:
    """Bounds of a recording."""

    max_bytes: int = 128_000_000
    """Most bytes of the file. An hour of the demo's call would take 67 MB with the cores' calls, 6 MB without (measured
    on its first 79 s)."""
    max_queued: int = 20_000
    """Most events that wait for the disk; more are dropped and counted. Chosen: two minutes of a busy call."""
    texts: TextPolicy = TextPolicy.FULL
    core_calls: bool = True
    """Whether the calls to the pure cores are kept, without which a file can be looked at, but not replayed."""

    def __post_init__(self) -> None:
        if self.max_bytes < 10_000 or self.max_queued < 100:
            raise UsageError("RecorderConfig: max_bytes must be at least 10,000 and max_queued at least 100")


class SessionRecorder:
    """Writes one session. Make one per session; `attach` once, before the worker runs, `close` after.

    Where nobody can close it (a setup file), it ends by itself once the pipeline has.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        title: str = "",
        session_id: str = "",
        facts: KnowsFacts | None = None,
        config: RecorderConfig | None = None,
    ) -> None:
        """Args:
        path: The file; it must not exist, so that no recording is written over.
        title: For people who look at it: the bot's name.
        session_id: Your own id of the session; the file's name otherwise.
        facts: Facts and persona of the caller, where the bot has them.
        config: Bounds.

        Raises:
            UnavailableError: The file exists, or cannot be written.
        """
        self._path = Path(path)
        self._title, self._session_id, self._facts = title, session_id or self._path.stem, facts
        self._config = config or RecorderConfig()
        self._queue: queue.Queue[SessionEvent | CoreCall | _Mark] = queue.Queue(self._config.max_queued)
        self._watch: SessionWatch | None = None
        self._thread: threading.Thread | None = None
        self._calls: list[Json] = []
        self._band: LinkBand | None = None
        self._written = 0
        self._full = False
        self._ending = False
        self.dropped = 0
        """Events that found the queue full."""
        try:
            self._file: IO[str] = self._path.open("x", encoding="utf-8", errors="backslashreplace")
        except FileExistsError as error:
            raise UnavailableError(f"{self._path} exists; a recording is never written over") from error
        except OSError as error:
            raise UnavailableError(f"{self._path} cannot be written: {error.strerror}") from error

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def attach(self, worker: PipelineWorker) -> SessionRecorder:
        """Begins to record a worker's pipeline, from now on.

        Raises:
            UsageError: It was attached before.
        """
        if self._watch is not None:
            raise UsageError("a SessionRecorder records one session; make another")
        on_call = self._put if self._config.core_calls else None
        watch = SessionWatch(worker, self._put, facts=self._facts, on_call=on_call, on_end=self._on_end)
        self._watch = watch
        header = SessionHeader(
            session_id=self._session_id,
            started_wall_secs=watch.started_wall_secs,
            started_secs=watch.started_secs,
            title=self._title,
            texts=self._config.texts.value,
        )
        self._write_line({"session": encode(header)})
        self._thread = threading.Thread(target=self._write_all, name="session-recorder", daemon=True)
        self._thread.start()
        watch.attach()
        return self

    def _on_end(self) -> None:
        self._ending = True
        self._put(_Mark.ENDING)

    async def close(self) -> None:
        """Writes what is queued and closes the file. Harmless when repeated, and from a recorder never attached."""
        if self._watch is not None:
            await self._watch.detach()
        await asyncio.get_running_loop().run_in_executor(None, self._stop)

    def _stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(_Mark.STOP)
            thread.join()
        self._file.close()

    def _put(self, item: SessionEvent | CoreCall | _Mark) -> None:
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            self.dropped += 1

    # The writing thread

    def _write_all(self) -> None:
        told = 0
        at_secs = 0.0
        try:
            while (item := self._next()) is not _Mark.STOP:
                if item is _Mark.ENDING:
                    continue
                if isinstance(item, CoreCall):
                    self._add_call(item, at_secs)
                else:
                    at_secs = item.at_secs
                    self._write_event(item)
                if self.dropped > told:
                    told = self.dropped
                    self._write_line({"at": at_secs, "k": EventKind.DROPPED.value, "v": {"events": told}})
                if self._queue.empty():
                    self._file.flush()
            self._flush_calls(at_secs)
            self._file.flush()
        except (OSError, ValueError) as error:
            logger.warning("recording {} ended early ({})", self._path.name, type(error).__name__)
            self._full = True
            while self._next() is not _Mark.STOP:  # so that a full queue holds nobody up
                pass

    def _next(self) -> SessionEvent | CoreCall | _Mark:
        try:
            return self._queue.get(timeout=_LAST_EVENTS_SECS if self._ending else None)
        except queue.Empty:
            return _Mark.STOP

    def _write_event(self, event: SessionEvent) -> None:
        self._flush_calls(event.at_secs)
        line = encode_event(event)
        if self._config.texts is TextPolicy.MASKED:
            line["v"] = _masked(line["v"])
        self._write_line(line)

    def _add_call(self, call: CoreCall, at_secs: float) -> None:
        if self._config.texts is TextPolicy.MASKED and call.core.startswith("speaking_rate"):
            return
        row: list[Json] = [call.core, call.method, encode(call.arguments), self._answer(call)]
        if call.config is not None:
            row.append(encode(call.config))
        self._calls.append(_masked(row) if self._config.texts is TextPolicy.MASKED else row)
        if len(self._calls) >= _CALLS_PER_LINE:
            self._flush_calls(at_secs)

    def _answer(self, call: CoreCall) -> Json:
        state = call.answer
        if isinstance(state, NetworkState):
            before, self._band = self._band, state.band
            if state.band is before and not state.impaired:
                return NOT_KEPT
        return encode(state)

    def _flush_calls(self, at_secs: float) -> None:
        if self._calls:
            calls, self._calls = self._calls, []
            self._write_line({"at": round(at_secs, 4), "k": EventKind.CALLS.value, "v": calls})

    def _write_line(self, line: dict[str, Json]) -> None:
        if self._full:
            return
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"
        self._written += len(text.encode("utf-8", "replace"))
        if self._written > self._config.max_bytes:
            self._full = True
            full: Json = {"file_full": True}
            text = json.dumps({"at": line.get("at", 0.0), "k": EventKind.DROPPED.value, "v": full}) + "\n"
        self._file.write(text)


_SPOKEN = frozenset(
    {
        "text", "heard_text", "unheard_text", "user_text", "bot_text", "summary", "block", "user", "bot",
        "statement", "description", "reason_text", "pending_deferral", "arguments", "label", "attribute",
        "subject", "entity",
    }
)  # fmt: skip
"""Fields of our values that hold what somebody said, or what was made of it."""
_LETTER, _DIGIT = re.compile(r"[^\W\d_]"), re.compile(r"\d")


def _masked(value: Json, *, spoken: bool = False) -> Json:
    if isinstance(value, str):
        return _DIGIT.sub("0", _LETTER.sub("x", value)) if spoken else value
    if isinstance(value, list):
        return [_masked(item, spoken=spoken) for item in value]
    if isinstance(value, dict):
        return {key: _masked(item, spoken=spoken or key in _SPOKEN) for key, item in value.items()}
    return value
