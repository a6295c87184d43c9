"""Keeps a realtime server's conversation bounded, and our blocks in it replaced.

One request is in flight at a time: the next is sent when the server acknowledged or refused the one before, or did not
answer. Old exchanges are deleted only while no answer is being made. A block (the voice states, what was recalled) is
one item: the new one is created, then the old one deleted.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any, cast

from pipecat.processors.frame_processor import FrameProcessor

from pipecat_voicectx.projection.server_window import ItemKind, ServerItem, ServerWindow, ServerWindowConfig
from pipecat_voicectx.runtimes.realtime_socket import Answer, JsonObject, RealtimeSocket

__all__ = ["RealtimeItems"]

# Ids of items under way to the server, acknowledged within a round trip.
_MAX_UNDER_WAY = 64


class RealtimeItems:
    """The items of one service's server."""

    def __init__(
        self,
        llm: FrameProcessor,
        *,
        may_delete: Callable[[], bool],
        config: ServerWindowConfig | None = None,
        bounded: bool = True,
    ) -> None:
        """Initialize and listen.

        Args:
            llm: The service.
            may_delete: Whether no answer is being made now.
            config: How much stays.
            bounded: Whether old exchanges are deleted at all.
        """
        self._llm = cast(Any, llm)
        self._may_delete = may_delete
        self._bounded = bounded
        self._window = ServerWindow(config)
        self._origin: dict[str, ItemKind] = {}
        self._wanted: dict[str, str | None] = {}
        self._blocks: dict[str, tuple[str, str]] = {}
        self._retired: list[str] = []
        self._worker: asyncio.Task[None] | None = None
        self.deleted = 0
        """Items deleted to keep the conversation bounded."""
        self.refused = 0
        """Requests about items that were refused or not answered."""
        self._socket = RealtimeSocket.of(llm)
        self._socket.on_event(self._on_event)
        self._socket.on_client_event(self._on_client_event)

    @property
    def window(self) -> ServerWindow:
        """The server's items as we know them."""
        return self._window

    def show(self, name: str, text: str | None) -> None:
        """The block `name` is to say `text`; None takes it away. Sent at once, without waiting."""
        self._wanted[name] = text
        self._wake()

    async def add_for_user(self, text: str) -> None:
        """What the user said in a session that broke off before it was written down."""
        item_id = f"vcx_{uuid.uuid4().hex[:20]}"
        self._origin[item_id] = ItemKind.USER
        content = [{"type": "input_text", "text": text}]
        item = {"id": item_id, "type": "message", "role": "user", "content": content}
        await self._socket.send({"type": "conversation.item.create", "item": item})

    def tidy(self) -> None:
        """Something ended: old exchanges may leave now."""
        self._wake()

    async def shown(self) -> None:
        """Waits until what is to be shown was answered for."""
        while self._worker is not None and self._next_block() is not None:
            await asyncio.wait([self._worker])

    async def close(self) -> None:
        """Stops. Idempotent."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await self._llm.cancel_task(worker)

    # What the server has

    def _on_client_event(self, event: JsonObject) -> None:
        if event["type"] == "conversation.item.create":
            item = event["item"]
            if item.get("id") and item["id"] not in self._origin:
                self._origin[item["id"]] = _kind_of_sent(item)
            while len(self._origin) > _MAX_UNDER_WAY:
                self._origin.pop(next(iter(self._origin)))

    async def _on_event(self, event: JsonObject) -> None:
        match event["type"]:
            case "session.created":
                self._window.clear()
                self._wanted = {**{name: text for name, (_, text) in self._blocks.items()}, **self._wanted}
                self._blocks.clear()
                self._retired.clear()
            case "conversation.item.added" | "conversation.item.created":
                item = event["item"]
                kind = self._origin.pop(item["id"], None) or _kind_of_received(item)
                self._window.added(
                    ServerItem(item_id=item["id"], kind=kind, call_id=item.get("call_id")),
                    after=event.get("previous_item_id"),
                )
            case "conversation.item.deleted":
                self._window.deleted(event["item_id"])
            case _:
                pass

    # What we ask for

    def _wake(self) -> None:
        if self._worker is None and not self._socket.down and self._has_work():
            self._worker = self._llm.create_task(self._work(), "conversation_items")

    def _has_work(self) -> bool:
        return self._next_block() is not None or bool(self._retired) or bool(self._next_group())

    async def _work(self) -> None:
        try:
            while not self._socket.down and self._has_work():
                name = self._next_block()
                if name is not None:
                    await self._replace(name)
                elif self._retired:
                    await self._delete(self._retired[0])
                    self._retired.pop(0)
                else:
                    for item_id in self._next_group():
                        self.deleted += await self._delete(item_id)
        finally:
            self._worker = None

    def _next_block(self) -> str | None:
        for name, text in self._wanted.items():
            if text != self._blocks.get(name, ("", None))[1]:
                return name
        return None

    def _next_group(self) -> tuple[str, ...]:
        if not self._bounded or not self._may_delete():
            return ()
        plan = self._window.plan()
        return plan[0] if plan else ()

    async def _replace(self, name: str) -> None:
        text = self._wanted[name]
        old = self._blocks.pop(name, None)
        if text is not None:
            item_id = f"vcx_{uuid.uuid4().hex[:20]}"
            self._origin[item_id] = ItemKind.OURS
            self._blocks[name] = (item_id, text)
            answer = await self._socket.request(
                {"type": "conversation.item.create", "item": _system_item(item_id, text)},
                lambda event: event["type"] in _ADDED and event["item"]["id"] == item_id,
            )
            if answer is not Answer.DONE:
                # Said once; the next text is another attempt.
                self.refused += 1
        if old is not None:
            self._retired.append(old[0])

    async def _delete(self, item_id: str) -> bool:
        answer = await self._socket.request(
            {"type": "conversation.item.delete", "item_id": item_id},
            lambda event: event["type"] == "conversation.item.deleted" and event["item_id"] == item_id,
        )
        if answer in (Answer.DONE, Answer.MISSING):
            self._window.deleted(item_id)
        else:
            self._window.refused(item_id)
        self.refused += answer is not Answer.DONE
        return answer is Answer.DONE


_ADDED = ("conversation.item.added", "conversation.item.created")


def _system_item(item_id: str, text: str) -> JsonObject:
    content = [{"type": "input_text", "text": text}]
    return {"id": item_id, "type": "message", "role": "system", "content": content}


def _kind_of_sent(item: JsonObject) -> ItemKind:
    """An item that the service sends: a tool's result, a picture, or the application's own words."""
    if item.get("type") == "function_call_output":
        return ItemKind.RESULT
    kinds = {part.get("type") for part in item.get("content") or ()}
    return ItemKind.OTHER if "input_image" in kinds else ItemKind.PINNED


def _kind_of_received(item: JsonObject) -> ItemKind:
    match item.get("type"), item.get("role"):
        case "function_call", _:
            return ItemKind.CALL
        case "function_call_output", _:
            return ItemKind.RESULT
        case _, "user":
            return ItemKind.USER
        case _, "assistant":
            return ItemKind.ANSWER
        case _:
            return ItemKind.PINNED
