"""Session facts: what was established in this call, so that it is never asked again.

A view over the facts of one session that is read on the response path: a dictionary, and a block of a few words that
an LLM sees every turn. It also tells whether a question of the bot's asks for something that is established, which is
how "asked twice" is counted. Bounded; the oldest go first, names last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.facts import USER, Fact, Polarity, content_words
from pipecat_voicectx.memory.reconcile import Add, Delete, Keep, Operation, Update

__all__ = ["SessionFacts"]

# Chosen: a call that establishes more than this is an interview; the facts themselves are not lost.
DEFAULT_MAX_FACTS = 40

_ASKING = re.compile(
    r"\?|^\s*(?:may i|can i|could you|what|which|who|where|when|how|do you|are you|please (?:tell|give))\b",
    re.I,
)
_ASKS_FOR: tuple[tuple[re.Pattern[str], frozenset[str]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), frozenset(attributes))
    for pattern, attributes in (
        (
            r"\byour (?:full |first )?name\b|\bwho (?:am i|is this)\b|"
            r"\bhow (?:may|should|can) i (?:call|address) you\b",
            ("name", "nickname"),
        ),
        (
            r"\bwhere (?:do you live|are you (?:based|located))\b|\byour (?:city|town)\b",
            ("live in", "city", "address"),
        ),
        (r"\bhow old are you\b|\byour age\b", ("age",)),
        (r"\b(?:date of birth|birthday|when were you born)\b", ("birthday",)),
        (
            r"\bwhat do you do (?:for work|for a living)\b|\byour (?:job|occupation|profession)\b",
            ("work as",),
        ),
        (r"\ballerg\w+\b", ("be allergic to",)),
        (r"\bhow many (?:people|guests|persons)\b|\bparty of\b|\bfor how many\b", ("party size",)),
        (r"\b(?:budget|how much (?:can|do|would) you (?:want|like|pay|spend))\b", ("budget",)),
        (r"\b(?:phone|number)\b.*\breach you\b|\byour (?:phone|mobile) number\b", ("phone number",)),
    )
)


class SessionFacts:
    """What one call has established. Not thread-safe."""

    def __init__(self, *, max_facts: int = DEFAULT_MAX_FACTS) -> None:
        if max_facts < 1:
            raise UsageError("max_facts must be at least 1")
        self._max_facts = max_facts
        self._facts: dict[str, Fact] = {}

    def __len__(self) -> int:
        return len(self._facts)

    @property
    def established(self) -> tuple[Fact, ...]:
        """The current facts of this call, oldest first."""
        return tuple(self._facts.values())

    def apply(self, operations: Iterable[Operation]) -> None:
        """Takes over what reconciliation decided about a turn of this call."""
        for operation in operations:
            match operation:
                case Add(fact=fact) | Update(fact=fact):
                    if fact.current:
                        self._facts[fact.id] = fact
                    else:
                        self._facts.pop(fact.id, None)
                case Delete(fact_id=each):
                    self._facts.pop(each, None)
                case Keep():
                    pass
        while len(self._facts) > self._max_facts:
            droppable = [each for each in self._facts.values() if each.attribute != "name"]
            del self._facts[(droppable or list(self._facts.values()))[0].id]

    def value(self, attribute: str, *, subject: str = USER) -> str | None:
        """The established value of an attribute; None when it was not established."""
        return next(
            (
                fact.value
                for fact in reversed(self._facts.values())
                if fact.attribute == attribute
                and fact.subject == subject
                and fact.polarity is Polarity.AFFIRMED
            ),
            None,
        )

    def answers(self, question: str) -> Fact | None:
        """The established fact that a question of the bot's asks for; None when it asks for something else."""
        if not _ASKING.search(question):
            return None
        asked = content_words(question)
        for pattern, attributes in _ASKS_FOR:
            if pattern.search(question):
                return next((fact for fact in self._of_user() if fact.attribute in attributes), None)
        for fact in self._of_user():
            words = content_words(fact.attribute)
            if words and words <= asked and not content_words(fact.value) <= asked:
                return fact
        return None

    def _of_user(self) -> Sequence[Fact]:
        return [fact for fact in reversed(self._facts.values()) if fact.subject == USER]

    def render(self, *, max_words: int = 60) -> str:
        """One line for the prompt, the latest facts that fit; "" when nothing was established."""
        chosen: list[str] = []
        words = 0
        for fact in reversed(self._facts.values()):
            cost = len(fact.statement.split())
            if words + cost > max_words:
                break
            chosen.append(fact.statement)
            words += cost
        return " ".join(reversed(chosen))
