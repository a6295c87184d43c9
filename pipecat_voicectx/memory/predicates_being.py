"""Frames of "to be": names, ages, homes, occupations, allergies, states."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from pipecat_voicectx.memory.clause import ADVERB, BE, Clause
from pipecat_voicectx.memory.facts import USER, Change, Polarity
from pipecat_voicectx.memory.frames import ADJECTIVES, is_occupation, sentence, third_person
from pipecat_voicectx.memory.spoken_english import PERSON_RELATIONS, PETS, is_number_phrase, value_class
from pipecat_voicectx.memory.subjects import person_name, trimmed

__all__ = ["being", "names"]

_WHEN = re.compile(
    r"\s+(?:in \w+|yesterday|today|tomorrow|last \w+|this \w+|next \w+|on \w+)$", re.IGNORECASE
)
_LIVES_NOW = re.compile(
    r"\b(?:these days|nowadays|now|currently|since|at the (?:moment|minute)|for about)\b", re.IGNORECASE
)
_YEARS = re.compile(r"\s*(?:years? old|years? of age)$", re.IGNORECASE)
_NOT_A_PLACE = re.compile(
    r"^at (?:home|work|the moment|school|university|uni|college|a loss|risk)\b", re.IGNORECASE
)


_NAMED = re.compile(
    r"^(?:named|call|calls|called|are naming|are calling) (?:the|my|our|his|her) (?:new |little "
    r")?(?P<who>[\w-]+) (?P<v>[\w' -]+)$",
    re.IGNORECASE,
)


def names(clause: Clause) -> Iterator[Change]:
    """ "is called tom", "goes by bob", "i am robert"."""
    if match := clause.match(
        rf"{BE} (?:(?:an?|this|some) (?:\w+ )??(?:woman|man|guy|lady|girl|boy|chap|bloke|person|fellow|"
        rf"kid) )?(?:called|named)\s+(?P<v>.+)|"
        r"(?:goes|go) by\s+(?P<w>.+)"
    ):
        if name := person_name(match["v"] or match["w"], strict=False):
            yield clause.noun("name", name)
    elif (match := _NAMED.match(clause.text)) and match["who"].casefold() in PERSON_RELATIONS | PETS:
        if name := person_name(match["v"], strict=False):
            yield Clause(match["who"].casefold(), "").noun("name", name)
    elif match := clause.match(rf"{BE}\s+(?:{ADVERB}\s+)?(?P<v>.+)"):
        name = person_name(match["v"], strict=True)
        if name is not None and not (clause.subject == USER and is_occupation(match["v"])):
            yield clause.noun("name", name)


def being(clause: Clause) -> Iterator[Change]:
    """What the subject is."""
    match = clause.match(rf"(?P<be>{BE}|turns|turned|will be|will turn)\s+(?:{ADVERB}\s+)?(?P<v>.+)")
    if match is None:
        return
    value = trimmed(match["v"])
    negated = re.match(r"^not\s+(.+)$", value, re.IGNORECASE)
    polarity = Polarity.NEGATED if negated else Polarity.AFFIRMED
    value = negated[1] if negated else value
    age = _YEARS.sub("", _WHEN.sub("", value))
    if is_number_phrase(age) and match["be"].casefold() not in {"was", "were"}:
        yield _age(clause, age, polarity)
    elif found := re.match(r"^(.+?) (?:people|persons|adults|of us)$", value, re.IGNORECASE):
        if is_number_phrase(found[1]) and clause.subject == USER:
            yield clause.noun("party size", found[1], polarity=polarity)
    elif found := re.match(r"^(?:\w+\s+)?(?:allergic|intolerant) to (.+)$", value, re.IGNORECASE):
        for each in re.split(r"\s+and\s+(?:to\s+)?", found[1]):
            yield clause.verb("be allergic to", each, polarity=polarity)
    elif found := re.match(
        r"^(?:\w+ )?(?:afraid|scared|terrified|frightened) of (.+)$", value, re.IGNORECASE
    ):
        yield clause.verb("be afraid of", found[1], polarity=polarity)
    elif found := re.match(r"^(?:based|living|located)\s+in (.+)$", value, re.IGNORECASE):
        yield clause.verb("live in", found[1])
    elif found := re.match(r"^(?:originally )?from (.+)$", value, re.IGNORECASE):
        yield clause.verb("come from", found[1], polarity=polarity)
    elif found := re.match(r"^(?:an? )?(?:\w+ )?fan of (.+)$|^(?:really )?into (.+)$", value, re.IGNORECASE):
        yield clause.verb("like", found[1] or found[2], polarity=polarity)
    elif found := re.match(r"^(?:now )?(?:working|employed|hired) as (?:an? )?(.+)$", value, re.IGNORECASE):
        yield clause.verb("work as", found[1], polarity=polarity)
    elif found := re.match(r"^an? size (.+)$", value, re.IGNORECASE):
        yield clause.noun("size", found[1], polarity=polarity)
    elif (
        found := re.match(
            r"^in (?:an?|our|my|the) (?:[\w-]+ ){0,2}?(?:flat|house|apartment|place|cottage|bungalow|studio|"
            r"loft|farmhouse) "
            r"(?:in|near|outside|by) (?P<v>[\w' -]+?)(?: (?:at|for|since|until|till)\b.*)?$",
            value,
            re.IGNORECASE,
        )
    ) or (
        found := re.match(
            r"^back in (?P<v>(?!a |an |the |my |charge|love)[\w ]+)$", trimmed(value), re.IGNORECASE
        )
    ):
        yield clause.verb("live in", found["v"])
    elif _LIVES_NOW.search(clause.text) and (
        found := re.match(r"^in ((?!a |an |the |my |charge|love)[\w ]+)$", value)
    ):
        yield clause.verb("live in", found[1])
    elif _LIVES_NOW.search(clause.text) and (found := re.match(r"^at ((?:the|a|an) [\w ]+)$", value)):
        yield clause.verb("be staying", f"at {found[1]}", shown="is staying")
    elif found := re.match(r"^born (?:(on)|in|at) (.+)$", value, re.IGNORECASE):
        dated = (
            found[1]
            or value_class(found[2]) is not None
            or found[2][0].isdigit()
            or is_number_phrase(found[2])
        )
        yield clause.noun("birthday" if dated else "birthplace", trimmed(found[2]))
    else:
        yield from _so(clause, value, polarity)


def _age(clause: Clause, age: str, polarity: Polarity) -> Change:
    said = clause.noun("age", age, polarity=polarity)
    predicate = third_person("is", f"{age} years old", polarity)
    return replace(said, statement=sentence(clause.subject, "", predicate, name=clause.name))


def _so(clause: Clause, value: str, polarity: Polarity) -> Iterator[Change]:
    doing = re.match(r"^(?!nothing\b|something\b)\w+ing\b", value) is not None
    if not value or (doing and (clause.subject == USER or not value.startswith("working"))):
        return
    article = re.match(r"^(?:an?|the)\s+(.+)$", value, re.IGNORECASE)
    noun = article[1] if article else value
    head = noun.split()[0].casefold()
    if article and is_occupation(noun) and head not in ADJECTIVES:
        yield clause.verb("work as", noun, polarity=polarity)
    elif clause.subject != USER:
        yield from _somebody_else(clause, value, noun if article else None, polarity)
    elif head in ADJECTIVES or (article and noun.split()[-1].casefold() in ADJECTIVES):
        yield clause.verb("be", value, polarity=polarity)
    elif found := re.match(r"^a member of (.+)$", value, re.IGNORECASE):
        yield clause.verb("be a member of", found[1], polarity=polarity)
    elif found := re.match(r"^on (\w+(?: \w+)?)$", value, re.IGNORECASE):
        yield clause.verb("be on", found[1], polarity=polarity)
    elif found := re.match(r"^(?:at )?home (.+)$", value, re.IGNORECASE):
        yield clause.verb("be home", found[1], polarity=polarity)


def _somebody_else(clause: Clause, value: str, noun: str | None, polarity: Polarity) -> Iterator[Change]:
    if len(value.split()) > 8:
        return
    if noun is not None:
        said = clause.verb("be", value, polarity=polarity)
        predicate = third_person("is", value, polarity)
        yield replace(said, statement=sentence(clause.subject, "", predicate, name=clause.name))
    elif value.startswith("at ") and not _NOT_A_PLACE.match(value):
        yield clause.state("go to", value.removeprefix("at "), value, polarity=polarity)
    else:
        yield clause.state("state", value, value, polarity=polarity)
