"""The right brain: who the user is, apart from what happened to them.

After VoiceMem, section 3.2. Two kinds of persona nodes: independent nodes hold stable traits of the person;
cross-entity nodes hold how the person feels about one left-brain entity. Mixing the two would make a trait of a bad
day, or lose whom a feeling concerns.

Short horizon: each confirmed turn and its affect add, edit or merge cross-entity nodes at once, and are kept as the
session's readings. Long horizon: after the session, evidence that recurs across sessions becomes an independent node;
a single mood never does. Every node lists the turns it rests on, and what those turns said is not repeated in it.

Time is an argument (Unix seconds). Everything is bounded; a node keeps its latest evidence and the count of all.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from pipecat_voicectx.errors import BadInputError
from pipecat_voicectx.memory.feelings import AffectReading, blended, feelings_in
from pipecat_voicectx.memory.persona import (
    Evidence,
    NodeChange,
    NodeEdit,
    PersonaKind,
    PersonaNode,
    RightBrainConfig,
    TurnAffect,
)
from pipecat_voicectx.memory.tokens import tokenize

__all__ = [
    "Evidence",
    "NodeChange",
    "NodeEdit",
    "PersonaKind",
    "PersonaNode",
    "RightBrain",
    "RightBrainConfig",
    "TurnAffect",
]

RIGHT_BRAIN_SCHEMA_VERSION = 1
_ID_NAMESPACE = uuid.UUID("c2a7cf0e-6a53-4f0e-9b59-0f2f8a1f6e21")


class RightBrain:
    """One owner's persona graph. Not thread-safe; the memory's one writer changes it."""

    def __init__(self, *, config: RightBrainConfig | None = None) -> None:
        self.config = config or RightBrainConfig()
        self.nodes: dict[str, PersonaNode] = {}
        # Per session: what recurs is counted over these once the session is over.
        self._moods: dict[str, dict[str, list[Evidence]]] = {}
        self._words: dict[str, frozenset[str]] = {}

    def update_turn(
        self,
        text: str,
        heard: AffectReading | None,
        *,
        turn_id: str,
        session_id: str,
        entities: Collection[str],
        now_wall_secs: float,
    ) -> tuple[list[NodeChange], list[TurnAffect]]:
        """Short horizon: one confirmed turn, its affect from the voice, and the entities it activated.

        A voice reading without words for it is attributed to the one entity the turn is about, or to nobody. The
        same turn again changes nothing.

        Returns:
            What it did to the nodes, and the turn's readings for `consolidate_session`.
        """
        spoken = feelings_in(text, entities=entities)
        readings: list[tuple[AffectReading, str | None]] = []
        for feeling in spoken:
            reading = blended(feeling.reading, heard)
            if reading is not None:
                readings.append((reading, feeling.target))
        if not spoken and heard is not None and heard.label != "neutral":
            readings.append((heard, next(iter(entities)) if len(entities) == 1 else None))
        changes: list[NodeChange] = []
        affects: list[TurnAffect] = []
        for reading, target in readings:
            if reading.confidence < self.config.min_confidence:
                continue
            affects.append(
                TurnAffect(turn_id=turn_id, wall_secs=now_wall_secs, reading=reading, target=target)
            )
            evidence = Evidence(
                turn_id=turn_id,
                session_id=session_id,
                wall_secs=now_wall_secs,
                label=reading.label,
                valence=reading.valence,
                confidence=reading.confidence,
            )
            change = self._attribute(evidence, target) if target is not None else None
            if change is not None:
                changes.append(change)
        return changes, affects[: self.config.max_session_turns]

    def _attribute(self, evidence: Evidence, target: str) -> NodeChange | None:
        node_id = str(uuid.uuid5(_ID_NAMESPACE, f"entity\x1f{target}"))
        node = self.nodes.get(node_id)
        if node is None:
            node = PersonaNode(
                id=node_id, kind=PersonaKind.CROSS_ENTITY, entity=target, label=evidence.label,
                valence=evidence.valence, description=_about(evidence.label, evidence.valence, target),
                evidence=(evidence,), total=1,
            )  # fmt: skip
            self._keep(node)
            return NodeChange(edit=NodeEdit.ADDED, node=node)
        if any(each.turn_id == evidence.turn_id and each.label == evidence.label for each in node.evidence):
            return None
        merged = self._with(node, evidence)
        turned = merged.valence * node.valence < 0 or merged.label != node.label
        self._keep(merged)
        return NodeChange(edit=NodeEdit.EDITED if turned else NodeEdit.MERGED, node=merged)

    def _with(self, node: PersonaNode, evidence: Evidence) -> PersonaNode:
        kept = (*node.evidence, evidence)[-self.config.max_evidence :]
        weights = {
            each: each.confidence
            * 0.5 ** (max(0.0, evidence.wall_secs - each.wall_secs) / self.config.half_life_secs)
            for each in kept
        }
        total = sum(weights.values()) or 1.0
        valence = sum(each.valence * weight for each, weight in weights.items()) / total
        by_label: dict[str, float] = {}
        for each, weight in weights.items():
            if each.valence * valence >= 0:
                by_label[each.label] = by_label.get(each.label, 0.0) + weight
        label = max(sorted(by_label), key=lambda name: by_label[name]) if by_label else evidence.label
        entity = node.entity or ""
        description = (
            _about(label, valence, entity) if node.kind is PersonaKind.CROSS_ENTITY else node.description
        )
        return replace(
            node, evidence=kept, total=node.total + 1, valence=valence, label=label, description=description
        )

    def consolidate_session(self, session_id: str, affects: Sequence[TurnAffect]) -> list[PersonaNode]:
        """Long horizon, once after a session: what recurs becomes a trait. The same session again changes nothing.

        Returns:
            Independent nodes that are new or rest on more.
        """
        moods: dict[str, list[Evidence]] = {}
        for affect in affects[: self.config.max_session_turns]:
            moods.setdefault(affect.reading.label, []).append(
                Evidence(
                    turn_id=affect.turn_id,
                    session_id=session_id,
                    wall_secs=affect.wall_secs,
                    label=affect.reading.label,
                    valence=affect.reading.valence,
                    confidence=affect.reading.confidence,
                )
            )
        self._moods[session_id] = moods
        while len(self._moods) > self.config.max_nodes:
            del self._moods[next(iter(self._moods))]
        changed: list[PersonaNode] = []
        for label in sorted(moods):
            evidence = [each for session in self._moods.values() for each in session.get(label, [])]
            sessions = {each.session_id for each in evidence}
            turns = {each.turn_id for each in evidence}
            if len(sessions) < self.config.trait_min_sessions or len(turns) < self.config.trait_min_turns:
                continue
            node = self._trait(label, sorted(evidence, key=lambda each: (each.wall_secs, each.turn_id)))
            if self.nodes.get(node.id) != node:
                self._keep(node)
                changed.append(node)
        return changed

    def _trait(self, label: str, evidence: Sequence[Evidence]) -> PersonaNode:
        weight = sum(each.confidence for each in evidence) or 1.0
        return PersonaNode(
            id=str(uuid.uuid5(_ID_NAMESPACE, f"trait\x1f{label}")),
            kind=PersonaKind.INDEPENDENT,
            entity=None,
            label=label,
            valence=sum(each.valence * each.confidence for each in evidence) / weight,
            description=_TRAITS.get(label, f"The user often shows {label}."),
            evidence=tuple(evidence[-self.config.max_evidence :]),
            total=len(evidence),
        )

    def _keep(self, node: PersonaNode) -> None:
        self.nodes.pop(node.id, None)
        self.nodes[node.id] = node  # the latest changed is last
        while len(self.nodes) > self.config.max_nodes:
            passing = [
                each
                for each in self.nodes.values()
                if each.kind is PersonaKind.CROSS_ENTITY and each.id != node.id
            ]
            victim = min(passing or [next(iter(self.nodes.values()))], key=lambda each: each.total)
            del self.nodes[victim.id]

    def match(self, text: str, entities: Mapping[str, float], *, limit: int = 5) -> list[PersonaNode]:
        """Joint retrieval: nodes whose words the partial text holds, those linked to entities that the left brain
        reached (with its route scores), and the traits; best first."""
        words = set(tokenize(text))
        scored: list[tuple[float, str]] = []
        for node in self.nodes.values():
            score = (0.5 if words & self._words_of(node) else 0.0) + entities.get(node.entity or "", 0.0)
            if node.kind is PersonaKind.INDEPENDENT:
                score += 0.2  # traits bear on every turn, but what is spoken of comes first
            if score > 0:
                scored.append((score, node.id))
        scored.sort(key=lambda each: (-each[0], each[1]))
        return [self.nodes[node_id] for _, node_id in scored[:limit]]

    def _words_of(self, node: PersonaNode) -> frozenset[str]:
        text = f"{node.entity or ''} {node.label}"
        if text not in self._words:
            if len(self._words) > 4 * self.config.max_nodes:
                self._words.clear()
            self._words[text] = frozenset(tokenize(text))
        return self._words[text]

    def forget_turns(self, turn_ids: Iterable[str]) -> None:
        """Removes evidence of erased turns, and nodes that rest on nothing else."""
        gone = frozenset(turn_ids)
        for node in list(self.nodes.values()):
            kept = tuple(each for each in node.evidence if each.turn_id not in gone)
            if not kept:
                del self.nodes[node.id]
            elif len(kept) < len(node.evidence):
                self.nodes[node.id] = replace(
                    node, evidence=kept, total=max(len(kept), node.total - len(node.evidence) + len(kept))
                )
        for moods in self._moods.values():
            for label in moods:
                moods[label] = [each for each in moods[label] if each.turn_id not in gone]

    def to_json(self) -> dict[str, object]:
        """Plain JSON types, with the schema version."""
        return {
            "schema": RIGHT_BRAIN_SCHEMA_VERSION,
            "nodes": [
                {
                    "id": n.id, "kind": n.kind.value, "entity": n.entity, "label": n.label, "valence": n.valence,
                    "description": n.description, "total": n.total, "evidence": [_pack(each) for each in n.evidence],
                }
                for n in self.nodes.values()
            ],
            "moods": {
                session: {label: [_pack(each) for each in evidence] for label, evidence in sorted(moods.items())}
                for session, moods in self._moods.items()
            },
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, object], *, config: RightBrainConfig | None = None) -> RightBrain:
        """The brain that `to_json` wrote.

        Raises:
            BadInputError: Not a right brain, or a schema newer than this version reads.
        """
        brain = cls(config=config)
        try:
            if data.get("schema") != RIGHT_BRAIN_SCHEMA_VERSION:
                raise BadInputError(f"right brain has schema {data.get('schema')!r}")
            for raw in cast(list[dict[str, object]], data["nodes"]):
                entity = raw["entity"]
                node = PersonaNode(
                    id=str(raw["id"]),
                    kind=PersonaKind(raw["kind"]),
                    entity=None if entity is None else str(entity),
                    label=str(raw["label"]),
                    valence=float(cast(float, raw["valence"])),
                    description=str(raw["description"]),
                    evidence=tuple(_unpack(each) for each in cast(list[list[object]], raw["evidence"])),
                    total=int(cast(int, raw["total"])),
                )
                brain.nodes[node.id] = node
            for session, moods in cast(dict[str, dict[str, list[list[object]]]], data["moods"]).items():
                brain._moods[session] = {label: [_unpack(e) for e in each] for label, each in moods.items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadInputError(f"not a right brain: {type(error).__name__}") from error
        return brain


_TRAITS = {
    "joy": "The user is usually cheerful.",
    "gratitude": "The user often shows appreciation.",
    "calm": "The user is usually calm.",
    "anger": "The user is easily frustrated; short, concrete answers help.",
    "sadness": "The user is often downcast.",
    "fear": "The user tends to worry; reassurance helps.",
    "disgust": "The user voices dislikes openly.",
}
_ABOUT = {
    "joy": "is happy about", "gratitude": "is grateful for", "calm": "is at ease with", "anger": "is frustrated with",
    "sadness": "is sad about", "fear": "is worried about", "disgust": "strongly dislikes",
}  # fmt: skip


def _about(label: str, valence: float, target: str) -> str:
    feels = _ABOUT.get(label) or ("feels well about" if valence >= 0 else "feels bad about")
    return f"The user {feels} {target}."


def _pack(each: Evidence) -> list[object]:
    return [each.turn_id, each.session_id, each.wall_secs, each.label, each.valence, each.confidence]


def _unpack(raw: Sequence[object]) -> Evidence:
    turn_id, session_id, wall, label, valence, confidence = raw
    return Evidence(
        turn_id=str(turn_id),
        session_id=str(session_id),
        wall_secs=float(cast(float, wall)),
        label=str(label),
        valence=float(cast(float, valence)),
        confidence=float(cast(float, confidence)),
    )
