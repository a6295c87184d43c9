"""FactMemory: the dual-brain memory of one owner, in one session, over any `MemoryEngine`.

The path reads (`activate`, `recall`, `hot_cache`, `session`) work on what is in memory and never wait. Everything else
is background work: `attach` and `open` load facts and brains while the call connects, `add_turn` extracts, reconciles
and writes after a turn, `end_session` runs the long horizon.

Nothing is lost by a crash: turns come from pages that are journaled before they get here, every turn's id is kept with
what came of it once the engine has it, and `open` handles the pages that were not handled yet. Handling one twice
changes nothing. While the engine cannot be reached the session's own facts work, turns wait, and they are reconciled
with what the engine holds once it answers. A turn that no extractor can read is kept verbatim as a note and counted.
What the caller asked of the memory itself (remember, forget) is in the brains' file until the engine has done it.

The brains live in one file per owner (`brain_state`), written when a session ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipecat_voicectx.errors import UnavailableError, UsageError
from pipecat_voicectx.memory.consolidation import ConsolidationConfig, ConsolidationPlan, consolidate
from pipecat_voicectx.memory.dual_recall import DualRecall
from pipecat_voicectx.memory.extraction import ConversationFocus
from pipecat_voicectx.memory.facts import Fact, Retraction
from pipecat_voicectx.memory.hot_cache import HotCache
from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.memory.left_brain import Activation
from pipecat_voicectx.memory.pages import Owner, VoicePage
from pipecat_voicectx.memory.reconcile import Delete, Operation, reconcile
from pipecat_voicectx.memory.session_facts import SessionFacts
from pipecat_voicectx.stores.brain_state import BrainState, MemoryRequest, RequestKind, brain_state_path
from pipecat_voicectx.stores.engine import MemoryEngine
from pipecat_voicectx.stores.fact_core import FactMemoryCore
from pipecat_voicectx.stores.fact_records import (
    call_record,
    reflection_record,
)
from pipecat_voicectx.stores.fact_turns import (
    ErasedFacts,
    FactTurn,
)
from pipecat_voicectx.stores.fact_writer import FactWriter
from pipecat_voicectx.stores.known_facts import KnownFacts

__all__ = ["FactMemory"]

EXPORT_SCHEMA_VERSION = 1
# Chosen: what a search of the engine adds; a recall takes five.
_SIMILAR = 10


class FactMemory(FactMemoryCore):
    """See the module. All methods are for one event loop.

    Args:
        owner: Whose memory it is.
        session_id: This session.
        engine: Where facts are kept. None: for this session only, until `attach`. Closing it is the caller's business.
        state_dir: Folder of the brains' file. None: they are rebuilt from the facts, emergence and traits are not kept.
        extractor: Reads turns in place of the rules, which remain its fallback.
        schema: What may be remembered. None: anything.
        judge: Judges emergence in place of the rules.
        recall: Budget and policy of recalls.
    """

    # The path: reads from memory

    @property
    def hot_cache(self) -> HotCache:
        """Profile and persona of the caller; empty until they are loaded."""
        return self._known.cache

    def activate(self, text: str, before: Activation | None = None) -> Activation:
        """What an interim transcript activates. Reads only."""
        return self.left_brain.activate(text, before)

    def recall(
        self,
        text: str,
        *,
        now_wall_secs: float,
        activation: Activation | None = None,
        vector: FloatArray | None = None,
        similar: Mapping[str, float] | None = None,
    ) -> DualRecall:
        """What bears on the user's words. Reads only, so that a speculative turn leaves no trace; see `note_query`."""
        return self._known.recall(
            text,
            now_wall_secs=now_wall_secs,
            activation=activation,
            vector=vector,
            similar=similar or {},
            config=self._recall_config,
        )

    def note_query(self, recalled: DualRecall) -> None:
        """Counts a confirmed turn's recall for emergence."""
        if recalled.routes is not None:
            self._known.brains.log.add(recalled.routes.activation.entities)

    # Background work

    async def similar(self, text: str) -> dict[str, float]:
        """Facts near a text in meaning, as the engine ranks them; {} when it does not answer. For `recall`."""
        return await self._writer.similar(text, limit=_SIMILAR)

    async def attach(
        self, engine: MemoryEngine | None, *, owner: Owner | None = None, state_dir: Path | None = None
    ) -> None:
        """Gives the memory its engine, and its owner where the caller was anonymous until now; then `open` it.

        What this session has established waits, and is reconciled with what the engine holds.
        """
        async with self._lock:
            self._owner = owner or self._owner
            self._engine = engine
            self._state_path = brain_state_path(state_dir, self._owner) if state_dir is not None else None
            self._writer = FactWriter(self._owner, engine)
            self.status.loaded = engine is None

    async def open(
        self,
        pages: Sequence[VoicePage] = (),
        *,
        last_call_summary: str = "",
        open_issues: Sequence[str] = (),
    ) -> None:
        """Loads what is known, then handles those of `pages` that were not handled yet.

        Args:
            pages: The owner's pages in the order they were said; what a crash left unhandled is among them.
            last_call_summary: For the hot cache; the one that the engine holds by default.
            open_issues: For the hot cache.

        Raises:
            UnavailableError: The engine does not answer; the session works with its own facts, and every later turn
                tries again.
        """
        async with self._lock:
            self._last_call_summary, self._open_issues = last_call_summary, tuple(open_issues)
            await self._load_state()
            loaded = await self._load_facts()
            question = ""
            later = {page.id for page in pages}
            asked = _places(self._known.brains.requests, pages)
            for request in asked.get("", ()):
                await self._carry_out(request, later)
            for page in pages:
                later.discard(page.id)
                if page.user_text and not self._known.brains.handled(page.id):
                    turn = FactTurn.from_page(page, question=question)
                    await self._handle(turn, later_turns=later, one_of_many=True)
                    await asyncio.sleep(0)  # there may be many, and the call is going on
                question = page.bot_text
                for request in asked.get(page.id, ()):
                    await self._carry_out(request, later)
            self._rebuild_cache()
        await self._write()
        if not loaded:
            raise UnavailableError(
                "the memory engine does not answer; facts of earlier calls are missing for now"
            )

    async def add_turn(self, turn: FactTurn) -> list[Operation]:
        """Handles one confirmed turn: extract, reconcile, both brains, write. Never raises for a failing engine.

        Returns:
            What was done to the facts; [] when the turn was handled before.
        """
        async with self._lock:
            if self._known.brains.handled(turn.turn_id):
                return []
            if not self.status.loaded:
                await self._load_facts()
            operations = await self._handle(turn)
            self._refresh()
        await self._write()
        return operations

    async def remember(self, text: str, *, turn_id: str, wall_secs: float) -> list[Operation]:
        """Keeps what the caller asked to be remembered: as facts where it can be read, as they said it otherwise.

        For a tool that the model may call; `turn_id` is the page of the turn in which it was asked.
        """
        request = MemoryRequest(kind=RequestKind.REMEMBER, text=text, turn_id=turn_id, wall_secs=wall_secs)
        return await self._ask(request)

    def would_forget(self, topic: str) -> tuple[Fact, ...]:
        """The facts that `forget` would delete, so that the bot can ask back first. Reads only."""
        if not topic.strip():
            return ()
        plan = reconcile(self.facts, [Retraction(about=topic)], turn_id="", now_wall_secs=0.0)
        return tuple(self._known.facts[each.fact_id] for each in plan if isinstance(each, Delete))

    async def forget(self, topic: str, *, turn_id: str, wall_secs: float) -> list[Operation]:
        """Deletes what is known about a topic, history included; `take_forgotten_turns` names the pages it came from.

        Raises:
            UsageError: No topic; everything is erased with `erase`.
        """
        if not topic.strip():
            raise UsageError("forget needs a topic; erase() deletes everything")
        request = MemoryRequest(kind=RequestKind.FORGET, text=topic, turn_id=turn_id, wall_secs=wall_secs)
        return await self._ask(request)

    def take_forgotten_turns(self) -> frozenset[str]:
        """The pages that facts came from which were deleted since the last call, for whoever keeps those pages."""
        taken, self._forgotten_turns = frozenset(self._forgotten_turns), set()
        return taken

    async def end_session(self, *, now_wall_secs: float, call_summary: str = "") -> None:
        """The long horizon: traits, emergence, the call's summary, and the last attempt to write. Idempotent."""
        async with self._lock:
            self.right_brain.consolidate_session(self._session_id, self._affects)
            await self._emerge(now_wall_secs)
            if not self.status.loaded:
                await self._load_facts()
            if call_summary:
                record = call_record(self._owner, self._session_id, call_summary, wall_secs=now_wall_secs)
                self._writer.add_record(record)
        await self._write()
        await self._save_state()

    async def consolidate(
        self, *, now_wall_secs: float, config: ConsolidationConfig | None = None
    ) -> ConsolidationPlan:
        """Sleep-time consolidation of everything that is known, written through.

        Raises:
            UnavailableError: The engine's facts are not here.
        """
        async with self._lock:
            if not self.status.loaded:
                raise UnavailableError("facts are not loaded; nothing to consolidate")
            plan = consolidate(self.facts, now_wall_secs=now_wall_secs, config=config)
            self._apply(plan.operations)
            for each in plan.reflections:
                self._writer.add_record(reflection_record(self._owner, each, wall_secs=now_wall_secs))
        await self._write()
        await self._save_state()
        return plan

    def export(self) -> dict[str, object]:
        """Everything of the owner as plain JSON types: facts with their history, both brains."""
        facts = sorted(self.facts, key=lambda fact: fact.valid_from_wall_secs)
        return {
            "schema": EXPORT_SCHEMA_VERSION,
            "owner": {"user_id": self._owner.user_id, "agent_id": self._owner.agent_id},
            "facts": [fact.to_json() for fact in facts],
            "left_brain": self.left_brain.to_json(),
            "right_brain": self.right_brain.to_json(),
        }

    async def erase(self) -> ErasedFacts:
        """Deletes everything of the owner here, in the engine and in the file, and looks again to prove it.

        Raises:
            UnavailableError: The engine does not answer; what is here and in the file is gone, the engine's is not.
        """
        async with self._lock:
            self._writer.forget_everything()
            self._known, self._focus = KnownFacts(), ConversationFocus()
            for kept in (self._affects, self._waiting, self._unsettled, self._heard, self._forgotten_turns):
                kept.clear()
            self.session = SessionFacts()
            self._last_call_summary, self._open_issues = "", ()
            file_left = self._state_path is not None and BrainState.delete(self._state_path)
            deleted, left = await self._writer.erase()
            return ErasedFacts(records=deleted, left=left, state_file_left=file_left)


def _places(
    requests: Sequence[MemoryRequest], pages: Sequence[VoicePage]
) -> Mapping[str, list[MemoryRequest]]:
    """After which page each request was made; "" before the first. One of a turn that left no page goes by the time."""
    places: dict[str, list[MemoryRequest]] = {}
    ids = {page.id for page in pages}
    for request in requests:
        before = [page.id for page in pages if page.started_wall_secs <= request.wall_secs]
        place = request.turn_id if request.turn_id in ids else next(reversed(before), "")
        places.setdefault(place, []).append(request)
    return places
