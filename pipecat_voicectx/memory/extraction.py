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
from dataclasses import replace

from pipecat_voicectx.memory.cleaning import clean_transcript
from pipecat_voicectx.memory.corrections import (
    MarkerStrength,
    correction_marker,
    is_about_the_floor,
    left_out,
    moved_to,
    new_value,
    split_at_markers,
)
from pipecat_voicectx.memory.facts import (
    USER,
    Assertion,
    Cardinality,
    Ending,
    Polarity,
    Retraction,
    content_words,
)
from pipecat_voicectx.memory.frames import CONSUMING, sentence, third_person
from pipecat_voicectx.memory.replies import Replies
from pipecat_voicectx.memory.retractions import retraction_topic
from pipecat_voicectx.memory.set_phrases import answer
from pipecat_voicectx.memory.spoken_english import (
    clauses,
    expand_contractions,
    without_spelling,
)
from pipecat_voicectx.memory.subjects import person_name, trimmed
from pipecat_voicectx.memory.turn_state import LEAD_IN, WISHES, ConversationFocus, Extraction
from pipecat_voicectx.memory.turnovers import (
    coordinated,
    denied_value,
    dropped_plan,
    is_disposal,
    is_over,
    new_bearer,
    stems,
    turnover,
)
from pipecat_voicectx.memory.verbs import VERBS, base_form
from pipecat_voicectx.memory.wishes import budget, condition, denied_wish, requested, split_at_wishes

__all__ = ["ConversationFocus", "Extraction", "extract"]

# Chosen: longer turns are monologues or pasted text; the rest of one is not worth blocking a worker for.
_MAX_CHARS = 4_000

_QUESTION = re.compile(
    r"^(?!do (?:me|us) )(?:who|what|when|where|why|how|which|whose|do|does|did|is|are|was|were|can|could|"
    r"will|would|should|"
    r"shall|may|"
    r"have you|has (?:he|she|it|the|my))\s+(?!not\b)",
    re.IGNORECASE,
)
_SUPPOSING = re.compile(
    r"^(?:if|imagine|suppose|supposing|pretend|assume|let us (?:pretend|assume|imagine|suppose)|"
    r"let us say (?:i|we|that)|what if|say (?:i|we)|unless|maybe|perhaps|i wish|"
    r"hypothetically|in case)\b",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"^(?!you )(?:[\w']+ ){0,5}?(?:said|says|told|thinks?|heard|reckons?|claims?|claimed|reported|"
    r"asked)\b(?! (?:i|"
    r"we) )|"
    r"^(?:i|we) (?:heard|read|saw|thought)\b",
    re.IGNORECASE,
)
# Somebody's call that brings news of the speaker's own matters.
_TOLD_US = re.compile(
    r"^(?:so |and |well |hm |hmm )*(?:they|he|she|someone|somebody|(?:the|my|our) [\w ]{2,20}?) (?:have |"
    r"has )?(?:just )?"
    r"(?:rang|called|phoned|emailed|texted|wrote|messaged|got in touch|let (?:me|us) know|told (?:me|"
    r"us))(?: me| us| back| up)*"
    r"(?: and said| and told (?:me|us)| to say| saying| that)*\s+(?=(?:it|they|the|my|our|we) )",
    re.IGNORECASE,
)
_EXCEPT = re.compile(
    r"^(?:well |oh |but |only )*(?:except|apart from|other than|bar)(?: for| to)? (?P<v>[\w ]+)$",
    re.IGNORECASE,
)
_NEITHER = re.compile(
    r"^(?:and |or |also )*(?:no|nor|neither|not) (?P<v>[\w-]+(?: [\w-]+)??)(?: either| for me| at all|"
    r" please)+$",
    re.IGNORECASE,
)
_TAKEN_BACK = re.compile(r"^i take (?:that|it|this) back$", re.IGNORECASE)
_OF_MEMORY = re.compile(
    r"\b(?:forget|remember|delete|erase|wipe|store|save|notes?|records?|files?|memory|system|database|written?|keep|said|told|"
    r"mention(?:ed)?)\b",
    re.IGNORECASE,
)
_THE_ONE_WHO = re.compile(
    r"^(?P<s>i|we|he|she|(?:my|our) [\w-]+) (?:am|is|are) the ones? (?:who|that) (?P<verb>[\w']+)(?= \w)",
    re.IGNORECASE,
)
_SWITCHED_ME = re.compile(
    r"^(?:they|the [\w-]+|my [\w-]+|he|she) (?:have |has |had )?(?:just )?(?:switched|changed|transferred|"
    r"upgraded|moved) (?:me|us) (?:over )?(?:to|onto) "
    r"(?=\w)",
    re.IGNORECASE,
)
_TOLD_TO = re.compile(
    r"^(?:my|the) [\w ]+? (?:told|asked|advised|made|had|got|forced|convinced|persuaded) me (?:to )?(?=[a-z]+ )",
    re.IGNORECASE,
)
_A_REASON = re.compile(
    r"^(?:that|it) is (?:a |on a |my |the |already )?(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|"
    r"bank holiday|weekend|"
    r"holiday|day off|full|booked|closed|taken|too (?:early|late|soon))$",
    re.IGNORECASE,
)
_MISSPOKEN = re.compile(
    r"^(?:(?:no|oh|sorry|wait|well|actually) )*(?:i|you) said (?P<v>[\w' ]{1,40})$", re.IGNORECASE
)
_PLAIN_NO = re.compile(
    r"^(?:(?:and|but|so|oh|well) )*no\s+(?!wait|sorry|no|actually|hang|hold|i)\S", re.IGNORECASE
)


def extract(text: str, focus: ConversationFocus, *, question: str = "") -> Extraction:
    """What a confirmed user turn says, after the bot's question that was heard before it ("" if none)."""
    return _Turn(focus, question).run(text)


class _Turn(Replies):
    """One pass over one turn."""

    def run(self, text: str) -> Extraction:
        cleaned = without_spelling(expand_contractions(clean_transcript(text[:_MAX_CHARS])))
        cleaned = self._replies(cleaned)
        parts = [
            each
            for clause in clauses(cleaned)
            for wish in split_at_wishes(clause)
            for part in split_at_markers(wish)
            for each in coordinated(part)
        ]
        supposing = hedged = False
        for position, part in enumerate(parts):
            part = _TOLD_US.sub("", part)
            asked = text.rstrip().endswith("?") and position == len(parts) - 1
            part = _SWITCHED_ME.sub("i switched to ", part)
            part = _THE_ONE_WHO.sub(r"\g<s> \g<verb>", part)
            bare = LEAD_IN.sub("", part).strip()
            following = parts[position + 1] if position + 1 < len(parts) else ""
            if not bare or self._retracts(bare, following) or self._turns_over(bare):
                continue
            if (not asked and self._wishes(bare)) or self._corrects(part):
                continue
            if (request := requested(bare)) is not None:
                self._add(request)
                continue
            if asked or _QUESTION.match(bare):
                break
            if hedged:
                hedged = False
                continue
            if _SUPPOSING.match(bare):
                supposing, hedged = True, _SUPPOSING.sub("", bare).strip() == ""
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

    def _retracts(self, bare: str, following: str) -> bool:
        scratched = re.match(r"^scratch that\s+(?P<rest>.+)$", bare, re.IGNORECASE)
        if scratched and retraction_topic(scratched["rest"]) is None:
            return False  # a correction
        topic = retraction_topic(bare)
        if topic is None or (topic and self._is_of_a_wish(topic, bare)):
            return False
        if not topic and _TAKEN_BACK.match(bare) and new_value(following, unmarked=False) is not None:
            # "i take that back, it's monday" corrects.
            return self._substitute(new_value(following, unmarked=False) or "")
        if not any(isinstance(change, Retraction) for change in self._changes):
            self._add(Retraction(about=topic, of=None if topic else self._said_last()))
        return True

    def _is_of_a_wish(self, topic: str, bare: str) -> bool:
        """Whether "leave the coke out of it" is about an order and not about what is remembered."""
        words = content_words(topic)
        wished = (each for each in self._recent() if each.attribute in WISHES)
        return _OF_MEMORY.search(bare) is None and any(words <= content_words(each.value) for each in wished)

    def _turns_over(self, bare: str) -> bool:
        """Handles what is over, denied, or somebody else's now, without the words that said it."""
        denied_one = _NEITHER.match(bare) or _EXCEPT.match(bare)
        marker = correction_marker(bare)
        if marker is not None and marker.rest and not bare.startswith("no more "):
            bare = marker.rest
        if _QUESTION.match(bare) or _SUPPOSING.match(bare):
            return False
        recent = [each for each in self._recent() if each.value]
        if recent and denied_one is not None and self._goes_on_denying(recent[0], bare):
            self._adds_to_denial(recent[0], trimmed(denied_one["v"]), excepted=denied_one.re is _EXCEPT)
            return True
        if (dropped := dropped_plan(bare, recent)) is not None:
            self._add(dropped)
            return True
        said_so = self._changes and isinstance(self._changes[-1], Ending)
        if recent and not said_so and is_over(bare):
            over = self._what_is_over(bare, recent)
            self._add(Ending(subject=over.subject, attributes=frozenset({over.attribute}), value=over.value))
            return True
        denied = denied_value(bare)
        wrong = next((each for each in recent if denied and stems(denied) <= stems(each.value)), None)
        if wrong is not None:
            self._add(
                Ending(subject=wrong.subject, attributes=frozenset({wrong.attribute}), value=wrong.value)
            )
            self._focus = replace(self._focus, correcting=True)
            self._wrong = True
            return True
        if (
            (name := new_bearer(bare))
            and (role := self._role())
            and (said := person_name(name, strict=False))
        ):
            statement = sentence(role, "'s name", third_person("is", said, Polarity.AFFIRMED))
            one = Cardinality.ONE
            self._add(
                Assertion(subject=role, attribute="name", value=said, statement=statement, cardinality=one)
            )
            return True
        changes = turnover(bare, self._focus.referents, recent)
        for change in changes:
            self._add(change)
        return bool(changes) and not is_disposal(bare)  # what was given up may state something, too

    def _what_is_over(self, bare: str, recent: list[Assertion]) -> Assertion:
        """What "she gave it up" is about: what she does, said last; else whatever was said last."""
        pronoun = next(
            (word for word in bare.casefold().split() if word in {"i", "we", "he", "she", "they"}), None
        )
        if pronoun is None:
            planned = (
                each for each in recent[:3] if re.search(r" (?:plans|is \w+ing|wants) ", each.statement)
            )
            is_plan = re.search(r"\b(?:off|happening|happen|through|work out)\b", bare, re.IGNORECASE)
            return next(planned, recent[0]) if is_plan else recent[0]
        referents = self._focus.referents
        whom = {"he": referents.he, "she": referents.she, "they": referents.they}.get(pronoun, USER)
        theirs = [each for each in recent if each.subject == whom]
        does = [each for each in theirs if each.attribute in VERBS and each.polarity is Polarity.AFFIRMED]
        return next(iter([*does, *theirs, *recent]))

    @staticmethod
    def _goes_on_denying(denied: Assertion, bare: str) -> bool:
        """Whether "no dairy either" denies the same verb; "no stairs please" after "no children" is a wish."""
        same = (
            denied.attribute in CONSUMING
            or re.search(r"\beither\b", bare, re.IGNORECASE)
            or _EXCEPT.match(bare)
        )
        return denied.polarity is Polarity.NEGATED and bool(same)

    def _wishes(self, bare: str) -> bool:
        """Handles conditions: "no flights at all", "under nine hundred euros"."""
        unwanted = left_out(bare)
        if unwanted is not None and self._leaves_out(unwanted):
            return True
        found = budget(bare)
        if found is None and (needed := condition(bare, self._recent())):
            found = [needed]
        if found is None:
            found = denied_wish(bare, self._question, self._recent(), self._said)
        for change in found or ():
            self._add(change, stands_alone=True)
        return found is not None

    def _corrects(self, part: str) -> bool:
        """Handles "no sorry it's anna", "make it five", "they moved it to friday"; False when it is none of these."""
        if (misspoken := _MISSPOKEN.match(part)) and self._said_lately(misspoken["v"]):
            self._focus = replace(self._focus, correcting=True)
            return True
        marker = correction_marker(part)
        rest = marker.rest if marker else part
        if self._question and self._misnamed(LEAD_IN.sub("", rest)):
            return True
        strong = marker is not None and marker.strength is not MarkerStrength.WEAK
        if _A_REASON.match(rest):
            self._focus = replace(self._focus, correcting=True)
            return True
        if is_about_the_floor(LEAD_IN.sub("", rest)):
            return True
        if marker and not rest:
            self._focus = replace(self._focus, correcting=self._focus.correcting or strong)
            self._wrong = self._wrong or marker.strength is MarkerStrength.WRONG
            return True
        if (moved := moved_to(rest)) is not None:
            return self._substitute(moved[1], about=moved[0]) or self._moves_unknown(*moved)
        if marker is None and not self._focus.correcting:
            return self._quiet_correction(rest)
        value = new_value(rest, unmarked=False)
        if _QUESTION.match(rest) and value is None:
            return False
        if self._states(LEAD_IN.sub("", rest), corrects=True, openly=False):
            return True
        if value is not None:
            return self._substitute(value)
        recent = self._recent()
        one = bool(recent) and recent[0].cardinality is Cardinality.ONE
        words = len(rest.split())
        if (words <= 3 and one) or (words <= 6 and (strong or self._focus.correcting)):
            plain = _PLAIN_NO.match(part) is not None
            if base_form(rest.split()[0]) is None and self._substitute(rest, bare=plain):
                return True
        return self._states(LEAD_IN.sub("", rest), corrects=True)

    def _answers(self, bare: str) -> None:
        """A short answer to what the bot asked."""
        said = answer(bare, self._question)
        if said is not None:
            self._add(said)
