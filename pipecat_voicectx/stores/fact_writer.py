"""Facts in a `MemoryEngine`: reading them all, and writing what changed until the engine has it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pipecat_voicectx.errors import BadInputError, UnavailableError
from pipecat_voicectx.memory.facts import Fact
from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.memory.reconcile import Add, Delete, Keep, Operation, Update
from pipecat_voicectx.memory.records import MemoryRecord, RecordKind, record_id
from pipecat_voicectx.stores.engine import Answered, MemoryEngine, Unavailable, erase_owner

__all__ = ["CALL", "FactWriter"]

CALL = "call"
"""Tag of a call's summary."""


class FactWriter:
    """One owner's facts in an engine. What could not be written stays and is written the next time."""

    def __init__(self, owner: Owner, engine: MemoryEngine | None) -> None:
        self._owner = owner
        self._engine = engine
        self._facts: dict[str, Fact] = {}
        self._deleted: set[str] = set()
        self._others: dict[str, MemoryRecord] = {}
        # Records that are no facts: of calls, of other things with the turns they come from, and those to be deleted.
        self._calls: set[str] = set()
        self._sources: dict[str, tuple[str, ...]] = {}
        self._records_deleted: set[str] = set()
        self.last_call_summary = ""

    @property
    def unwritten(self) -> int:
        """Changes that the engine does not have."""
        return len(self._facts) + len(self._deleted) + len(self._others) + len(self._records_deleted)

    def apply(self, operations: Iterable[Operation]) -> None:
        """Notes what is to be written."""
        if self._engine is None:
            return
        for operation in operations:
            match operation:
                case Add(fact=fact) | Update(fact=fact):
                    self._facts[fact.id] = fact
                    self._deleted.discard(fact.id)
                case Delete(fact_id=each):
                    self._facts.pop(each, None)
                    self._deleted.add(each)
                case Keep():
                    pass

    def add_record(self, record: MemoryRecord) -> None:
        """Notes a record that is no fact: a note, a reflection."""
        if self._engine is not None:
            self._others[record.id] = record
            self._sources[record.id] = record.source_turns

    def forget_turns(self, turn_ids: Collection[str]) -> None:
        """Deletes what was noted of turns, or concluded from them, because they are forgotten."""
        for record, sources in list(self._sources.items()):
            if not frozenset(turn_ids).isdisjoint(sources):
                del self._sources[record]
                self._others.pop(record, None)
                self._records_deleted.add(record)

    def forget_calls(self) -> None:
        """Deletes the summaries of earlier calls, because something is forgotten and they may say it."""
        self._records_deleted |= self._calls
        self._calls.clear()
        self.last_call_summary = ""

    def forget_facts(self) -> None:
        """Drops the facts that were noted, because they will be worked out again."""
        self._facts.clear()
        self._deleted.clear()

    def forget_everything(self) -> None:
        """Drops all that was noted, because the owner is erased."""
        self.forget_facts()
        self.forget_calls()
        self._others.clear()

    async def load(self) -> list[Fact]:
        """Every fact of the owner; `last_call_summary` is then what the latest call left.

        Raises:
            UnavailableError: The engine does not answer.
        """
        facts: list[Fact] = []
        others: list[MemoryRecord] = []
        after: str | None = None
        while self._engine is not None:
            page = await self._engine.list_by_owner(self._owner, after=after)
            if isinstance(page, Unavailable):
                raise UnavailableError(f"the memory engine does not answer: {page.reason.value}")
            facts += [fact for record in page.value.records if (fact := _fact(record)) is not None]
            others += [record for record in page.value.records if record.kind is not RecordKind.FACT]
            after = page.value.next_after
            if after is None:
                break
        others = [record for record in others if record.id not in self._records_deleted]
        self._sources |= {record.id: record.source_turns for record in others}
        summaries = [record for record in others if CALL in record.tags]
        self._calls = {record.id for record in summaries}
        if summaries:
            latest = max(summaries, key=lambda record: record.created_wall_secs)
            self.last_call_summary = latest.text
        return facts

    async def similar(self, text: str, *, limit: int) -> dict[str, float]:
        """Ids of current facts that the engine finds near a text, with its scores; {} also when it does not answer."""
        if self._engine is None:
            return {}
        found = await self._engine.search(self._owner, text, limit=limit, tags=["current"])
        if isinstance(found, Unavailable):
            return {}
        facts = [(_fact(hit.record), hit.score) for hit in found.value]
        return {fact.id: min(1.0, max(0.0, score)) for fact, score in facts if fact is not None}

    async def write(self) -> bool:
        """Writes what was noted; False when something is left."""
        if self._engine is None:
            return True
        facts = {self._record_id(fact.id): fact for fact in self._facts.values()}
        others = dict(self._others)
        if facts or others:
            report = await self._engine.add([*map(self._record, facts.values()), *others.values()])
            if isinstance(report, Answered):
                for stored in (*report.value.stored, *report.value.refused):
                    # What changed while the engine wrote is to be written again.
                    fact = facts.get(stored)
                    if fact is not None and self._facts.get(fact.id) is fact:
                        del self._facts[fact.id]
                    if stored in others and self._others.get(stored) is others[stored]:
                        del self._others[stored]
        deleted, calls = frozenset(self._deleted), frozenset(self._records_deleted)
        if deleted or calls:
            gone = await self._engine.delete(self._owner, [*map(self._record_id, deleted), *calls])
            if isinstance(gone, Answered):
                self._deleted -= deleted
                self._records_deleted -= calls
        return self.unwritten == 0

    async def erase(self) -> tuple[int, int]:
        """Deletes every record of the owner; how many there were, and how many a second look still finds.

        Raises:
            UnavailableError: The engine does not answer.
        """
        if self._engine is None:
            return 0, 0
        erased = await erase_owner(self._engine, self._owner)
        if isinstance(erased, Unavailable):
            raise UnavailableError(f"the memory engine does not answer: {erased.reason.value}")
        remaining = await self._engine.list_by_owner(self._owner)
        if isinstance(remaining, Unavailable):
            raise UnavailableError(f"the memory engine does not answer: {remaining.reason.value}")
        return erased.value, len(remaining.value.records)

    def _record_id(self, fact_id: str) -> str:
        # Two owners may say the same at the same moment.
        return record_id(self._owner, f"fact\x1f{fact_id}")

    def _record(self, fact: Fact) -> MemoryRecord:
        return MemoryRecord(
            id=self._record_id(fact.id),
            owner=self._owner,
            text=fact.statement,
            kind=RecordKind.FACT,
            tags=(f"subject:{fact.subject}", "current" if fact.current else "past"),
            created_wall_secs=fact.valid_from_wall_secs,
            valid_from_wall_secs=fact.valid_from_wall_secs,
            valid_to_wall_secs=fact.valid_to_wall_secs,
            source_turns=fact.source_turns,
            metadata={"fact": fact.to_json()},
        )


def _fact(record: MemoryRecord) -> Fact | None:
    raw = record.metadata.get("fact")
    if record.kind is not RecordKind.FACT or not isinstance(raw, dict):
        return None
    try:
        return Fact.from_json(raw)
    except BadInputError:
        return None
