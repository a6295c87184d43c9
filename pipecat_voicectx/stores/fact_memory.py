"""FactMemory: the dual-brain memory of one owner, in one session, over any `MemoryEngine`.

The path reads (`activate`, `recall`, `hot_cache`, `session`) work on what is in memory and never wait. Everything else
is background work: `open` loads facts and brains while the call connects, `add_turn` extracts, reconciles and writes
after a turn, `end_session` runs the long horizon.

Nothing is lost by a crash: turns come from pages that are journaled before they get here, every turn's id is kept with
what came of it, and `open` handles the pages that were not handled yet. Handling one twice changes nothing. While the
engine cannot be reached the session's own facts work, turns wait, and they are reconciled with what the engine holds
once it answers. A turn that no extractor can read is kept verbatim as a note and counted.

The brains live in one file per owner (`brain_state`), written when a session ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

from loguru import logger

from pipecat_voicectx.errors import BadInputError, UnavailableError, UsageError
from pipecat_voicectx.memory.cleaning import clean_transcript, is_low_signal
from pipecat_voicectx.memory.consolidation import ConsolidationConfig, ConsolidationPlan, consolidate
from pipecat_voicectx.memory.dual_recall import DualRecall, DualRecallConfig, FactIndex, recall_from_brains
from pipecat_voicectx.memory.entities import mentions_in_fact, mentions_in_text
from pipecat_voicectx.memory.extraction import ConversationFocus, Extraction, extract
from pipecat_voicectx.memory.fact_schema import FactSchema
from pipecat_voicectx.memory.facts import USER, Assertion, Change, Fact, Retraction, current_facts
from pipecat_voicectx.memory.hot_cache import HotCache, build_hot_cache
from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.memory.left_brain import Activation, LeftBrain
from pipecat_voicectx.memory.pages import Owner, VoicePage
from pipecat_voicectx.memory.reconcile import Add, Delete, Keep, Operation, Update, reconcile
from pipecat_voicectx.memory.records import MemoryRecord, RecordKind, record_id
from pipecat_voicectx.memory.right_brain import PersonaKind, RightBrain, TurnAffect
from pipecat_voicectx.memory.session_facts import SessionFacts
from pipecat_voicectx.stores.brain_state import BrainState, brain_state_path
from pipecat_voicectx.stores.engine import MemoryEngine, Unavailable, erase_owner
from pipecat_voicectx.stores.fact_turns import (
    AsyncEmergenceJudge,
    ErasedFacts,
    FactMemoryStatus,
    FactTurn,
    TurnExtractor,
)
from pipecat_voicectx.stores.fact_writer import FactWriter

__all__ = ["FactMemory"]

EXPORT_SCHEMA_VERSION = 1
# Measured: a fact takes the left brain some 0.2 ms; this many are a pause that no frame notices.
_LEARNED_AT_ONCE = 16
# Measured: reconciling among this many facts takes about 2 ms; more goes to a thread.
_RECONCILED_INLINE = 500


class FactMemory:
    """See the module. All methods are for one event loop.

    Args:
        owner: Whose memory it is.
        session_id: This session.
        engine: Where facts are kept. None: for this session only. Closing it is the caller's business.
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
        self._brains = BrainState()
        self._facts: dict[str, Fact] = {}
        self._index = FactIndex()
        self._focus = ConversationFocus()
        self._affects: list[TurnAffect] = []
        self._waiting: list[tuple[FactTurn, tuple[Change, ...]]] = []
        self._lock = asyncio.Lock()
        self._cache = HotCache()
        self._last_call_summary = ""
        self._open_issues: tuple[str, ...] = ()
        self.session = SessionFacts()
        """What this call has established."""
        self.status = FactMemoryStatus(loaded=engine is None)

    # The path: reads from memory

    @property
    def hot_cache(self) -> HotCache:
        """Profile and persona of the caller; empty until they are loaded."""
        return self._cache

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All facts that are known here, ended ones included."""
        return tuple(self._facts.values())

    @property
    def left_brain(self) -> LeftBrain:
        """For a page ranking too, since pages are items: `left_brain.item_boosts(page_ids, recalled.routes)`."""
        return self._brains.left

    @property
    def right_brain(self) -> RightBrain:
        """The persona graph."""
        return self._brains.right

    def activate(self, text: str, before: Activation | None = None) -> Activation:
        """What an interim transcript activates. Reads only."""
        return self._brains.left.activate(text, before)

    def recall(
        self,
        text: str,
        *,
        now_wall_secs: float,
        activation: Activation | None = None,
        vector: FloatArray | None = None,
    ) -> DualRecall:
        """What bears on the user's words. Reads only, so that a speculative turn leaves no trace; see `note_query`."""
        return recall_from_brains(
            text,
            index=self._index,
            left=self._brains.left,
            right=self._brains.right,
            now_wall_secs=now_wall_secs,
            activation=activation,
            vector=vector,
            config=self._recall_config,
        )

    def note_query(self, recalled: DualRecall) -> None:
        """Counts a confirmed turn's recall for emergence."""
        if recalled.routes is not None:
            self._brains.log.add(recalled.routes.activation.entities)

    # Background work

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
            last_call_summary: For the hot cache.
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
                if page.user_text and not self._brains.handled(page.id):
                    await self._handle(FactTurn.from_page(page, question=question), later_turns=later)
                question = page.bot_text
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
            if self._brains.handled(turn.turn_id):
                return []
            if not self.status.loaded:
                await self._load_facts()
            operations = await self._handle(turn)
            await self._write()
            return operations

    async def remember(self, text: str, *, turn_id: str, wall_secs: float) -> list[Operation]:
        """Keeps what the caller asked to be remembered: as facts where it can be read, as they said it otherwise.

        For a tool that the model may call; `turn_id` is the page of the turn in which it was asked.
        """
        async with self._lock:
            turn = FactTurn(turn_id=turn_id, session_id=self._session_id, text=text, wall_secs=wall_secs)
            changes = extract(text, self._focus).changes
            if not any(isinstance(change, Assertion) for change in changes) and text.strip():
                words = clean_transcript(text) or text.strip()
                changes = (
                    Assertion(
                        subject=USER,
                        attribute="asked to remember",
                        value=words,
                        statement=f"The user asked to remember: {words}.",
                    ),
                )
            if self._schema is not None:
                changes = self._schema.admit(changes)
            operations = await self._reconcile(turn, changes)
            self.session.apply(operations)
            await self._write()
            return operations

    def would_forget(self, topic: str) -> tuple[Fact, ...]:
        """The facts that `forget` would delete, so that the bot can ask back first. Reads only."""
        plan = self._plan_forgetting(topic, turn_id="", wall_secs=0.0) if topic.strip() else []
        return tuple(self._facts[each.fact_id] for each in plan if isinstance(each, Delete))

    async def forget(self, topic: str, *, turn_id: str, wall_secs: float) -> list[Operation]:
        """Deletes what is known about a topic, history included; `Delete.source_turns` names the pages it came from.

        Raises:
            UsageError: No topic; everything is erased with `erase`.
        """
        if not topic.strip():
            raise UsageError("forget needs a topic; erase() deletes everything")
        async with self._lock:
            operations = self._plan_forgetting(topic, turn_id=turn_id, wall_secs=wall_secs)
            self._apply(operations)
            self.session.apply(operations)
            await self._write()
            return operations

    def _plan_forgetting(self, topic: str, *, turn_id: str, wall_secs: float) -> list[Operation]:
        change = Retraction(about=topic)
        return reconcile(self._facts.values(), [change], turn_id=turn_id, now_wall_secs=wall_secs)

    async def end_session(self, *, now_wall_secs: float) -> None:
        """The long horizon: traits, emergence, and the last attempt to write. Idempotent."""
        async with self._lock:
            brains = self._brains
            brains.right.consolidate_session(self._session_id, self._affects)
            await self._emerge(now_wall_secs)
            if not self.status.loaded:
                await self._load_facts()
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
            plan = consolidate(self._facts.values(), now_wall_secs=now_wall_secs, config=config)
            self._apply(plan.operations)
            for reflection in plan.reflections:
                record = MemoryRecord(
                    id=record_id(self._owner, f"reflection\x1f{reflection.key}"),
                    owner=self._owner,
                    text=reflection.text,
                    kind=RecordKind.SUMMARY,
                    created_wall_secs=now_wall_secs,
                    valid_from_wall_secs=now_wall_secs,
                    source_turns=reflection.source_turns,
                )
                self._writer.add_record(record)
            await self._write()
            await self._save_state()
            return plan

    def export(self) -> dict[str, object]:
        """Everything of the owner as plain JSON types: facts with their history, both brains."""
        return {
            "schema": EXPORT_SCHEMA_VERSION,
            "owner": {"user_id": self._owner.user_id, "agent_id": self._owner.agent_id},
            "facts": [
                fact.to_json() for fact in sorted(self._facts.values(), key=lambda f: f.valid_from_wall_secs)
            ],
            "left_brain": self._brains.left.to_json(),
            "right_brain": self._brains.right.to_json(),
        }

    async def erase(self) -> ErasedFacts:
        """Deletes everything of the owner here, in the engine and in the file, and looks again to prove it.

        Raises:
            UnavailableError: The engine does not answer; what is here and in the file is gone, the engine's is not.
        """
        async with self._lock:
            self._facts.clear()
            self._writer.forget_everything()
            self._index, self._brains, self._focus = FactIndex(), BrainState(), ConversationFocus()
            self._affects.clear()
            self._waiting.clear()
            self._cache, self.session = HotCache(), SessionFacts()
            self._last_call_summary, self._open_issues = "", ()
            if self._state_path is not None:
                for path in (self._state_path, self._state_path.with_suffix(".unreadable")):
                    path.unlink(missing_ok=True)
            deleted, left = 0, 0
            if self._engine is not None:
                erased = await erase_owner(self._engine, self._owner)
                remaining = await self._engine.list_by_owner(self._owner)
                for answer in (erased, remaining):
                    if isinstance(answer, Unavailable):
                        raise UnavailableError(f"the memory engine does not answer: {answer.reason.value}")
                assert not isinstance(erased, Unavailable)
                assert not isinstance(remaining, Unavailable)
                deleted, left = erased.value, len(remaining.value.records)
            file_left = self._state_path is not None and self._state_path.exists()
            return ErasedFacts(records=deleted, left=left, state_file_left=file_left)

    # Inside

    async def _handle(self, turn: FactTurn, *, later_turns: Collection[str] = ()) -> list[Operation]:
        extraction, failed = await self._extract(turn)
        self._focus = extraction.focus
        changes = extraction.changes if self._schema is None else self._schema.admit(extraction.changes)
        operations = await self._reconcile(turn, changes, later_turns)
        if turn.session_id == self._session_id:
            self.session.apply(operations)
        if not self.status.loaded:
            self._waiting.append((turn, changes))
        if failed and not changes and not is_low_signal(turn.text) and self._schema is None:
            self._keep_note(turn)
        left, right = self._brains.left, self._brains.right
        left.add_item(turn.turn_id, turn.text, mentions_in_text(turn.text), now_wall_secs=turn.wall_secs)
        _, affects = right.update_turn(
            turn.text,
            turn.affect,
            turn_id=turn.turn_id,
            session_id=turn.session_id,
            entities=sorted(left.activate(turn.text).entities),
            now_wall_secs=turn.wall_secs,
        )
        if turn.session_id == self._session_id:
            self._affects += affects
        self._brains.mark_handled(turn.turn_id)
        self.status.turns += 1
        self._refresh()
        return operations

    async def _emerge(self, now_wall_secs: float) -> None:
        brains = self._brains
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
                    turn.text, self._focus, question=turn.question, known=self._facts.values()
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
        plan = partial(
            reconcile,
            list(self._facts.values()),
            changes,
            turn_id=turn.turn_id,
            now_wall_secs=turn.wall_secs,
            later_turns=later_turns,
        )
        many = len(self._facts) > _RECONCILED_INLINE
        operations = await asyncio.get_running_loop().run_in_executor(None, plan) if many else plan()
        self._apply(operations)
        return operations

    def _keep_note(self, turn: FactTurn) -> None:
        record = MemoryRecord(
            id=record_id(self._owner, f"note\x1f{turn.turn_id}"),
            owner=self._owner,
            text=clean_transcript(turn.text) or turn.text,
            kind=RecordKind.NOTE,
            created_wall_secs=turn.wall_secs,
            valid_from_wall_secs=turn.wall_secs,
            source_turns=(turn.turn_id,),
        )
        self._writer.add_record(record)
        self.status.notes += 1

    def _apply(self, operations: Sequence[Operation]) -> None:
        self._writer.apply(operations)
        self._cache = self._cache.with_operations(operations)
        for operation in operations:
            match operation:
                case Add(fact=fact) | Update(fact=fact):
                    self._facts[fact.id] = fact
                    self._learn(fact)
                case Delete(fact_id=each):
                    self._facts.pop(each, None)
                    self._index.remove([each])
                    self._brains.left.remove_items([each])
                case Keep():
                    pass

    def _learn(self, fact: Fact) -> None:
        self._index.set([fact])
        self._learn_routes(fact)

    def _learn_routes(self, fact: Fact) -> None:
        left = self._brains.left
        if fact.current:
            at = fact.last_said_wall_secs
            left.add_item(fact.id, fact.statement, mentions_in_fact(fact), now_wall_secs=at)
        else:
            left.remove_items([fact.id])

    async def _learn_all(self, facts: Sequence[Fact]) -> None:
        """`_learn` for many, without holding up the loop: the words in a thread, the brain a few at a time."""
        current = current_facts(facts)
        current.reverse()  # the latest said last, as if they were learned one by one
        index = FactIndex()
        await asyncio.get_running_loop().run_in_executor(None, index.set, current)
        self._index = index
        for position, fact in enumerate(current):
            self._learn_routes(fact)
            if position % _LEARNED_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _rebuild_cache(self) -> None:
        self._cache = build_hot_cache(
            self._facts.values(), last_call_summary=self._last_call_summary, open_issues=self._open_issues
        )
        self._refresh()

    def _refresh(self) -> None:
        self._brains.left.settle()
        nodes = self._brains.right.nodes.values()
        traits = [node.description for node in nodes if node.kind is PersonaKind.INDEPENDENT]
        self._cache = self._cache.with_persona(traits)
        self.status.waiting = len(self._waiting)
        self.status.unwritten = self._writer.unwritten

    async def _load_facts(self) -> bool:
        """The engine's facts, then the turns that waited, reconciled with them in order."""
        try:
            loaded = await self._writer.load()
        except UnavailableError:
            return False
        if self._engine is None:
            return True
        waiting, self._waiting = self._waiting, []
        for fact_id in self._facts.keys() - {fact.id for fact in loaded}:
            self._index.remove([fact_id])
            self._brains.left.remove_items([fact_id])
        self._facts = {fact.id: fact for fact in loaded}
        self._writer.forget_facts()
        await self._learn_all(loaded)
        self._rebuild_cache()
        for turn, changes in waiting:
            await self._reconcile(turn, changes)
        if not self._focus.referents.names:
            self._focus = ConversationFocus.from_facts(self._facts.values())
        self.status.loaded = True
        self._refresh()
        return True

    async def _write(self) -> None:
        if self.status.loaded:
            await self._writer.write()
        self.status.unwritten = self._writer.unwritten

    async def _load_state(self) -> None:
        if self._state_path is not None:
            loop = asyncio.get_running_loop()
            self._brains, readable = await loop.run_in_executor(None, BrainState.load, self._state_path)
            self.status.state_failures += not readable

    async def _save_state(self) -> None:
        if self._state_path is None:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._brains.save, self._state_path)
        except OSError as error:
            self.status.state_failures += 1
            logger.warning("the brains' file cannot be written: {}", type(error).__name__)
