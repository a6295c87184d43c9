"""What a memory engine stores and finds: one text with its owner, its validity and the turns it rests on."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import cast

from pipecat_voicectx.errors import BadInputError, UsageError
from pipecat_voicectx.memory.pages import Owner

__all__ = ["RECORD_SCHEMA_VERSION", "MemoryHit", "MemoryRecord", "RecordKind", "record_id"]

RECORD_SCHEMA_VERSION = 1

# Fixed: the same owner and key always give the same id, so that writing twice is writing once.
_ID_NAMESPACE = uuid.UUID("0c4b2f7e-3e0c-4c55-9a3e-8f6a51c2b7d4")


class RecordKind(Enum):
    """What kind of thing a record's text is."""

    FACT = "fact"
    """One extracted statement about the user or somebody the user spoke of."""
    PERSONA = "persona"
    """A persona node: a stable trait, or how the user feels about one entity."""
    SUMMARY = "summary"
    """The summary of a call, a thread or a schema."""
    PAGE = "page"
    """An exchange, verbatim."""
    NOTE = "note"
    """Text that could not be made into facts, kept as it was said so that nothing is lost."""


def record_id(owner: Owner, key: str) -> str:
    """The id of the record that `key` names among the owner's records."""
    return str(uuid.uuid5(_ID_NAMESPACE, f"{owner.user_id}\x1f{owner.agent_id}\x1f{key}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord:
    """One stored memory. The owner is a field of its own; nothing in `metadata` can change it."""

    id: str
    """A UUID; use `record_id` where the same thing may be written twice."""
    owner: Owner
    text: str
    """What is embedded, searched and shown; not empty."""
    kind: RecordKind = RecordKind.FACT
    tags: tuple[str, ...] = ()
    """Routes to this record (schemas, entities). A search may be restricted to any of several tags."""
    created_wall_secs: float
    """Unix time of the first write."""
    valid_from_wall_secs: float
    """Unix time from which the text is true, as far as known."""
    valid_to_wall_secs: float | None = None
    """Unix time at which it stopped being true. None: still true."""
    source_turns: tuple[str, ...] = ()
    """Ids of the turns this rests on, oldest first."""
    metadata: Mapping[str, object] = field(default_factory=dict)
    """JSON values for the caller's own use. Kept apart from every field above; owner names in it mean nothing."""

    def __post_init__(self) -> None:
        try:
            uuid.UUID(self.id)
        except ValueError as error:
            raise UsageError("MemoryRecord.id must be a UUID; record_id() makes one") from error
        if not self.text.strip():
            raise UsageError("MemoryRecord.text must not be blank")

    def to_json(self) -> dict[str, object]:
        """Plain JSON types, with the schema version."""
        return {
            "schema": RECORD_SCHEMA_VERSION,
            "id": self.id,
            "owner": {"user_id": self.owner.user_id, "agent_id": self.owner.agent_id},
            "text": self.text,
            "kind": self.kind.value,
            "tags": list(self.tags),
            "created_wall_secs": self.created_wall_secs,
            "valid_from_wall_secs": self.valid_from_wall_secs,
            "valid_to_wall_secs": self.valid_to_wall_secs,
            "source_turns": list(self.source_turns),
            "metadata": dict(self.metadata),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> MemoryRecord:
        """The record that `to_json` wrote.

        Raises:
            BadInputError: Not a record, or a schema newer than this version reads.
        """
        try:
            schema = data.get("schema")
            if not isinstance(schema, int) or not 1 <= schema <= RECORD_SCHEMA_VERSION:
                raise BadInputError(
                    f"record has schema {schema!r}; this version reads 1 to {RECORD_SCHEMA_VERSION}"
                )
            owner = cast(Mapping[str, str], data["owner"])
            valid_to = data.get("valid_to_wall_secs")
            return cls(
                id=str(data["id"]),
                owner=Owner(user_id=owner["user_id"], agent_id=owner["agent_id"]),
                text=str(data["text"]),
                kind=RecordKind(data.get("kind", "fact")),
                tags=tuple(str(tag) for tag in cast(list[object], data.get("tags") or [])),
                created_wall_secs=float(cast(float, data["created_wall_secs"])),
                valid_from_wall_secs=float(cast(float, data["valid_from_wall_secs"])),
                valid_to_wall_secs=None if valid_to is None else float(cast(float, valid_to)),
                source_turns=tuple(str(turn) for turn in cast(list[object], data.get("source_turns") or [])),
                metadata=dict(cast(Mapping[str, object], data.get("metadata") or {})),
            )
        except (KeyError, TypeError, ValueError, AttributeError, UsageError) as error:
            raise BadInputError(f"not a memory record: {type(error).__name__}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryHit:
    """A record that a search found."""

    record: MemoryRecord
    score: float
    """Similarity as the engine computes it; comparable within one answer only."""
