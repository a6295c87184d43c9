"""What is known of one owner, as it stands in this session: facts, their index, both brains, the hot cache.

Read on the response path and changed by operations, all in memory and on one event loop. Whoever holds it takes care
that changes come one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from pipecat_voicectx.memory.dual_recall import DualRecall, DualRecallConfig, FactIndex, recall_from_brains
from pipecat_voicectx.memory.entities import mentions_in_fact, mentions_in_text
from pipecat_voicectx.memory.facts import Fact, current_facts
from pipecat_voicectx.memory.hot_cache import HotCache, build_hot_cache
from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.memory.left_brain import Activation
from pipecat_voicectx.memory.reconcile import Add, Delete, Keep, Operation, Update
from pipecat_voicectx.memory.right_brain import PersonaKind, TurnAffect
from pipecat_voicectx.stores.brain_state import BrainState
from pipecat_voicectx.stores.fact_turns import FactTurn
from pipecat_voicectx.stores.waiting import in_background

__all__ = ["KnownFacts"]

# Measured: settling 1,000 entities takes 2 ms of the event loop. With more, the links between schemas, which choose
# one sentence and no more, are worked out anew after so many turns.
_SETTLED_EACH_TURN = 1_000
_TURNS_UNSETTLED = 16
# Measured: a fact takes the left brain some 0.2 ms; this many are a pause that no frame notices.
_LEARNED_AT_ONCE = 16


class KnownFacts:
    """See the module."""

    def __init__(self) -> None:
        self.brains = BrainState()
        self.facts: dict[str, Fact] = {}
        """All by id, ended ones included."""
        self.cache = HotCache()
        self._index = FactIndex()
        self._unsettled_turns = 0

    def recall(
        self,
        text: str,
        *,
        now_wall_secs: float,
        activation: Activation | None,
        vector: FloatArray | None,
        similar: Mapping[str, float],
        config: DualRecallConfig,
    ) -> DualRecall:
        """What bears on a text."""
        return recall_from_brains(
            text,
            index=self._index,
            left=self.brains.left,
            right=self.brains.right,
            now_wall_secs=now_wall_secs,
            activation=activation,
            vector=vector,
            similar=similar,
            config=config,
        )

    def apply(self, operations: Sequence[Operation]) -> None:
        """Takes over what was decided."""
        self.cache = self.cache.with_operations(operations)
        for operation in operations:
            match operation:
                case Add(fact=fact) | Update(fact=fact):
                    self.facts[fact.id] = fact
                    self._index.set([fact])
                    self._learn_routes(fact)
                case Delete(fact_id=each):
                    self.facts.pop(each, None)
                    self._index.remove([each])
                    self.brains.left.remove_items([each])
                case Keep():
                    pass

    def learn_turn(self, turn: FactTurn) -> list[TurnAffect]:
        """Lets both brains have a turn; returns what it said of the user's feelings."""
        left, right = self.brains.left, self.brains.right
        left.add_item(turn.turn_id, turn.text, mentions_in_text(turn.text), now_wall_secs=turn.wall_secs)
        _, affects = right.update_turn(
            turn.text,
            turn.affect,
            turn_id=turn.turn_id,
            session_id=turn.session_id,
            entities=sorted(left.activate(turn.text).entities),
            now_wall_secs=turn.wall_secs,
        )
        self.brains.mark_handled(turn.turn_id)
        return list(affects)

    def _learn_routes(self, fact: Fact) -> None:
        left = self.brains.left
        if fact.current:
            at = fact.last_said_wall_secs
            left.add_item(fact.id, fact.statement, mentions_in_fact(fact), now_wall_secs=at)
        else:
            left.remove_items([fact.id])

    async def replace_all(self, loaded: Sequence[Fact]) -> None:
        """Other facts in place of these, without holding up the loop: words in a thread, routes a few at a time."""
        for fact_id in self.facts.keys() - {fact.id for fact in loaded}:
            self._index.remove([fact_id])
            self.brains.left.remove_items([fact_id])
        self.facts = {fact.id: fact for fact in loaded}
        current = current_facts(loaded)
        current.reverse()  # the latest said last, as if they were learned one by one
        index = FactIndex()
        await in_background(index.set, current)
        self._index = index
        for position, fact in enumerate(current):
            self._learn_routes(fact)
            if position % _LEARNED_AT_ONCE == 0:
                await asyncio.sleep(0)

    def rebuild_cache(self, *, last_call_summary: str, open_issues: Sequence[str]) -> None:
        """The hot cache from everything that is known."""
        self.cache = build_hot_cache(
            self.facts.values(), last_call_summary=last_call_summary, open_issues=open_issues
        )
        self.brains.left.settle()

    def refresh(self) -> None:
        """Settles links and persona after the changes of a turn."""
        self._unsettled_turns += 1
        left = self.brains.left
        if len(left.entities) <= _SETTLED_EACH_TURN or self._unsettled_turns >= _TURNS_UNSETTLED:
            self._unsettled_turns = 0
            left.settle()
        nodes = self.brains.right.nodes.values()
        traits = [node.description for node in nodes if node.kind is PersonaKind.INDEPENDENT]
        self.cache = self.cache.with_persona(traits)
