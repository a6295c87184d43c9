"""Records beside facts (notes, reflections, a call's summary), and what a request to the memory changes."""

from __future__ import annotations

from pipecat_voicectx.memory.cleaning import clean_transcript
from pipecat_voicectx.memory.consolidation import Reflection
from pipecat_voicectx.memory.extraction import ConversationFocus, extract
from pipecat_voicectx.memory.facts import USER, Assertion, Change, Retraction
from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.memory.records import MemoryRecord, RecordKind, record_id
from pipecat_voicectx.stores.brain_state import MemoryRequest, RequestKind
from pipecat_voicectx.stores.fact_turns import FactTurn
from pipecat_voicectx.stores.fact_writer import CALL

__all__ = ["call_record", "note_record", "reflection_record", "requested_changes"]


def note_record(owner: Owner, turn: FactTurn) -> MemoryRecord:
    """A turn that nothing could read, as it was said."""
    return MemoryRecord(
        id=record_id(owner, f"note\x1f{turn.turn_id}"),
        owner=owner,
        text=clean_transcript(turn.text) or turn.text,
        kind=RecordKind.NOTE,
        created_wall_secs=turn.wall_secs,
        valid_from_wall_secs=turn.wall_secs,
        source_turns=(turn.turn_id,),
    )


def reflection_record(owner: Owner, reflection: Reflection, *, wall_secs: float) -> MemoryRecord:
    """What consolidation concluded."""
    return MemoryRecord(
        id=record_id(owner, f"reflection\x1f{reflection.key}"),
        owner=owner,
        text=reflection.text,
        kind=RecordKind.SUMMARY,
        created_wall_secs=wall_secs,
        valid_from_wall_secs=wall_secs,
        source_turns=reflection.source_turns,
    )


def call_record(owner: Owner, session_id: str, summary: str, *, wall_secs: float) -> MemoryRecord:
    """The summary of a call."""
    return MemoryRecord(
        id=record_id(owner, f"call\x1f{session_id}"),
        owner=owner,
        text=summary,
        kind=RecordKind.SUMMARY,
        tags=(CALL,),
        created_wall_secs=wall_secs,
        valid_from_wall_secs=wall_secs,
    )


def requested_changes(request: MemoryRequest, focus: ConversationFocus) -> tuple[Change, ...]:
    """What a request changes: facts where its words can be read as such, the words themselves otherwise."""
    match request.kind:
        case RequestKind.FORGET:
            return (Retraction(about=request.text),)
        case RequestKind.REMEMBER:
            changes = extract(request.text, focus).changes
            words = clean_transcript(request.text) or request.text.strip()
            if any(isinstance(change, Assertion) for change in changes) or not words:
                return changes
            asked = Assertion(
                subject=USER,
                attribute="asked to remember",
                value=words,
                statement=f"The user asked to remember: {words}.",
            )
            return (asked,)
