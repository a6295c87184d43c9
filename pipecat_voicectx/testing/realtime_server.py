"""A scripted server that speaks OpenAI's Realtime protocol over a real WebSocket.

It answers `response.create` with scripted items: a transcript that runs ahead of the audio, audio deltas faster than
real time, all events in the order of the real service. It keeps the conversation as the real one does, with the real
rule for `conversation.item.truncate`: an item cannot be truncated beyond the audio it holds, and asking for it is an
error. What it does not do: understand speech; `user_speaks` says when its turn detection would have fired.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve

__all__ = ["RealtimeServer", "ScriptedItem", "ServerItem"]

_RATE_HZ = 24_000
_CHUNK_SECS = 0.2


@dataclass(frozen=True, kw_only=True)
class ScriptedItem:
    """One output item of a reply."""

    transcript: str
    pcm: bytes
    """24 kHz, mono, signed 16 bit."""
    pause_at_secs: float | None = None
    """Audio position at which the server stalls."""
    pause_secs: float = 0.0
    """For how long."""


@dataclass(kw_only=True)
class ServerItem:
    """An item of the server's conversation."""

    item_id: str
    role: str
    transcript: str = ""
    audio_ms: float = 0.0
    """Audio it holds: what was sent, less what was truncated."""
    truncated: bool = False


@dataclass(kw_only=True)
class RealtimeServer:
    """Start with `async with`. One client at a time."""

    replies: list[Sequence[ScriptedItem]]
    """What to answer, one reply for each `response.create`."""
    speed: float = 5.0
    """Audio is sent this many times faster than real time."""
    items: list[ServerItem] = field(default_factory=list)
    """The conversation as the server has it."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """What the client sent, audio left out."""
    errors: list[dict[str, Any]] = field(default_factory=list)
    """Errors sent to the client."""
    _ids: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _server: Server | None = None
    _socket: ServerConnection | None = None
    _response: asyncio.Task[None] | None = None

    async def __aenter__(self) -> RealtimeServer:
        self._server = await serve(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop_response()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    @property
    def url(self) -> str:
        """For the service's `base_url`."""
        assert self._server is not None
        host, port = next(iter(self._server.sockets)).getsockname()[:2]
        return f"ws://{host}:{port}/v1/realtime"

    def of(self, event_type: str) -> list[dict[str, Any]]:
        """The client's events of a type."""
        return [event for event in self.events if event["type"] == event_type]

    async def user_speaks(self) -> None:
        """The server's turn detection fires: it says so and cancels the reply in progress."""
        await self._emit(
            "input_audio_buffer.speech_started", audio_start_ms=0, item_id=f"user_{next(self._ids)}"
        )
        if await self._stop_response():
            await self._emit("response.done", response={"id": "resp", "status": "cancelled", "output": []})

    async def _serve(self, socket: ServerConnection) -> None:
        self._socket = socket
        await self._emit("session.created", session={})
        async for message in socket:
            event = json.loads(message)
            if event["type"] != "input_audio_buffer.append":
                self.events.append(event)
            await self._on_event(event)
        await self._stop_response()

    async def _on_event(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "session.update":
                await self._emit("session.updated", session={})
            case "conversation.item.create":
                item = {**event["item"], "object": "realtime.item"}
                self.items.append(ServerItem(item_id=item["id"], role=item.get("role") or item["type"]))
                await self._emit("conversation.item.added", item=item)
            case "response.create":
                if self._response is not None:
                    await self._error(
                        "conversation_already_has_active_response", "Conversation already has one", event
                    )
                elif self.replies:
                    self._response = asyncio.create_task(self._reply(self.replies.pop(0)))
            case "response.cancel":
                if await self._stop_response():
                    await self._emit(
                        "response.done", response={"id": "resp", "status": "cancelled", "output": []}
                    )
                else:
                    await self._error(
                        "response_cancel_not_active", "Cancellation failed: no active response", event
                    )
            case "conversation.item.truncate":
                await self._truncate(event)
            case "conversation.item.delete":
                await self._delete(event)
            case _:
                pass

    async def _truncate(self, event: dict[str, Any]) -> None:
        item = self._find(event["item_id"])
        if item is None:
            await self._error("item_truncate_invalid_item_id", "Item does not exist", event)
        elif event["audio_end_ms"] > item.audio_ms:
            held = int(item.audio_ms)
            await self._error(
                "invalid_value",
                f"Audio content of {held}ms is already shorter than {event['audio_end_ms']}ms",
                event,
            )
        else:
            item.audio_ms = event["audio_end_ms"]
            item.truncated = True
            item.transcript = ""
            await self._emit(
                "conversation.item.truncated",
                item_id=item.item_id,
                content_index=event["content_index"],
                audio_end_ms=event["audio_end_ms"],
            )

    async def _delete(self, event: dict[str, Any]) -> None:
        item = self._find(event["item_id"])
        if item is None:
            await self._error("item_delete_invalid_item_id", "Item does not exist", event)
            return
        self.items.remove(item)
        await self._emit("conversation.item.deleted", item_id=item.item_id)

    def _find(self, item_id: str) -> ServerItem | None:
        return next((item for item in self.items if item.item_id == item_id), None)

    async def _reply(self, script: Sequence[ScriptedItem]) -> None:
        await self._emit("response.created", response={"id": "resp", "status": "in_progress", "output": []})
        for index, scripted in enumerate(script):
            await self._send_item(index, scripted)
        self._response = None
        await self._emit("response.done", response={"id": "resp", "status": "completed", "output": []})

    async def _send_item(self, index: int, scripted: ScriptedItem) -> None:
        item = ServerItem(item_id=f"item_{next(self._ids)}", role="assistant")
        self.items.append(item)
        place = {"response_id": "resp", "item_id": item.item_id, "output_index": index, "content_index": 0}
        await self._emit(
            "conversation.item.added",
            item={
                "id": item.item_id,
                "object": "realtime.item",
                "type": "message",
                "role": "assistant",
                "content": [],
            },
        )
        words = iter(scripted.transcript.split(" "))
        step = int(_CHUNK_SECS * _RATE_HZ) * 2
        for start in range(0, len(scripted.pcm), step):
            # Three words per 0.2 s of audio: the transcript is ahead, as the real one is.
            for word in itertools.islice(words, 3):
                delta = word if not item.transcript else f" {word}"
                item.transcript += delta
                await self._emit("response.output_audio_transcript.delta", delta=delta, **place)
            if (
                scripted.pause_at_secs is not None
                and start <= scripted.pause_at_secs * _RATE_HZ * 2 < start + step
            ):
                await asyncio.sleep(scripted.pause_secs)
            chunk = scripted.pcm[start : start + step]
            item.audio_ms += len(chunk) / 2 / _RATE_HZ * 1000
            await self._emit("response.output_audio.delta", delta=base64.b64encode(chunk).decode(), **place)
            await asyncio.sleep(len(chunk) / 2 / _RATE_HZ / self.speed)
        await self._emit("response.output_audio.done", **place)

    async def _stop_response(self) -> bool:
        task, self._response = self._response, None
        if task is None or task.done():
            return False
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return True

    async def _error(self, code: str, message: str, event: dict[str, Any]) -> None:
        error = {
            "type": "invalid_request_error",
            "code": code,
            "message": message,
            "event_id": event.get("event_id"),
        }
        self.errors.append(error)
        await self._emit("error", error=error)

    async def _emit(self, event_type: str, **fields: Any) -> None:
        assert self._socket is not None
        await self._socket.send(
            json.dumps({"event_id": f"event_{next(self._ids)}", "type": event_type, **fields})
        )
