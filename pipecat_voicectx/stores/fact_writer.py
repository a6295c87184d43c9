"""Facts in a `MemoryEngine`: reading them all, and writing what changed until the engine has it."""

from __future__ import annotations

from collections.abc import Iterable

from pipecat_voicectx.errors import BadInputError, UnavailableError
from pipecat_voicectx.memory.facts import Fact
from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.memory.reconcile import Add, Delete, Keep, Operation, Update
from pipecat_voicectx.memory.records import MemoryRecord, RecordKind, record_id
from pipecat_voicectx.stores.engine import Answered, MemoryEngine, Unavailable

__all__ = ["FactWriter"]


class FactWriter:
    """One owner's facts in an engine. What could not be written stays and is written the next time."""

    def __init__(self, owner: Owner, engine: MemoryEngine | None) -> None:
        self._owner = owner
        self._engine = engine
        self._facts: dict[str, Fact] = {}
        self._deleted: set[str] = set()
        self._others: dict[str, MemoryRecord] = {}

    @property
    def unwritten(self) -> int:
        """Changes that the engine does not have."""
        return len(self._facts) + len(self._deleted) + len(self._others)

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

    def forget_facts(self) -> None:
        """Drops the facts that were noted, because they will be worked out again."""
        self._facts.clear()
        self._deleted.clear()

    def forget_everything(self) -> None:
        """Drops all that was noted, because the owner is erased."""
        self.forget_facts()
        self._others.clear()

    async def load(self) -> list[Fact]:
        """Every fact of the owner.

        Raises:
            UnavailableError: The engine does not answer.
        """
        facts: list[Fact] = []
        after: str | None = None
        while self._engine is not None:
            page = await self._engine.list_by_owner(self._owner, after=after)
            if isinstance(page, Unavailable):
                raise UnavailableError(f"the memory engine does not answer: {page.reason.value}")
            facts += [fact for record in page.value.records if (fact := _fact(record)) is not None]
            after = page.value.next_after
            if after is None:
                break
        return facts

    async def write(self) -> bool:
        """Writes what was noted; False when something is left."""
        if self._engine is None:
            return True
        by_record = {self._record_id(fact_id): fact_id for fact_id in self._facts}
        records = [self._record(fact) for fact in self._facts.values()] + list(self._others.values())
        if records:
            report = await self._engine.add(records)
            if isinstance(report, Answered):
                for stored in (*report.value.stored, *report.value.refused):
                    self._facts.pop(by_record.get(stored, ""), None)
                    self._others.pop(stored, None)
        if self._deleted:
            gone = await self._engine.delete(self._owner, [self._record_id(each) for each in self._deleted])
            if isinstance(gone, Answered):
                self._deleted.clear()
        return self.unwritten == 0

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
