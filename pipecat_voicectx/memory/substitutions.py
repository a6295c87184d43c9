"""New values in the place of old ones: "no sorry it's anna", "make it five", "they moved it to friday"."""

from __future__ import annotations

import re
from dataclasses import replace

from pipecat_voicectx.memory.corrections import (
    new_value,
    spelled_name,
    spliced,
    trailing_correction,
    without,
    x_not_y,
)
from pipecat_voicectx.memory.facts import (
    Assertion,
    Cardinality,
    content_words,
)
from pipecat_voicectx.memory.frames import sentence, third_person
from pipecat_voicectx.memory.spoken_english import (
    is_number_phrase,
    kind_span,
    value_class,
)
from pipecat_voicectx.memory.subjects import person_name, trimmed
from pipecat_voicectx.memory.turn_state import LEAD_IN, NAMES, TurnState

__all__ = ["Substitutions"]

_COUNT_NOW = re.compile(
    r"^(?:so )?(?:it is|that makes|that is|there are|we are) (?:now )?(?P<v>[\w ]+?) (?:now|altogether|"
    r"in total)$",
    re.I,
)
_CHANGED_NOW = re.compile(r"\b(?:now|again|instead|actually)\b", re.IGNORECASE)


class Substitutions(TurnState):
    """Corrections of what was said lately."""

    def _leaves_out(self, unwanted: str) -> bool:
        wish = next((each for each in self._recent() if each.attribute in {"want", "need"}), None)
        value = without(wish.value, unwanted) if wish else ""
        if wish is None or value == wish.value:
            return False
        statement = wish.statement.replace(wish.value, value)
        self._add(replace(wish, value=value, statement=statement, replaces=wish.value))
        return True

    def _quiet_correction(self, part: str) -> bool:
        """Corrections without a word that says so: "make it five people", "it's anna", "it's fixed now"."""
        bare = LEAD_IN.sub("", part)
        if (name := spelled_name(bare)) is not None:
            return self._substitute(name, only=NAMES)
        value = new_value(bare, unmarked=True) or trailing_correction(bare)
        if value is not None:
            return self._substitute(value)
        if self._counts_anew(bare):
            return True
        recent = self._recent()
        it = re.match(r"^it (?:is|ends in) (?:now )?(?P<v>.+)$", bare, re.IGNORECASE)
        if it is None or not recent or recent[0].cardinality is not Cardinality.ONE:
            return False
        if recent[0].attribute in NAMES or x_not_y(it["v"]) is not None:
            return self._substitute(it["v"])
        return bool(_CHANGED_NOW.search(bare)) and len(it["v"].split()) <= 6 and self._substitute(it["v"])

    def _counts_anew(self, bare: str) -> bool:
        """ "it's three now", of something that was counted."""
        match = _COUNT_NOW.match(bare)
        recent = self._recent()
        if match is None or not recent or not is_number_phrase(trimmed(match["v"])):
            return False
        return kind_span(recent[0].value, "number") is not None and self._substitute(trimmed(match["v"]))

    def _substitute(self, said: str, *, about: str = "it", only: frozenset[str] | None = None) -> bool:
        """Puts a new value in the place of a recent one; False when nothing recent fits."""
        new, wrong = x_not_y(trimmed(said)) or (trimmed(said), "")
        new = re.sub(r"^(?:it is|ends in|at|on|in)\s+(?=\w)", "", new, flags=re.IGNORECASE) if wrong else new
        old = self._corrected(new, wrong=wrong, about=about, only=only)
        if old is None or not new:
            return False
        value: str | None = spliced(old.value, new, wrong)
        if old.attribute in NAMES:
            value = person_name(new, strict=False)
        if value is None or value.casefold() == old.value.casefold():
            return False
        statement = old.statement.replace(old.value, value)
        if not old.value or old.value not in old.statement:
            statement = sentence(old.subject, f"'s {old.attribute}", third_person("is", value, old.polarity))
        self._add(replace(old, value=value, statement=statement, replaces=old.value))
        return True

    def _corrected(
        self, new: str, *, wrong: str, about: str, only: frozenset[str] | None
    ) -> Assertion | None:
        recent = [each for each in self._recent() if only is None or each.attribute in only]
        topic = content_words(about) - {"it", "that"}
        if topic:
            recent = [
                each
                for each in recent
                if topic & content_words(f"{each.attribute} {each.value} {each.subject}")
            ]
        if wrong:
            recent = [each for each in recent if content_words(wrong) <= content_words(each.value)] or recent
        kind = value_class(new)
        if kind is not None:
            alike = [each for each in recent if kind_span(each.value, kind[0]) is not None]
            recent = alike or [each for each in recent if each.cardinality is Cardinality.ONE]
        return recent[0] if recent else None
