"""Which items of a conversation that a server keeps may leave it.

A speech-to-speech server holds the conversation itself: every user item, every answer, every tool call, for as long as
the session lasts, and all of it is read again for each answer. This mirrors its items and says which to delete so that
the newest exchanges stay:

- an exchange is a user item and all that follows it up to the next one; the newest `keep_exchanges` stay;
- a tool call and its result leave together, the result first (a call without a result is a call that still runs, a
  result without a call is an error); a call without a result stays, with its exchange, and so does an exchange that
  shares a call with one that stays;
- items of the application, and ours (they are replaced, not forgotten), never leave;
- an item whose deletion the server refused is tried once more, then left alone and counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from pipecat_voicectx.errors import UsageError

__all__ = ["ItemKind", "ServerItem", "ServerWindow", "ServerWindowConfig"]

_MAX_REFUSALS = 2


class ItemKind(Enum):
    """What an item of the server's conversation is."""

    USER = "user"
    ANSWER = "answer"
    CALL = "call"
    RESULT = "result"
    PINNED = "pinned"
    """The application put it there."""
    OURS = "ours"
    """A block of ours."""
    OTHER = "other"
    """Belongs to its exchange (an image of the camera); leaves with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerWindowConfig:
    """How much of the conversation stays on the server."""

    keep_exchanges: int = 4
    """The newest ones, the open one included. Chosen: what "no, the one before" can mean, with one to spare."""
    max_items: int = 64
    """Of those, at most so many items, the newest exchange excepted. Chosen: calls and results of a busy agent."""

    def __post_init__(self) -> None:
        if self.keep_exchanges < 1 or self.max_items < 1:
            raise UsageError("ServerWindowConfig: keep_exchanges and max_items must be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerItem:
    """One item, as much of it as decides whether it may leave."""

    item_id: str
    kind: ItemKind
    call_id: str | None = None
    """Of a call or a result."""


class ServerWindow:
    """The mirror. Feed it what the server says; ask `plan` when nothing is being said."""

    def __init__(self, config: ServerWindowConfig | None = None) -> None:
        self._config = config or ServerWindowConfig()
        self._items: list[ServerItem] = []
        self._refusals: dict[str, int] = {}
        self.stuck = 0
        """Items whose deletion was refused for good."""

    @property
    def items(self) -> tuple[ServerItem, ...]:
        """The server's items in order."""
        return tuple(self._items)

    def added(self, item: ServerItem, *, after: str | None = None) -> None:
        """The server added an item, behind `after` or at the end. Said twice, it counts once."""
        if any(known.item_id == item.item_id for known in self._items):
            return
        places = [place for place, known in enumerate(self._items) if known.item_id == after]
        self._items.insert(places[0] + 1 if places else len(self._items), item)

    def deleted(self, item_id: str) -> None:
        """The server does not hold this item (any more)."""
        self._items = [item for item in self._items if item.item_id != item_id]
        self._refusals.pop(item_id, None)

    def refused(self, item_id: str) -> None:
        """The server would not delete this item, though it holds it."""
        self._refusals[item_id] = self._refusals.get(item_id, 0) + 1
        if self._refusals[item_id] == _MAX_REFUSALS:
            self.stuck += 1

    def clear(self) -> None:
        """A new session: the server knows nothing."""
        self._items.clear()
        self._refusals.clear()

    def plan(self) -> list[tuple[str, ...]]:
        """What may leave now, oldest first. Delete a group to its end once it is begun: it is a call and its result."""
        exchanges = self._exchanges()
        staying = self._newest(exchanges)
        leaving = _without_split_calls(
            [exchange for place, exchange in enumerate(exchanges) if place not in staying]
        )
        return [
            group
            for group in _groups(leaving)
            if all(self._refusals.get(item_id, 0) < _MAX_REFUSALS for item_id in group)
        ]

    def _exchanges(self) -> list[list[ServerItem]]:
        exchanges: list[list[ServerItem]] = [[]]
        for item in self._items:
            if item.kind in (ItemKind.PINNED, ItemKind.OURS):
                continue
            if item.kind is ItemKind.USER and exchanges[-1]:
                exchanges.append([])
            exchanges[-1].append(item)
        return exchanges

    def _newest(self, exchanges: list[list[ServerItem]]) -> set[int]:
        last = len(exchanges) - 1
        staying, left = {last}, self._config.max_items - len(exchanges[last])
        for place in range(last - 1, max(-1, last - self._config.keep_exchanges), -1):
            left -= len(exchanges[place])
            if left < 0:
                break
            staying.add(place)
        return staying


def _calls(exchange: Iterable[ServerItem], kind: ItemKind) -> set[str | None]:
    return {item.call_id for item in exchange if item.kind is kind}


def _without_split_calls(leaving: list[list[ServerItem]]) -> list[list[ServerItem]]:
    """Drops what holds one half of a call whose other half stays (or does not exist yet), until nothing does."""
    while True:
        gone = [item for exchange in leaving for item in exchange]
        halves = _calls(gone, ItemKind.CALL) ^ _calls(gone, ItemKind.RESULT)
        kept = [
            exchange
            for exchange in leaving
            if not halves & (_calls(exchange, ItemKind.CALL) | _calls(exchange, ItemKind.RESULT))
        ]
        if len(kept) == len(leaving):
            return kept
        leaving = kept


def _groups(leaving: list[list[ServerItem]]) -> list[tuple[str, ...]]:
    results = {
        item.call_id: item.item_id
        for exchange in leaving
        for item in exchange
        if item.kind is ItemKind.RESULT
    }
    groups: list[tuple[str, ...]] = []
    for exchange in leaving:
        for item in exchange:
            if item.kind is ItemKind.CALL:
                groups.append((results[item.call_id], item.item_id))
            elif item.kind is not ItemKind.RESULT:
                groups.append((item.item_id,))
    return groups
