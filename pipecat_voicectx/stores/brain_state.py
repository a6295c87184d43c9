"""Both brains of one owner with what they need to go on, and their file.

One JSON file per owner, replaced atomically and flushed. Losing it costs what cannot be rebuilt from facts and pages
(traits, emerged schemas, what was barred), and nothing else; a file that cannot be read is set aside, not overwritten.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from loguru import logger

from pipecat_voicectx.errors import BadInputError
from pipecat_voicectx.memory.emergence import Emergence
from pipecat_voicectx.memory.left_brain import LeftBrain
from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.memory.query_log import QueryLog
from pipecat_voicectx.memory.right_brain import RightBrain

__all__ = ["BrainState", "MemoryRequest", "RequestKind", "brain_state_path"]

STATE_SCHEMA_VERSION = 1
# Chosen: ids of what was forgotten, for sessions that run at the same time; calls are hours long at most.
_MAX_FORGOTTEN = 2_000
# Chosen: turns whose ids are remembered as handled; older pages are far behind the journal.
_MAX_HANDLED = 20_000


def brain_state_path(folder: Path, owner: Owner) -> Path:
    """The owner's file; its name says nothing about the owner."""
    digest = hashlib.sha256(f"{owner.user_id}\x1f{owner.agent_id}".encode()).hexdigest()[:32]
    return folder / f"brains-{digest}.json"


class RequestKind(Enum):
    """What a caller asked of the memory itself."""

    REMEMBER = "remember"
    FORGET = "forget"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRequest:
    """A request that is kept until the engine has carried it out: no page says it in a way that could be read again."""

    kind: RequestKind
    text: str
    turn_id: str
    wall_secs: float

    def to_json(self) -> dict[str, object]:
        """Plain JSON types."""
        return {
            "kind": self.kind.value, "text": self.text, "turn_id": self.turn_id, "wall_secs": self.wall_secs,
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> MemoryRequest:
        """The request that `to_json` wrote; raises KeyError, TypeError or ValueError for anything else."""
        return cls(
            kind=RequestKind(data["kind"]),
            text=str(data["text"]),
            turn_id=str(data["turn_id"]),
            wall_secs=float(str(data["wall_secs"])),
        )


class BrainState:
    """Left and right brain, emergence, query log, turns that were handled, requests that are to be carried out."""

    def __init__(self) -> None:
        self.left = LeftBrain()
        self.right = RightBrain()
        self.emergence = Emergence()
        self.log = QueryLog()
        self.requests: list[MemoryRequest] = []
        """Requests that the engine has not carried out yet."""
        self._handled: OrderedDict[str, None] = OrderedDict()
        self._forgotten: OrderedDict[str, None] = OrderedDict()

    def forget(self, ids: Iterable[str]) -> None:
        """Takes out what rests on turns and facts that the caller wanted forgotten, and remembers their ids.

        Another session of the caller may hold what it loaded before; it takes the ids out when it saves.
        """
        gone = list(ids)
        before = set(self.left.entities)
        self.left.remove_items(gone)
        self.left.remove_empty_schemas()
        self.right.forget_turns(gone)
        dropped = before - set(self.left.entities)
        self.log.forget(dropped)
        self.emergence.forget(dropped)
        self._forgotten.update(dict.fromkeys(gone))
        while len(self._forgotten) > _MAX_FORGOTTEN:
            self._forgotten.popitem(last=False)

    @staticmethod
    def forgotten_in(path: Path) -> frozenset[str]:
        """Ids that the file says were forgotten; none when it cannot be read. Blocking."""
        try:
            data = json.loads(path.read_text("utf-8"))
            return frozenset(str(each) for each in data.get("forgotten", ()))
        except (OSError, ValueError, AttributeError, TypeError):
            return frozenset()

    def handled(self, turn_id: str) -> bool:
        """Whether a turn was handled before."""
        return turn_id in self._handled

    def mark_handled(self, turn_id: str) -> None:
        """Remembers a turn; the oldest is forgotten when there are too many."""
        self._handled[turn_id] = None
        while len(self._handled) > _MAX_HANDLED:
            self._handled.popitem(last=False)

    def save(self, path: Path, *, unsettled: Collection[str] = ()) -> None:
        """Replaces the file. Blocking.

        Args:
            path: Of the file.
            unsettled: Turns whose facts the engine does not have yet; they count as not handled after a restart.

        Raises:
            OSError: The disk does not take it; the old file is as it was.
        """
        state = {
            "schema": STATE_SCHEMA_VERSION,
            "left_brain": self.left.to_json(),
            "right_brain": self.right.to_json(),
            "query_log": self.log.to_json(),
            "emergence": self.emergence.to_json(),
            "handled": [turn_id for turn_id in self._handled if turn_id not in unsettled],
            "requests": [request.to_json() for request in self.requests],
            "forgotten": list(self._forgotten),
        }
        temporary = path.with_suffix(".tmp")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("w", encoding="utf-8") as file:
                json.dump(state, file, ensure_ascii=False)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise

    @classmethod
    def load(cls, path: Path) -> tuple[BrainState, bool]:
        """The state in the file, or a new one when there is none; False when a file could not be read. Blocking."""
        state = cls()
        if not path.exists():
            return state, True
        try:
            data = json.loads(path.read_text("utf-8"))
            if not isinstance(data, dict) or data.get("schema") != STATE_SCHEMA_VERSION:
                raise BadInputError("another version's state")
            state.left = LeftBrain.from_json(data["left_brain"])
            state.right = RightBrain.from_json(data["right_brain"])
            state.log = QueryLog.from_json(data["query_log"])
            state.emergence.load_json(data["emergence"])
            state.requests = [MemoryRequest.from_json(each) for each in data.get("requests", [])]
            state._forgotten = OrderedDict.fromkeys(str(each) for each in data.get("forgotten", []))
            state._handled = OrderedDict.fromkeys(str(each) for each in data["handled"])
        except (
            OSError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            ArithmeticError,
            RecursionError,
            BadInputError,
        ) as error:
            logger.warning("the brains' file cannot be used ({}); it is set aside", type(error).__name__)
            _set_aside(path)
            return cls(), False
        return state, True

    @staticmethod
    def delete(path: Path) -> bool:
        """Deletes the file, one that was set aside and one that a crash left half written; whether one is left."""
        files = (path, path.with_suffix(".unreadable"), path.with_suffix(".tmp"))
        for file in files:
            file.unlink(missing_ok=True)
        return any(file.exists() for file in files)


def _set_aside(path: Path) -> None:
    try:
        path.replace(path.with_suffix(".unreadable"))
    except OSError as error:
        logger.warning("the brains' file cannot be moved: {}", type(error).__name__)
