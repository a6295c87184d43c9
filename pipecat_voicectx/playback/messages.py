"""Which parts of which turns are in which assistant message."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

__all__ = ["HeardMessage", "MessageBook", "TurnPart"]


@dataclass(frozen=True, slots=True)
class TurnPart:
    """The pieces [first, last) of a turn; last None: to its end."""

    turn_id: int
    first: int
    last: int | None


@dataclass(slots=True, kw_only=True)
class HeardMessage:
    """One assistant message and the parts of turns it holds."""

    number: int
    parts: tuple[TurnPart, ...]
    text: str
    cut_secs: float | None = None
    """The boundary in time; None while it was not interrupted."""
    cut_at_secs: float = 0.0
    """When the interruption came."""
    cut_epoch: int = 0
    """The track it was cut on. Once that is gone, nothing more is learned about it."""

    def holds(self, turn_id: int) -> bool:
        """Whether any of a turn is in it."""
        return any(part.turn_id == turn_id for part in self.parts)


@dataclass(slots=True)
class MessageBook:
    """All messages whose turns are still on record, in order."""

    _messages: list[HeardMessage] = field(default_factory=list)
    _next_number: int = 1

    def __iter__(self) -> Iterator[HeardMessage]:
        return iter(self._messages)

    def add(self, parts: Collection[TurnPart], text: str) -> HeardMessage:
        """A new message, the last one."""
        message = HeardMessage(number=self._next_number, parts=tuple(parts), text=text)
        self._next_number += 1
        self._messages.append(message)
        return message

    def committed_pieces(self, turn_id: int) -> int | None:
        """How many of a turn's pieces are in messages; None when all are, or will be."""
        committed: int | None = 0
        for message in self._messages:
            for part in message.parts:
                if part.turn_id == turn_id:
                    committed = part.last
        return committed

    def open_part(self, turn_id: int, last: int | None) -> TurnPart:
        """The pieces of a turn that are in no message yet, up to `last`."""
        return TurnPart(turn_id, self.committed_pieces(turn_id) or 0, last)

    def keep(self, turn_ids: Collection[int]) -> None:
        """Forgets messages none of whose turns is among these."""
        self._messages = [
            message for message in self._messages if any(part.turn_id in turn_ids for part in message.parts)
        ]
