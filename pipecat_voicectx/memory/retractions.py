"""Requests to forget, in the many ways they are said: "forget that", "leave my brother out of this", "off the record".

The words of such a request, and what it is about. What is then forgotten is decided by `forgotten`.
"""

from __future__ import annotations

import re

from pipecat_voicectx.memory.subjects import trimmed

__all__ = ["ERASE", "FORGETTING", "STORE", "STORING", "retraction_topic"]

STORE = r"(?:remember|save|store|keep|write|note|record|log|jot|register|retain|hold on to|file)"
STORING = (
    r"(?:remembering|saving|storing|keeping|writing|noting|recording|logging|retaining|holding on to|filing)"
)
ERASE = (
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
FORGETTING = rf"(?:{ERASE}|do not {STORE}|never mind what)"
_RETRACTION_START = re.compile(
    r"^(?:(?:can|could|would|will) you (?:please )?|you (?:can|should|may|have to|must) |just |please |"
    r"(?:make|be) sure (?:that )?(?:you )?(?:to )?|"
    r"kindly |so |"
    r"(?:and |but )?(?:i (?:want|would like|need|would prefer|would appreciate it if) you (?:to )?|better |"
    r"let us )|"
    r"on reflection |actually |thinking about it |on second thoughts? )*"
    rf"(?:(?:{ERASE}|scratch|strike|ignore)\b|i take (?:that|it|this) back\b|"
    rf"(?:(?:you )?(?:do not|not to|did not|need not|must not|should not|can not|never|not)) (?:have to |"
    rf"need to )?(?:ever )?{STORE}\b|"
    rf"i (?:do not|would not) (?:want|like) you {STORING}\b|(?:stop|quit|avoid) {STORING}\b|"
    rf"i would (?:rather|prefer)(?: it)?(?: if)? you (?:(?:do not|did not|would not|not) {STORE}|"
    rf"forgot|deleted|erased|dropped|lost)\b|i (?:do not|would not) (?:want|like) (?:you to {STORE}\b|"
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
    r"business) (?:about|with|on|of)\b|(?:that|this|it|the one|what i said|what i told you)(?: down)? (?:about|"
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
    rf"want you to )*(?:{ERASE}|strike|scratch|drop|lose|take|cut|leave|do not {STORE}|get rid of) (?:that|it|this)"
    r"(?: (?:out|off|away|down))?(?: (?:from|of|in|please|for|would|will|if|off|okay)\b.*)?$",
    re.IGNORECASE,
)
# Requests to a machine rather than to its memory.
_NOT_MEMORY = re.compile(r"\b(?:instructions?|prompts?|rules)\b", re.IGNORECASE)


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
    topic = _REGRET.sub(r"\g<what>", topic.strip())
    while (shorter := _NOT_A_TOPIC.sub("", topic)) != topic:
        topic = shorter
    while (shorter := _TOPIC_END.sub("", topic)) != topic:
        topic = shorter
    return "" if topic.casefold().strip() in _LAST else trimmed(topic)
