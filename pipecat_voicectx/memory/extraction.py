"""Rule-based extraction: what one user turn asserts, ends, corrects or takes back.

Works on a recognizer's text as it comes, without capitals or punctuation. A turn is cleaned, contractions are
written out, the turn is cut into clauses, and each clause is one of: nothing to keep (questions, suppositions, what
others said), a retraction, a correction of what was said before, or a statement. The grammar of statements is in
`predicates`; this module knows the conversation around them: the question the bot asked, what "it" and "she" mean, and
what "no, the fifth" puts right.

The extractor never rephrases a value: every word of a value was said by the user (pronouns in the sentences shown to a
model excepted). It prefers silence: a clause it does not understand states nothing.

Known limits: English only, other languages yield nothing; see `predicates` for the grammar's. `voicectx bench updates`
measures it, with a held-out half.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from pipecat_voicectx.memory.cleaning import clean_transcript
from pipecat_voicectx.memory.corrections import (
    MarkerStrength,
    correction_marker,
    is_about_the_floor,
    left_out,
    moved_to,
    new_value,
    retraction_topic,
    spelled_name,
    spliced,
    split_at_markers,
    trailing_correction,
    without,
    x_not_y,
)
from pipecat_voicectx.memory.facts import (
    USER,
    Assertion,
    Cardinality,
    Change,
    Ending,
    Fact,
    Polarity,
    Retraction,
    content_words,
)
from pipecat_voicectx.memory.frames import WORKING, sentence, third_person
from pipecat_voicectx.memory.predicates import state_changes
from pipecat_voicectx.memory.set_phrases import answer, ended_relation, set_phrase
from pipecat_voicectx.memory.spoken_english import (
    PERSON_RELATIONS,
    PETS,
    clauses,
    expand_contractions,
    value_class,
)
from pipecat_voicectx.memory.subjects import Referents, parse_subject, person_name, trimmed

__all__ = ["ConversationFocus", "Extraction", "extract"]

# Chosen: longer turns are monologues or pasted text; the rest of one is not worth blocking a worker for.
_MAX_CHARS = 4_000
# Chosen: what a correction may reach back to, in assertions.
_MAX_RECENT = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationFocus:
    """What the next turn may refer to. Kept for a session, not stored."""

    referents: Referents = field(default_factory=Referents)
    recent: tuple[Assertion, ...] = ()
    """What was asserted lately, the latest last."""
    correcting: bool = False
    """The speaker said that something was wrong, and not yet what is right."""
    ended_attribute: str | None = None
    """Verb of what was just given up, for "i switched to tea"."""

    @classmethod
    def from_facts(cls, facts: Iterable[Fact]) -> ConversationFocus:
        """The focus at the start of a call: the names that are known."""
        referents = Referents()
        for fact in facts:
            if fact.current and fact.attribute == "name" and fact.subject != USER:
                referents = referents.seen(fact.subject, fact.value)
        return cls(referents=replace(referents, she=None, he=None, it=None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """What a turn said, and the focus for the next one."""

    changes: tuple[Change, ...]
    focus: ConversationFocus


_QUESTION = re.compile(
    r"^(?:who|what|when|where|why|how|which|whose|do|does|did|is|are|was|were|can|could|will|would|should|shall|may|"
    r"have you|has (?:he|she|it|the|my))\s+(?!not\b)",
    re.IGNORECASE,
)
_SUPPOSING = re.compile(
    r"^(?:if|imagine|suppose|supposing|let us say (?:i|we|that)|what if|say (?:i|we)|unless|maybe|perhaps|i wish|"
    r"hypothetically|in case)\b",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"^(?:[\w']+ ){0,5}?(?:said|says|told|thinks?|heard|reckons?|claims?|claimed|reported|asked)\b(?! (?:i|we) )|"
    r"^(?:i|we) (?:heard|read|saw|thought)\b",
    re.IGNORECASE,
)
_TOLD_TO = re.compile(r"^(?:my|the) [\w ]+? (?:told|asked|advised) me to ", re.IGNORECASE)
_LEAD_IN = re.compile(
    r"^(?:(?:and|but|so|well|oh|yeah|yes|yep|okay|ok|hi|hello|hey|good (?:morning|afternoon|evening)|also|now|then|"
    r"plus|anyway|listen|look|right|honestly|basically|to be honest|by the way|guess what|you know|the thing is|"
    r"because|since|please|in fact|as i said|i told you|i should (?:say|mention)|"
    r"i (?:think|guess|believe) (?=i |my |we |our )|to be fair|just so you know|fyi|apparently|thinking about it|"
    r"for the record|you should know|these days|better|"
    r"(?:at|from) (?:the moment|next (?:week|month|year)|now on)|everybody knows|of course)\b[\s,]*)+",
    re.IGNORECASE,
)
_CHANGED_KIN = re.compile(r"^(?:have |has )?(?:just )?changed (?P<n>\w+?)s?$", re.IGNORECASE)
_ONE_MORE = re.compile(r"^(?P<p>to|of|from) (?P<v>(?:\w+ ?){1,4})$", re.IGNORECASE)
_CHANGED_NOW = re.compile(r"\b(?:now|again|instead|actually)\b", re.IGNORECASE)
_NAMES = frozenset({"name", "last name"})


def extract(text: str, focus: ConversationFocus, *, question: str = "") -> Extraction:
    """What a confirmed user turn says, after the bot's question that was heard before it ("" if none)."""
    return _Turn(focus, question).run(text)


class _Turn:
    """One pass over one turn."""

    def __init__(self, focus: ConversationFocus, question: str) -> None:
        self._focus = focus
        self._question = expand_contractions(question)
        self._changes: list[Change] = []
        self._said: list[Assertion] = []
        self._wrong = False

    def run(self, text: str) -> Extraction:
        cleaned = expand_contractions(clean_transcript(text[:_MAX_CHARS]))
        parts = [part for clause in clauses(cleaned) for part in split_at_markers(clause)]
        supposing = False
        for position, part in enumerate(parts):
            asked = text.rstrip().endswith("?") and position == len(parts) - 1
            bare = _LEAD_IN.sub("", part).strip()
            if not bare or self._retracts(bare) or self._corrects(part):
                continue
            if asked or _QUESTION.match(bare):
                break
            if _SUPPOSING.match(bare):
                supposing = True
                continue
            if supposing and re.search(r"\b(?:would|could)\b", bare):
                continue
            if _TOLD_TO.match(bare):
                bare = _TOLD_TO.sub("i should ", bare)
            elif _REPORTED.match(bare):
                break
            if not self._states(bare) and position == 0:
                self._answers(bare)
        return Extraction(changes=tuple(self._changes), focus=self._next_focus())

    def _next_focus(self) -> ConversationFocus:
        waiting = self._focus.correcting and self._wrong  # "no" alone corrects within its turn only
        recent = (*self._focus.recent, *self._said)[-_MAX_RECENT:]
        return replace(self._focus, recent=recent, correcting=waiting)

    def _recent(self) -> list[Assertion]:
        """What may be corrected, the latest first."""
        return [*reversed(self._said), *reversed(self._focus.recent)]

    def _add(self, change: Change, *, corrects: bool = False) -> None:
        if isinstance(change, Assertion):
            if corrects or self._focus.correcting:
                change = self._as_correction(change)
            self._said.append(change)
            name = change.value if change.attribute == "name" else None
            subject = change.subject if change.subject != USER else _thing_of(change)
            referents = self._focus.referents.seen(subject, name) if subject else self._focus.referents
            self._focus = replace(self._focus, referents=referents, correcting=False)
        elif isinstance(change, Ending):
            self._focus = replace(self._focus, referents=self._focus.referents.seen(change.subject))
        self._changes.append(change)

    def _as_correction(self, change: Assertion) -> Assertion:
        for recent in self._recent():
            same = recent.subject == change.subject and recent.attribute == change.attribute
            if same and recent.value.casefold() != change.value.casefold():
                return replace(change, replaces=recent.value)
        return change

    def _retracts(self, bare: str) -> bool:
        scratched = re.match(r"^scratch that\s+(?P<rest>.+)$", bare, re.IGNORECASE)
        if scratched and retraction_topic(scratched["rest"]) is None:
            return False  # a correction
        topic = retraction_topic(bare)
        if topic is None:
            return False
        if not any(isinstance(change, Retraction) for change in self._changes):
            self._add(Retraction(about=topic))
        return True

    def _corrects(self, part: str) -> bool:
        """Handles "no sorry it's anna", "make it five", "they moved it to friday"; False when it is none of these."""
        unwanted = left_out(part)
        if unwanted is not None and self._leaves_out(unwanted):
            return True
        marker = correction_marker(part)
        rest = marker.rest if marker else part
        strong = marker is not None and marker.strength is not MarkerStrength.WEAK
        if is_about_the_floor(_LEAD_IN.sub("", rest)):
            return True
        if marker and not rest:
            self._focus = replace(self._focus, correcting=self._focus.correcting or strong)
            self._wrong = self._wrong or marker.strength is MarkerStrength.WRONG
            return True
        if (moved := moved_to(rest)) is not None:
            return self._substitute(moved[1], about=moved[0])
        if marker is None and not self._focus.correcting:
            return self._quiet_correction(rest)
        value = new_value(rest, unmarked=False)
        if _QUESTION.match(rest) and value is None:
            return False
        if self._states(_LEAD_IN.sub("", rest), corrects=True):
            return True
        if value is not None:
            return self._substitute(value)
        recent = self._recent()
        one = bool(recent) and recent[0].cardinality is Cardinality.ONE
        words = len(rest.split())
        if (words <= 3 and one) or (words <= 6 and (strong or self._focus.correcting)):
            return self._substitute(rest)
        return False

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
        bare = _LEAD_IN.sub("", part)
        if (name := spelled_name(bare)) is not None:
            return self._substitute(name, only=_NAMES)
        value = new_value(bare, unmarked=True) or trailing_correction(bare)
        if value is not None:
            return self._substitute(value)
        recent = self._recent()
        it = re.match(r"^it (?:is|ends in) (?:now )?(?P<v>.+)$", bare, re.IGNORECASE)
        if it is None or not recent or recent[0].cardinality is not Cardinality.ONE:
            return False
        if recent[0].attribute in _NAMES or x_not_y(it["v"]) is not None:
            return self._substitute(it["v"])
        return bool(_CHANGED_NOW.search(bare)) and len(it["v"].split()) <= 6 and self._substitute(it["v"])

    def _substitute(self, said: str, *, about: str = "it", only: frozenset[str] | None = None) -> bool:
        """Puts a new value in the place of a recent one; False when nothing recent fits."""
        new, wrong = x_not_y(trimmed(said)) or (trimmed(said), "")
        new = re.sub(r"^(?:it is|ends in|at|on|in)\s+(?=\w)", "", new, flags=re.IGNORECASE) if wrong else new
        old = self._corrected(new, wrong=wrong, about=about, only=only)
        if old is None or not new:
            return False
        value: str | None = spliced(old.value, new, wrong)
        if old.attribute in _NAMES:
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
            alike = [
                each for each in recent if (old := value_class(each.value)) is not None and old[0] == kind[0]
            ]
            recent = alike or [each for each in recent if each.cardinality is Cardinality.ONE]
        return recent[0] if recent else None

    def _states(self, bare: str, *, corrects: bool = False) -> bool:
        fixed = set_phrase(bare)
        if fixed is not None:
            for change in fixed:
                self._add(change, corrects=corrects)
            return True
        ended = ended_relation(bare, self._focus.referents)
        if ended:
            for change in ended:
                self._add(change)
            return True
        if self._states_one_more(bare):
            return True
        nouns = {each.attribute for each in self._recent() if each.subject == USER}
        parsed = parse_subject(bare, self._focus.referents, user_nouns=nouns)
        if parsed is None:
            return False
        subject, predicate = parsed
        if (kin := _CHANGED_KIN.match(predicate)) and kin["n"].casefold() in PERSON_RELATIONS:
            self._expect_name(kin["n"].casefold())
            return True
        found = state_changes(subject, predicate, self._focus.referents)
        for change in found:
            self._add(self._in_context(change), corrects=corrects)
        return bool(found)

    def _expect_name(self, relation: str) -> None:
        """ "i changed doctors": the old name is over, and the next "it's ..." is the new one."""
        self._add(Ending(subject=relation, attributes=frozenset({"name"})))
        nameless = Assertion(
            subject=relation, attribute="name", value="", statement="", cardinality=Cardinality.ONE
        )
        self._said.append(nameless)

    def _in_context(self, change: Change) -> Change:
        """ "i switched to tea" takes its verb from what was given up."""
        if isinstance(change, Ending) and change.attributes and not change.attributes & WORKING:
            self._focus = replace(self._focus, ended_attribute=sorted(change.attributes)[0])
        if isinstance(change, Assertion):
            if change.polarity is Polarity.NEGATED:
                self._focus = replace(self._focus, ended_attribute=change.attribute)
            if change.attribute == "switch to" and self._focus.ended_attribute:
                verb = self._focus.ended_attribute
                statement = sentence(change.subject, "", third_person(verb, change.value, change.polarity))
                return replace(change, attribute=verb, statement=statement)
        return change

    def _states_one_more(self, bare: str) -> bool:
        """ "and also to shellfish": the last statement's verb with one thing more."""
        match = _ONE_MORE.match(bare)
        recent = self._recent()
        if match is None or not recent or not recent[0].attribute.endswith(f" {match['p'].casefold()}"):
            return False
        value = trimmed(match["v"])
        statement = recent[0].statement.replace(recent[0].value, value)
        self._add(replace(recent[0], value=value, statement=statement, replaces=None))
        return True

    def _answers(self, bare: str) -> None:
        """A short answer to what the bot asked."""
        said = answer(bare, self._question)
        if said is not None:
            self._add(said)


def _thing_of(change: Assertion) -> str | None:
    """What "it" would mean after an assertion about the user."""
    if change.cardinality is Cardinality.ONE:
        unnameable = change.attribute in {"name", "age", "last name", "nickname"}
        verbal = change.attribute.endswith((" in", " as", " at", " to", " from"))
        return None if unnameable or verbal else change.attribute
    words: list[str] = re.findall(r"[\w'-]+", change.value.casefold())
    if len(words) > 1 and words[0] in {"a", "an", "the", "my", "our", "two", "three"}:
        nouns = [word for word in words[1:4] if word not in {"new", "old", "in", "on", "for", "at"}]
        if nouns:
            return nouns[-1] if nouns[-1] in PETS else nouns[0]
    return None
