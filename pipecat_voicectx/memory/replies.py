"""What a turn says to what the bot put to the caller: yes, no, another value, "my name is not karen"."""

from __future__ import annotations

import re
from dataclasses import replace

from pipecat_voicectx.memory.confirmations import is_no, is_yes, proposition, vocative
from pipecat_voicectx.memory.corrections import (
    MarkerStrength,
    correction_marker,
    x_not_y,
)
from pipecat_voicectx.memory.facts import (
    USER,
    Assertion,
    Cardinality,
    Polarity,
)
from pipecat_voicectx.memory.spoken_english import (
    expand_contractions,
    kind_span,
    value_class,
)
from pipecat_voicectx.memory.statements import Statements
from pipecat_voicectx.memory.subjects import person_name, trimmed
from pipecat_voicectx.memory.turn_state import LEAD_IN, denied
from pipecat_voicectx.memory.verbs import base_form

__all__ = ["Replies"]


class Replies(Statements):
    """Replies to the bot's question."""

    def _replies(self, cleaned: str) -> str:
        """Takes in what the bot put to the caller and the caller confirmed, denied or is about to put right.

        Returns what of the turn is left to read.
        """
        put = proposition(expand_contractions(self._question)) if self._question else None
        yes = is_yes(cleaned)
        if put is None:
            if yes and self._question:
                self._accepts(self._question)
            return cleaned
        proposed = type(self)(replace(self._focus, correcting=False), "")
        proposed._states(LEAD_IN.sub("", put))
        said = [each for each in proposed._changes if isinstance(each, Assertion)]
        if yes:
            for each in said:
                self._add(each)
            return cleaned
        if is_no(cleaned, self._question):
            for each in said:
                if each.polarity is Polarity.AFFIRMED and each.cardinality is Cardinality.MANY:
                    self._add(denied(each))
            return ""
        self._focus = replace(self._focus, recent=(*self._focus.recent, *said))
        marker = correction_marker(cleaned)
        strong = marker is not None and marker.strength is not MarkerStrength.WEAK
        kind = value_class(cleaned) if len(cleaned.split()) <= 5 else None
        other = kind is not None and any(kind_span(each.value, kind[0]) for each in said)
        if said and (strong or other):
            self._focus = replace(self._focus, correcting=True)
        return cleaned

    def _accepts(self, proposed: str) -> None:
        """ "so friday at nine then", "yes": a date or a time of something spoken of."""
        value = trimmed(
            re.sub(r"^(?:so|okay|and|then|alright|it is) | then$", "", proposed.casefold().strip(" ?.!"))
        )
        if len(value.split()) <= 8 and value_class(value) is not None and base_form(value.split()[0]) is None:
            self._substitute(value)

    def _misnamed(self, part: str) -> bool:
        """ "it's carmen not karen", to a bot that said Karen."""
        halves = x_not_y(re.sub(r"^(?:it is|i am|this is|my name is|the name is)\s+", "", trimmed(part)))
        if halves is None or not vocative(self._question, halves[1]):
            return False
        name = person_name(re.sub(r"\s+actually$", "", halves[0]), strict=False)
        if name is None:
            return False
        self._add(
            Assertion(
                subject=USER,
                attribute="name",
                value=name,
                statement=f"The user's name is {name}.",
                cardinality=Cardinality.ONE,
            )
        )
        return True
