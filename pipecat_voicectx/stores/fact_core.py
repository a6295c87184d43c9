"""What a `FactMemory` does behind its interface: reading turns, reconciling, loading, writing, and the brains' file."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from loguru import logger

from pipecat_voicectx.errors import BadInputError, UnavailableError, UsageError
from pipecat_voicectx.memory.cleaning import is_low_signal
from pipecat_voicectx.memory.dual_recall import DualRecallConfig
from pipecat_voicectx.memory.extraction import ConversationFocus, Extraction, extract
from pipecat_voicectx.memory.fact_schema import FactSchema
from pipecat_voicectx.memory.facts import Change, Fact, Retraction
from pipecat_voicectx.memory.left_brain import LeftBrain
from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.memory.reconcile import Delete, Operation, reconcile
from pipecat_voicectx.memory.right_brain import RightBrain, TurnAffect
from pipecat_voicectx.memory.session_facts import SessionFacts
from pipecat_voicectx.memory.turnovers import stems
from pipecat_voicectx.stores.brain_state import BrainState, MemoryRequest, RequestKind, brain_state_path
from pipecat_voicectx.stores.engine import MemoryEngine
from pipecat_voicectx.stores.fact_records import (
    note_record,
    requested_changes,
)
from pipecat_voicectx.stores.fact_turns import (
    AsyncEmergenceJudge,
    FactMemoryStatus,
    FactTurn,
    TurnExtractor,
)
from pipecat_voicectx.stores.fact_writer import FactWriter
from pipecat_voicectx.stores.known_facts import KnownFacts
from pipecat_voicectx.stores.waiting import in_background

__all__ = ["FactMemoryCore"]

# Measured: reconciling among this many facts takes about 2 ms; more goes to a thread.
_RECONCILED_INLINE = 500
# Measured: the rules read a turn of a sentence in 1.5 ms; longer ones go to a thread.
_READ_INLINE_CHARS = 300
# Chosen: turns of a call whose words are known, so that "forget that" reaches what no extractor read.
_MAX_HEARD = 200
# Chosen: turns of a session that may wait for an engine; older ones are read again from their pages another time.
_MAX_WAITING = 2_000


class FactMemoryCore:
    """State and machinery of one owner's facts in one session. Callers hold `_lock` while they change anything."""

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
        self._heard: deque[tuple[str, frozenset[str]]] = deque(maxlen=_MAX_HEARD)
        # Changes come one after the other; writes too, but a slow engine holds up writes alone.
        self._lock = asyncio.Lock()
        self._write_lock = asyncio.Lock()
        self._last_call_summary = ""
        self._open_issues: tuple[str, ...] = ()
        self.session = SessionFacts()
        """What this call has established."""
        self.status = FactMemoryStatus(loaded=engine is None)

    @property
    def owner(self) -> Owner:
        """Whose memory it is."""
        return self._owner

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

    async def _ask(self, request: MemoryRequest) -> list[Operation]:
        """Writes a request down, carries it out, and strikes it off once the engine has done it."""
        async with self._lock:
            self._known.brains.requests.append(request)
            await self._save_state()
            operations = await self._carry_out(request)
        await self._write()
        return operations

    async def _carry_out(self, request: MemoryRequest, later_turns: Collection[str] = ()) -> list[Operation]:
        """`later_turns` were said after the request; what rests on them stays."""
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
        if request.kind is RequestKind.FORGET:
            self._forget_unread(turn, changes, later_turns)
        operations = await self._reconcile(turn, changes, later_turns)
        self.session.apply(operations)
        return operations

    async def _handle(
        self, turn: FactTurn, *, later_turns: Collection[str] = (), one_of_many: bool = False
    ) -> list[Operation]:
        """Reads one turn. `one_of_many` says that a call is connecting while turns of earlier ones are read."""
        self._unsettled.add(turn.turn_id)
        before = self._focus
        extraction, failed = await self._extract(turn, aside=one_of_many)
        self._focus = extraction.focus
        changes = extraction.changes if self._schema is None else self._schema.admit(extraction.changes)
        changes = tuple(_resolved(change, before) for change in changes)
        self._forget_unread(turn, changes)
        await self._keep_requests(turn, changes)
        operations = await self._reconcile(turn, changes, later_turns, aside=one_of_many)
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

    async def _keep_requests(self, turn: FactTurn, changes: Sequence[Change]) -> None:
        """A spoken request to forget is kept until the engine has done it: its page is emptied like those it means."""
        asked = [each for each in changes if isinstance(each, Retraction)]
        if not asked or self._engine is None:
            return
        topics = [each.about for each in asked if each.about]
        topics += [f"{said.attribute} {said.value}" for each in asked for said in each.of or ()]
        requests = self._known.brains.requests
        for topic in topics:
            request = MemoryRequest(
                kind=RequestKind.FORGET, text=topic, turn_id=turn.turn_id, wall_secs=turn.wall_secs
            )
            if request not in requests:
                requests.append(request)
        await self._save_state()

    def _forget_unread(
        self, turn: FactTurn, changes: Sequence[Change], later_turns: Collection[str] = ()
    ) -> None:
        """A request to forget also empties the pages whose words it means, facts or none.

        "Forget that" is the turn before; a topic, those of this call that hold all its words.
        """
        asked = [each for each in changes if isinstance(each, Retraction)]
        for each in asked:
            wanted = stems(each.about)
            if not wanted and self._heard:
                self._forgotten_turns.add(self._heard[-1][0])
            elif wanted:
                self._forgotten_turns.update(heard for heard, words in self._heard if wanted <= words)
                self._forgotten_turns.update(self._turns_about(wanted).difference(later_turns))
        if asked:
            self._forgotten_turns.add(turn.turn_id)
            self._known.brains.forget(self._forgotten_turns)
            self._forget_derived()
        elif not is_low_signal(turn.text):
            self._heard.append((turn.turn_id, stems(turn.text)))

    def _turns_about(self, wanted: frozenset[str]) -> set[str]:
        """Turns of any call in which somebody or something of that name was spoken of."""
        found: set[str] = set()
        for entity in self.left_brain.entities.values():
            if any(wanted <= stems(name) for name in (entity.name, *entity.aliases)):
                found.update(item for item in entity.items if item not in self._known.facts)
        for node in self.right_brain.nodes.values():
            if wanted <= stems(node.entity or ""):
                found.update(each.turn_id for each in node.evidence)
        return found

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

    async def _extract(self, turn: FactTurn, *, aside: bool = False) -> tuple[Extraction, bool]:
        failed = False
        if self._extractor is not None:
            try:
                found = await self._extractor.extract_turn(
                    turn.text, self._focus, question=turn.question, known=self.facts
                )
            except UnavailableError as error:
                self.status.extractor_failures += 1
                logger.warning("fact extraction falls back to the rules: {}", error)
                failed = True
            else:
                return found, False
        read = partial(extract, turn.text, self._focus, question=turn.question)
        long = len(turn.text) + len(turn.question) > _READ_INLINE_CHARS
        return (await in_background(read) if long or aside else read()), failed

    async def _reconcile(
        self,
        turn: FactTurn,
        changes: Sequence[Change],
        later_turns: Collection[str] = (),
        *,
        aside: bool = False,
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
        operations = await in_background(plan) if changes and (many or aside) else plan()
        self._apply(operations)
        gone = [each for each in operations if isinstance(each, Delete)]
        if gone:
            # The request itself says what is to be forgotten, as a rule.
            self._forgotten_turns.update((turn.turn_id, *(t for each in gone for t in each.source_turns)))
            self._known.brains.forget((*self._forgotten_turns, *(each.fact_id for each in gone)))
            self._forget_derived()
        return operations

    def _forget_derived(self) -> None:
        """What calls came to, and what was noted of forgotten turns, says it in other words."""
        self._writer.forget_calls()
        self._writer.forget_turns(self._forgotten_turns)
        self._last_call_summary = ""
        self._rebuild_cache()

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
            brains, readable = await in_background(BrainState.load, self._state_path)
            self.status.state_failures += not readable
            brains.requests += self._known.brains.requests
            self._known.brains = brains
            for turn, _changes in self._waiting:  # said before the file was here
                if not brains.handled(turn.turn_id):
                    self._known.learn_turn(turn)

    async def _save_state(self) -> None:
        if self._state_path is None:
            return
        self._known.brains.forget(await in_background(BrainState.forgotten_in, self._state_path))
        save = partial(self._known.brains.save, self._state_path, unsettled=frozenset(self._unsettled))
        try:
            await in_background(save)
        except OSError as error:
            self.status.state_failures += 1
            logger.warning("the brains' file cannot be written: {}", type(error).__name__)


def _resolved(change: Change, before: ConversationFocus) -> Change:
    """ "Forget that", with what was said last by what the conversation knows, whoever read the turn."""
    if isinstance(change, Retraction) and not change.about and change.of is None:
        return replace(change, of=before.said_last)
    return change
