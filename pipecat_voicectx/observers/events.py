"""What a session reports, as typed events, and the file they are kept in.

One JSON object a line. The first is the header (`v`, `id`, when it began); then `n` (a number that only rises), `at`
(seconds since the watch began), `k` (the kind) and `v` (the value, by `codec.encode`). Lines of kind `calls` hold what
the pure cores were asked; see `replay`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import cast

from pipecat_voicectx.errors import BadInputError
from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.observers.codec import Json, TypeHint, decode, encode
from pipecat_voicectx.orchestrator.directives import Directive
from pipecat_voicectx.orchestrator.functions import RejectedCall
from pipecat_voicectx.orchestrator.turn_hold import TurnHeld, TurnReleased
from pipecat_voicectx.playback.heard import HeardTurn
from pipecat_voicectx.projection.report import ProjectionReport
from pipecat_voicectx.signals.audio_gaps import AudioGap
from pipecat_voicectx.states.network import NetworkState
from pipecat_voicectx.states.speaking_rate import SpeakingRateState

__all__ = [
    "SESSION_FILE_VERSION",
    "EventKind",
    "SessionEvent",
    "SessionHeader",
    "encode_event",
    "read_session",
    "typed_value",
]

SESSION_FILE_VERSION = 1
# Chosen: a recorder's file is bounded at 128 MB by default; twice that is not one of ours.
_MAX_FILE_BYTES = 256_000_000
# Chosen: the longest line of ours, a context of 200 messages, is a tenth of it.
_MAX_LINE_CHARS = 4_000_000


class EventKind(Enum):
    """What happened."""

    USER_TURN = "user_turn"
    """`{phase: started | stopped}` as the pipeline sees it; `speech` and `silence` are voice activity."""
    USER_TEXT = "user_text"
    """A final transcript."""
    BOT = "bot"
    """`{phase: started | stopped | interrupted}`: audio of the bot."""
    SPEAKING_RATE = "speaking_rate"
    NETWORK = "network"
    AUDIO_GAP = "audio_gap"
    STATE = "state"
    """Any other state frame of ours, with its type's name."""
    HELD = "held"
    RELEASED = "released"
    DIRECTIVE = "directive"
    REJECTED = "rejected"
    CALL = "call"
    """The model called a function."""
    HEARD = "heard"
    PROJECTED = "projected"
    RECALL = "recall"
    PAGE = "page"
    CONTEXT = "context"
    """The messages as the model will see them."""
    THREADS = "threads"
    FACTS = "facts"
    CONFIG = "config"
    """The running configuration, when somebody begins to watch."""
    METRIC = "metric"
    LATENCY = "latency"
    """From the end of the caller's speech to the bot's first audio."""
    OTHER = "other"
    """An event of ours that this version has no kind for."""
    ERROR = "error"
    DROPPED = "dropped"
    """So many events were lost, because reading them was too slow."""
    CALLS = "calls"


_TYPES: Mapping[EventKind, TypeHint] = {
    EventKind.SPEAKING_RATE: SpeakingRateState,
    EventKind.NETWORK: NetworkState,
    EventKind.AUDIO_GAP: AudioGap,
    EventKind.HELD: TurnHeld,
    EventKind.RELEASED: TurnReleased,
    EventKind.DIRECTIVE: Directive,
    EventKind.REJECTED: RejectedCall,
    EventKind.HEARD: HeardTurn,
    EventKind.PROJECTED: ProjectionReport,
    EventKind.PAGE: VoicePage,
}
"""Kinds whose value is one of our cores' own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEvent:
    """One thing that happened."""

    number: int
    """Rises by one from event to event of a watch."""
    at_secs: float
    """Since the watch began, by the monotonic clock."""
    kind: EventKind
    value: object
    """A value of our cores, or plain JSON; see `EventKind`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHeader:
    """What the events belong to."""

    session_id: str
    started_wall_secs: float
    """Unix time at `at_secs` 0."""
    started_secs: float
    """Monotonic time at `at_secs` 0: the cores' own times are counted from it."""
    title: str = ""
    """For people; the bot's name, as a rule."""
    texts: str = "full"
    """Whether words are kept; see `TextPolicy`."""
    version: int = SESSION_FILE_VERSION


def encode_event(event: SessionEvent) -> dict[str, Json]:
    """One line of the file, before it is text."""
    return {
        "n": event.number,
        "at": round(event.at_secs, 4),
        "k": event.kind.value,
        "v": encode(event.value),
    }


def typed_value(kind: EventKind, data: Json) -> object:
    """The core's value that was recorded; plain JSON for kinds that have none.

    Raises:
        BadInputError: It is no such value.
    """
    hint = _TYPES.get(kind)
    return data if hint is None else decode(hint, data)


def read_session(path: Path) -> tuple[SessionHeader, Iterator[dict[str, Json]]]:
    """Header and lines of a recorded session, without torn lines and lines of unknown kinds.

    Raises:
        BadInputError: Not a session file, too large, or of a newer version.
    """
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise BadInputError(f"{path} is larger than {_MAX_FILE_BYTES // 1_000_000} MB; not one of ours")
        with path.open(encoding="utf-8") as file:
            first = _parsed(file.readline(_MAX_LINE_CHARS))
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path} cannot be read: it is no text, so no recorded session") from error
    if first is None or "session" not in first:
        raise BadInputError(f"{path} is no recorded session: its first line is no header of SessionRecorder")
    header = cast(SessionHeader, decode(SessionHeader, first["session"]))
    if not 1 <= header.version <= SESSION_FILE_VERSION:
        raise BadInputError(f"{path} has version {header.version}; this version reads {SESSION_FILE_VERSION}")
    return header, _lines(path)


def _lines(path: Path) -> Iterator[dict[str, Json]]:
    kinds = {kind.value for kind in EventKind}
    with path.open(encoding="utf-8", errors="replace") as file:
        while line := file.readline(_MAX_LINE_CHARS):
            event = _parsed(line)
            if event is None or not isinstance(event.get("k"), str):
                continue
            if event["k"] in kinds and isinstance(event.get("at"), (int, float)):
                yield event


def _parsed(line: str) -> dict[str, Json] | None:
    try:
        data = json.loads(line)
    except (json.JSONDecodeError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
