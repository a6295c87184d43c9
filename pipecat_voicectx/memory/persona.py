"""What the right brain is made of: persona nodes, the turns they rest on, and what a turn did to them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.feelings import AffectReading

__all__ = [
    "Evidence",
    "NodeChange",
    "NodeEdit",
    "PersonaKind",
    "PersonaNode",
    "RightBrainConfig",
    "TurnAffect",
]


class PersonaKind(Enum):
    """What a node is about."""

    INDEPENDENT = "independent"
    """The person."""
    CROSS_ENTITY = "cross_entity"
    """The person towards one entity."""


class NodeEdit(Enum):
    """What a turn did to a node."""

    ADDED = "added"
    EDITED = "edited"
    """The feeling about the entity turned."""
    MERGED = "merged"
    """More of the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One turn that a node rests on."""

    turn_id: str
    session_id: str
    wall_secs: float
    label: str
    valence: float
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonaNode:
    """One persona node."""

    id: str
    kind: PersonaKind
    entity: str | None
    """The left-brain entity it is linked to; None for an independent node."""
    label: str
    """The prevailing feeling, or the trait's name."""
    valence: float
    """Confidence- and time-weighted mean of the evidence, -1..1."""
    description: str
    """One sentence in the third person, for prompts."""
    evidence: tuple[Evidence, ...]
    """The latest, oldest first."""
    total: int
    """Pieces of evidence ever."""

    @property
    def turns(self) -> tuple[str, ...]:
        """Ids of the turns it rests on, oldest first."""
        return tuple(dict.fromkeys(each.turn_id for each in self.evidence))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChange:
    """What one turn did."""

    edit: NodeEdit
    node: PersonaNode


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnAffect:
    """A turn's affect, as the session keeps it for the long horizon."""

    turn_id: str
    wall_secs: float
    reading: AffectReading
    target: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RightBrainConfig:
    """Thresholds and bounds."""

    half_life_secs: float = 14 * 86_400.0
    """After which a feeling about something counts half beside a new one. Chosen: moods pass in a fortnight."""
    min_confidence: float = 0.3
    """Readings below are not evidence. Chosen."""
    trait_min_sessions: int = 2
    """Sessions a feeling must recur in to be a trait. Chosen: less is a mood."""
    trait_min_turns: int = 4
    """Turns it must show in altogether. Chosen."""
    max_nodes: int = 500
    max_evidence: int = 32
    """Per node; older evidence is counted, not kept."""
    max_session_turns: int = 500

    def __post_init__(self) -> None:
        if self.half_life_secs <= 0 or min(self.max_nodes, self.max_evidence, self.trait_min_sessions) < 1:
            raise UsageError("RightBrainConfig: half-life and bounds must be positive")
