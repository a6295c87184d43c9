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
from pipecat_voicectx.memory.frames import PARTNERS, WORKING, sentence, third_person
from pipecat_voicectx.memory.predicates import (
    Referents,
    parse_subject,
    person_name,
    state_changes,
    trimmed,
)
from pipecat_voicectx.memory.spoken_english import (
    PERSON_RELATIONS,
    PETS,
    clauses,
    expand_contractions,
    value_class,
)

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
    r"^(?:who|what|when|where|why|how|which|whose|do|does|did|is|are|was|were|can|could|will|would|should|shall|may|have you)\s+"
    r"(?!not\b)|^(?:can|could|would|will) (?:you|we|i)\b|^(?:do|did) you\b",
    re.IGNORECASE,
)
_SUPPOSING = re.compile(
    r"^(?:if|imagine|suppose|supposing|let us say (?:i|we|that)|what if|say (?:i|we)|unless|maybe|perhaps|i wish|hypothetically)\b",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"^(?:the|my|our|his|her|a|some|they|he|she|people|everyone|somebody|someone)?\s*[\w ]{0,30}?\b"
    r"(?:said|says|told|thinks?|heard|reckons?|claims?|claimed|reported|asked)\b(?! (?:i|me|us) (?:am|to stop))|^(?:i|we) (?:heard|read|saw|think|thought|guess|told)\b",
    re.IGNORECASE,
)
_LEAD_IN = re.compile(
    r"^(?:(?:and|but|so|well|oh|yeah|yes|yep|okay|ok|hi|hello|hey|good (?:morning|afternoon|evening)|also|now|then|plus|anyway|listen|"
    r"look|right|honestly|basically|to be honest|by the way|guess what|you know|the thing is|because|since|please|in fact|"
    r"as i said|i told you|i should (?:say|mention)|i (?:think|guess|believe) (?=i |my |we |our )|to be fair|just so you know|fyi|apparently|thinking about it|"
    r"for the record|you should know|these days|(?:at|from) (?:the moment|next (?:week|month|year)|now on)|everybody knows|of course)\b[\s,]*)+",
    re.IGNORECASE,
)
_MARKER = (
    r"(?:no|nope|nah|sorry|wait|hang on|hold on|actually|oh|oops|my mistake|my bad|correction|i mean|i meant|i should say|"
    r"i meant to say|rather|or rather|well|apologies|not quite|let me correct that|that is (?:wrong|not right|not true|incorrect|"
    r"not correct|a mistake|old|last year|outdated|my old one|the old one)|you got that wrong|that was (?:wrong|a mistake|last year)|scratch that)"
)
_CORRECTION = re.compile(
    rf"^(?:(?:and|but|uh|um|so)\s+)?(?P<m>(?:{_MARKER}\b[\s,]*)+)(?P<rest>.*)$", re.IGNORECASE
)
_WRONG = re.compile(
    r"wrong|not right|not true|incorrect|not correct|mistake|my bad|old|last year|outdated|correction|scratch",
    re.I,
)
_STRONG = re.compile(
    r"^(?:no|nope|sorry|wait|hang on|hold on|oops|my |correction|i mean|i meant|i should say|rather|or rather|that |you got|scratch|oh (?:no|wait|sorry|that))",
    re.I,
)
_SPLIT_MARKERS = re.compile(
    r"\s+(?=(?:oh wait|wait no|no wait|no sorry|sorry|i mean|i meant|make that|scratch that|actually no|no actually|or rather|no no)\s)",
    re.IGNORECASE,
)
_NEW_VALUE = re.compile(
    r"^(?:(?:it|that|this|he|she|they) (?:is|was|will be|should be)(?: actually| now| really)?|(?:can|could) (?:we|you) make (?:it|that)|make (?:it|that)|let us (?:say|make it)|call it|"
    r"use|take|say|i (?:mean|meant)|(?:they|we|i) (?:have )?(?:moved|changed|pushed|rescheduled|shifted|put) it (?:back )?to|"
    r"it (?:has been|was|is|got|has) (?:moved|changed|pushed|rescheduled|shifted|postponed)(?: back)? to)\s+(?P<v>.+)$",
    re.IGNORECASE,
)
_MOVED = re.compile(
    r"^(?:(?:they|we|i)(?: have)? (?:moved|changed|pushed|rescheduled|shifted|put) (?P<a>it|that|the .+?|my .+?|our .+?)(?: back)? to"
    r"|(?P<b>it|the .+?|my .+?|our .+?) (?:has been|was|got|is|has) (?:moved|changed|pushed|rescheduled|shifted|postponed)(?: back)? to)\s+(?P<v>.+)$",
    re.IGNORECASE,
)
_X_NOT_Y = re.compile(r"^(?P<x>.+?),?\s+(?:and )?not\s+(?P<y>[\w' ]+)$", re.IGNORECASE)
_RETRACTION = re.compile(
    r"\b(?:forget|delete|erase|remove|scratch|strike|ignore|disregard|take back|do not (?:remember|save|store|keep|write down))\b"
    r"(?:\s+(?:what i (?:just )?said|everything|all))?(?:\s+(?:about|of))?\s*(?P<v>(?:that|this|it|my|our|the|what|i|about)?\b.*)$",
    re.IGNORECASE,
)
_RETRACTION_START = re.compile(
    r"^(?:can you |could you |would you |will you |you can |just |please |i want you to |i would like you to )*"
    r"(?:forget|delete|erase|remove|scratch|strike|ignore|disregard|i take (?:that|it) back|do not (?:remember|save|store|keep|write)|"
    r"i should not have said)\b",
    re.IGNORECASE,
)
_LAST = re.compile(
    r"^(?:that|this|it|what i (?:just )?said|that part|the last (?:bit|part|thing)|)(?: please)?$",
    re.IGNORECASE,
)
_CANCELLED = re.compile(
    r"^(?P<n>(?:the|my|our)\s+.+?|it)\s+(?:is|was|got|has been|have been|are)\s+(?:been )?(?:cancelled|canceled|called off)\b.*$",
    re.I,
)
_CALLED_ME = re.compile(
    r"^(?:please |just |you can |everybody |everyone |people |my friends |all my friends )*calls? me (?P<v>.+)$",
    re.IGNORECASE,
)
_SPEAKING = re.compile(
    r"^(?:this is|it is|i am)\s+(?P<v>[\w' -]+?)(?:\s+(?:speaking|here|calling))?$", re.IGNORECASE
)
_REACH = re.compile(
    r"^(?:you )?can (?:call|reach|phone|ring|text|email|contact) me\s+(?:(?:by|via) \w+ )?(?:on|at|under)\s+(?P<v>.+)$",
    re.IGNORECASE,
)
_DO_NOT_CALL = re.compile(
    r"^(?:please )?(?:do not|never) (?P<verb>call|phone|ring|text|email|contact) me\s*(?P<v>.*)$",
    re.IGNORECASE,
)
_MAKES_SICK = re.compile(r"^(?P<v>[\w ]+?) makes? me (?:sick|ill|sneeze|feel sick)$", re.IGNORECASE)
_CHANGED_KIN = re.compile(r"^(?:have |has )?(?:just )?changed (?P<n>\w+?)s?$", re.IGNORECASE)
_SPELLED = re.compile(r"^(?:it is )?(?:spelled|spelt|written)\b.*?\b(?P<v>[\w]{3,})$", re.IGNORECASE)


def extract(text: str, focus: ConversationFocus, *, question: str = "") -> Extraction:
    """What a confirmed user turn says, after the bot's question that was heard before it ("" if none)."""
    return _Turn(focus, question).run(text)


class _Turn:
    """One pass over one turn."""

    def __init__(self, focus: ConversationFocus, question: str) -> None:
        self._focus = focus
        self._question = question
        self._changes: list[Change] = []
        self._said: list[Assertion] = []
        self._wrong = False

    def run(self, text: str) -> Extraction:
        cleaned = expand_contractions(clean_transcript(text[:_MAX_CHARS]))
        parts = [part for clause in clauses(cleaned) for part in _SPLIT_MARKERS.split(clause)]
        supposing = False
        for position, part in enumerate(parts):
            asked = text.rstrip().endswith("?") and position == len(parts) - 1
            bare = _LEAD_IN.sub("", part).strip()
            if not bare or self._retracts(bare):
                continue
            if self._corrects(part):
                continue
            if asked or _QUESTION.match(bare):
                break
            if _SUPPOSING.match(bare):
                supposing = True
                continue
            if supposing and re.search(r"\bwould\b|\bcould\b", bare):
                continue
            if _REPORTED.match(bare) and not bare.casefold().startswith("my doctor told me to"):
                break
            if not self._states(re.sub(r"^my \w+ told me to ", "i should ", bare)) and position == 0:
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
        if not _RETRACTION_START.match(bare):
            return False
        match = _RETRACTION.search(bare)
        about = trimmed(match["v"]) if match else ""
        about = re.sub(r"^(?:about|my|our|the|what i said about|that i|i)\s+", "", about, flags=re.IGNORECASE)
        rest = ""
        if re.match(r"^scratch that\b", bare, re.IGNORECASE):
            about, rest = "", bare[len("scratch that") :].strip()
            if rest and not _RETRACTION_START.match(rest):
                self._corrects(f"scratch that {rest}")
                return True
        if re.search(r"\bshould not have said\b", bare, re.IGNORECASE) or _LAST.match(about):
            about = ""
        if about.casefold().startswith(("to ", "about it", "do it")):
            return False
        if not any(isinstance(change, Retraction) for change in self._changes):
            self._add(Retraction(about=about))
        return True

    def _corrects(self, part: str) -> bool:
        """Handles "no sorry it's anna", "make it five", "they moved it to friday"; False when it is none of these."""
        match = _CORRECTION.match(part)
        marker, rest = (match["m"].strip(" ,"), match["rest"].strip(" ,")) if match else ("", part)
        strong = bool(_STRONG.match(marker))
        if not rest:
            if _WRONG.search(marker) or strong:
                self._focus = replace(self._focus, correcting=True)
                self._wrong = self._wrong or bool(_WRONG.search(marker))
                return True
            return False
        if (moved := _MOVED.match(rest)) is not None:
            return self._substitute(moved["v"], about=moved["a"] or moved["b"] or "it")
        if not marker and not self._focus.correcting:
            return self._quiet_correction(rest)
        if _QUESTION.match(rest) and not rest.casefold().startswith(("can we make", "can you make")):
            return False
        if self._states(_LEAD_IN.sub("", rest), corrects=True):
            return True
        value = _NEW_VALUE.match(rest)
        if value is not None:
            return self._substitute(value["v"])
        recent = self._recent()
        short = (
            bool(marker)
            and len(rest.split()) <= 3
            and bool(recent)
            and recent[0].cardinality is Cardinality.ONE
        )
        if short or ((strong or self._focus.correcting) and len(rest.split()) <= 6):
            return self._substitute(rest)
        return False

    def _quiet_correction(self, part: str) -> bool:
        """Corrections without a word that says so: "make it five people", "it's anna", "it's fixed now"."""
        bare = _LEAD_IN.sub("", part)
        if spelled := _SPELLED.match(bare):
            return self._substitute(spelled["v"], only={"name", "last name"})
        if re.match(
            r"^(?:(?:can|could) (?:we|you) )?make (?:it|that)\b|^let us (?:say|make it)\b|^use\b",
            bare,
            re.IGNORECASE,
        ):
            value = _NEW_VALUE.match(bare)
            return value is not None and self._substitute(value["v"])
        if value := re.match(r"^it is (?:now )?(?P<v>.+)$", bare, re.IGNORECASE):
            recent = self._recent()
            if recent and recent[0].cardinality is Cardinality.ONE:
                changed = bool(re.search(r"\b(?:now|again|instead|actually)\b", bare, re.IGNORECASE))
                named = recent[0].attribute in {"name", "last name"}
                if named or (changed and len(value["v"].split()) <= 6):
                    return self._substitute(value["v"])
        return False

    def _substitute(self, said: str, *, about: str = "it", only: set[str] | None = None) -> bool:
        """Puts a new value in the place of a recent one; False when nothing recent fits."""
        said = trimmed(said)
        instead = _X_NOT_Y.match(said)
        wrong = trimmed(instead["y"]) if instead else ""
        new = trimmed(instead["x"]) if instead else said
        new = re.sub(r"^(?:ends in|on|at)\s+(?=\w)", "", new, flags=re.IGNORECASE) if instead else new
        old = self._corrected(new, wrong=wrong, about=about, only=only)
        if old is None or not new:
            return False
        value = _spliced(old.value, new, wrong)
        if old.attribute in {"name", "last name"}:
            name = person_name(new, strict=False)
            if name is None:
                return False
            value = name
        if value.casefold() == old.value.casefold():
            return False
        statement = old.statement.replace(old.value, value)
        if old.value not in old.statement or statement == old.statement:
            statement = sentence(old.subject, f"'s {old.attribute}", third_person("is", value, old.polarity))
        self._add(replace(old, value=value, statement=statement, replaces=old.value))
        return True

    def _corrected(self, new: str, *, wrong: str, about: str, only: set[str] | None) -> Assertion | None:
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
        for special in (self._states_call, self._states_end, self._states_more):
            if special(bare):
                return True
        parsed = parse_subject(bare, self._focus.referents)
        if parsed is None:
            return False
        subject, predicate = parsed
        if kin := _CHANGED_KIN.match(predicate):
            relation = kin["n"].casefold()
            if relation in PERSON_RELATIONS:
                self._add(Ending(subject=relation, attributes=frozenset({"name"})))
                self._said.append(
                    Assertion(
                        subject=relation,
                        attribute="name",
                        value="",
                        statement="",
                        cardinality=Cardinality.ONE,
                    )
                )
            return True
        found = state_changes(subject, predicate, self._focus.referents)
        for change in found:
            self._add(self._in_context(change), corrects=corrects)
        return bool(found)

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

    def _states_call(self, bare: str) -> bool:
        """Names, nicknames, numbers and times to be called."""
        if match := _CALLED_ME.match(bare):
            value = trimmed(match["v"])
            if re.match(
                r"^(?:in|at|on|after|before|tomorrow|tonight|back|when|if|later)\b", value, re.IGNORECASE
            ):
                if not value.casefold().startswith(("back", "when", "if", "later")):
                    self._add(_simple("wants to be called", value, f"The user wants to be called {value}."))
                return True
            if name := person_name(value, strict=False):
                self._add(_simple("nickname", name, f"The user is called {name} by others.", one=True))
            return True
        if match := _REACH.match(bare):
            value = trimmed(match["v"])
            noun = "email" if re.search(r"\bat\b|@|\bdot\b", value) else "phone number"
            self._add(_simple(noun, value, f"The user's {noun} is {value}.", one=True))
            return True
        if match := _DO_NOT_CALL.match(bare):
            value = trimmed(match["v"])
            change = _simple("wants to be called", value, f"The user does not want to be called {value}.")
            self._add(replace(change, polarity=Polarity.NEGATED))
            return True
        if match := _MAKES_SICK.match(bare):
            change = _simple("like", match["v"], f"The user gets sick from {match['v']}.")
            self._add(replace(change, polarity=Polarity.NEGATED))
            return True
        match = _SPEAKING.match(bare)
        if (
            match
            and (bare.casefold().startswith("this is") or "speaking" in bare)
            and (name := person_name(match["v"], strict=True))
        ):
            self._add(_simple("name", name, f"The user's name is {name}.", one=True))
            return True
        return False

    def _states_end(self, bare: str) -> bool:
        """ "the opera is cancelled", "me and mia broke up"."""
        if match := _CANCELLED.match(bare):
            noun = re.sub(r"^(?:the|my|our)\s+", "", match["n"], flags=re.IGNORECASE)
            noun = (self._focus.referents.it or "") if noun.casefold() == "it" else noun
            if noun:
                self._add(Ending(subject=USER, attributes=frozenset(), value=noun))
            return True
        couple = re.match(
            r"^(?:me and (?P<a>\w+)|(?P<b>\w+) and (?:i|me)|we)\s+(?:have )?(?:broke up|broken up|split up|separated|are not together)",
            bare,
            re.I,
        )
        if couple:
            named = couple["a"] or couple["b"] or ""
            bearer = self._focus.referents.bearer(named)
            for each in [bearer] if bearer else sorted(PARTNERS):
                self._add(Ending(subject=each, attributes=frozenset()))
            return True
        return False

    def _states_more(self, bare: str) -> bool:
        """ "and also to shellfish": the last statement's verb with one thing more."""
        match = re.match(r"^(?P<p>to|of|from) (?P<v>(?:\w+ ?){1,4})$", bare, re.IGNORECASE)
        recent = self._recent()
        if match is None or not recent or not recent[0].attribute.endswith(f" {match['p'].casefold()}"):
            return False
        value = trimmed(match["v"])
        statement = recent[0].statement.replace(recent[0].value, value)
        self._add(replace(recent[0], value=value, statement=statement, replaces=None))
        return True

    def _answers(self, bare: str) -> None:
        """A short answer to what the bot asked."""
        asked = expand_contractions(self._question).casefold().strip(" ?.!")
        if not asked or len(bare.split()) > 6:
            return
        value = trimmed(
            re.sub(
                r"^(?:it is|that is|this is|i am|from|in|on|at|a|an|the)\s+", "", bare, flags=re.IGNORECASE
            )
        )
        if not value or value.casefold() in {"yes", "no", "yeah", "nope", "sure", "i do not know"}:
            return
        if re.search(r"\b(?:who am i (?:speaking|talking)|your name|who is (?:this|calling))\b", asked):
            if name := person_name(value, strict=False):
                self._add(_simple("name", name, f"The user's name is {name}.", one=True))
            return
        choice = re.search(
            r"\bprefer (?:an? |the )?(?P<a>\w+) or (?:an? |the )?(?P<b>\w+)(?: (?P<n>\w+))?$", asked
        )
        if choice and content_words(value) & {choice["a"], choice["b"]}:
            noun = choice["n"] or "choice"
            self._add(
                _simple(f"preferred {noun}", value, f"The user's preferred {noun} is {value}.", one=True)
            )
            return
        noun_asked = re.search(
            r"\b(?:what|which) (?:is your |(?:kind|type|sort) of )?(?P<n>[\w ]{3,30}?)(?: (?:do|are|is|would|did|have|should|can) .*)?$",
            asked,
        )
        if noun_asked and 1 <= len(noun_asked["n"].split()) <= 3:
            noun = noun_asked["n"].strip()
            self._add(_simple(noun, value, f"The user's {noun} is {value}.", one=True))
        elif re.search(r"\bwhere (?:do you live|are you based|are you calling from)\b", asked):
            self._add(_simple("live in", value, f"The user lives in {value}.", one=True))
        elif re.search(r"\bhow old are you\b", asked):
            self._add(_simple("age", value, f"The user is {value} years old.", one=True))


def _spliced(old: str, new: str, wrong: str) -> str:
    """`old` with the part that `new` is about replaced: its date, its number, the wrong word, or all of it."""
    if wrong:
        position = old.casefold().rfind(wrong.casefold())
        if position >= 0:
            return f"{old[:position]}{new}{old[position + len(wrong) :]}"
    new_kind, old_kind = value_class(new), value_class(old)
    if new_kind is None or old_kind is None or new_kind[0] != old_kind[0]:
        return new
    start, end = old_kind[1]
    whole = new_kind[1] == (0, len(new))
    if whole or end - start < len(old):
        return f"{old[:start]}{new[new_kind[1][0] : new_kind[1][1]] if not whole else new}{old[end:]}".strip()
    return new


def _thing_of(change: Assertion) -> str | None:
    """What "it" would mean after an assertion about the user."""
    if change.cardinality is Cardinality.ONE and change.attribute not in {
        "name",
        "age",
        "last name",
        "nickname",
    }:
        return (
            change.attribute
            if " " not in change.attribute or not change.attribute.endswith((" in", " as", " at", " to"))
            else None
        )
    words = re.findall(r"[\w'-]+", change.value.casefold())
    if words and words[0] in {"a", "an", "the", "my", "our", "two", "three"} and len(words) > 1:
        nouns = [word for word in words[1:4] if word not in {"new", "old", "in", "on", "for", "at"}]
        if nouns:
            return nouns[-1] if nouns[-1] in PETS else nouns[0]
    return None


def _simple(attribute: str, value: str, statement: str, *, one: bool = False) -> Assertion:
    return Assertion(
        subject=USER,
        attribute=attribute,
        value=value,
        statement=statement,
        cardinality=Cardinality.ONE if one else Cardinality.MANY,
    )
