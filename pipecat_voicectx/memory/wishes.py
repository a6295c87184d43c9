"""Wishes without a sentence of their own: "no flights at all", "nothing near the lift", "anything but fish".

Callers list conditions. Each is a wish beside the others, never a correction of the last one, and most deny
something: the polarity is the point of them. What is denied is kept without the denying words; those are in the
polarity and in the sentence.

Known limits: a bare "no" before a singular ("no garlic") is a wish only with a word that makes it one ("please", "at
all"), because the same words correct ("no, Anna"). Where a wish follows "have" or "eat", it denies that verb.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipecat_voicectx.memory.facts import USER, Assertion, Cardinality, Change, Ending, Polarity
from pipecat_voicectx.memory.frames import CONSUMING, HABIT_VERBS, OWNING, sentence, theirs, third_person
from pipecat_voicectx.memory.spoken_english import GIVEN_NAMES, PERSON_RELATIONS, PETS
from pipecat_voicectx.memory.subjects import trimmed
from pipecat_voicectx.memory.turn_state import WISHES
from pipecat_voicectx.memory.turnovers import stems

__all__ = ["budget", "condition", "denied_wish", "requested", "split_at_wishes", "unwanted"]

_SOFTENER = (
    r"(?:absolutely|definitely|certainly|preferably|ideally|please|really|just|only|also|and|but|or|so|oh|well|"
    r"obviously|if possible|strictly|sorry|wait|i mean|hang on)"
)
_EMPHASIS = (
    r"(?:\s+(?:at all|whatsoever|please|ever|either|this time|for (?:me|us|him|her|them|the (?:\w+ )?\w+|"
    r"my \w+|our \w+)|yet|thanks|"
    r"thank you|though|if possible|if you can|needed|required|necessary|wanted|allowed|after all))+"
)
_MAY = rf"^(?:{_SOFTENER}\s+)*"
_NO = re.compile(rf"{_MAY}no\s+(?P<v>[\w'-]+(?:\s+[\w'-]+){{0,4}}?)(?P<tail>{_EMPHASIS})?$", re.IGNORECASE)
# After "no", these make it an answer, a courtesy or a correction.
_NOT_UNWANTED_TEXT = """worry worries problem problems thanks thank idea ideas clue need rush hurry matter wonder way
chance doubt offence offense biggie pressure longer more one it that this i we you he she they there not sorry wait
actually question
questions change changes comment harm luck news point sense trouble kidding joke bother sweat stress such
where nothing nobody my our his her the a an complaints concerns objections objection issue issues fuss difference"""
_NOT_UNWANTED = frozenset(_NOT_UNWANTED_TEXT.split())
_OWNED_TEXT = """children siblings brothers sisters allergies grandchildren pets insurance car licence license passport
driving savings debts income job"""
_OWNED = frozenset(_OWNED_TEXT.split()) | {f"{each}s" for each in PERSON_RELATIONS | PETS}
_PLACED = re.compile(
    r"(?<=\w)\s(?:before|after|on|in|at|with|near|over|under|above|below|from|to|by|during|between|longer|"
    r"later|earlier)\s.*$"
)
_WANT_NOT = "does not want {}"
_FOR_WHOM = re.compile(r"\bfor (?:my|our|the|his|her) (?P<who>[\w-]+)\b", re.IGNORECASE)
_VERBS = frozenset(
    [
        "is",
        "are",
        "was",
        "were",
        "has",
        "have",
        "had",
        "do",
        "does",
        "did",
        "can",
        "will",
        "would",
        "am",
        "said",
        "says",
        "goes",
        "lives",
        "works",
    ]
)

_DENYING_TEXT = (
    # what is named, and how the sentence says it
    (r"without\s+(?:any )?(?P<v>.+)", "does not want"),
    (r"nothing\s+(?:that is |which is )?(?P<v>(?:too|with|near|next to|close to|over|above|under|below|before|after|"
     r"later than|earlier than|more \w+ than|in|on|from|that has|containing|involving)\s.+|"
     r"[\w-]{2,}(?:y|ive|ous|al|ic|ful|ier|ish)(?: or [\w-]+)?)", "does not want anything"),
    (r"nowhere\s+(?P<v>.+)", "does not want anywhere"),
    (r"(?:not|never)\s+(?P<v>(?:too|by|on|in|near|next to|close to|with|before|after|at|over|under|above|"
     r"below|during|"
     r"between|behind|beside|opposite|facing|more than|later than|earlier than)\s+.+)", "does not want it"),
    (r"(?:anything|everything|anyone|anybody|anywhere|any \w+|all)\s+(?:but|except|except for|other than|apart from|"
     r"save for|bar)\s+(?:for )?(?P<v>.+)", "does not want"),
    (r"(?:(?:can|could) (?:you|we) |i (?:would like|want|need|try|am trying|aim|prefer)(?: you)? to |i |we |"
     r"we (?:try|want|need|would like) to |you (?:can|could|should) )?(?:avoid|skip|omit|steer clear of|"
     r"stay away from|"
     r"stay clear of|keep away from|stay off|keep off|do without|leave out|(?:(?:am|are) )?(?:avoiding|staying off|"
     r"staying away from|keeping off|steering clear of))\s+(?:any |all )?(?P<v>.+)", "does not want"),
    (r"keep\s+(?:me|us|it)\s+away from\s+(?:the |any )?(?P<v>.+)", "does not want"),
    (r"(?:leave|keep)\s+(?:the |any )?(?P<v>[\w'-]+(?: [\w'-]+)?)\s+(?:out|off)(?: of it)?", "does not want"),
    (r"(?:hold|ditch|minus)\s+the\s+(?P<v>.+)", "does not want"),
    (r"(?:i|we) (?:would )?(?:rather|prefer|sooner|prefer it if)"
     r" (?:not to|not|(?:i|we) (?:do|did) not|(?:do|did) not|never)\s+(?:have to )?(?P<v>.+)", "does not want to"),
    (r"(?:i|we) (?:would )?(?:rather|prefer|sooner|prefer it if) you (?:did not|do not|would not|never)\s+(?P<v>.+)",
     "does not want the assistant to"),
    (r"(?:i|we) (?:(?:will|would|can|could) )?(?:happily )?(?:eat|drink|take|have|watch|do|like|read|listen to)\s+"
     r"(?:anything|everything|all)\s+(?:but|except|except for|other than|apart from|"
     r"bar)\s+(?P<v>.+)", "does not want"),
    (r"(?:i|we) (?:would )?(?:prefer|like|want) not to\s+(?P<v>.+)", "does not want to"),
    (r"(?:i|we) (?:really )?(?:refuse|hate having|have no wish|have no intention|will not agree) (?:to|"
     r"of)\s+(?P<v>.+)",
     "does not want to"),
    (r"no way (?:i am|we are|am i|are we)\s+(?P<v>.+)", "does not want"),
    (r"(?:please )?(?:do not|never)\s+(?P<v>(?:book|put|give|get|send|seat|offer|suggest|show|add|include|"
     r"pick|choose|"
     r"make|serve|schedule|place|sit|connect|transfer|charge|deliver|leave|sell|ship|order|plan)\s+.+)",
     "does not want the assistant to"),
    (r"(?P<v>[\w'-]+(?: [\w'-]+){0,5}?)\s+(?:is|are) (?:completely |totally |strictly |just |really |not |"
     r"definitely )*"
     r"(?:out of the question|a no go|no go|no goes|off limits|off the table|an option|options|a no no|ruled out|"
     r"out for (?:me|us)|out)", "does not want"),
    (r"(?P<v>[\w'-]+(?: [\w'-]+){0,4}?)\s+(?:(?:does|do|will|would) not work for (?:me|us)|(?:is|are) no good for "
     r"(?:me|us)|(?:is|are) not for (?:me|us))", "does not want"),
)  # fmt: skip
_DENYING = tuple((re.compile(rf"{_MAY}{form}$", re.IGNORECASE), shown) for form, shown in _DENYING_TEXT)
# These answer questions of any kind; they are conditions only where wishes are talked of.
_WANTS_CONTEXT = re.compile(rf"{_MAY}(?:without|not|never|nowhere)\s", re.IGNORECASE)
_OPEN = WISHES | {"budget", "plan", "party size", "have to", "be looking", "prefer"}
_ASKED_WISH = re.compile(
    r"\b(?:want|like|wish|prefer|need|request|looking for|requirements?|matter|else)\b", re.I
)
# "is an option", "are options" deny only behind "not".
_OPTION = re.compile(r"\b(?:is|are) (?!.*\bnot\b).*\b(?:options?)$", re.IGNORECASE)
_NOT_A_WISH = re.compile(
    r"^(?:it|that|this|you|he|she|they|i|we|there|everything|him|her|them|me|us|worry|do|much|else|really|special|"
    r"wrong|new|any|only|really|too (?:bad|sure|well|happy|good|great|shabby|fussed|bothered|picky|keen|"
    r"long|much|many)|a doubt|"
    r"serious|important|happened|changed|work|so|as|about that|to (?:do|add|say|report|worry)|only|doubt|"
    r"fail|question|delay|further ado|the moment|that much|sure|yet|my knowledge|memory|comes to mind|in particular|"
    r"at the moment|(?:in|by) the (?:least|slightest)|on (?:my|your) own)\b",
    re.IGNORECASE,
)
_TAIL = re.compile(
    rf"(?:{_EMPHASIS}|\s+(?:is|are|works|goes|will do|will|would be|will be)(?: fine| okay| ok| good| great|"
    rf" do)?|\s+(?:to be honest|in it|you know|or anything|or whatever|again|i am afraid|on it))+$",
    re.IGNORECASE,
)
_WELCOME_AGAIN = re.compile(
    r"^(?:(?:i|we) (?:do|would) not mind (?:an? |the )?(?P<a>[\w -]+?)|(?:an? |the |one )?(?P<b>[\w -]+?) "
    r"(?:is|are|would be|will be) (?:actually )?(?:fine|okay|ok|all right|alright|acceptable|possible))"
    r"(?: after all| too| now| then| as well| with (?:me|us)| for (?:me|us))*$",
    re.IGNORECASE,
)
_MONEY = r"(?:euros?|pounds?|dollars?|bucks|quid|grand|francs|crowns|kroner|kronor|zloty|yen|€|£|\$)"
_AMOUNT = (
    rf"(?P<v>(?:about |around |roughly )?[\w€£$.,' -]*?(?:{_MONEY}|hundred|thousand|\d{{2,}})(?:[\w ]*))"
)
_BUDGET = re.compile(
    rf"{_MAY}(?:(?:it|that|this|everything|the (?:whole|trip|price|total|room|whole \w+))\s+(?:all )?"
    r"(?:(?:has|have|needs|ought) to|must|should|can|would have to)\s+(?:not\s+)?(?:all )?"
    r"(?:stay|be|come in|cost|come to|keep|go|remain|come out)\s+(?:at |in )?(?:(?:to )?)"
    rf"(?:under|below|within|less than|more than|over|above|no more than|at most|up to)\s+{_AMOUNT}|"
    r"(?:i|we)\s+(?:really |just )?(?:can not|do not want to|must not|should not|can only|can|will not|"
    r"want to|have to|"
    r"would rather not)\s+"
    r"(?:spend|pay|go|afford|stay|keep (?:it )?)\s+(?:more than|over|above|beyond|up to|at most|under|below|"
    r"within)\s+"
    rf"(?:about )?{_AMOUNT.replace('?P<v>', '?P<w>')}|"
    r"(?:(?:at )?(?:most|max|maximum|the most)|up to|no more than|not more than|not over|nothing over|nothing above|"
    r"under|below|less than)"
    rf"\s+{_AMOUNT.replace('?P<v>', '?P<x>')}|"
    rf"(?:i|we) (?:have got|have) (?:about |around |"
    rf"roughly )?{_AMOUNT.replace('?P<v>', '?P<y>')}\s+to (?:spend|play with))"
    r"(?:\s+(?:max|maximum|at (?:the )?most|tops|in total|all in|altogether|if possible|please))*$",
    re.IGNORECASE,
)  # fmt: skip
_PER = re.compile(
    r"\b(?:minutes?|hours?|days?|kilos?|people|percent|miles|kilomet\w+|degrees)\b", re.IGNORECASE
)
_SOMEWHERE = re.compile(
    rf"{_MAY}(?P<v>(?:somewhere|something|someplace)\s(?!like that|else|is\b|was\b|has\b|came\b|went\b)"
    r"(?:[\w'-]+ ?){1,6})$",
    re.IGNORECASE,
)
_MUST = re.compile(
    rf"{_MAY}(?P<n>it|that|there|they|(?:the |a )?(?!i\b|you\b|we\b|he\b|she\b|somebody\b|"
    rf"someone\b)[\w'-]+(?: [\w'-]+)?)\s"
    r"(?:(?:really |absolutely )?(?:has to|have to|must|needs to|need to|should|ought to)) (?P<v>(?:be|have|"
    r"allow|include|take|"
    r"accept|come with|face|fit|cover)\s(?!that\b|a mistake|about it|because).+)$",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"^(?:please )?(?:can|could|may|might|would)\s+(?:you|i|we)\s+(?:please |just |possibly |maybe )*(?:"
    r"(?:book|reserve|order|put|sign|get)\s+(?:(?:me|us)\s+)?(?:in |on |onto |for |down for |up for |in "
    r"for )?(?P<v>(?:an?|the|two|three|four|five|"
    r"six|some)\s.+)|"
    r"(?:get|have|buy|arrange|schedule|make)\s+(?:(?:me|us)\s+)?(?P<w>(?:an?|the|two|three|four|five|"
    r"six)\s(?:\w+ ){0,3}?"
    r"(?:tables?|rooms?|tickets?|reservation|booking|appointment|taxi|cab|seats?|slot)\b.*))$",
    re.IGNORECASE,
)
_SPLIT = re.compile(
    r"\s+(?:and|but)\s+(?=(?:(?:absolutely|definitely|please|certainly|preferably|really)\s+)?"
    r"(?:nothing|not too|without|anything but|never (?:before|after|on)|not (?:next to|near|on|in|by|before|"
    r"after|too)|"
    r"do not (?:book|put|give|send|seat|offer))\s)|"
    r"\s+and\s+(?=(?:(?:absolutely|definitely|please|certainly|"
    r"really)\s+)?no\s+(?:[\w'-]+\s+){0,2}?(?:[\w'-]{3,}(?<!s)s$|"
    r"[\w'-]+\s+(?:at all|whatsoever|please|for me)\b))|"
    r"(?<!\bwith)(?<!\bhave)(?<!\bgot)(?<!\bhas)(?<!\bare)(?<!\bis)(?<!\bwant)(?<!\bneed)\s+"
    r"(?=(?:absolutely |definitely )?no\s+[\w'-]+(?:\s+[\w'-]+)?\s+(?:at all|whatsoever|please)\b)|"
    r"(?<!\bwant)(?<!\bneed)(?<!\bhave)(?<!\bis)(?<!\beat)(?<!\bsaid)\s+(?=nothing\s+(?:with|near|too|over|"
    r"before|after|"
    r"above)\s)|"
    r"(?<=\bplease)\s+(?=(?:i|we|my|our|it|he|she|they)\s)|"
    r"\s+(?=i (?:would )?rather not\s)|"
    r"(?<=\w)\s+(?=just (?:the|my|our|a|an) (?:one |two |three |four )?[\w-]+$)",
    re.IGNORECASE,
)


def split_at_wishes(clause: str) -> list[str]:
    """A clause cut where a condition begins in the middle of it: "a trip for two | no flights at all"."""
    return [part for part in _SPLIT.split(clause) if part]


def denied_wish(
    clause: str, question: str, recent: Sequence[Assertion], said: Sequence[Assertion]
) -> list[Change] | None:
    """What the clause rules out, or no longer does; None when it does neither.

    `question` is the bot's, `recent` what was asserted lately and `said` what this turn asserted, the latest first
    and last.
    """
    welcome = _WELCOME_AGAIN.match(clause)
    if welcome and (ended := _welcomed(welcome["a"] or welcome["b"], recent)):
        return ended
    if (match := _NO.match(clause)) and unwanted(match["v"], emphasized=match["tail"] is not None):
        whom = _FOR_WHOM.search(match["tail"] or "")
        subject = whom["who"].casefold() if whom and whom["who"].casefold() in PERSON_RELATIONS else USER
        thing = trimmed(_TAIL.sub("", match["v"]))
        return [
            _without(thing, question, said)
            if subject == USER
            else _wish(thing, _WANT_NOT.format(thing), subject)
        ]
    for form, shown in _DENYING:
        match = form.match(clause)
        if match is None or _OPTION.search(clause):
            continue
        if _WANTS_CONTEXT.match(clause) and not _wishing(question, recent):
            continue
        value = trimmed(_TAIL.sub("", match["v"]))
        if not value or _NOT_A_WISH.match(value) or len(value.split()) > 10:
            continue
        return [_wish(value, f"{shown} {theirs(value)}")]
    return None


def _wishing(question: str, recent: Sequence[Assertion]) -> bool:
    return bool(_ASKED_WISH.search(question)) or any(
        each.subject == USER and each.attribute in _OPEN for each in recent
    )


def budget(clause: str) -> list[Change] | None:
    """The limit in "it has to stay under nine hundred euros"; None when the clause names none."""
    match = _BUDGET.match(clause)
    if match is None or _PER.search(clause):
        return None
    value = trimmed(match["v"] or match["w"] or match["x"] or match["y"])
    return [
        Assertion(
            subject=USER,
            attribute="budget",
            value=value,
            statement=f"The user's budget is {value}.",
            cardinality=Cardinality.ONE,
        )
    ]


def condition(clause: str, recent: Sequence[Assertion]) -> Assertion | None:
    """What has to be so of what is wished for: "it must have parking", "somewhere quiet"; None when nothing does."""
    if not _wishing("", recent):
        return None
    if match := _SOMEWHERE.match(clause):
        value = trimmed(match["v"])
        return _need(value, f"wants {value}", verb="want")
    match = _MUST.match(clause)
    if match is None:
        return None
    noun, value = match["n"], trimmed(match["v"])
    of_it = noun.casefold() in {"it", "that", "this", "there", "they"}
    what = "it" if of_it else noun
    return _need(value if of_it else f"{noun} {value}", f"needs {what} to {value}")


def _need(value: str, predicate: str, *, verb: str = "need") -> Assertion:
    return Assertion(subject=USER, attribute=verb, value=value, statement=sentence(USER, "", predicate))


def requested(clause: str) -> Assertion | None:
    """The wish in "could you book me on the early train"; None when the clause asks for nothing of that kind."""
    match = _REQUEST.match(clause)
    if match is None:
        return None
    value = trimmed(match["v"] or match["w"])
    return Assertion(
        subject=USER,
        attribute="want",
        value=value,
        statement=sentence(USER, "", third_person("want", value, Polarity.AFFIRMED)),
    )


def unwanted(thing: str, *, emphasized: bool) -> bool:
    """Whether "no" before these words rules the thing out, rather than answering, correcting or being polite."""
    words = _PLACED.sub("", thing.casefold()).split()
    if words[0] in _NOT_UNWANTED or words[-1] in _NOT_UNWANTED or _VERBS & set(words):
        return False
    if any(word in GIVEN_NAMES for word in words):
        return False
    return emphasized or (len(words[-1]) > 3 and words[-1].endswith("s") and not words[-1].endswith("ss"))


def _without(thing: str, question: str, said: Sequence[Assertion]) -> Assertion:
    verb = said[-1].attribute if said else ""
    head = thing.casefold().split()[-1]
    asked = re.search(r"\b(?:have|any)\b", question, re.IGNORECASE) and not _ASKED_WISH.search(question)
    if verb in OWNING or head in _OWNED or asked:
        return _wish(thing, third_person("have", thing, Polarity.NEGATED), verb="have")
    if verb in CONSUMING | HABIT_VERBS - {"want", "need"}:
        return _wish(thing, third_person(verb, thing, Polarity.NEGATED), verb=verb)
    return _wish(thing, third_person("want", thing, Polarity.NEGATED))


def _wish(value: str, predicate: str, subject: str = USER, *, verb: str = "want") -> Assertion:
    return Assertion(
        subject=subject,
        attribute=verb,
        value=value,
        statement=sentence(subject, "", predicate),
        polarity=Polarity.NEGATED,
    )


def _welcomed(thing: str, recent: Sequence[Assertion]) -> list[Change] | None:
    """Ends what was ruled out with one of these words: "flights are fine after all"."""
    words = stems(thing)
    for each in recent:
        if each.polarity is Polarity.NEGATED and words and words & stems(each.value):
            return [Ending(subject=each.subject, attributes=frozenset({each.attribute}), value=each.value)]
    return None
