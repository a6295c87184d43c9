"""Reads what Mem0 keeps of a user, as its `get_all` returns it, so that another memory can take it over.

Untrusted data: the file may be damaged or somebody's guess at the format. What is wrong with it is said with the place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pipecat_voicectx.errors import BadInputError

__all__ = ["Mem0Memory", "read_mem0_memories"]

# Chosen: a statement of Mem0's is a sentence; what is longer is no fact.
MAX_CHARS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Mem0Memory:
    """One memory of Mem0's."""

    id: str
    """Mem0's own."""
    text: str
    """The statement."""
    created_wall_secs: float
    """Unix time of its last change, else of its making."""


def read_mem0_memories(path: Path) -> list[Mem0Memory]:
    """The memories in a file of `get_all`'s result, oldest first. Blocks.

    Raises:
        BadInputError: The file cannot be read, or holds something else.
    """
    try:
        data = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{path} is no JSON: {error}") from error
    items = data.get("results") if isinstance(data, Mapping) else data
    if not isinstance(items, list):
        raise BadInputError(
            f'{path} holds no {{"results": [...]}}; write what Mem0\'s get_all returns into it'
        )
    memories = [_memory(item, place=f"{path}, memory {number}") for number, item in enumerate(items, 1)]
    return sorted(memories, key=lambda memory: memory.created_wall_secs)


def _memory(item: object, *, place: str) -> Mem0Memory:
    if not isinstance(item, Mapping):
        raise BadInputError(f"{place} is no object")
    key, text = item.get("id"), item.get("memory")
    if not isinstance(key, str) or not isinstance(text, str) or not text.strip() or len(text) > MAX_CHARS:
        raise BadInputError(f'{place} needs an "id" and a "memory" of 1 to {MAX_CHARS} characters')
    return Mem0Memory(id=key, text=text.strip(), created_wall_secs=_wall_secs(item, place=place))


def _wall_secs(item: Mapping[object, object], *, place: str) -> float:
    stamp = item.get("updated_at") or item.get("created_at")
    try:
        made = datetime.fromisoformat(str(stamp))
        return (made if made.tzinfo is not None else made.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise BadInputError(f'{place} needs a "created_at" in ISO 8601, not {str(stamp)[:40]!r}') from error
