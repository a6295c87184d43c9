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
    Ending,
    Polarity,
    content_words,
)
from pipecat_voicectx.memory.frames import sentence, third_person
from pipecat_voicectx.memory.predicates_open import OPEN_CONFIDENCE
from pipecat_voicectx.memory.spoken_english import (
    is_number_phrase,
    kind_span,
    value_class,
)
from pipecat_voicectx.memory.subjects import person_name, trimmed
from pipecat_voicectx.memory.turn_state import LEAD_IN, NAMES, WISHES, TurnState, alike
from pipecat_voicectx.memory.verbs import base_form

__all__ = ["Substitutions"]

_COUNT_NOW = re.compile(
    r"^(?:so )?(?:it is|that makes|that is|there are|we are) (?:now )?(?P<v>[\w ]+?) (?:now|altogether|"
    r"in total)$",
    re.I,
)
_SIZED = re.compile(
    r"\b(?:table|room|tickets?|seats?|booking|reservation|places?|trip|break)\b.*\bfor [\w]+\b", re.I
)
_PAIRS = (
    "left right", "front back", "upper lower", "first second", "window aisle", "inside outside", "old new",
    "north south", "east west", "black white", "big small", "early late", "top bottom",
)  # fmt: skip
OPPOSITES = {word: other for pair in _PAIRS for word, other in (pair.split(), pair.split()[::-1])}
_FRAGMENT = re.compile(
    r"^(?P<only>just |only |make that )?(?:the )?(?P<v>[\w-]+(?: [\w-]+){0,2}?)(?: (?:i|we|he|she|they|it|"
    r"the|my) .*)?$",
    re.I,
)
_SAID_TWICE = re.compile(r"^(?P<v>[\w-]+(?: [\w-]+)?) (?:[\w']+ ){1,5}(?P=v)$", re.IGNORECASE)
_CHANGED_NOW = re.compile(r"\b(?:now|again|instead|actually)\b", re.IGNORECASE)


class Substitutions(TurnState):
    """Corrections of what was said lately."""

    def _resizes(self, party: str) -> None:
        """ "there's eight of us" also changes the table for seven."""
        wishes = (each for each in self._recent() if each.attribute in WISHES and _SIZED.search(each.value))
        wish = next(wishes, None)
        value = spliced(wish.value, party, "") if wish else ""
        if wish is None or value == wish.value or kind_span(party, "number") is None:
            return
        statement = wish.statement.replace(wish.value, value)
        self._add(replace(wish, value=value, statement=statement, replaces=wish.value))

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
        value = new_value(bare, unmarked=True)
        if value is None and (trailing := trailing_correction(bare)):
            value = new_value(trailing, unmarked=False) or trailing
        if value is not None:
            return self._substitute(value)
        if self._counts_anew(bare):
            return True
        recent = self._recent()
        it = re.match(r"^it (?:is|ends in) (?:now )?(?P<v>.+)$", bare, re.IGNORECASE)
        if (said_twice := _SAID_TWICE.match(bare)) and kind_span(said_twice["v"], "number"):
            return self._substitute(said_twice["v"])
        if self._denies_recent(bare):
            return self._substitute(bare)
        if recent and (fragment := self._said_otherwise(bare, recent)):
            return self._substitute(fragment)
        if it is None or not recent:
            return False
        halves = x_not_y(it["v"])
        if halves and not any(content_words(halves[1]) & content_words(each.value) for each in recent):
            return False
        kind = value_class(it["v"])
        if kind and _CHANGED_NOW.search(bare) and kind_span(recent[0].value, kind[0]) is None:
            held = [
                each
                for each in recent
                if each.cardinality is Cardinality.ONE and kind_span(each.value, kind[0])
            ]
            return bool(held) and self._substitute(it["v"])
        dated = kind is not None and kind_span(recent[0].value, kind[0]) is not None
        if dated and kind and kind[0] == "date" and _CHANGED_NOW.search(bare):
            return self._substitute(it["v"])
        if recent[0].cardinality is not Cardinality.ONE:
            return False
        if recent[0].attribute in NAMES or x_not_y(it["v"]) is not None:
            return self._substitute(it["v"])
        return bool(_CHANGED_NOW.search(bare)) and len(it["v"].split()) <= 6 and self._substitute(it["v"])

    def _denies_recent(self, bare: str) -> bool:
        """ "not the blue one the orange one", of something that was said."""
        halves = x_not_y(bare) if bare.casefold().startswith("not ") else None
        return halves is not None and self._said_lately(halves[1])

    def _said_otherwise(self, bare: str, recent: list[Assertion]) -> str | None:
        """A number or a date that was just said, said otherwise: "third grade", "just one"."""
        match = _FRAGMENT.match(bare)
        if match is None or len(match["v"].split()) > 3:
            return None
        value = match["v"]
        kind = value_class(value)
        span = kind_span(recent[0].value, kind[0]) if kind else None
        if (
            kind is None
            or span is None
            or any(base_form(word) for word in value.split() if word.casefold() != "second")
        ):
            return None
        said = content_words(recent[0].value[span[0] : span[1]])
        rest = content_words(f"{value[: kind[1][0]]} {value[kind[1][1] :]}")
        alike_rest = rest <= content_words(recent[0].value) if rest else match["only"] is not None
        return value if alike_rest and said != content_words(value[kind[1][0] : kind[1][1]]) else None

    def _counts_anew(self, bare: str) -> bool:
        """ "it's three now", of something that was counted."""
        match = _COUNT_NOW.match(bare)
        recent = self._recent()
        if match is None or not recent or not is_number_phrase(trimmed(match["v"])):
            return False
        return kind_span(recent[0].value, "number") is not None and self._substitute(trimmed(match["v"]))

    def _substitute(
        self, said: str, *, about: str = "it", only: frozenset[str] | None = None, bare: bool = False
    ) -> bool:
        """Puts a new value in the place of a recent one; False when nothing recent fits.

        `bare` says that nothing but a marker announces the value, so a wish must resemble the one it replaces.
        """
        new, wrong = x_not_y(trimmed(said)) or self._after_the_wrong(trimmed(said)) or (trimmed(said), "")
        if new.casefold().startswith("not "):
            return False
        if other := re.match(r"^the (\w+) one$", new, re.IGNORECASE):
            return self._other_one(other[1])
        new = re.sub(r"^(?:it is|ends in|at|on|in)\s+(?=\w)", "", new, flags=re.IGNORECASE) if wrong else new
        old = self._corrected(new, wrong=wrong, about=about, only=only, bare=bare and not wrong)
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

    def _after_the_wrong(self, said: str) -> tuple[str, str] | None:
        """The right and the wrong value of "not rotterdam the hague", where the wrong one was said before."""
        denied = re.match(r"^not (?P<rest>.+)$", said, re.IGNORECASE)
        words = denied["rest"].split() if denied else []
        for old in self._recent():
            for length in range(len(words) - 1, 0, -1):
                wrong = " ".join(words[:length])
                if re.search(rf"\b{re.escape(wrong)}\b", old.value, re.IGNORECASE):
                    right = trimmed(" ".join(words[length:]))
                    return (re.sub(r"^(?:but|it is)\s+", "", right, flags=re.IGNORECASE), wrong)
        return None

    def _other_one(self, which: str) -> bool:
        """ "i meant the right one": the opposite of a word that was said."""
        opposite = OPPOSITES.get(which.casefold())
        for old in self._recent() if opposite else ():
            if opposite not in content_words(f"{old.subject} {old.attribute} {old.value}"):
                continue
            swap = re.compile(rf"\b{opposite}\b", re.IGNORECASE)
            changed = replace(
                old,
                subject=swap.sub(which, old.subject),
                attribute=swap.sub(which, old.attribute),
                value=swap.sub(which, old.value),
                statement=swap.sub(which, old.statement),
            )
            if (changed.subject, changed.attribute) != (old.subject, old.attribute):
                self._add(Ending(subject=old.subject, attributes=frozenset({old.attribute}), value=old.value))
                self._add(changed, stands_alone=True)
            else:
                self._add(replace(changed, replaces=old.value))
            return True
        return False

    def _corrected(
        self, new: str, *, wrong: str, about: str, only: frozenset[str] | None, bare: bool
    ) -> Assertion | None:
        recent = [each for each in self._recent() if only is None or each.attribute in only]
        topic = content_words(about) - {"it", "that"}
        if topic:
            recent = [
                each
                for each in recent
                if topic & content_words(f"{each.attribute} {each.value} {each.subject}")
            ]
        if bare:
            affirmed = (each for each in recent if each.polarity is Polarity.AFFIRMED)
            recent = [each for each in affirmed if alike(each, new)]
        if not wrong:  # "make it friday" after "we can't do thursday" is no other day we can't do
            recent = [
                each
                for each in recent
                if each.polarity is Polarity.AFFIRMED or each.attribute not in {"do", *WISHES}
            ]
        if wrong:
            recent = [each for each in recent if content_words(wrong) <= content_words(each.value)] or recent
        kind = value_class(new)
        if kind is None and not wrong and not topic:  # what was said in passing is seldom what is put right
            recent = sorted(recent, key=lambda each: each.confidence <= OPEN_CONFIDENCE)
        if kind is not None:
            same_kind = [each for each in recent if kind_span(each.value, kind[0]) is not None]
            recent = same_kind or [each for each in recent if each.cardinality is Cardinality.ONE]
        return recent[0] if recent else None
