"""Typed restriction of what may be remembered: pydantic models admit facts; what does not fit is refused and counted.

    class Booking(BaseModel):
        name: str
        party_size: int = Field(ge=1, le=12)
        allergies: list[str] = Field(default=[], json_schema_extra={"attributes": ["be allergic to"]})

    schema = FactSchema(Booking)

A field admits facts about the user whose attribute is the field's name (underscores as blanks), its alias, or one of
`attributes`, and whose value its type accepts; a list takes facts one at a time. Spoken numbers become digits for
numeric fields. Endings and retractions always pass: a restriction must never keep something from being forgotten.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.facts import USER, Assertion, Change, Fact, Polarity
from pipecat_voicectx.memory.spoken_english import spoken_number

__all__ = ["FactSchema", "Refusal", "SchemaCounters"]


class Refusal(Enum):
    """Why a fact was not admitted."""

    SUBJECT = "subject"
    """It is about somebody other than the user."""
    ATTRIBUTE = "attribute"
    """No field is for it."""
    VALUE = "value"
    """The field does not accept the value."""
    DENIED = "denied"
    """It is a negation; typed fields hold values only."""


@dataclass(slots=True, kw_only=True)
class SchemaCounters:
    """Totals since the schema was made."""

    admitted: int = 0
    subject: int = 0
    attribute: int = 0
    value: int = 0
    denied: int = 0

    @property
    def refused(self) -> int:
        """All refusals."""
        return self.subject + self.attribute + self.value + self.denied


@dataclass(frozen=True, slots=True)
class _Slot:
    adapter: TypeAdapter[Any]
    numeric: bool


class FactSchema:
    """What may be remembered about a user.

    Raises:
        UsageError: No model, or two fields for one attribute.
    """

    def __init__(self, *models: type[BaseModel]) -> None:
        if not models:
            raise UsageError("FactSchema needs at least one pydantic model")
        self._slots: dict[str, _Slot] = {}
        self.counters = SchemaCounters()
        for model in models:
            for name, info in model.model_fields.items():
                slot = _slot(info)
                for attribute in _attributes(name, info):
                    if attribute in self._slots:
                        raise UsageError(f"two fields of the fact schema are for {attribute!r}")
                    self._slots[attribute] = slot

    @property
    def attributes(self) -> frozenset[str]:
        """What may be remembered, for the instructions of an LLM-backed extractor."""
        return frozenset(self._slots)

    def check(self, assertion: Assertion) -> Refusal | None:
        """Why the assertion is refused; None when it is admitted. Counts nothing."""
        if assertion.subject != USER:
            return Refusal.SUBJECT
        slot = self._slots.get(assertion.attribute)
        if slot is None:
            return Refusal.ATTRIBUTE
        if assertion.polarity is Polarity.NEGATED:
            return Refusal.DENIED
        return None if _accepts(slot, assertion.value) else Refusal.VALUE

    def admit(self, changes: Sequence[Change]) -> tuple[Change, ...]:
        """The changes that may be made, in order; refusals are counted by reason."""
        kept: list[Change] = []
        for change in changes:
            refusal = self.check(change) if isinstance(change, Assertion) else None
            match refusal:
                case None:
                    self.counters.admitted += isinstance(change, Assertion)
                    kept.append(change)
                case Refusal.SUBJECT:
                    self.counters.subject += 1
                case Refusal.ATTRIBUTE:
                    self.counters.attribute += 1
                case Refusal.VALUE:
                    self.counters.value += 1
                case Refusal.DENIED:
                    self.counters.denied += 1
        return tuple(kept)

    def typed_values(self, facts: Iterable[Fact]) -> dict[str, object]:
        """Attribute to typed value of the current facts; a list where several are current."""
        out: dict[str, object] = {}
        for fact in facts:
            slot = self._slots.get(fact.attribute)
            if slot is None or not fact.current or fact.subject != USER or not _accepts(slot, fact.value):
                continue
            value = _convert(slot, fact.value)
            known = out.get(fact.attribute)
            if known is None:
                out[fact.attribute] = value
            else:
                out[fact.attribute] = [*known, value] if isinstance(known, list) else [known, value]
        return out


def _attributes(name: str, info: FieldInfo) -> list[str]:
    extra = info.json_schema_extra
    named = extra.get("attributes") if isinstance(extra, dict) else None
    out = [name.replace("_", " ")]
    if info.alias and info.alias not in out:
        out.append(info.alias)
    if isinstance(named, list):
        out += [str(each) for each in named if str(each) not in out]
    return out


def _slot(info: FieldInfo) -> _Slot:
    kind: Any = info.annotation
    if get_origin(kind) in (list, set, tuple, frozenset):
        kind = get_args(kind)[0] if get_args(kind) else str
        metadata: list[Any] = []
    else:
        metadata = list(info.metadata)
    annotated: Any = Annotated[(kind, *metadata)] if metadata else kind
    return _Slot(TypeAdapter(annotated), _is_numeric(kind))


def _is_numeric(kind: Any) -> bool:
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, types.UnionType):
        return any(_is_numeric(each) for each in get_args(kind))
    return isinstance(kind, type) and issubclass(kind, int | float)


def _convert(slot: _Slot, value: str) -> object:
    number = spoken_number(value) if slot.numeric else None
    return slot.adapter.validate_python(value if number is None else number)


def _accepts(slot: _Slot, value: str) -> bool:
    try:
        _convert(slot, value)
    except ValidationError:
        return False
    return True
