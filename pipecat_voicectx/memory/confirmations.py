"""What the bot put to the caller, as the caller would state it: "is twelve orchard road still your address?", "yes".

A yes states the proposition; a no with a value corrects it; a plain no to "do you have ..." denies it. Only what the
bot asked is a proposition, and only a clear yes states one.
"""

from __future__ import annotations

import re

__all__ = ["is_no", "is_yes", "proposition", "vocative"]

_ASKS_FOR_IT = re.compile(
    r"(?:^|\s)(?:(?:is|was) (?:that|this) (?:still )?(?:right|correct|okay|true|current|good)|(?:does|do) "
    r"(?:that|this) (?:sound|look) right|"
    r"right|correct|yes|yeah|okay|then|have i got that right|did i get that right|is it|are you|do you|am i right)$",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"^(?:(?:okay|ok|so|and|great|perfect|alright|all right|thanks|thank you|got it|good|hm|just to "
    r"(?:confirm|check)|let me "
    r"(?:confirm|check)|to confirm|i see|now|then|well|sorry)[\s,]+)+",
    re.IGNORECASE,
)
_SECOND_PERSON = (
    (re.compile(r"\byou are\b", re.IGNORECASE), "i am"),
    (re.compile(r"\byou were\b", re.IGNORECASE), "i was"),
    (re.compile(r"\byours\b", re.IGNORECASE), "mine"),
    (re.compile(r"\byour\b", re.IGNORECASE), "my"),
    (re.compile(r"\byou\b", re.IGNORECASE), "i"),
)
_FORMS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(form, re.IGNORECASE), shown)
    for form, shown in (
        (r"^(?:i|we) (?:still )?have your (?P<n>[\w ]+?) (?:down )?(?:as|at|on file as|listed as) "
         r"(?P<v>.+)$", r"my \g<n> is \g<v>"),
        (r"^(?:i|we) (?:still )?have you (?:down )?(?:as|under) (?P<v>.+)$", r"my name is \g<v>"),
        (r"^(?:i|we) (?:still )?have you (?:down )?(?:at|in) (?P<v>.+)$", r"my address is \g<v>"),
        (r"^is (?P<v>.+?) (?:still )?(?:your|the) (?P<n>(?:[\w]+ ){0,2}?[\w]+)$", r"my \g<n> is \g<v>"),
        (r"^is (?:your|the) (?P<n>[\w ]+?) (?:ending|that ends|which ends) (?:in |with )?(?P<v>.+?) "
         r"(?:still )?(?:current|good|right|correct|valid|yours)$",
         r"my \g<n> is \g<v>"),
        (r"^is your (?P<n>birthday|date of birth|name|first name|last name|address|phone number|number|email|"
         r"appointment|zip code|postcode|age|job|flight|favou?rite \w+) (?:still )?(?P<v>.+)$", r"my \g<n> is \g<v>"),
        (r"^is (?:your|the) (?P<n>(?:[\w]+ ){0,2}?[\w]+) still (?P<v>.+)$", r"my \g<n> is \g<v>"),
        (r"^do you (?:still )?(?P<v>(?!want (?:me|us|to)|need (?:me|us|any)|mind|know|think|remember|mean|"
         r"see|hear|agree|"
         r"accept|understand|happen|wish|have (?:a moment|time|any (?:other )?questions|anything)).+)$", r"i \g<v>"),
        (r"^(?:have) you (?:still )?(?:got )(?P<v>.+)$", r"i have \g<v>"),
        (r"^are you (?:still )?(?P<v>.+)$", r"i am \g<v>"),
        (r"^(?:any|no) (?P<v>[\w ]{3,30})$", r"i have \g<v>"),
        (r"^your (?P<n>[\w ]+?) is (?:still )?(?P<v>.+)$", r"my \g<n> is \g<v>"),
        (r"^you (?:still )?(?P<v>(?:are|live|work|have|need|want|use|take|prefer|would like|drive|"
         r"own)\b.+)$", r"i \g<v>"),
        (r"^(?:that is|it is|we said|that will be) (?P<v>.+)$", r"it is \g<v>"),
    )
)  # fmt: skip
_YES = re.compile(
    r"^(?:(?:oh|uh|well|and) )*(?:yes|yeah|yep|yup|mm+ ?hm+m?|uh huh|mhm|right|correct|exactly|sure|"
    r"absolutely|definitely|of course|"
    r"indeed|that is (?:right|correct|it|the one|still (?:right|good|correct|it))|that (?:works|is fine)|"
    r"it (?:is|does|sure is)|"
    r"i (?:do|am|have)|you got it|still (?:is|am|do|there|the same|good|current|right)|same as (?:ever|"
    r"always|before))\b",
    re.IGNORECASE,
)
_IRONY = re.compile(r"^(?:oh )?(?:yeah|sure|uh huh|right)[ ,]+(?:right|sure|whatever|as if)$", re.IGNORECASE)
_UNLESS = re.compile(
    r"\b(?:but|except|no|not|actually|wait|only|if|depends|used to|anymore|any more|sort of|i think|maybe)\b",
    re.IGNORECASE,
)
_NO = re.compile(
    r"^(?:(?:oh|uh|well) )*(?:no|nope|nah|not (?:any ?more|really|at all|yet)|none|neither|never|(?:i|we) "
    r"(?:do|am|have|did) not)"
    r"(?: (?:i|we) (?:do|am|have|did) not)?(?: (?:any|any ?more|thanks|thank you|sir|maam|none|at all|nothing))*$",
    re.IGNORECASE,
)
_DENIABLE = re.compile(
    r"^(?:do you (?:still )?(?:have|smoke|drink|take|eat|use|own|drive|wear)|are you (?:still )?|have you got|any)\b",
    re.IGNORECASE,
)
_OF_THE_CALL = re.compile(
    r"\b(?:questions?|anything|else|moment|minute|second|time|pen|sure|ready|there)\b", re.IGNORECASE
)
_VOCATIVE = re.compile(
    r"(?:^|\b)(?:hello|hi|hey|welcome(?: back)?|thanks for (?:calling|holding|waiting)(?: back| again)?|"
    r"thank you|thanks|good "
    r"(?:morning|afternoon|evening)|sorry|mister|mr|mrs|miss|ms|madam|okay|alright|great|perfect|bye|"
    r"goodbye)[ ,]+(?:mister |mr |mrs "
    r"|miss |ms )?(?P<v>[a-z][\w'-]+)\b",
    re.IGNORECASE,
)


def proposition(question: str) -> str | None:
    """What a yes to the bot's question states, in the caller's words; None when it puts nothing to the caller."""
    asked = _LEAD.sub("", question.strip(" ?.!,").casefold())
    asked = re.split(r"[.?!]\s+", asked)[-1]
    while (shorter := _ASKS_FOR_IT.sub("", asked).strip(" ,")) != asked and shorter:
        asked = shorter
    asked = _LEAD.sub("", asked)
    for form, shown in _FORMS:
        match = form.match(asked)
        if match is None:
            continue
        said = match.expand(shown)
        for second, first in _SECOND_PERSON:
            said = second.sub(first, said)
        return said
    return None


def is_yes(answer: str) -> bool:
    """Whether the turn says yes without reservation."""
    match = _YES.match(answer)
    if _IRONY.match(answer):
        return False
    return match is not None and _UNLESS.search(answer[match.end() :]) is None


def is_no(answer: str, question: str) -> bool:
    """Whether the turn is no more than a no to a question that it denies."""
    asked = _LEAD.sub("", question.casefold())
    denied = _DENIABLE.match(asked) is not None and _OF_THE_CALL.search(asked) is None
    return denied and _NO.match(answer.strip(" ,.")) is not None


def vocative(question: str, name: str) -> bool:
    """Whether the bot called the caller by this name."""
    return any(match["v"].casefold() == name.casefold() for match in _VOCATIVE.finditer(question)) or (
        re.search(rf"\b{re.escape(name)}[.!?]*$", question.strip(), re.IGNORECASE) is not None
        and len(question.split()) <= 8
        and "?" not in question
    )
