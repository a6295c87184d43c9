"""Looking into, exporting, erasing and consolidating what is remembered, outside of a call.

One folder holds an owner's whole memory: the page store in it, facts in `facts/`, brains in `brains/`. Embedded
stores serve one process, so a bot that is running holds the folder; use a moment without calls, or servers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipecat_voicectx.errors import UnavailableError
from pipecat_voicectx.memory.consolidation import ConsolidationPlan
from pipecat_voicectx.memory.facts import current_facts
from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.stores.clips import erase_clips
from pipecat_voicectx.stores.embedders import Embedder
from pipecat_voicectx.stores.engine import MemoryEngine
from pipecat_voicectx.stores.fact_memory import FactMemory
from pipecat_voicectx.stores.mem0_engine import Mem0Engine
from pipecat_voicectx.stores.mem0_import import Mem0Memory
from pipecat_voicectx.stores.memory_folder import brains_path, clips_path, facts_path, is_memory
from pipecat_voicectx.stores.page_store import PageStore, open_page_store

__all__ = ["Erasure", "Inspection", "MemoryAdmin"]

# Chosen: shorter texts ("yes", "thank you") are in other people's files too and prove nothing.
_MIN_TELLING_CHARS = 12
# Chosen: the longest ones; a file that keeps one of an owner's texts keeps most of them.
_MAX_TELLING_TEXTS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """Counts of what is remembered of one owner; no text."""

    pages: int
    sessions: int
    first_wall_secs: float | None
    last_wall_secs: float | None
    facts_current: int
    facts_past: int
    entities: int
    emerged_schemas: int
    persona_nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """What an erasure deleted, and what a second look found."""

    pages: int
    facts: int
    pages_left: int
    facts_left: int
    clips: int
    """Audio clips, those that no page named included."""
    clips_left: int
    files_with_text: tuple[str, ...]
    """Files of the folder that still hold one of the erased texts; empty when the erasure is proven."""

    @property
    def proven(self) -> bool:
        """Whether nothing was found afterwards."""
        return not (self.pages_left or self.facts_left or self.clips_left or self.files_with_text)


class MemoryAdmin:
    """One memory folder, opened for administration. `open` it; `close` it."""

    def __init__(self, root: Path, store: PageStore, engine: MemoryEngine) -> None:
        self._root = root
        self._store = store
        self._engine = engine

    @classmethod
    async def open(
        cls,
        root: Path,
        *,
        embedder: Embedder,
        make_engine: Callable[[Path, Embedder], MemoryEngine] | None = None,
        create: bool = False,
    ) -> MemoryAdmin:
        """Opens a folder.

        Args:
            root: The folder that the bot was given.
            embedder: The one it was filled with.
            make_engine: Makes the engine from `facts_path(root)`; Mem0 on embedded Qdrant by default.
            create: Whether a folder without a memory becomes one.

        Raises:
            StoreLockedError: A bot or another command holds the folder.
            EmbedderMismatchError: It was filled with another embedder.
            UnavailableError: There is no such folder, or it cannot be opened.
        """
        if not create and not await asyncio.to_thread(is_memory, root):
            raise UnavailableError(
                f"there is no memory at {root}: neither qdrant/ nor journal.jsonl is in it; give the folder that the "
                "bot was given as store_path"
            )
        store = await asyncio.to_thread(open_page_store, root, embedder=embedder)
        make = make_engine or (lambda path, each: Mem0Engine(path=path, embedder=each))
        try:
            engine = await asyncio.to_thread(make, facts_path(root), embedder)
        except BaseException:
            await asyncio.to_thread(store.close)
            raise
        return cls(root, store, engine)

    async def owners(self) -> list[Owner]:
        """Everybody with pages."""
        found = await asyncio.to_thread(self._store.owners)
        return sorted(found, key=lambda owner: (owner.user_id, owner.agent_id))

    async def inspect(self, owner: Owner) -> Inspection:
        """Counts, and nothing that was said."""
        pages = await asyncio.to_thread(self._store.export, owner)
        memory = await self._memory(owner)
        times = [float(str(page["started_wall_secs"])) for page in pages]
        current = len(current_facts(memory.facts))
        return Inspection(
            pages=len(pages),
            sessions=len({page["session_id"] for page in pages}),
            first_wall_secs=min(times, default=None),
            last_wall_secs=max(times, default=None),
            facts_current=current,
            facts_past=len(memory.facts) - current,
            entities=len(memory.left_brain.entities),
            emerged_schemas=sum(schema.emerged for schema in memory.left_brain.schemas.values()),
            persona_nodes=len(memory.right_brain.nodes),
        )

    async def export(self, owner: Owner) -> dict[str, object]:
        """Everything of one owner as plain JSON types."""
        pages = await asyncio.to_thread(self._store.export, owner)
        return {**(await self._memory(owner)).export(), "pages": pages}

    async def take_over(self, owner: Owner, memories: Sequence[Mem0Memory]) -> int:
        """Keeps Mem0's memories of an owner: as facts where they can be read, in their own words otherwise.

        Taking over the same ones again changes nothing.

        Returns:
            How many facts there are of them now that were not there before.

        Raises:
            UnavailableError: The engine does not answer; what it had taken stays.
        """
        memory = await self._memory(owner)
        before = len(memory.facts)
        for each in memories:
            await memory.remember(each.text, turn_id=f"mem0:{each.id}", wall_secs=each.created_wall_secs)
        return len(memory.facts) - before

    async def consolidate(self, owner: Owner, *, now_wall_secs: float) -> ConsolidationPlan:
        """Handles pages that were left unhandled, then consolidates and saves.

        Raises:
            UnavailableError: The engine does not answer.
        """
        memory = await self._memory(owner)
        stored = await asyncio.to_thread(self._store.load, owner)
        await memory.open([each.page for each in stored])
        return await memory.consolidate(now_wall_secs=now_wall_secs)

    async def erase(self, owner: Owner) -> Erasure:
        """Deletes everything of one owner, then looks for it in stores and files.

        Raises:
            UnavailableError: A store does not answer; what could be erased is.
        """
        pages = await asyncio.to_thread(self._store.export, owner)
        memory = await self._memory(owner)
        telling = _telling(
            [str(page[key]) for page in pages for key in ("user_text", "bot_text", "unheard_text")]
            + [fact.statement for fact in memory.facts]
        )
        gone = await memory.erase()
        erased_pages = await asyncio.to_thread(self._store.erase, owner)
        clips, clips_left = await asyncio.to_thread(erase_clips, clips_path(self._root), owner)
        return Erasure(
            pages=erased_pages,
            facts=gone.records,
            pages_left=await asyncio.to_thread(self._store.count, owner),
            facts_left=gone.left,
            clips=clips,
            clips_left=clips_left,
            files_with_text=await self._files_left(telling),
        )

    async def _files_left(self, telling: list[bytes]) -> tuple[str, ...]:
        """Files that hold an erased text which nobody else said as well."""
        found = await asyncio.to_thread(_files_with, self._root, telling)
        if not found:
            return ()
        others = "\n".join(
            [json.dumps(await self.export(other), ensure_ascii=False) for other in await self.owners()]
        ).encode("utf-8", "surrogatepass")
        own = [text for text in telling if all(form not in others for form in _forms(text))]
        return await asyncio.to_thread(_files_with, self._root, own)

    async def close(self) -> None:
        """Releases the folder."""
        await self._engine.close()
        await asyncio.to_thread(self._store.close)

    async def _memory(self, owner: Owner) -> FactMemory:
        memory = FactMemory(
            owner=owner, session_id="administration", engine=self._engine, state_dir=brains_path(self._root)
        )
        await memory.open()
        return memory


def _telling(texts: Iterable[str]) -> list[bytes]:
    long = {text.strip() for text in texts if len(text.strip()) >= _MIN_TELLING_CHARS}
    kept = sorted(long, key=len, reverse=True)[:_MAX_TELLING_TEXTS]
    return [text.encode("utf-8", "surrogatepass") for text in kept]


def _forms(text: bytes) -> set[bytes]:
    """A text as files may hold it: as it is, and escaped as JSON with or without its other letters."""
    plain = text.decode("utf-8", "surrogatepass")
    escaped = {json.dumps(plain, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    return {text, *(each.encode("utf-8", "surrogatepass") for each in escaped)}


def _files_with(root: Path, texts: list[bytes]) -> tuple[str, ...]:
    found: list[str] = []
    for path in sorted(root.rglob("*")):
        if path.is_file() and texts:
            data = path.read_bytes()
            if any(form in data for text in texts for form in _forms(text)):
                found.append(str(path.relative_to(root)))
    return tuple(found)
