"""What one predicate states: the grammar of the rule-based fact extraction.

Predicates are tried as frames in a fixed order: what is over, names, being, living and working, having, liking,
wanting, plans, denials, the verbs of habits and events, and last any other verb, as `predicates_open` reads it.

Known limits: English only; one object per verb unless joined by "and"; pronouns mean the last person or thing of
their kind; sarcasm and indirect speech beyond "X said ..." are taken at their word or missed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from pipecat_voicectx.memory.clause import ADVERB, BE, Clause
from pipecat_voicectx.memory.facts import USER, Cardinality, Change, Ending, Polarity
from pipecat_voicectx.memory.frames import (
    EVENT_VERBS,
    HABIT_VERBS,
    OWNING,
    PARTNERS,
    THINGS,
    sentence,
)
from pipecat_voicectx.memory.predicates_being import being, names
from pipecat_voicectx.memory.predicates_ending import ending, marrying, over, starting, stopping
from pipecat_voicectx.memory.predicates_open import open_predicate
from pipecat_voicectx.memory.spoken_english import PERSON_RELATIONS, PETS, lemma, value_class
from pipecat_voicectx.memory.subjects import Referents, Subject, person_name, trimmed

__all__ = ["state_changes"]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_SAID_NOTHING = _set(
    """calling trying thinking wondering asking talking saying doing kidding joking checking hoping feeling being
    having holding making telling coming sitting listening speaking wanting guessing"""
)
_NOT_DENIED = _set(
    "know think remember mind understand believe see care say worry get hear mean want need guess be stand"
)
_INTRANSITIVE = _set("drive smoke swim run cook hike cycle dance sing drink paint retire")
# Verbs of which "now" means that the new object took the place of the old.
_CHANGING = _set("drive use study rent wear take read support play work train live")
_KEPT_WHEN_HAD = re.compile(
    r"\b(?:twins|triplets|boy|girl|son|daughter|surgery|operation|accident|baby|attack|stroke|puppy|kitten|"
    r"dog|cat|job)\b"
)
_AND = re.compile(
    r"\s+and\s+(?:a (?:little|bit of)\s+)?(?=\w+$)|(?<=\w)\s+and\s+(?=(?:an?|some|the|my|our|two|"
    r"three)\s+[\w-]+(?:\s[\w-]+)?$)",
    re.IGNORECASE,
)
_NAMED_ANIMALS = re.compile(
    rf"\b(?:{'|'.join(sorted(f'{each}s' for each in PERSON_RELATIONS | PETS))}|puppies|ponies|babies|"
    rf"children|twins)\b.* and \w+$",
    re.IGNORECASE,
)
_CALLED_OFF = re.compile(
    r"^(?:is|are|was|got|has been|have been) (?:cancelled|canceled|called off|off$)", re.IGNORECASE
)
_COPULA = re.compile(
    rf"^(?:{ADVERB}\s+)?(?:(?:has been|was|is|got) (?:delayed|moved|changed|pushed|postponed)(?: back)? to|"
    rf"(?:(?:has|have) gone|went|goes|is|are) (?:up|down) to|rose to|dropped to|(?=(?:runs|lasts|expires|"
    rf"begins|finishes|falls) )\w+|"
    rf"{BE}|will be|starts|leaves)\s+(?P<not>not\s+)?(?:{ADVERB}\s+)?(?P<v>.+)$",
    re.IGNORECASE,
)
_INSTEAD_OF = re.compile(r"^(?P<x>.+?),?\s+(?:and )?not\s+(?P<y>[\w' ]+)$", re.IGNORECASE)


def state_changes(subject: Subject, predicate: str, referents: Referents) -> list[Change]:
    """What a clause states, in order; empty when it states nothing to keep."""
    out: list[Change] = []
    unnamed = subject.name and subject.key not in (USER, subject.name.casefold())
    if unnamed and subject.name and referents.bearer(subject.name) is None:
        name = person_name(subject.name, strict=False) or subject.name
        out.append(Clause(subject.key, predicate).noun("name", name))
    if subject.attribute is not None:
        return out + list(_noun_frame(Clause(subject.key, predicate), subject.attribute))
    shown = person_name(subject.name, strict=False) if subject.name else referents.name_of(subject.key)
    clause = Clause(subject.key, predicate, shown)
    for frame in _FRAMES:
        found = list(frame(clause))
        if found:
            return out + found
    return out


def _noun_frame(clause: Clause, noun: str) -> Iterator[Change]:
    """ "my phone number is ...", "our anniversary is ...", "the boiler is not working"."""
    if _CALLED_OFF.match(clause.text):
        yield Ending(subject=USER, attributes=frozenset(), value=noun)
        return
    match = _COPULA.match(clause.text)
    value = trimmed(match["v"]) if match else ""
    if match is None or not value or len(value.split()) > 12:
        return
    if instead := _INSTEAD_OF.match(value):
        value = trimmed(instead["x"])
    if noun in {"name", "last name"}:
        name = person_name(value, strict=False)
        if name is not None and not match["not"]:
            yield clause.noun(noun, name)
        return
    yield clause.noun(noun, value, polarity=Polarity.NEGATED if match["not"] else Polarity.AFFIRMED)


def _paying(clause: Clause) -> Iterator[Change]:
    match = clause.match(r"can (?:pay|spend|afford)\s+(?:up to |at most |about |around |maximum )?(?P<v>.+)")
    if match and clause.subject == USER:
        yield clause.noun("budget", trimmed(match["v"]))


def _having(clause: Clause) -> Iterator[Change]:
    match = clause.match(r"(?P<verb>have got|has got|have|has|had|got|own|owns)\s+(?P<v>.+)")
    if match is None or re.match(
        r"^(?:to|been|not|never|\w+ed|gone|bought|seen|heard|had|no idea)\b", match["v"], re.IGNORECASE
    ):
        return
    value, past = trimmed(match["v"]), match["verb"].casefold() in {"had", "got"}
    dated = re.match(
        r"^(?:an?|my|our|the)\s+(?P<n>(?:[\w-]+\s+){0,2}?[\w-]+)\s+(?P<w>(?:on|at|for|in|next|this|"
        r"tomorrow)\b.+)$",
        value,
        re.IGNORECASE,
    )
    if dated and dated["n"].split()[-1].casefold() in THINGS:
        yield clause.noun(dated["n"].casefold(), dated["w"])
        return
    if no := re.match(r"^no\s+(.+)$", value, re.IGNORECASE):
        yield clause.verb("have", no[1], polarity=Polarity.NEGATED)
        return
    named = re.match(
        r"^(?P<n>.+?)(?:\s+(?:as well|too|also))?\s+(?:called|named|whose name is)\s+(?P<w>.+)$",
        value,
        re.IGNORECASE,
    )
    value = named["n"] if named else value
    if past and not _KEPT_WHEN_HAD.search(value):
        return
    if value.split()[-1].casefold() in PARTNERS:
        yield ending(clause, "single", "be")
    had = "have had" if match["verb"].casefold() == "had" else "get"
    yield clause.verb(had if past else "have", value)
    if named and (name := person_name(named["w"], strict=False)):
        yield Clause(value.split()[-1].casefold(), "").noun("name", name)


def _living(clause: Clause) -> Iterator[Change]:
    """Where the subject lives, works, comes from."""
    if match := clause.match(
        r"(?:live|lives|living|reside|resides|(?:have|has) (?:been living|lived))\s+(?:(?:out|up|down|over|"
        r"right|just|back) )?(?:in|at|near|on)\s+"
        r"(?P<v>.+?)(?:\s+(?:for|since)\s.*)?"
    ):
        yield clause.verb("live in", re.sub(r"\s+with\s+(?:my|our|his|her)\b.*$", "", match["v"]))
        found = re.search(r"\swith my (\w+) (\w+)$", clause.text, re.IGNORECASE)
        name = person_name(found[2], strict=True) if found else None
        if found and name and found[1].casefold() in PERSON_RELATIONS:
            yield Clause(found[1].casefold(), "").noun("name", name)
    elif match := clause.match(
        r"(?:have |has )?(?:just |recently )?(?:moved|relocated|upped sticks|emigrated)\s+(?:back |over |"
        r"house |home )?to\s+(?P<v>.+?)"
        r"(?:\s+(?:last|this|in|over|during|for|to be|with|because|a few|two|three)\b.*)?"
    ):
        yield ending(clause, "", "address")
        if re.search(
            r"\b(?:road|street|lane|avenue|drive|close|square|way|court|place)$", match["v"], re.IGNORECASE
        ):
            yield clause.noun("address", trimmed(match["v"]))
        else:
            yield clause.verb("live in", match["v"])
    elif match := clause.match(
        r"(?:works?|(?:have|has) (?:been working|worked))\s+as\s+(?:an?\s+)?(?P<v>.+?)"
        r"(?:\s+(?:for (?:\w+ )?(?:years|months|ages)|since)\b.*)?(?:\s+(?:at|for|in)\s+(?P<at>.+))?"
    ):
        yield clause.verb("work as", match["v"])
        if match["at"]:
            yield clause.verb("work at", match["at"])
    elif match := clause.match(r"(?:work|works)\s+(?:for|at|in)\s+(?P<v>.+)"):
        yield clause.verb("work at", match["v"])
    elif match := clause.match(
        r"(?:start|starts|started|got (?:a|the) (?:new )?job|will start|"
        r"am starting)\b.*?\bas\s+(?:an?\s+)?(?P<v>.+)|"
        r"(?:have |has )?(?:became|become|(?:re)?(?:trained|qualified) (?:as|"
        r"to be)) an?\s+(?P<w>.+?)(?:\s+(?:last|this|in)\s.*)?"
    ):
        yield clause.verb("work as", match["v"] or match["w"])
    elif match := clause.match(r"(?:come|comes)\s+from\s+(?P<v>.+)"):
        yield clause.verb("come from", match["v"])
    elif match := clause.match(r"grew up\s+(?:in|on|near)\s+(?P<v>.+)"):
        yield clause.verb("grow up in", match["v"], shown="grew up in")


def _liking(clause: Clause) -> Iterator[Change]:
    match = clause.match(
        r"(?P<not>(?:do|does) not (?:really )?|never )?(?P<verb>like|likes|love|loves|enjoy|enjoys|adore|"
        r"adores|hate|"
        r"hates|dislike|dislikes|can not stand|can not bear|prefer|prefers|would rather|would prefer|"
        r"would love)\s+"
        r"(?P<v>.+)"
    )
    if match is None:
        if match := clause.match(
            r"(?:(?:have|has) (?:never|not) (?:really |ever )?(?:liked|enjoyed|loved|cared for|(?:been|got) "
            r"(?:an? (?:\w+ )?fan of|keen on|into|big on))|(?:do|does) not (?:really )?care for|"
            r"(?:detest|loathe|despise|abhor|dread)s?|can not (?:abide|tolerate|stomach|deal with|handle|do with)|"
            r"(?:am|is|are) not (?:really |too |much |that |very |exactly |all that )*(?:keen on|fond of|into|big on|"
            r"wild about|crazy about|fussed about|an? (?:\w+ )?fan of|one for)|could do without|"
            r"(?:can|could) not be bothered with|(?:have|has) no (?:time|use|patience|love) for)\s+(?P<v>.+)"
        ):
            yield clause.verb("like", match["v"], polarity=Polarity.NEGATED)
        elif match := clause.match(
            r"(?:am|is|are) (?:really |quite |very |absolutely )*(?:mad|crazy|passionate|wild|nuts|keen|big) "
            r"(?:about|on|into)\s+(?P<v>.+)"
        ):
            yield clause.verb("like", match["v"])
        return
    verb, value = match["verb"].casefold(), match["v"]
    if verb in {"would rather", "would prefer", "prefer", "prefers"}:
        yield clause.verb("prefer", re.sub(r"\s+(?:to|over|rather than)\s+(?!be\b|have\b)\w+$", "", value))
        return
    pronoun = re.match(r"^(?:it|that|this|you|your|him|her|them)\b", value, re.IGNORECASE)
    if verb == "would love" or (pronoun and clause.subject == USER):
        return
    negative = verb in {"hate", "hates", "dislike", "dislikes", "can not stand", "can not bear"}
    polarity = Polarity.NEGATED if bool(match["not"]) != negative else Polarity.AFFIRMED
    for each in re.split(r"\s+and\s+(?=\w+$)", value):
        yield clause.verb("like", each, polarity=polarity)


def _minding(clause: Clause) -> Iterator[Change]:
    """ "i'm fine with cider", "i don't mind stairs"."""
    if match := clause.match(
        r"(?:am|is|are) (?:perfectly |totally |quite |really )?(?:okay|ok|fine|good|happy|cool|"
        r"comfortable) with\s+(?P<v>.+)|"
        r"(?:do|does) not mind\s+(?P<w>.+)"
    ):
        value = trimmed(match["v"] or match["w"])
        if not re.match(
            r"^(?:that|it|this|either|any|whatever|you|waiting|holding|me)\b", value, re.IGNORECASE
        ):
            yield clause.verb("be fine with", value)


def _wanting(clause: Clause) -> Iterator[Change]:
    match = clause.match(
        r"(?P<not>do not |does not )?(?P<verb>need|needs|want|wants|would like|require|requires)\s+(?P<v>.+)"
    )
    if match is None and (
        duty := clause.match(r"(?:have|has|need|needs) to\s+(?P<v>(?:be|leave|take|use|pay|wear|avoid) .+)")
    ):
        yield clause.verb("have to", duty["v"])
        return
    if avoided := clause.match(
        r"(?:try to |tries to )?(?:avoids?|stays? (?:away from|off|clear of)|steers? clear of|keeps? off)\s+(?P<v>.+)"
    ):
        yield clause.verb("want", avoided["v"], polarity=Polarity.NEGATED)
        return
    if match is None or re.match(
        r"^(?:you|to know|to ask|to say|it|that|this|to talk|to think)\b", match["v"], re.IGNORECASE
    ):
        return
    verb = "need" if match["verb"].casefold().startswith(("need", "require")) else "want"
    if no := re.match(
        r"^(?:no|nothing|(?:anything|everything) (?:but|except)|to avoid)\s+(?P<v>.+)$",
        match["v"],
        re.IGNORECASE,
    ):
        if not re.match(r"^(?:else|to do with|part|idea|help|one|such)\b", no["v"], re.IGNORECASE):
            yield clause.verb(verb, no["v"], polarity=Polarity.NEGATED)
        return
    yield clause.verb(verb, match["v"], polarity=Polarity.NEGATED if match["not"] else Polarity.AFFIRMED)


def _progressive(clause: Clause) -> Iterator[Change]:
    """ "is learning japanese", "are flying to lisbon on ...", "am going to move"."""
    match = clause.match(rf"(?:{BE}|have been|has been)\s+(?:{ADVERB}\s+)*(?P<ing>\w+ing)\s*(?P<v>.*)")
    if match is None:
        return
    ing, value = match["ing"].casefold(), trimmed(match["v"])
    partner = re.match(
        r"^(?:out )?with (?:an? )?(?:guy|girl|man|woman|boy|lady)?\s*(?:called|named)\s+(.+)$",
        value,
        re.IGNORECASE,
    )
    if partner and ing in {"going", "dating", "living"}:
        if name := person_name(partner[1], strict=False):
            yield Clause("partner", "").noun("name", name)
    elif ing in {"planning", "hoping", "intending", "thinking"} or (
        ing == "going" and value.startswith("to ")
    ):
        if value.startswith("to ") and len(value.split()) > 2:
            planned = ing != "going" or lemma(value.split()[1]) == value.split()[1].casefold()
            yield clause.verb(
                "plan" if planned else "be going", value, shown="plans" if planned else "is going"
            )
        elif ing == "going" and len(value.split()) == 2:
            yield clause.verb("be going", value, shown="is going")
    elif ing == "calling":
        if found := re.match(r"^(?:about|because of|regarding)\s+(.+)$", value, re.IGNORECASE):
            yield clause.verb("call about", found[1], shown="is calling about")
    elif lemma(ing) in HABIT_VERBS | EVENT_VERBS - {"go"}:
        yield clause.verb(lemma(ing), value, shown=f"is {ing}")
    elif ing == "looking" and re.match(r"^(?:at|up|through|into|forward)\b", value):
        return
    elif value and ing not in _SAID_NOTHING:
        yield clause.verb(f"be {ing}", value, shown=f"is {ing}")


def _denying(clause: Clause) -> Iterator[Change]:
    if been := clause.match(r"(?:have|has) never (?:ever )?been to\s+(?P<v>.+)"):
        said = clause.verb("have been to", been["v"], polarity=Polarity.NEGATED)
        statement = sentence(clause.subject, "", f"has never been to {said.value}", name=clause.name)
        yield replace(said, statement=statement)
        return
    doing = clause.match(rf"(?:(?:am|is|are) not|will not be) (?:{ADVERB} )?(?P<ing>\w+ing)\s*(?P<v>.*)")
    if doing and lemma(doing["ing"]) in HABIT_VERBS | EVENT_VERBS:
        shown = f"is {doing['ing'].casefold()}"
        yield clause.verb(lemma(doing["ing"]), doing["v"], polarity=Polarity.NEGATED, shown=shown)
        return
    match = clause.match(
        r"(?:(?P<aux>do|does|can|could|will|would|may) not|never|(?P<no>no longer))\s+(?:ever\s+|even\s+|"
        r"really\s+)?"
        r"(?P<verb>[\w']+)\s*(?P<v>.*)"
    )
    if match is None:
        return
    verb, able = lemma(match["verb"]), (match["aux"] or "").casefold() == "can"
    known = verb in HABIT_VERBS | EVENT_VERBS | {"have", "own"}
    known = known or (
        verb in {"do", "touch"} and re.match(r"^(?!it|that|this|any|so|much|well)\w", match["v"]) is not None
    )
    if verb in _NOT_DENIED or not (able or known):
        return
    value = trimmed(match["v"])
    if match["no"] or re.search(r"\b(?:any ?more|any longer)\b", clause.text, re.IGNORECASE):
        yield ending(clause, value) if value else ending(clause, "", verb)
    shown = f"can not {verb}" if able else verb
    yield clause.verb("have" if verb in OWNING else verb, value, polarity=Polarity.NEGATED, shown=shown)


def _doing(clause: Clause) -> Iterator[Change]:
    """Any verb of the lists, in the present or, for events, in the past."""
    match = clause.match(rf"(?:(?:have|has|can)\s+)?(?:{ADVERB}\s+)*(?P<verb>[\w']+)\s*(?P<v>.*)")
    if match is None:
        return
    said, value = match["verb"].casefold(), trimmed(match["v"])
    verb = lemma(said)
    present = said in {verb, f"{verb}s", f"{verb}es", f"{verb[:-1]}ies"}
    if verb in HABIT_VERBS and present:
        if re.match(
            r"^(?:back|ahead|on$|now|and|nothing|no (?:one|part|idea|help))\b", value, re.IGNORECASE
        ) or not (value or verb in _INTRANSITIVE):
            return
        if none := re.match(r"^(?:no|(?:anything|everything) (?:but|except))\s+(.+)$", value, re.IGNORECASE):
            yield clause.verb(verb, none[1], polarity=Polarity.NEGATED)
            return
        if without := re.match(r"^(.*?)\s+but (?:no|not|never)\s+(.+)$", value, re.IGNORECASE):
            value = without[1]
            yield clause.verb(verb, without[2], polarity=Polarity.NEGATED)
        instead = re.search(r"\bnow$", match["v"], re.IGNORECASE) and verb in _CHANGING
        dated = value_class(value)
        whole = dated is not None and dated[0] == "date"  # "on mondays and tuesdays" is one value
        whole = whole or _NAMED_ANIMALS.search(value) is not None
        for each in [value] if whole else _AND.split(value):
            to = verb == "go" and each.startswith("to ")
            yield clause.verb(
                "go to" if to else verb,
                each.removeprefix("to ") if to else each,
                cardinality=Cardinality.ONE
                if instead or (to and clause.subject != USER)
                else Cardinality.MANY,
            )
    elif verb in EVENT_VERBS and (value or verb in _INTRANSITIVE):
        yield clause.verb(verb, value, shown=said)


_FRAMES: tuple[Callable[[Clause], Iterator[Change]], ...] = (
    over, stopping, starting, marrying, names, _paying, _minding, being, _living, _having, _liking, _wanting,
    _progressive, _denying, _doing, open_predicate,
)  # fmt: skip
