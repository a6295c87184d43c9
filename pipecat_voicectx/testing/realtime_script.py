"""What a scripted Realtime server has and says: items, answers, settings, and the protocol's types to check it with."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from openai.types.realtime.realtime_client_event import RealtimeClientEvent
from openai.types.realtime.realtime_server_event import RealtimeServerEvent
from pydantic import TypeAdapter, ValidationError

__all__ = [
    "CLIENT_EVENTS",
    "RATE_HZ",
    "SERVER_EVENTS",
    "Reply",
    "ScriptedCall",
    "ScriptedItem",
    "ServerItem",
    "created_item",
    "default_session",
    "error_body",
    "merge_session",
    "said_call",
    "speech",
    "violation",
]

RATE_HZ = 24_000
_STEP_SECS = 0.2
CLIENT_EVENTS: TypeAdapter[Any] = TypeAdapter(RealtimeClientEvent)
SERVER_EVENTS: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)


@dataclass(frozen=True, kw_only=True)
class ScriptedItem:
    """One spoken item of a reply."""

    transcript: str
    pcm: bytes
    """24 kHz, mono, signed 16 bit."""
    pause_at_secs: float | None = None
    """Audio position at which the server stalls."""
    pause_secs: float = 0.0
    """For how long."""


@dataclass(frozen=True, kw_only=True)
class ScriptedCall:
    """A function call of a reply."""

    name: str
    arguments: str
    """JSON, or what the model took for it."""
    call_id: str | None = None


@dataclass(kw_only=True)
class ServerItem:
    """An item of the server's conversation."""

    item_id: str
    role: str
    """Of a message; the type of any other item."""
    transcript: str = ""
    audio_ms: float = 0.0
    """Audio it holds: what was sent, less what was truncated."""
    truncated: bool = False
    call_id: str | None = None


Reply = Sequence[ScriptedItem | ScriptedCall]


def speech(scripted: ScriptedItem) -> Iterator[tuple[list[str], bytes, float]]:
    """(words, audio, pause before it in seconds) of one step after the other.

    Three words with each 0.2 s of audio: the transcript is ahead, as the real one is.
    """
    words = iter(scripted.transcript.split(" "))
    step = int(_STEP_SECS * RATE_HZ) * 2
    pause_at = None if scripted.pause_at_secs is None else scripted.pause_at_secs * RATE_HZ * 2
    for start in range(0, len(scripted.pcm), step):
        pauses = pause_at is not None and start <= pause_at < start + step
        yield (
            list(itertools.islice(words, 3)),
            scripted.pcm[start : start + step],
            scripted.pause_secs if pauses else 0.0,
        )


def violation(types: TypeAdapter[Any], event: dict[str, Any]) -> str | None:
    """The first thing about an event that the protocol's types do not allow."""
    try:
        types.validate_python(event)
    except ValidationError as error:
        first = error.errors()[0]
        return f"{event.get('type')}: {first['loc']} {first['msg']}"
    return None


def created_item(given: dict[str, Any], *, default_id: str) -> ServerItem:
    """What a client's `conversation.item.create` makes."""
    texts = (part.get("text") or "" for part in given.get("content") or ())
    return ServerItem(
        item_id=given.get("id") or default_id,
        role=given.get("role") or given["type"],
        transcript=given.get("output") or " ".join(texts),
        call_id=given.get("call_id"),
    )


def said_call(item: ServerItem, name: str) -> dict[str, Any]:
    """A function call as it is announced, before its arguments."""
    return {
        "id": item.item_id,
        "object": "realtime.item",
        "type": "function_call",
        "call_id": item.call_id,
        "name": name,
        "arguments": "",
    }


def error_body(code: str, message: str, event: dict[str, Any]) -> dict[str, Any]:
    """Why a client's event was refused."""
    return {
        "type": "invalid_request_error",
        "code": code,
        "message": message,
        "param": None,
        "event_id": event.get("event_id"),
    }


def default_session() -> dict[str, Any]:
    return {
        "type": "realtime",
        "object": "realtime.session",
        "id": "sess",
        "model": "gpt-realtime",
        "output_modalities": ["audio"],
        "instructions": "",
        "tools": [],
        "tool_choice": "auto",
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "transcription": None,
                "noise_reduction": None,
                "turn_detection": {
                    "type": "server_vad",
                    "threshold": 0.5,
                    "prefix_padding_ms": 300,
                    "silence_duration_ms": 500,
                    "idle_timeout_ms": None,
                    "create_response": True,
                    "interrupt_response": True,
                },
            },
            "output": {"format": {"type": "audio/pcm", "rate": 24000}, "voice": "marin", "speed": 1.0},
        },
    }


def merge_session(session: dict[str, Any], update: dict[str, Any]) -> None:
    """Only what is present changes; turn detection is an object that is replaced, with the defaults of its kind."""
    for key, value in update.items():
        if key == "turn_detection" and isinstance(value, dict):
            defaults = default_session()["audio"]["input"]["turn_detection"]
            session[key] = {**defaults, **value} if value.get("type") == "server_vad" else value
        elif isinstance(value, dict) and isinstance(session.get(key), dict):
            merge_session(session[key], value)
        else:
            session[key] = value
