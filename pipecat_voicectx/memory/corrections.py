"""How speakers put right and take back: "no sorry, anna", "make it five", "they moved it to friday", "forget that".

The patterns, and how a new value is put into an old one. What a correction refers to is the business of
`extraction`, which knows what was said before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

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
    "retraction_topic",
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
_STORE = r"(?:remember|save|store|keep|write|note|record|log|jot|register|retain|hold on to|file)"
_STORING = (
    r"(?:remembering|saving|storing|keeping|writing|noting|recording|logging|retaining|holding on to|filing)"
)
_ERASE = (
    r"(?:forget|delete|erase|remove|disregard|wipe|scrub|purge|discard|expunge|unlearn|un ?remember|unsay|"
    r"unhear|overlook|"
    r"destroy|bin|redact|take back)"
)
# Verbs of daily life that mean the memory only with what was said, or with everything, behind them.
_LOSE = (
    r"(?:drop|lose|clear|get rid of|throw (?:out|away)|take|cut|cross|leave)(?= (?:out |off |away )?"
    r"(?:that|this|it|all|everything|anything|what|whatever|my|the|any)\b.*?)"
)
_MEMORY = (
    r"\b(?:record|records|file|files|notes|memory|database|system|list|"
    r"about (?:me|my|our|him|her|them|\w+))\b"
)
_FORGETTING = rf"(?:{_ERASE}|do not {_STORE}|never mind what)"
_SPLIT = re.compile(
    r"(?<=\w)\s+(?=let us (?:do|say|make it|move|push|go for|go with|try|use|meet|stick with)\s)|"
    r"\s+(?=(?:oh wait|wait no|no wait|no sorry|sorry|i mean|i meant|make that|scratch that|actually no|"
    r"no actually|what am i (?:saying|on about|talking about)|"
    rf"or rather|no no)\s)|(?<!\byou)\s+(?=(?:please|can you|could you) {_FORGETTING}\b)|"
    rf"(?<=wrong)\s+(?=it is\b)|"
    rf"(?<!\byou)(?<!please)(?<!just)\s+(?={_ERASE} (?:him|her|it|that|them|this)\b)|"
    rf"(?<!\byou)\s+(?=do not {_STORE} (?:it|that|this|any)\b)|"
    r"(?<!\byou)\s+(?=please (?:take|get rid|leave|keep|drop|lose|clear|do not|just)\b)|"
    rf"(?<!\byou)\s+(?=(?:get rid of|strike|scratch) (?:it|that|this)\b(?! the))|"
    rf"\s+(?=i (?:do not|would rather you did not|would prefer you did not) (?:want you )?(?:to "
    rf")?(?:{_STORE}|{_STORING})\b)",
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
    r"(?P<v>[\w-]+(?: [\w-]+)??)(?: please)?$",
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

_RETRACTION_START = re.compile(
    r"^(?:(?:can|could|would|will) you (?:please )?|you (?:can|should|may|have to|must) |just |please |"
    r"(?:make|be) sure (?:that )?(?:you )?(?:to )?|"
    r"kindly |so |"
    r"(?:and |but )?(?:i (?:want|would like|need|would prefer|would appreciate it if) you (?:to )?|better |"
    r"let us )|"
    r"on reflection |actually |thinking about it |on second thoughts? )*"
    rf"(?:(?:{_ERASE}|scratch|strike|ignore)\b|i take (?:that|it|this) back\b|"
    rf"(?:(?:you )?(?:do not|not to|did not|need not|must not|should not|can not|never|not)) (?:have to |"
    rf"need to )?(?:ever )?{_STORE}\b|"
    rf"i (?:do not|would not) (?:want|like) you {_STORING}\b|(?:stop|quit|avoid) {_STORING}\b|"
    rf"i would (?:rather|prefer)(?: it)?(?: if)? you (?:(?:do not|did not|would not|not) {_STORE}|"
    rf"forgot|deleted|erased|dropped|lost)\b|i (?:do not|would not) (?:want|like) (?:you to {_STORE}\b|"
    rf"(?=(?:that|this|it) "
    rf"(?:saved|stored|kept|remembered|on (?:file|record)|recorded|noted|written)))|"
    rf"(?:would|do) you mind (?:not )?(?:keeping|saving|storing|noting|forgetting|deleting|erasing|dropping)\b|"
    rf"i should not have (?:said|mentioned|told you)\b|never mind (?:what|about|that)\b|"
    rf"{_LOSE}(?=.*(?:{_MEMORY}|\b(?:address|number|codes?|details|email|card|pin|password|birthday|date of birth|"
    rf"data)\b)))",
    re.IGNORECASE,
)
_NOT_A_TOPIC = re.compile(
    r"^(?:(?:out|off|away|saved|stored|kept|remembered|on file|on record|recorded|noted|written)\b|down|"
    r"back|to \w+|all|previous|any|everything|anything|"
    r"(?:what|that|anything|everything) (?:i|you)(?: have)?(?: just)? (?:said|told you|know)|"
    r"(?:the |all the |that |this )?(?:stuff|things?|bits?|parts?|story|info|information|details|"
    r"business) (?:about|with|on|of)\b|(?:that|this|it|the one|what i said|what i told you) (?:about|"
    r"regarding|with|on)\b|"
    r"track of|about|of|on|that (?:i|my)|my|our|the|i|note|a note|record|stored?)\b\s*",
    re.IGNORECASE,
)
_TOPIC_END = re.compile(
    r"\s*\b(?:(?:from|off|out of) (?:your|the|my) \w+(?: \w+)?|(?:in|on) (?:your \w+|file|record)|would you|"
    r"from (?:whatever|anything|everything|what|all) (?:that )?you .*|you have (?:on|about) .*|"
    r"saved|stored|anywhere|down|thanks?|please|again|for me|if you can|will you|i said that|okay|"
    r"things?|parts?|bits?|stuff|business|story|piece|on there|in there|i (?:just )?(?:said|told you|"
    r"mentioned|gave you)|"
    r"comments?|remarks?|earlier|before|just now|a (?:minute|second|moment) ago)$",
    re.IGNORECASE,
)
_LAST = frozenset(
    {
        "",
        "that",
        "this",
        "it",
        "him",
        "her",
        "them",
        "those",
        "these",
        "that part",
        "the last bit",
        "the last part",
        "the last thing",
        "what",
    }
)
# "that number", "this last bit": what was said last, by whatever name.
_THAT_THING = re.compile(
    r"^(?:that|this|those|these) (?:last |one |whole )?(?:\w+ )?(?:number|numbers|thing|things|part|bit|"
    r"piece|name|"
    r"code|detail|details|information|info|sentence|stuff|fact|story|one|remark|comment|answer)"
    r"(?: please| for me| again)?$",
    re.IGNORECASE,
)
_UNSAID = re.compile(
    r"^(?:(?:but |and )?(?:that|this|it|all (?:of )?that|all (?:of )?this) (?:is|was|stays?|has to stay) "
    r"(?:strictly |kind of |really |very |"
    r"a )*(?:private|confidential|off the record|personal|secret|sensitive|nobody['’]?s business|"
    r"nobody(?:['’]s)? else['’]?s business|"
    r"nobody is business|none of your business|"
    r"(?:just )?between (?:us|you and me|ourselves|the two of us)|not for the record)|off the record|"
    r"never (?:ever )?(?:mention|repeat|bring up) (?:that|this|it)(?: again| to anyone| to anybody)*(?: and .*)?|"
    r"(?:strike|scratch|forget|ignore) (?:my|the|that) (?:last )?(?:comment|remark|answer)|"
    r"keep (?:that|this|it) (?:to yourself|between us|between you and me|private|off the record|quiet)|"
    r"i (?:never|did not) (?:say|said) that|"
    r"(?:just )?(?:forget|pretend) (?:that )?i (?:ever |never |did not )?(?:say|said|mention|mentioned|"
    r"tell you|told you|"
    r"bring|brought|raise|raised)\b.*|"
    r"(?:that|this|it) (?:is|was) not (?:meant )?(?:for|to go (?:in|on|into)) (?:you|your|the|"
    r"any) ?(?:records?|files?|notes|"
    r"memory|books)?|"
    r"(?:that|this|it) (?:should|must|need|needs to|may|can) not (?:be|go|get|stay) (?:saved|stored|kept|"
    r"recorded|noted|"
    r"remembered|written down|(?:in|into|on|down) .*)|"
    r"you (?:did not|never) hear (?:that|this|it)(?: from me)?|"
    r"i (?:would like|want|need) (?:that|this|it) (?:to be )?(?:deleted|forgotten|removed|erased|wiped|gone))"
    r"(?: (?:please|though|okay|thanks|thank you|by the way|you know))*$",
    re.IGNORECASE,
)
# "erase that, i wasn't supposed to say it" is about that.
_REGRET = re.compile(
    r"^(?P<what>(?:that|this|it)\b.*?)\s+(?:because .*|(?:i|we) (?:was|were|am|are|should|did|do) not "
    r"(?:supposed|allowed|meant|have|mean|"
    r"want|even)\b.*|(?:i|we) (?:regret|should never|never meant)\b.*)$",
    re.IGNORECASE,
)
_REQUEST_LEAD = re.compile(
    r"^(?:(?:whoops|oops|oh|so|and|but|then|hey|look|sorry|actually|you know what|please|just|do me a "
    r"favou?r and|would you do "
    r"me a favou?r and|if you (?:could|can|would|do not mind)|i would appreciate it if you|that is "
    r"why)\s+)+(?!i (?:want|need|would) )",
    re.IGNORECASE,
)
_BOOKS = (
    r"(?:(?:your|the|my|any|this|that|our) )?(?:records?|files?|notes|memory|database|system|systems|"
    r"list|books|log|logs|profile|account|data)"
)
# Kept out of the records, in whatever order it is said.
_KEPT_OUT = re.compile(
    r"^(?:(?:can|could|would|will) (?:you|we) (?:please |just )?|i (?:want|need|would like|would prefer) "
    r"(?:you to |it if you )?|let us |"
    r"please |just |you (?:can|should|must) )*(?:"
    rf"(?:take|get|leave|keep|cut|drop|pull|cross|clear|throw|put|have|strike|lose|remove|erase|delete|"
    rf"wipe) (?P<a>[\w' -]+?) (?:out of|off of|off|"
    rf"from|away from|out from) (?:{_BOOKS}|this|it|here|there)\b.*|"
    r"(?:leave|keep|cut|cross) (?P<b>(?:it|that|this)|(?:the|that|my|this) [\w' -]+?) (?:out|off)(?: "
    r"please| okay| then| thanks)*|"
    rf"i (?:would )?(?:rather|prefer|would rather|do not want|would not want|would prefer) (?P<c>[\w' "
    rf"-]+?) (?:did not|does not|not|to not|to|"
    rf"never)? ?(?:go|going|be|being|stay|get|getting|end up|show up|appear)? ?(?:in|into|on|onto) "
    rf"(?:{_BOOKS}|record|file)\b.*)$",
    re.IGNORECASE,
)
# "the salary thing, strike that".
_FRONTED = re.compile(
    rf"^(?:and |so |oh )*(?P<topic>(?:the|that|my|our|this) (?:[\w'-]+ ){{1,4}}?)(?:please |can you |could "
    rf"you |just |would you |you can |i "
    rf"want you to )*(?:{_ERASE}|strike|scratch|drop|lose|take|cut|leave|do not {_STORE}|get rid of) (?:that|it|this)"
    r"(?: (?:out|off|away|down))?(?: (?:from|of|in|please|for|would|will|if|off|okay)\b.*)?$",
    re.IGNORECASE,
)
# Requests to a machine rather than to its memory.
_NOT_MEMORY = re.compile(r"\b(?:instructions?|prompts?|rules)\b", re.IGNORECASE)


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
    return match["v"] if match else None


def without(value: str, unwanted: str) -> str:
    """A wish without one of its parts: "a salad with egg and tuna" without "tuna"."""
    part = re.escape(unwanted)
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


def retraction_topic(clause: str) -> str | None:
    """What a request to forget is about, "" for what was said last; None when the clause is no such request."""
    clause = _REQUEST_LEAD.sub("", clause)
    if _UNSAID.match(clause):
        return ""
    if kept_out := _KEPT_OUT.match(clause):
        topic = kept_out["a"] or kept_out["b"] or kept_out["c"] or ""
        return "" if _THAT_THING.match(topic) else _bare_topic(topic)
    if fronted := _FRONTED.match(clause):
        return _bare_topic(fronted["topic"])
    start = _RETRACTION_START.match(clause)
    if start is None or _NOT_MEMORY.search(clause):
        return None
    if re.search(r"\bshould not have said\b|\btake (?:that|it|this) back\b", clause, re.IGNORECASE):
        return ""
    topic = clause[start.end() :].strip(" ,.")
    if topic.casefold() in {"", "it", "about it"} and start[0].casefold().endswith("forget"):
        return None  # "forget it" drops the subject of the talk, not a memory
    if _THAT_THING.match(topic):
        return ""
    return _bare_topic(topic)


def _bare_topic(topic: str) -> str:
    topic = _REGRET.sub(r"\g<what>", topic)
    while (shorter := _NOT_A_TOPIC.sub("", topic)) != topic:
        topic = shorter
    while (shorter := _TOPIC_END.sub("", topic)) != topic:
        topic = shorter
    return "" if topic.casefold().strip() in _LAST else trimmed(topic)


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
