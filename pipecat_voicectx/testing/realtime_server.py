"""A scripted server that speaks OpenAI's Realtime protocol over a real WebSocket.

It answers with scripted items: a transcript that runs ahead of the audio, audio deltas faster than real time, function
calls, all events in the order of the real service. It keeps session and conversation as the real one does: partial
session updates are merged, items are created, deleted, truncated and acknowledged, and what the real one refuses is
refused (truncating beyond the audio an item holds, a speed out of range or changed within an answer, items that do not
exist, results of unknown calls). Every event in both directions is checked with the `openai` client's own types.

What it does not do: understand speech. `user_speaks` and `user_stops` say when its turn detection fires; what happens
then follows the session's turn detection, as the audio it received says when.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from pipecat_voicectx.testing.realtime_script import (
    CLIENT_EVENTS,
    RATE_HZ,
    SERVER_EVENTS,
    Reply,
    ScriptedCall,
    ScriptedItem,
    ServerItem,
    created_item,
    default_session,
    error_body,
    merge_session,
    said_call,
    speech,
    violation,
)

__all__ = ["RealtimeServer"]

_SPEEDS = (0.25, 1.5)
_RESPONSE = {"object": "realtime.response", "conversation_id": "conv"}


@dataclass(kw_only=True)
class RealtimeServer:
    """Start with `async with`. One client at a time."""

    replies: list[Reply]
    """What to answer, one reply for each answer asked for."""
    reply_by: Callable[[RealtimeServer], Reply] | None = None
    """What to answer when `replies` are used up; None: nothing is said then."""
    speed: float = 5.0
    """Audio is sent this many times faster than real time."""
    think_secs: float = 0.3
    """From the end of a turn to the first item of the answer."""
    refuse: dict[str, str] = field(default_factory=dict)
    """{event type: error code} of what is refused though the real one would do it."""
    updated_after_secs: float = 0.0
    """How late session updates are acknowledged."""
    away: bool = False
    """Connections are closed as soon as they are made."""
    items: list[ServerItem] = field(default_factory=list)
    """The conversation as the server has it."""
    session: dict[str, Any] = field(default_factory=dict)
    """The session's settings."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """What the client sent, audio left out."""
    errors: list[dict[str, Any]] = field(default_factory=list)
    """Errors sent to the client."""
    read: list[list[ServerItem]] = field(default_factory=list)
    """The conversation as it was read for each answer."""
    speeds: list[float] = field(default_factory=list)
    """The speed of each answer."""
    violations: list[str] = field(default_factory=list)
    """Events that the protocol's types do not allow, and answers made from half a tool call."""
    connections: int = 0
    """Connections made so far."""
    received_ms: float = 0.0
    """User audio received in this session."""
    _ids: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _server: Server | None = None
    _socket: ServerConnection | None = None
    _response: asyncio.Task[None] | None = None
    _late: set[asyncio.Task[None]] = field(default_factory=set)
    _user_item: str = ""

    async def __aenter__(self) -> RealtimeServer:
        self._server = await serve(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop_response()
        for task in self._late:
            task.cancel()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    @property
    def url(self) -> str:
        """For the service's `base_url`."""
        assert self._server is not None
        host, port = next(iter(self._server.sockets)).getsockname()[:2]
        return f"ws://{host}:{port}/v1/realtime"

    @property
    def answering(self) -> bool:
        """Whether an answer is being made."""
        return self._response is not None and not self._response.done()

    @property
    def turn_detection(self) -> dict[str, Any]:
        """Of the session; empty when it is off."""
        detection: dict[str, Any] | None = self.session["audio"]["input"]["turn_detection"]
        return detection or {}

    def of(self, event_type: str) -> list[dict[str, Any]]:
        """The client's events of a type."""
        return [event for event in self.events if event["type"] == event_type]

    # The user

    async def user_speaks(self, *, ago_secs: float = 0.0) -> None:
        """The server's turn detection fires, `ago_secs` after the user began to speak.

        It says so, and cancels the answer in progress unless the session says otherwise.
        """
        padding_ms = self.turn_detection.get("prefix_padding_ms") or 0
        start_ms = max(0, round(self.received_ms - 1000 * ago_secs - padding_ms))
        self._user_item = f"user_{next(self._ids)}"
        await self._emit(
            "input_audio_buffer.speech_started", audio_start_ms=start_ms, item_id=self._user_item
        )
        if self.turn_detection.get("interrupt_response") is not False and await self._stop_response():
            await self._response_done("cancelled")

    async def user_stops(self, transcript: str) -> None:
        """The user was silent long enough for the turn detection: the turn is committed, and answered."""
        item = ServerItem(item_id=self._user_item, role="user", transcript=transcript)
        previous = self.items[-1].item_id if self.items else None
        end_ms = round(self.received_ms)
        await self._emit("input_audio_buffer.speech_stopped", audio_end_ms=end_ms, item_id=item.item_id)
        await self._emit("input_audio_buffer.committed", item_id=item.item_id, previous_item_id=previous)
        self.items.append(item)
        content = [{"type": "input_audio", "transcript": None}]
        await self._say_added(item, {"type": "message", "role": "user", "content": content}, previous)
        if self.turn_detection.get("create_response") is not False:
            await self._start_response({})
        await self._emit(
            "conversation.item.input_audio_transcription.completed",
            item_id=item.item_id,
            content_index=0,
            transcript=transcript,
            usage={"type": "duration", "seconds": 1.0},
        )

    async def drop(self) -> None:
        """The connection breaks off in the middle of whatever goes on; the conversation is forgotten."""
        await self._stop_response()
        if self._socket is not None:
            transport = self._socket.transport
            transport.abort()

    # The connection

    async def _serve(self, socket: ServerConnection) -> None:
        if self.away:
            await socket.close()
            return
        self._socket = socket
        self.connections += 1
        self.items.clear()
        self.received_ms = 0.0
        self.session = default_session()
        await self._emit("session.created", session=self.session)
        try:
            async for message in socket:
                event = json.loads(message)
                self._check(CLIENT_EVENTS, event)
                if event["type"] == "input_audio_buffer.append":
                    self.received_ms += len(base64.b64decode(event["audio"])) / 2 / RATE_HZ * 1000
                    continue
                self.events.append(event)
                await self._on_event(event)
        except ConnectionClosed:
            pass
        if self._socket is socket:
            await self._stop_response()

    async def _on_event(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        if kind in self.refuse:
            await self._error(self.refuse[kind], "Refused", event)
            return
        match kind:
            case "session.update":
                await self._update_session(event)
            case "conversation.item.create":
                await self._create(event)
            case "conversation.item.delete":
                await self._delete(event)
            case "conversation.item.truncate":
                await self._truncate(event)
            case "response.create":
                if self.answering:
                    await self._error("conversation_already_has_active_response", "It has one", event)
                else:
                    await self._start_response(event)
            case "response.cancel":
                if await self._stop_response():
                    await self._response_done("cancelled")
                else:
                    await self._error("response_cancel_not_active", "No active response", event)
            case _:
                pass

    # Session and conversation

    async def _update_session(self, event: dict[str, Any]) -> None:
        speed = ((event["session"].get("audio") or {}).get("output") or {}).get("speed")
        present = self.session["audio"]["output"]["speed"]
        if speed is not None and speed != present:
            if not _SPEEDS[0] <= speed <= _SPEEDS[1]:
                await self._error("invalid_value", "Speed out of range", event)
                return
            if self.answering:
                await self._error("cannot_update_speed", "Speed can only be changed between answers", event)
                return
        merge_session(self.session, event["session"])
        if self.updated_after_secs:
            task = asyncio.create_task(self._updated_late(json.loads(json.dumps(self.session))))
            self._late.add(task)
            task.add_done_callback(self._late.discard)
        else:
            await self._emit("session.updated", session=self.session)

    async def _updated_late(self, session: dict[str, Any]) -> None:
        await asyncio.sleep(self.updated_after_secs)
        await self._emit("session.updated", session=session)

    async def _create(self, event: dict[str, Any]) -> None:
        given = event["item"]
        call_id = given.get("call_id")
        if given["type"] == "function_call_output" and not any(
            item.role == "function_call" and item.call_id == call_id for item in self.items
        ):
            await self._error("invalid_tool_call_id", "Tool call ID not found in conversation", event)
            return
        item = created_item(given, default_id=f"item_{next(self._ids)}")
        previous = event.get("previous_item_id")
        places = [place for place, known in enumerate(self.items) if known.item_id == previous]
        self.items.insert(places[0] + 1 if places else len(self.items), item)
        await self._say_added(item, given, previous)

    async def _delete(self, event: dict[str, Any]) -> None:
        item = self._find(event["item_id"])
        if item is None:
            await self._error("item_delete_invalid_item_id", "Item does not exist", event)
            return
        self.items.remove(item)
        await self._emit("conversation.item.deleted", item_id=item.item_id)

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

    def _find(self, item_id: str) -> ServerItem | None:
        return next((item for item in self.items if item.item_id == item_id), None)

    async def _say_added(self, item: ServerItem, given: dict[str, Any], previous: str | None) -> None:
        said = {**given, "id": item.item_id, "object": "realtime.item"}
        await self._emit("conversation.item.added", item=said, previous_item_id=previous)
        if item.role != "assistant":
            await self._emit("conversation.item.done", item=said, previous_item_id=previous)

    # Answers

    async def _start_response(self, _event: dict[str, Any]) -> None:
        reply: Reply = ()
        if self.replies:
            reply = self.replies.pop(0)
        elif self.reply_by is not None:
            reply = self.reply_by(self)
        self.read.append([ServerItem(**vars(item)) for item in self.items])
        self.speeds.append(self.session["audio"]["output"]["speed"])
        calls = {item.call_id for item in self.items if item.role == "function_call"}
        if any(item.role == "function_call_output" and item.call_id not in calls for item in self.items):
            self.violations.append("an answer was asked for with a result whose call is gone")
        self._response = asyncio.create_task(self._reply(reply))

    async def _reply(self, script: Reply) -> None:
        await self._emit(
            "response.created", response={"id": "resp", "status": "in_progress", "output": [], **_RESPONSE}
        )
        await asyncio.sleep(self.think_secs)
        output = []
        for index, scripted in enumerate(script):
            if isinstance(scripted, ScriptedCall):
                output.append(await self._send_call(index, scripted))
            else:
                output.append(await self._send_item(index, scripted))
        self._response = None
        await self._response_done("completed", output)

    async def _response_done(self, status: str, output: Sequence[dict[str, Any]] = ()) -> None:
        response = {"id": "resp", "status": status, "output": list(output), **_RESPONSE}
        await self._emit("response.done", response=response)

    async def _send_call(self, index: int, scripted: ScriptedCall) -> dict[str, Any]:
        number = next(self._ids)
        item = ServerItem(
            item_id=f"item_{number}", role="function_call", call_id=scripted.call_id or f"call_{number}"
        )
        said = said_call(item, scripted.name)
        previous = self.items[-1].item_id if self.items else None
        self.items.append(item)
        await self._emit("conversation.item.added", item=said, previous_item_id=previous)
        place = {"response_id": "resp", "item_id": item.item_id, "output_index": index}
        await self._emit(
            "response.function_call_arguments.done",
            call_id=item.call_id,
            name=scripted.name,
            arguments=scripted.arguments,
            **place,
        )
        said = {**said, "arguments": scripted.arguments}
        await self._emit("conversation.item.done", item=said, previous_item_id=previous)
        return said

    async def _send_item(self, index: int, scripted: ScriptedItem) -> dict[str, Any]:
        item = ServerItem(item_id=f"item_{next(self._ids)}", role="assistant")
        previous = self.items[-1].item_id if self.items else None
        self.items.append(item)
        place = {"response_id": "resp", "item_id": item.item_id, "output_index": index, "content_index": 0}
        said = {"type": "message", "role": "assistant", "content": []}
        await self._say_added(item, said, previous)
        for words, chunk, pause_secs in speech(scripted):
            for word in words:
                delta = word if not item.transcript else f" {word}"
                item.transcript += delta
                await self._emit("response.output_audio_transcript.delta", delta=delta, **place)
            if pause_secs:
                await asyncio.sleep(pause_secs)
            item.audio_ms += len(chunk) / 2 / RATE_HZ * 1000
            await self._emit("response.output_audio.delta", delta=base64.b64encode(chunk).decode(), **place)
            await asyncio.sleep(len(chunk) / 2 / RATE_HZ / self.speed)
        await self._emit("response.output_audio.done", **place)
        return {**said, "id": item.item_id, "object": "realtime.item"}

    async def _stop_response(self) -> bool:
        task, self._response = self._response, None
        if task is None or task.done():
            return False
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return True

    async def _error(self, code: str, message: str, event: dict[str, Any]) -> None:
        error = error_body(code, message, event)
        self.errors.append(error)
        await self._emit("error", error=error)

    async def _emit(self, event_type: str, **fields: Any) -> None:
        if self._socket is None:
            return
        event = {"type": event_type, "event_id": f"event_{next(self._ids)}", **fields}
        if event_type != "response.output_audio.delta":
            self._check(SERVER_EVENTS, event)
        with contextlib.suppress(ConnectionClosed):
            await self._socket.send(json.dumps(event))

    def _check(self, types: TypeAdapter[Any], event: dict[str, Any]) -> None:
        found = violation(types, event)
        if found is not None:
            self.violations.append(found)
