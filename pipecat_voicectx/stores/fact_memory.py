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
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from loguru import logger

from pipecat_voicectx.errors import BadInputError, UnavailableError, UsageError
from pipecat_voicectx.memory.cleaning import is_low_signal
from pipecat_voicectx.memory.consolidation import ConsolidationConfig, ConsolidationPlan, consolidate
from pipecat_voicectx.memory.dual_recall import DualRecall, DualRecallConfig
from pipecat_voicectx.memory.extraction import ConversationFocus, Extraction, extract
from pipecat_voicectx.memory.fact_schema import FactSchema
from pipecat_voicectx.memory.facts import Change, Fact, Retraction
from pipecat_voicectx.memory.hot_cache import HotCache
from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.memory.left_brain import Activation, LeftBrain
from pipecat_voicectx.memory.pages import Owner, VoicePage
from pipecat_voicectx.memory.reconcile import Delete, Operation, reconcile
from pipecat_voicectx.memory.right_brain import RightBrain, TurnAffect
from pipecat_voicectx.memory.session_facts import SessionFacts
from pipecat_voicectx.stores.brain_state import BrainState, MemoryRequest, RequestKind, brain_state_path
from pipecat_voicectx.stores.engine import MemoryEngine
from pipecat_voicectx.stores.fact_records import (
    call_record,
    note_record,
    reflection_record,
    requested_changes,
)
from pipecat_voicectx.stores.fact_turns import (
    AsyncEmergenceJudge,
    ErasedFacts,
    FactMemoryStatus,
    FactTurn,
    TurnExtractor,
)
from pipecat_voicectx.stores.fact_writer import FactWriter
from pipecat_voicectx.stores.known_facts import KnownFacts

__all__ = ["FactMemory"]

EXPORT_SCHEMA_VERSION = 1
# Measured: reconciling among this many facts takes about 2 ms; more goes to a thread.
_RECONCILED_INLINE = 500
# Chosen: turns of a session that may wait for an engine; older ones are read again from their pages another time.
_MAX_WAITING = 2_000
# Chosen: what a search of the engine adds; a recall takes five.
_SIMILAR = 10


class FactMemory:
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

    def __init__(
        self,
        *,
        owner: Owner,
        session_id: str,
        engine: MemoryEngine | None,
        state_dir: Path | None = None,
        extractor: TurnExtractor | None = None,
        schema: FactSchema | None = None,
        judge: AsyncEmergenceJudge | None = None,
        recall: DualRecallConfig | None = None,
    ) -> None:
        if not session_id:
            raise UsageError("FactMemory needs a session_id")
        self._owner = owner
        self._session_id = session_id
        self._engine = engine
        self._state_path = brain_state_path(state_dir, owner) if state_dir is not None else None
        self._extractor = extractor
        self._schema = schema
        self._judge = judge
        self._recall_config = recall or DualRecallConfig()
        self._writer = FactWriter(owner, engine)
        self._known = KnownFacts()
        self._focus = ConversationFocus()
        self._affects: list[TurnAffect] = []
        self._waiting: deque[tuple[FactTurn, tuple[Change, ...]]] = deque(maxlen=_MAX_WAITING)
        self._unsettled: set[str] = set()
        self._forgotten_turns: set[str] = set()
        # Changes come one after the other; writes too, but a slow engine holds up writes alone.
        self._lock = asyncio.Lock()
        self._write_lock = asyncio.Lock()
        self._last_call_summary = ""
        self._open_issues: tuple[str, ...] = ()
        self.session = SessionFacts()
        """What this call has established."""
        self.status = FactMemoryStatus(loaded=engine is None)

    # The path: reads from memory

    @property
    def owner(self) -> Owner:
        """Whose memory it is."""
        return self._owner

    @property
    def hot_cache(self) -> HotCache:
        """Profile and persona of the caller; empty until they are loaded."""
        return self._known.cache

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All facts that are known here, ended ones included."""
        return tuple(self._known.facts.values())

    @property
    def size(self) -> int:
        """How many those are."""
        return len(self._known.facts)

    @property
    def left_brain(self) -> LeftBrain:
        """For a page ranking too, since pages are items: `left_brain.item_boosts(page_ids, recalled.routes)`."""
        return self._known.brains.left

    @property
    def right_brain(self) -> RightBrain:
        """The persona graph."""
        return self._known.brains.right

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
            for page in pages:
                later.discard(page.id)
                if page.user_text and not self._known.brains.handled(page.id):
                    await self._handle(FactTurn.from_page(page, question=question), later_turns=later)
                    await asyncio.sleep(0)  # there may be many, and the call is going on
                question = page.bot_text
            for request in self._known.brains.requests:
                await self._carry_out(request)
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
            for kept in (self._affects, self._waiting, self._unsettled):
                kept.clear()
            self.session = SessionFacts()
            self._last_call_summary, self._open_issues = "", ()
            file_left = self._state_path is not None and BrainState.delete(self._state_path)
            deleted, left = await self._writer.erase()
            return ErasedFacts(records=deleted, left=left, state_file_left=file_left)

    # Inside

    async def _ask(self, request: MemoryRequest) -> list[Operation]:
        """Writes a request down, carries it out, and strikes it off once the engine has done it."""
        async with self._lock:
            self._known.brains.requests.append(request)
            await self._save_state()
            operations = await self._carry_out(request)
        await self._write()
        return operations

    async def _carry_out(self, request: MemoryRequest) -> list[Operation]:
        changes = requested_changes(request, self._focus)
        if self._schema is not None:
            changes = self._schema.admit(changes)
        turn = FactTurn(
            turn_id=request.turn_id,
            session_id=self._session_id,
            text=request.text,
            wall_secs=request.wall_secs,
        )
        if not self.status.loaded:
            self._waiting.append((turn, changes))
        operations = await self._reconcile(turn, changes)
        self.session.apply(operations)
        return operations

    async def _handle(self, turn: FactTurn, *, later_turns: Collection[str] = ()) -> list[Operation]:
        self._unsettled.add(turn.turn_id)
        extraction, failed = await self._extract(turn)
        self._focus = extraction.focus
        changes = extraction.changes if self._schema is None else self._schema.admit(extraction.changes)
        operations = await self._reconcile(turn, changes, later_turns)
        of_call = turn.session_id == self._session_id
        if of_call:
            self.session.apply(operations)
        if self._engine is None or not self.status.loaded:
            self._waiting.append((turn, changes))
        if failed and not changes and not is_low_signal(turn.text) and self._schema is None:
            self._writer.add_record(note_record(self._owner, turn))
            self.status.notes += 1
        affects = self._known.learn_turn(turn)
        if of_call:
            self._affects += affects
        self.status.turns += 1
        return operations

    async def _emerge(self, now_wall_secs: float) -> None:
        brains = self._known.brains
        if self._judge is None:
            brains.emergence.run(brains.left, brains.log, now_wall_secs=now_wall_secs)
            return
        for name in sorted(brains.left.schemas):
            candidate = brains.emergence.candidate(brains.left, brains.log, name, now_wall_secs=now_wall_secs)
            if candidate is not None:
                try:
                    verdict = await self._judge.judge(candidate)
                except (UnavailableError, BadInputError) as error:
                    logger.warning("emergence is left for another time: {}", error)
                    return
                brains.emergence.decide(brains.left, candidate, verdict)

    async def _extract(self, turn: FactTurn) -> tuple[Extraction, bool]:
        if self._extractor is not None:
            try:
                found = await self._extractor.extract_turn(
                    turn.text, self._focus, question=turn.question, known=self.facts
                )
            except UnavailableError as error:
                self.status.extractor_failures += 1
                logger.warning("fact extraction falls back to the rules: {}", error)
                return extract(turn.text, self._focus, question=turn.question), True
            return found, False
        return extract(turn.text, self._focus, question=turn.question), False

    async def _reconcile(
        self, turn: FactTurn, changes: Sequence[Change], later_turns: Collection[str] = ()
    ) -> list[Operation]:
        plan: Callable[[], list[Operation]] = partial(
            reconcile,
            self.facts,
            changes,
            turn_id=turn.turn_id,
            now_wall_secs=turn.wall_secs,
            later_turns=later_turns,
        )
        many = self.size > _RECONCILED_INLINE
        operations = await asyncio.get_running_loop().run_in_executor(None, plan) if many else plan()
        self._apply(operations)
        gone = [each for each in operations if isinstance(each, Delete)]
        if gone:
            # The request itself says what is to be forgotten, as a rule.
            self._forgotten_turns.update((turn.turn_id, *(t for each in gone for t in each.source_turns)))
        return operations

    def _apply(self, operations: Sequence[Operation]) -> None:
        self._writer.apply(operations)
        self._known.apply(operations)

    def _rebuild_cache(self) -> None:
        summary = self._last_call_summary or self._writer.last_call_summary
        self._known.rebuild_cache(last_call_summary=summary, open_issues=self._open_issues)
        self._refresh()

    def _refresh(self) -> None:
        self._known.refresh()
        self._count()

    def _count(self) -> None:
        self.status.waiting = 0 if self.status.loaded else len(self._waiting)
        self.status.unwritten = self._writer.unwritten

    async def _load_facts(self) -> bool:
        """The engine's facts, then the turns that waited, reconciled with them in order."""
        try:
            loaded = await self._writer.load()
        except UnavailableError:
            return False
        if self._engine is None:
            return True
        waiting, self._waiting = list(self._waiting), deque(maxlen=_MAX_WAITING)
        self._writer.forget_facts()
        await self._known.replace_all(loaded)
        self._rebuild_cache()
        for turn, changes in waiting:
            await self._reconcile(turn, changes)
        if not self._focus.referents.names:
            self._focus = ConversationFocus.from_facts(self.facts)
        self.status.loaded = True
        self._refresh()
        return True

    async def _write(self) -> None:
        async with self._write_lock:
            if self.status.loaded:
                settling, requests = frozenset(self._unsettled), list(self._known.brains.requests)
                if await self._writer.write():
                    self._unsettled -= settling
                    if requests and self._engine is not None:
                        kept = self._known.brains.requests
                        self._known.brains.requests = [each for each in kept if each not in requests]
                        await self._save_state()
            self._count()

    async def _load_state(self) -> None:
        if self._state_path is not None:
            loop = asyncio.get_running_loop()
            brains, readable = await loop.run_in_executor(None, BrainState.load, self._state_path)
            self.status.state_failures += not readable
            brains.requests += self._known.brains.requests
            self._known.brains = brains
            for turn, _changes in self._waiting:  # said before the file was here
                if not brains.handled(turn.turn_id):
                    self._known.learn_turn(turn)

    async def _save_state(self) -> None:
        if self._state_path is None:
            return
        save = partial(self._known.brains.save, self._state_path, unsettled=frozenset(self._unsettled))
        try:
            await asyncio.get_running_loop().run_in_executor(None, save)
        except OSError as error:
            self.status.state_failures += 1
            logger.warning("the brains' file cannot be written: {}", type(error).__name__)
