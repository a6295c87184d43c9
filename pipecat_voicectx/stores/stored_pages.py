"""Pages and threads with their vectors, and the form they have as payloads of the database's points."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.memory.pages import Owner, VoicePage
from pipecat_voicectx.memory.turn_terms import TurnTerms

__all__ = [
    "EmbedderStamp",
    "StoredPage",
    "StoredThread",
    "mean_vector",
    "page_payload",
    "thread_of",
    "thread_payload",
    "unpacked",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderStamp:
    """Which embedder made a store's vectors."""

    name: str
    dimension: int


@dataclass(frozen=True, slots=True)
class StoredPage:
    """A page with the vectors of its two turns; None where a turn is empty or could not be embedded."""

    page: VoicePage
    vectors: tuple[FloatArray | None, FloatArray | None]
    terms: tuple[TurnTerms, TurnTerms] | None = None
    """Of the two turns' words. None: nobody has kept them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredThread:
    """A thread as it is kept: references to pages, and its summary."""

    id: str
    owner: Owner
    leader: FloatArray
    page_ids: tuple[str, ...]
    summary: str
    summarized_pages: int


def page_payload(stored: StoredPage) -> dict[str, str]:
    """A page as the payload of a point."""
    return {
        "user_id": stored.page.owner.user_id,
        "agent_id": stored.page.owner.agent_id,
        "session_id": stored.page.session_id,
        "page": json.dumps(stored.page.to_json(), ensure_ascii=False),
        "vectors": packed(stored.vectors),
    }


def thread_payload(thread: StoredThread) -> dict[str, Any]:
    """A thread as the payload of a point."""
    return {
        "user_id": thread.owner.user_id,
        "agent_id": thread.owner.agent_id,
        "id": thread.id,
        "leader": packed((thread.leader, None)),
        "pages": list(thread.page_ids),
        "summary": thread.summary,
        "summarized_pages": thread.summarized_pages,
    }


def thread_of(owner: Owner, payload: Any) -> StoredThread | None:
    """The thread of a hit; None when it is another owner's or damaged."""
    try:
        leader, _ = unpacked(payload["leader"])
        if leader is None or (payload["user_id"], payload["agent_id"]) != (owner.user_id, owner.agent_id):
            return None
        return StoredThread(
            id=str(payload["id"]),
            owner=owner,
            leader=leader,
            page_ids=tuple(str(page) for page in payload["pages"]),
            summary=str(payload["summary"]),
            summarized_pages=int(payload["summarized_pages"]),
        )
    except (KeyError, TypeError, ValueError):
        return None


def packed(vectors: tuple[FloatArray | None, FloatArray | None]) -> str:
    """Both vectors as text, `.` between them; nothing in place of a missing one."""
    return ".".join(
        "" if vector is None else base64.b64encode(vector.astype(np.float16).tobytes()).decode()
        for vector in vectors
    )


def unpacked(text: str) -> tuple[FloatArray | None, FloatArray | None]:
    user, bot = (
        np.frombuffer(base64.b64decode(part), np.float16).astype(np.float32) if part else None
        for part in text.split(".")
    )
    return user, bot


def mean_vector(vectors: tuple[FloatArray | None, FloatArray | None], dimension: int) -> list[float]:
    """One vector for the page; all zeros, which nothing is similar to, when it could not be embedded."""
    known = [vector for vector in vectors if vector is not None]
    mean = np.mean(known, axis=0) if known else np.zeros(dimension, np.float32)
    return [float(value) for value in mean]
