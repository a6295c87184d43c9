"""Statements without a subject of the usual form: introductions, ways to be reached, cancellations, short answers."""

from __future__ import annotations

import re
from dataclasses import replace

from pipecat_voicectx.memory.facts import (
    USER,
    Assertion,
    Cardinality,
    Change,
    Ending,
    EndingScope,
    Polarity,
    content_words,
)
from pipecat_voicectx.memory.frames import PARTNERS, sentence, third_person
from pipecat_voicectx.memory.spoken_english import is_number_phrase
from pipecat_voicectx.memory.subjects import Referents, noun_attribute, person_name, trimmed

__all__ = ["answer", "ended_relation", "set_phrase"]

_CALLED_ME = re.compile(
    r"^(?:please |just |you can |you may |everybody |everyone |most |people |my friends |all my friends |"
    r"my family )*"
    r"(?:just )?calls? me (?P<v>.+?)(?: though)?$",
    re.IGNORECASE,
)
_FILED_UNDER = re.compile(
    r"^(?:(?:you|we) can |please |just )*(?:put|book|list|file|reserve|place) (?:it|me|that|us|the \w+) "
    r"(?:under|down under) (?P<v>[\w'-]+(?: "
    r"[\w'-]+)?)$",
    re.IGNORECASE,
)
_WHEN = re.compile(r"^(?:in|at|on|after|before|tomorrow|tonight)\b", re.IGNORECASE)
_NOT_A_WAY = re.compile(r"^(?:back|when|if|later|again|an? )", re.IGNORECASE)
_SPEAKING = re.compile(
    r"^(?:this is (?P<a>[\w' -]+?)(?:\s+(?:speaking|here|calling))?|(?:it is |"
    r"i am )?(?P<b>[\w' -]+?)\s+speaking)$",
    re.IGNORECASE,
)
_REACH = re.compile(
    r"^(?:you )?can (?:call|reach|phone|ring|text|email|contact) me\s+(?:(?:by|via) \w+ )?(?:on|at|"
    r"under)\s+(?P<v>.+)$",
    re.IGNORECASE,
)
_DO_NOT_CALL = re.compile(
    r"^(?:please )?(?:do not|never) (?:call|phone|ring|text|email|contact) me\s*(?P<v>.*)$", re.IGNORECASE
)
_MAKES_SICK = re.compile(r"^(?P<v>[\w ]+?) makes? me (?:sick|ill|sneeze|feel sick|feel ill)$", re.IGNORECASE)
_CANCELLED = re.compile(
    r"^(?P<n>(?:the|my|our)\s+.+?|it)\s+(?:is|was|got|has been|have been|are)\s+(?:been )?"
    r"(?:(?:cancelled|canceled|called off)\b.*|off)$",
    re.IGNORECASE,
)
_COUPLE = re.compile(
    r"^(?:me and (?P<a>\w+)|(?P<b>\w+) and (?:i|me)|we)\s+(?:have )?"
    r"(?:broke up|broken up|split up|split|separated|are not together|(?:are|got|are getting) divorced)",
    re.IGNORECASE,
)
_RECOVERED = re.compile(
    r"^(?P<n>(?:the|my|our)\s+[\w ]+?|it)\s+(?P<v>(?:(?:is|are|has|have|was|got)\s+)?"
    r"(?:(?:been|finally|now|all|much|completely|already|just|feeling|working)\s+)*"
    r"(?:fine|better|fixed|okay|ok|healed|healthy|resolved|sorted|repaired|found|delivered|returned|paid|"
    r"over|gone|"
    r"working|again|solved|cured|turned up|arrived|came back|came through)\b.*)$",
    re.IGNORECASE,
)
_OF_US = re.compile(
    r"^(?:(?:and |so )?there (?:will be|are|is) (?:only |just |now )?)?(?P<v>[\w -]+?) of us\b", re.IGNORECASE
)
_WE_ARE = re.compile(
    r"^(?:so |now )*(?:we (?:will be|would be|are|make)|it (?:is|will be)(?=.* (?:of us|people|"
    r"with the))) (?:only |just |now )*"
    r"(?P<v>[\w -]+?)(?: of us| people| persons| in total| altogether| now| with the \w+)+$|"
    r"^(?:so )?we will be (?:only |just )*(?P<w>[\w -]+)$",
    re.IGNORECASE,
)
_THE_NAME = re.compile(r"^the name is (?P<v>[\w' -]+)$", re.IGNORECASE)
_TALKING_TO = re.compile(
    r"^you are (?:talking|speaking|chatting) (?:to|with) (?P<v>[\w' -]+)$", re.IGNORECASE
)
_HOME_IS = re.compile(
    r"^home (?:for (?:me|us) )?is (?:now )?(?:in )?(?P<v>[\w' -]+?)(?: now| these days| at the moment)?$",
    re.IGNORECASE,
)
_GROWN_ON = re.compile(
    r"^(?P<v>[\w -]+?) (?:has|have|is|are) (?:really |slowly )?(?:grown|growing) on me(?: lately| now)?$",
    re.I,
)
_BIRTHDAY = re.compile(r"^it is my (?P<n>\w+?)(?:['’]s|s) birthday (?P<v>.+)$", re.IGNORECASE)
_ORDER = re.compile(
    r"^(?:an?|one|two|three|four|five|six) (?:\w+ ){0,2}?(?:table|room|ticket|tickets|rooms|reservation|"
    r"booking|"
    r"appointment|taxi|cab)\b(?! (?:is|are|was|has|costs?))",
    re.IGNORECASE,
)
_SUITS = re.compile(
    r"^(?P<v>(?!it\b|that\b|this\b|you\b|which\b|what\b)(?:the )?[\w'-]+(?: [\w'-]+){0,2}?) (?:(?:works?|"
    r"suits?)(?: me| us)? "
    r"best(?: for (?:me|us))?|(?:is|are) (?:the )?(?:best|ideal) for (?:me|us))$",
    re.IGNORECASE,
)
_PLAN = re.compile(
    r"^(?:(?:the|our|my) (?:plan|idea|intention) is (?P<v>to (?!know|ask|say)\w+ .+)|"
    r"(?:i|we) (?:have |had )?(?:finally |now )?(?:decided|agreed|made up (?:my|our) minds?|"
    r"resolved) (?P<w>to \w+ .+))$",
    re.IGNORECASE,
)
_COMES_ALONG = re.compile(
    r"^(?:the|my|our) (?P<n>[\w-]+(?: [\w-]+)?) (?:is |are |will be )(?P<v>(?:coming|joining|travelling|traveling|"
    r"flying|riding)(?: (?:along|with (?:us|me)|us|me|too|as well))+)$",
    re.IGNORECASE,
)
_WHO = re.compile(r"\b(?:who am i (?:speaking|talking)|your name|who is (?:this|calling))\b")
_CHOICE = re.compile(r"\bprefer (?:an? |the )?(?P<a>\w+) or (?:an? |the )?(?P<b>\w+)(?: (?P<n>\w+))?$")
_GIVE_ME = re.compile(
    r"(?:\b(?:get|have|confirm|tell me|give me|spell|need|take|catch|grab|ask for|what is|what was|verify)|"
    r"^(?:okay |great |thanks )*"
    r"and) (?:for )?(?:the|your) (?P<n>(?:[\w]+ ){0,2}?[\w]+?)(?: (?:on (?:the|your) \w+|for (?:the|your) "
    r"\w+|again|then|first))*"
    r"(?: please)?$"
)
_HOW_MANY = re.compile(
    r"\bhow many (?P<n>[\w ]{3,30}?)(?: (?:do|are|is|will|would|did|have|in|for|can) .*)?$"
)
_WHICH = re.compile(
    r"\b(?:what|which) (?:is your |(?:kind|type|sort) of )?(?P<n>[\w ]{3,30}?)"
    r"(?: (?:do|are|is|would|did|have|should|can) .*)?$"
)
# Four digits at least, as they are dictated.
_DIGITS = re.compile(
    r"^(?:(?:oh|zero|one|two|three|four|five|six|seven|eight|nine|double|triple|\d+)[\s-]*){4,}$",
    re.IGNORECASE,
)
_NO_ANSWER = frozenset(
    {"yes", "no", "yeah", "nope", "sure", "i do not know", "maybe", "okay", "fine", "right"}
)


def set_phrase(bare: str) -> list[Change] | None:
    """The changes of a set phrase; None when the clause is none, [] when it is one that states nothing."""
    if match := _CALLED_ME.match(bare):
        return _called(trimmed(match["v"]))
    if (match := _FILED_UNDER.match(bare)) and (name := person_name(match["v"], strict=True)):
        return [_of_user("name", name, f"The user's name is {name}.", one=True)]
    if match := _REACH.match(bare):
        value = trimmed(match["v"])
        noun = "email" if re.search(r"\bat\b|@|\bdot\b", value) else "phone number"
        return [_of_user(noun, value, f"The user's {noun} is {value}.", one=True)]
    if match := _DO_NOT_CALL.match(bare):
        said = _of_user(
            "wants to be called",
            trimmed(match["v"]),
            f"The user does not want to be called {trimmed(match['v'])}.",
        )
        return [replace(said, polarity=Polarity.NEGATED)]
    if match := _MAKES_SICK.match(bare):
        said = _of_user("like", match["v"], f"The user gets sick from {match['v']}.")
        return [replace(said, polarity=Polarity.NEGATED)]
    if (match := _OF_US.match(bare)) and is_number_phrase(match["v"]):
        return [_of_user("party size", match["v"], f"The user's party size is {match['v']}.", one=True)]
    if match := _THE_NAME.match(bare) or _TALKING_TO.match(bare):
        name = person_name(match["v"], strict=False)
        return [_of_user("name", name, f"The user's name is {name}.", one=True)] if name else None
    if match := _HOME_IS.match(bare):
        return [_of_user("live in", match["v"], f"The user lives in {match['v']}.", one=True)]
    if match := _GROWN_ON.match(bare):
        return [_of_user("like", match["v"], f"The user likes {match['v']}.")]
    if (match := _WE_ARE.match(bare)) and is_number_phrase(size := match["v"] or match["w"]):
        return [_of_user("party size", size, f"The user's party size is {size}.", one=True)]
    if match := _BIRTHDAY.match(bare):
        who, when = match["n"].casefold(), trimmed(match["v"])
        said = _of_user("birthday", when, f"The user's {who}'s birthday is {when}.", one=True)
        return [replace(said, subject=who)]
    if match := _SUITS.match(bare):
        return [_of_user("prefer", match["v"], f"The user prefers {match['v']}.")]
    if match := _PLAN.match(bare):
        value = trimmed(match["v"] or match["w"])
        return [_of_user("plan", value, f"The user plans {value}.")]
    if match := _COMES_ALONG.match(bare):
        return _comes_along(match["n"], trimmed(match["v"]))
    if _ORDER.match(bare):
        return [_of_user("want", trimmed(bare), f"The user wants {trimmed(bare)}.")]
    if match := _SPEAKING.match(bare):
        tells = re.search(r"\b(?:speaking|calling|here)$", bare, re.IGNORECASE) is not None
        name = person_name(match["a"] or match["b"], strict=not tells)
        return [_of_user("name", name, f"The user's name is {name}.", one=True)] if name else None
    return None


def _comes_along(who: str, coming: str) -> list[Change]:
    """ "the dog's coming along": what is so of a companion just now."""
    subject = who.casefold().split()[-1]
    return [
        Assertion(
            subject=subject,
            attribute="state",
            value=coming,
            statement=sentence(subject, "", third_person("is", coming, Polarity.AFFIRMED)),
            cardinality=Cardinality.ONE,
        )
    ]


def _called(value: str) -> list[Change]:
    if _WHEN.match(value):
        return [_of_user("wants to be called", value, f"The user wants to be called {value}.")]
    name = None if _NOT_A_WAY.match(value) else person_name(value, strict=False)
    return [_of_user("nickname", name, f"The user is called {name} by others.", one=True)] if name else []


def ended_relation(bare: str, referents: Referents) -> list[Change]:
    """ "the opera is cancelled", "me and mia broke up"."""
    if match := _CANCELLED.match(bare):
        noun = re.sub(r"^(?:the|my|our)\s+", "", match["n"], flags=re.IGNORECASE)
        noun = (referents.it or "") if noun.casefold() == "it" else noun
        return [Ending(subject=USER, attributes=frozenset(), value=noun)] if noun else []
    if couple := _COUPLE.match(bare):
        bearer = referents.bearer(couple["a"] or couple["b"] or "")
        ended = [
            Ending(subject=each, attributes=frozenset())
            for each in ([bearer] if bearer else sorted(PARTNERS))
        ]
        return [*ended, Ending(subject=USER, attributes=frozenset({"be"}), value="married")]
    if match := _RECOVERED.match(bare):
        return _recovered(match["n"], trimmed(match["v"]), referents)
    return []


def _recovered(noun: str, state: str, referents: Referents) -> list[Change]:
    """ "the heating has been fixed": what was amiss with it is over, and this is how it is now."""
    noun = re.sub(r"^(?:the|my|our)\s+", "", noun, flags=re.IGNORECASE).casefold()
    noun = (referents.it or "") if noun == "it" else noun
    if not noun or re.search(r"\b(?:not|is|are|has|have|was|does)\b", noun) or re.search(r"\bnot\b", state):
        return []
    value = re.sub(r"^(?:is|are|has|have|was|got)\s+", "", state, flags=re.IGNORECASE)
    said = _of_user(noun, value, f"The user's {noun} {state}.", one=True)
    return [Ending(subject=USER, attributes=frozenset(), value=noun, scope=EndingScope.TROUBLE), said]


def answer(bare: str, question: str) -> Assertion | None:
    """A short answer, understood by the question before it; contractions must have been expanded."""
    asked = question.casefold().strip(" ?.!")
    if not asked or len(bare.split()) > 14:
        return None
    plain = re.sub(
        r"^(?:it is|that is|this is|i am|from|in|on|at|a|an|the)\s+", "", bare, flags=re.IGNORECASE
    )
    value = trimmed(plain)
    if not value or value.casefold() in _NO_ANSWER:
        return None
    if len(bare.split()) > 6 and not re.search(r"\b(?:number|phone|mobile)\b", asked):
        return None
    if _WHO.search(asked):
        name = person_name(value, strict=False)
        return _of_user("name", name, f"The user's name is {name}.", one=True) if name else None
    choice = _CHOICE.search(asked)
    if choice and content_words(value) & {choice["a"], choice["b"]}:
        noun = f"preferred {choice['n'] or 'choice'}"
        return _of_user(noun, value, f"The user's {noun} is {value}.", one=True)
    if re.search(r"\bwhere (?:do you live|are you based|are you calling from)\b", asked):
        return _of_user("live in", value, f"The user lives in {value}.", one=True)
    if re.search(r"\bhow old are you\b", asked):
        return _of_user("age", value, f"The user is {value} years old.", one=True)
    if re.search(r"\b(?:number|phone|mobile)\b", asked) and _DIGITS.match(value):
        return _of_user("phone number", value, f"The user's phone number is {value}.", one=True)
    if (given := _counted(asked, value) or _given(asked, value)) is not None:
        return given
    which = _WHICH.search(asked)
    if which and 1 <= len(which["n"].split()) <= 3:
        noun = noun_attribute(which["n"].strip())
        return _of_user(noun, value, f"The user's {noun} is {value}.", one=True)
    return None


def _counted(asked: str, value: str) -> Assertion | None:
    """ "just the one", to "how many children are travelling?"."""
    counted = _HOW_MANY.search(asked)
    number = re.match(r"^(?:just |only |the |about |maybe )*(?P<v>[\w ]+?)(?: of (?:us|them))?$", value)
    if counted is None or number is None or not is_number_phrase(number["v"].split()[0]):
        return None
    noun = counted["n"].strip()
    return _of_user(
        f"number of {noun}", number["v"], f"The user's number of {noun} is {number['v']}.", one=True
    )


def _given(asked: str, value: str) -> Assertion | None:
    """ "reyes", to "can i get your last name"."""
    given = _GIVE_ME.search(asked)
    if given is None or len(value.split()) > 4:
        return None
    noun = noun_attribute(given["n"].strip())
    name = person_name(value, strict=False) if noun in {"name", "last name", "first name"} else value
    return _of_user(noun, name, f"The user's {noun} is {name}.", one=True) if name else None


def _of_user(attribute: str, value: str, statement: str, *, one: bool = False) -> Assertion:
    return Assertion(
        subject=USER,
        attribute=attribute,
        value=value,
        statement=statement,
        cardinality=Cardinality.ONE if one else Cardinality.MANY,
    )
