"""How speakers put right and take back: "no sorry, anna", "make it five", "they moved it to friday", "forget that".

The patterns, and how a new value is put into an old one. What a correction refers to is the business of
`extraction`, which knows what was said before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from pipecat_voicectx.memory.retractions import ERASE, FORGETTING, STORE, STORING
from pipecat_voicectx.memory.spoken_english import kind_span, value_class
from pipecat_voicectx.memory.subjects import trimmed

__all__ = [
    "Marker",
    "MarkerStrength",
    "correction_marker",
    "is_about_the_floor",
    "left_out",
    "moved_to",
    "new_value",
    "spelled_name",
    "spliced",
    "split_at_markers",
    "trailing_correction",
    "x_not_y",
]

_WRONG = (
    r"that is (?:wrong|not right|not true|incorrect|not correct|a mistake|old|last year|outdated)|"
    r"that is (?:my|the) old one|you got (?:that|it) wrong|that was (?:wrong|a mistake|last year)|"
    r"[\w ]{1,30} (?:was|is) wrong|my mistake|my bad|correction|scratch that|let me correct that|"
    r"that is not what i said"
)
_STRONG = (
    r"no|nope|nah|sorry|wait|hang on|hold on|oops|i mean|i meant to say|i meant|i should say|rather|"
    r"or rather|apologies|not quite|i changed my mind|tell a lie|i tell a lie|come to think of it|"
    r"on second thoughts?|what am i (?:saying|on about|talking about|thinking)|i take that back|excuse me|shoot|"
    r"strike that|i misspoke|make that|let me start over|no no"
)
_MARKER = rf"(?:{_WRONG}|{_STRONG}|actually|oh|ah|huh|well|turns out|it turns out)"
_CORRECTION = re.compile(
    rf"^(?:(?:and|but|uh|um|so)\s+)?(?P<m>(?:{_MARKER}\b[\s,]*)+)(?P<rest>.*)$", re.IGNORECASE
)
_IS_WRONG = re.compile(rf"\b(?:{_WRONG})\b", re.IGNORECASE)
_IS_STRONG = re.compile(rf"\b(?:{_STRONG})\b", re.IGNORECASE)
_SPLIT = re.compile(
    r"(?<=\w)\s+(?=let us (?:do|say|make it|move|push|go for|go with|try|use|meet|stick with)\s)|"
    r"\s+(?=(?:oh wait|wait no|no wait|no sorry|sorry|i mean|i meant|make that|scratch that|actually no|"
    r"no actually|what am i (?:saying|on about|talking about)|"
    rf"or rather|no no)\s)|(?<!\byou)\s+(?=(?:please|can you|could you) {FORGETTING}\b)|"
    rf"(?<=wrong)\s+(?=it is\b)|"
    rf"(?<!\byou)(?<!please)(?<!just)(?<!\bnot)(?<!\bnever)(?<!\bto)\s+(?={ERASE} (?:him|her|it|that|them|this)\b)|"
    rf"(?<!\byou)\s+(?=do not {STORE} (?:it|that|this|any)\b)|"
    r"(?<!\byou)\s+(?=please (?:take|get rid|leave|keep|drop|lose|clear|do not|just)\b)|"
    rf"(?<!\byou)\s+(?=(?:get rid of|strike|scratch) (?:it|that|this)\b(?! the))|"
    rf"\s+(?=i (?:do not|would rather you did not|would prefer you did not) (?:want you )?(?:to "
    rf")?(?:{STORE}|{STORING})\b)",
    re.IGNORECASE,
)
_NEW_VALUE = re.compile(
    r"^(?:(?:it|that|this|he|she|they|i|we) (?:is|am|are|was|will be|should be)(?: actually| now| really)?|"
    r"(?:can|could) (?:we|you) make (?:it|that)|make (?:it|that)|let us (?:say|make it|do|go (?:up |"
    r"down )?(?:to|for|with))|"
    r"i (?:will|would rather|would prefer to) (?:have|take|go (?:for|with))(?: it in)?|call it|use|take|say|"
    r"i (?:mean|meant))\s+(?P<v>.+)$",
    re.IGNORECASE,
)
_MAKE_IT = re.compile(
    r"^(?:(?:can|could) (?:we|you) )?make (?:it|that)\b|^let us (?:say|do|try|make it|go (?:up to|down to|with|for))\b|"
    r"^use\b|"
    r"^i will (?:have|take) it in\b",
    re.IGNORECASE,
)
_CHANGED = (
    r"(?:moved|swapped|switched|bumped|rebooked|rearranged|shunted|brought|changed|pushed|rescheduled|"
    r"shifted|put|postponed|delayed|raised|increased|reduced|lowered|cut|extended|"
    r"brought forward|set|reset)"
)
_MOVED = re.compile(
    r"^(?:(?:(?:they|we|i|he|she|the \w+|my \w+)(?: have| has| had)? (?:just |now )?" + _CHANGED + r"|"
    r"let us (?:move|change|push|reschedule|shift|postpone)) (?P<a>it|that|the .+?|my .+?|our .+?)(?: back)? to"
    r"|(?:we|i)(?: have)? (?:just )?(?:traded|swapped|exchanged|replaced) "
    r"(?P<c>it|the .+?|my .+?|our .+?) (?:in )?(?:for|with|by)"
    rf"|(?P<b>it|the .+?|my .+?|our .+?) (?:has been|has now been|was|got|is|has|had to be|"
    rf"had been) {_CHANGED}(?: back)? to)\s+(?P<v>.+)$",
    re.IGNORECASE,
)
_THE_OTHER = re.compile(
    r"^(?:it is )?not (?:the|my|a) (?P<y>\w+) one (?:but |it is )?(?:the|my|a) (?P<x>\w+)(?: one)?$",
    re.IGNORECASE,
)
_X_NOT_Y = re.compile(r"^(?P<x>.+?),?\s+(?:and )?not\s+(?P<y>[\w' ]+)$", re.IGNORECASE)
_NOT_Y = re.compile(r"^(?:it is )?not\s+(?P<y>[\w']+(?: [\w']+)?)\s+(?:but |it is )(?P<x>.+)$", re.IGNORECASE)
_SPELLED = re.compile(r"^(?:it is )?(?:spelled|spelt|written)\b.*?\b(?P<v>[\w]{3,})$", re.IGNORECASE)
_LEFT_OUT = re.compile(
    r"^(?:and |but )?(?:without|no|hold|skip|minus|leave (?:off|out)) (?:the |any |my )?"
    r"(?P<v>[\w-]+(?: [\w-]+)??)(?: please)?$|"
    r"^(?:and |but )?(?:leave|take|keep) (?:the |any |my )?(?P<w>[\w-]+(?: [\w-]+)??) (?:out|off)"
    r"(?: of it)?(?: please)?$",
    re.IGNORECASE,
)
_BETTER = re.compile(
    r"^(?P<v>(?:an? |the )?(?:[\w'-]+ ){0,3}?[\w'-]+) (?:is|would be|might be|will be|sounds|suits me|works) "
    r"(?:better|nicer|easier|best|fine instead|preferable|more (?:suitable|practical|"
    r"convenient))(?: (?:for|to) \w+)?$",
    re.IGNORECASE,
)
_TRAILING = re.compile(
    r"^(?P<v>(?:[\w'-]+ ){0,4}[\w'-]+),? (?:actually|instead|sorry|i mean)$", re.IGNORECASE
)


# What is said to give the floor back or to ask for a repetition; "sorry, go on" corrects nothing.
_ABOUT_THE_FLOOR = re.compile(
    r"^(?:please |you )*(?:go (?:on|ahead)|carry on|continue|keep going|finish|you first|after you|"
    r"say (?:that|it) again|(?:what|come) (?:was that|did you say|again)|repeat .*|"
    r"(?:could|can|would) you (?:say|repeat) .*|i (?:did not|could not|cannot) (?:hear|catch|understand|"
    r"get) .*|"
    r"i interrupted.*|i cut you off|to interrupt.*|about that|not now|"
    r"(?:(?:just )?a|one) (?:moment|second|minute))(?: please)?$",
    re.IGNORECASE,
)


class MarkerStrength(Enum):
    """How surely a marker announces a correction."""

    WEAK = "weak"
    """ "actually", "well", "oh": often only chatter."""
    STRONG = "strong"
    """ "no", "sorry", "i mean"."""
    WRONG = "wrong"
    """It says that something was wrong; the right value may come a turn later."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A correction marker at the start of a clause, and what follows it."""

    strength: MarkerStrength
    rest: str


def is_about_the_floor(clause: str) -> bool:
    """Whether a clause only gives the floor back or asks for a repetition."""
    return _ABOUT_THE_FLOOR.match(clause) is not None


def split_at_markers(clause: str) -> list[str]:
    """A clause cut where a correction or a request to forget begins in the middle of it."""
    return [part for part in _SPLIT.split(clause) if part]


def correction_marker(clause: str) -> Marker | None:
    """The marker at the start of a clause; None when there is none."""
    match = _CORRECTION.match(clause)
    if match is None:
        return None
    marker = match["m"]
    if _IS_WRONG.search(marker):
        strength = MarkerStrength.WRONG
    else:
        strength = MarkerStrength.STRONG if _IS_STRONG.search(marker) else MarkerStrength.WEAK
    return Marker(strength, match["rest"].strip(" ,"))


def new_value(clause: str, *, unmarked: bool) -> str | None:
    """The value in "it's the fifth", "make it five"; `unmarked` accepts only those that need no marker before them."""
    if better := _BETTER.match(clause):
        return better["v"]
    if unmarked and not _MAKE_IT.match(clause):
        return None
    match = _NEW_VALUE.match(clause)
    return match["v"] if match else None


def moved_to(clause: str) -> tuple[str, str] | None:
    """What was moved ("it", "the wedding") and to what: "they changed it to wednesday"."""
    match = _MOVED.match(clause)
    return (match["a"] or match["b"] or match["c"], match["v"]) if match else None


def left_out(clause: str) -> str | None:
    """What is not wanted after all: "no onions please", "leave out the tuna"."""
    match = _LEFT_OUT.match(clause)
    return (match["v"] or match["w"]) if match else None


def without(value: str, unwanted: str) -> str:
    """A wish without one of its parts: "a salad with egg and tuna" without "tuna"."""
    part = rf"(?:an? |the |some )?{re.escape(unwanted)}"
    for pattern in (rf"\s+with {part} and\b", rf"\s+(?:with|and) {part}\b", rf",? {part} and\b"):
        cut = re.sub(
            pattern, " with" if "with" in pattern and pattern.endswith("and\\b") else "", value, flags=re.I
        )
        if cut != value:
            return " ".join(cut.split())
    return value


def spelled_name(clause: str) -> str | None:
    """The name in "it's spelled with a y smyth"."""
    match = _SPELLED.match(clause)
    return match["v"] if match else None


def trailing_correction(clause: str) -> str | None:
    """The value in "four people actually"."""
    match = _TRAILING.match(clause)
    return match["v"] if match else None


def x_not_y(said: str) -> tuple[str, str] | None:
    """The right and the wrong value of "june not may" and of "not may but june"."""
    match = _THE_OTHER.match(said) or _X_NOT_Y.match(said) or _NOT_Y.match(said)
    if match is None:
        return None
    right = re.sub(r"^(?:it is|it ends in|ends in)\s+", "", trimmed(match["x"]), flags=re.IGNORECASE)
    return (right, trimmed(match["y"])) if right else None


_LAST_NOUN = re.compile(
    r"^(?P<before>\w.* (?:in|at|on|outside|inside|by|behind|near|from|with|for|of|to|under|next to|across from) )"
    r"(?P<noun>(?:the|a|an|my|our) [\w' -]+|[\w'-]+)$",
    re.IGNORECASE,
)
_NOUN_PHRASE = re.compile(
    r"^(?:(?P<p>in|at|on|outside|inside|by|behind|near|from|with|for|under|next to|across from) "
    r")?(?P<noun>(?:the|a|an|my|our) "
    r"(?:[\w'-]+ ?){1,3})$",
    re.IGNORECASE,
)


def _last_noun_replaced(old: str, new: str) -> str | None:
    """ "pick me up at the store" with "the post office" for "the store"; None when either has another form."""
    there, instead = _LAST_NOUN.match(old), _NOUN_PHRASE.match(new)
    if there is None or instead is None:
        return None
    before = there["before"]
    if instead["p"]:
        before = re.sub(r"\S+ $", f"{instead['p']} ", before)
    return f"{before}{instead['noun']}"


def spliced(old: str, new: str, wrong: str) -> str:
    """`old` with the part that `new` is about replaced: the wrong words, its date, its number, or all of it."""
    if wrong:
        position = old.casefold().rfind(wrong.casefold())
        if position >= 0:
            return f"{old[:position]}{new}{old[position + len(wrong) :]}"
    new_kind = value_class(new)
    old_span = kind_span(old, new_kind[0]) if new_kind is not None else None
    if new_kind is None or old_span is None:
        return _last_noun_replaced(old, new) or new
    (start, end), (new_start, new_end) = old_span, new_kind[1]
    return f"{old[:start]}{new[new_start:new_end]}{old[end:]}".strip()
