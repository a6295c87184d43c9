"""What goes over the WebSocket of a realtime service: seen before the service sees it, and answered to.

OpenAI's Realtime protocol acknowledges what a client asks for (`conversation.item.deleted`) or refuses it (`error`,
with the event's id). Pipecat's service reads neither acknowledgements of its own requests nor those of ours, and its
receive loop ends with the first error it does not know, which leaves the bot deaf. So the service's connection is
wrapped where the service starts to read it: our handlers see every event first; a refusal of something we sent is ours
to deal with; any other error is reported and read over; a connection that breaks off is reported instead of raised.

Two private names of the service are relied on, `_receive_task_handler` and `_websocket`, besides the public
`send_client_event`. Where one is missing, `fits` says no and nothing is touched.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias, cast

from loguru import logger
from pipecat.processors.frame_processor import FrameProcessor
from websockets.exceptions import ConnectionClosed

from pipecat_voicectx.private_reads import has_private
from pipecat_voicectx.signals.sent_audio import SentAudioTimeline

__all__ = ["Answer", "JsonObject", "RawEvent", "RealtimeSocket"]

JsonObject: TypeAlias = dict[str, Any]
EventHandler: TypeAlias = Callable[[JsonObject], Awaitable[None]]
Rewriter: TypeAlias = Callable[[Any], "list[RawEvent] | None"]

# The protocol's audio: 24 kHz, mono, 16 bit.
_BYTES_PER_SEC = 48_000
# Chosen: far beyond a round trip, far below a turn.
_ANSWER_SECS = 3.0
# Requests whose refusal may still come.
_MAX_OWN = 256
# As much user audio as the forward gate holds; a reconnection takes one or two seconds.
_MAX_HELD_SECS = 10.0
# The service deals with these itself.
_KNOWN_TO_SERVICE = frozenset(
    {
        "response_cancel_not_active",
        "conversation_already_has_active_response",
        "item_retrieve_invalid_item_id",
    }
)
_AUDIO_DELTA = '"response.output_audio.delta"'


class _Connection(Enum):
    """Whether there is a session to talk to."""

    UP = "up"
    LOST = "lost"
    """Nothing goes out; the user's audio is held."""
    OPENING = "opening"
    """A new session is being set up: everything goes out but the user's audio."""


class Answer(Enum):
    """What became of a request."""

    DONE = "done"
    REFUSED = "refused"
    MISSING = "missing"
    """Refused, because there is no such item."""
    NONE = "none"
    """No answer in time."""


@dataclass(frozen=True, slots=True)
class RawEvent:
    """A client event as JSON, for what the service's own classes cannot say."""

    data: JsonObject

    @property
    def type(self) -> str:
        return str(self.data["type"])

    def model_dump(self, **_options: object) -> JsonObject:
        """As `send_client_event` asks for it."""
        return self.data


@dataclass(slots=True)
class _Pending:
    done: Callable[[JsonObject], bool]
    future: asyncio.Future[Answer]


class RealtimeSocket:
    """The tap of one service; `of` makes it, once."""

    def __init__(self, llm: FrameProcessor) -> None:
        self._llm = cast(Any, llm)
        self._handlers: list[EventHandler] = []
        self._client_handlers: list[Callable[[JsonObject], None]] = []
        self._rewriters: dict[str, Rewriter] = {}
        self._lost_handlers: list[Callable[[], None]] = []
        self._pending: dict[str, _Pending] = {}
        self._own: deque[str] = deque(maxlen=_MAX_OWN)
        self._held: deque[Any] = deque()
        self._held_secs = 0.0
        self._connection = _Connection.UP
        self.sent_audio = SentAudioTimeline()
        """When the user's audio was sent."""
        self.refused = 0
        """Requests of ours that the server refused."""
        self.errors = 0
        """Errors of the server that were not about a request of ours; each was pushed as an error frame."""
        self.dropped_audio_secs = 0.0
        """User audio that could not be held while there was no connection."""
        self.failures = 0
        """Handlers of ours that failed; the event went on."""
        self._send: Callable[[Any], Awaitable[None]] = self._llm.send_client_event
        self._receive: Callable[[], Awaitable[None]] = self._llm._receive_task_handler
        self._llm.send_client_event = self._send_client_event
        self._llm._receive_task_handler = self._receive_task_handler

    @staticmethod
    def fits(llm: FrameProcessor | None) -> bool:
        """Whether `llm` speaks this protocol and is built as expected."""
        names = ("send_client_event", "_receive_task_handler", "_websocket", "_current_audio_response")
        return llm is not None and has_private(llm, *names)

    @classmethod
    def of(cls, llm: FrameProcessor) -> RealtimeSocket:
        """The tap of a service; made at the first call."""
        found: RealtimeSocket | None = getattr(llm, "_voicectx_socket", None)
        if found is None:
            found = cls(llm)
            cast(Any, llm)._voicectx_socket = found
        return found

    def on_event(self, handler: EventHandler) -> None:
        """`handler` is awaited with every server event except audio, before the service gets it. It must not wait."""
        self._handlers.append(handler)

    def on_client_event(self, handler: Callable[[JsonObject], None]) -> None:
        """`handler` is called with every event on its way to the server, except audio."""
        self._client_handlers.append(handler)

    def on_lost(self, handler: Callable[[], None]) -> None:
        """`handler` is called when the connection breaks off. It must see to another one and call `resume`."""
        self._lost_handlers.append(handler)

    def rewrite(self, event_type: str, rewriter: Rewriter) -> None:
        """`rewriter` may replace the service's events of a type; None leaves one as it is."""
        self._rewriters[event_type] = rewriter

    # To the server

    async def send(self, data: JsonObject, *, event_id: str | None = None) -> str:
        """Sends an event of ours; returns its id. A refusal is counted and goes no further."""
        event_id = event_id or _new_id()
        self._own.append(event_id)
        await self._send_client_event(RawEvent({**data, "event_id": event_id}))
        return event_id

    async def request(self, data: JsonObject, done: Callable[[JsonObject], bool]) -> Answer:
        """Sends an event and waits until `done` recognises its acknowledgement. Not from within a handler."""
        event_id = _new_id()
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._pending[event_id] = _Pending(done, future)
        try:
            await self.send(data, event_id=event_id)
            if self.down:
                return Answer.NONE
            async with asyncio.timeout(_ANSWER_SECS):
                return await future
        except TimeoutError:
            return Answer.NONE
        finally:
            self._pending.pop(event_id, None)

    async def _send_client_event(self, event: Any) -> None:
        kind = getattr(event, "type", None)
        if kind == "input_audio_buffer.append":
            await self._send_audio(event)
            return
        rewriter = None if isinstance(event, RawEvent) else self._rewriters.get(str(kind))
        replaced = rewriter(event) if rewriter is not None else None
        if replaced is not None:
            for ours in replaced:
                await self.send(ours.data)
            return
        if self.down:
            return  # the next session is told about the conversation as a whole
        data = event.model_dump(exclude_none=True)
        for handler in self._client_handlers:
            handler(data)
        await self._send(event)

    async def _send_audio(self, event: Any) -> None:
        secs = len(event.audio) * 3 / 4 / _BYTES_PER_SEC
        if self._connection is not _Connection.UP:
            self._held.append((event, secs))
            self._held_secs += secs
            while self._held_secs > _MAX_HELD_SECS:
                _, oldest_secs = self._held.popleft()
                self._held_secs -= oldest_secs
                self.dropped_audio_secs += oldest_secs
            return
        self.sent_audio.add(secs, now_secs=time.monotonic())
        await self._send(event)

    async def resume(self) -> None:
        """There is a session again: what the user said meanwhile goes out, in order."""
        self._connection = _Connection.UP
        held, self._held, self._held_secs = self._held, deque(), 0.0
        for event, _secs in held:
            await self._send_client_event(event)

    def is_own(self, event_id: str) -> bool:
        """Whether an event was sent by us, lately."""
        return event_id in self._own

    @property
    def down(self) -> bool:
        """Whether there is no connection."""
        return self._connection is _Connection.LOST

    # From the server

    async def _receive_task_handler(self) -> None:
        socket = self._llm._websocket
        if socket is not None:
            self._llm._websocket = _TappedConnection(socket, self)
            if self.down:
                self._connection = _Connection.OPENING
        await self._receive()

    async def received(self, message: str | bytes) -> bool:
        """A message came in. Returns whether the service should have it."""
        if isinstance(message, str) and _AUDIO_DELTA in message[:200]:
            return True
        try:
            event = json.loads(message)
            kind = event["type"]
        except (ValueError, KeyError, TypeError, RecursionError):
            # The service would end its loop over this.
            self.errors += 1
            logger.warning("{}: a message of the server is not an event", self._llm)
            return False
        if kind == "session.created":
            self.sent_audio.restart()
        for handler in self._handlers:
            try:
                await handler(event)
            except Exception as error:  # The outer edge: the service gets its event whatever happened here.
                self.failures += 1
                logger.warning("{}: {} not evaluated ({})", self._llm, kind, type(error).__name__)
        self._answer(event)
        return kind != "error" or await self._on_error(event)

    def _answer(self, event: JsonObject) -> None:
        for pending in list(self._pending.values()):
            if not pending.future.done() and pending.done(event):
                pending.future.set_result(Answer.DONE)

    async def _on_error(self, event: JsonObject) -> bool:
        error = event.get("error") or {}
        code, event_id = str(error.get("code")), str(error.get("event_id"))
        if event_id in self._own:
            self.refused += 1
            logger.debug("{}: refused ({})", self._llm, code)
            pending = self._pending.get(event_id)
            if pending is not None and not pending.future.done():
                missing = code.endswith("invalid_item_id")
                pending.future.set_result(Answer.MISSING if missing else Answer.REFUSED)
            return False
        if code in _KNOWN_TO_SERVICE:
            return True
        self.errors += 1
        await self._llm.push_error(error_msg=f"realtime server: {error.get('message') or code}")
        return False

    def _broke_off(self) -> bool:
        """The connection ended, and not by the service's doing. Returns whether somebody sees to another one."""
        if self._llm._disconnecting or not self._lost_handlers:
            return False
        self._connection = _Connection.LOST
        for pending in self._pending.values():
            if not pending.future.done():
                pending.future.set_result(Answer.NONE)
        for handler in self._lost_handlers:
            handler()
        return True


def _new_id() -> str:
    return f"vcx_{uuid.uuid4().hex[:20]}"


class _TappedConnection:
    """A WebSocket connection whose messages pass the tap."""

    def __init__(self, connection: Any, tap: RealtimeSocket) -> None:
        self._connection = connection
        self._tap = tap

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def __aiter__(self) -> AsyncIterator[str | bytes]:
        try:
            async for message in self._connection:
                if await self._tap.received(message):
                    yield message
        except ConnectionClosed:
            if not self._tap._broke_off():
                raise
            return
        self._tap._broke_off()
