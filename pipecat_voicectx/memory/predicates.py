"""What one clause states about whom: the grammar of the rule-based fact extraction.

A clause is a subject ("i", "my sister sarah", "she", "the gate code") and a predicate. Predicates are tried as frames
in a fixed order: names, being, having, living and working, liking, contact details, plans, then any verb of a list.
Verbs that are on no list state nothing we would want to remember, so most small talk falls through by itself.

Known limits: English only; one object per verb unless joined by "and"; pronouns mean the last person or thing of
their kind; sarcasm and indirect speech beyond "X said ..." are taken at their word or missed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pipecat_voicectx.memory.facts import USER, Assertion, Cardinality, Change, Ending, Polarity
from pipecat_voicectx.memory.frames import (
    ADJECTIVES,
    CONSUMING,
    EVENT_VERBS,
    HABIT_VERBS,
    ONE_VALUE_VERBS,
    OWNING,
    PARTNERS,
    THINGS,
    WORKING,
    is_occupation,
    sentence,
    third_person,
)
from pipecat_voicectx.memory.spoken_english import (
    GENDER,
    GIVEN_NAMES,
    PERSON_RELATIONS,
    PETS,
    is_number_phrase,
    lemma,
)

__all__ = ["Referents", "Subject", "parse_subject", "person_name", "state_changes", "trimmed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Referents:
    """Whom names and pronouns mean."""

    names: tuple[tuple[str, str], ...] = ()
    """Pairs of a name in lower case and the subject that bears it."""
    she: str | None = None
    he: str | None = None
    it: str | None = None
    """The thing spoken of last, as a noun."""

    def bearer(self, name: str) -> str | None:
        """The subject that bears `name`, the latest one said."""
        return next((subject for known, subject in reversed(self.names) if known == name.casefold()), None)

    def name_of(self, subject: str) -> str | None:
        """The name of a subject, the latest one said, capitalized."""
        known = next((name for name, bearer in reversed(self.names) if bearer == subject), None)
        return person_name(known, strict=False) if known else None

    def seen(self, subject: str, name: str | None = None) -> Referents:
        """These, after `subject` was spoken of."""
        if subject == USER:
            return self
        gender = GENDER.get(subject.split()[0])
        names = self.names
        if name and (name.casefold(), subject) not in names:
            # Bounded: a call that names more people than this has other problems than pronouns.
            names = (*names[-63:], (name.casefold(), subject))
        person = subject.split()[0] in PERSON_RELATIONS | PETS or subject in GIVEN_NAMES
        return replace(
            self,
            names=names,
            she=subject if person and gender != "he" else self.she,
            he=subject if person and gender != "she" else self.he,
            it=self.it if person and subject.split()[0] not in PETS else subject,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Whom a clause is about."""

    key: str
    """As `Fact.subject`."""
    name: str | None = None
    """A name that stood beside the relation."""
    attribute: str | None = None
    """A noun of the subject's, when the clause is about that: "phone number" of "my phone number is"."""
    plural_we: bool = field(default=False)


_ADVERB = (
    r"(?:really|just|also|actually|now|usually|always|still|already|recently|only|even|currently|normally|mostly|"
    r"absolutely|totally|definitely|probably|finally|sometimes|often|generally|both|all|quite|so|very|since|mainly|"
    r"happily|basically|have just|has just|kind of|sort of)"
)
_TAIL = re.compile(
    r"(?:[\s,]+(?:right now|now|at the moment|these days|any ?more|any longer|again|too|as well|also|though|actually|"
    r"really|you know|to be honest|by the way|please|thanks|thank you|i think|i guess|for now|instead|if possible|okay|"
    r"yeah|a lot|very much|so much|and|but|or|so|because|myself|in total|altogether))+$",
    re.IGNORECASE,
)
_BE = r"(?:am|is|are|was|were)"
_NAME_STOP = re.compile(
    r"\s+(?:with|spelled|and|but|by|from|speaking|here|who|actually|not|calling|or|is|as|too)\b.*$", re.I
)
_NOT_A_NAME_TEXT = """not a an the my our your his her in on at so very really just going coming calling here there back
fine good okay ok sorry sure happy sad tired late ready busy glad afraid done home new old he she it they we i what"""
_NOT_A_NAME = frozenset(_NOT_A_NAME_TEXT.split())
_TITLE = re.compile(r"^(?:doctor|dr|mr|mrs|miss|ms|professor|sister|father|aunt|uncle)\.?\s+", re.IGNORECASE)

_POSSESSED = re.compile(
    r"^(?:my|our)\s+(?P<np>(?:[\w'’-]+\s+){0,4}?[\w'’-]+)\s+(?P<rest>(?:(?:"
    + _ADVERB
    + r")\s+)?(?P<verb>[\w']+)\b.*)$",
    re.IGNORECASE,
)
_THE = re.compile(
    r"^the\s+(?P<np>(?:[\w'’-]+\s+){0,2}?[\w'’-]+)\s+(?P<rest>(?:is|are|was|has|have|got|starts|leaves|ends)\b.*)$",
    re.I,
)
_AGE_ADJECTIVE = re.compile(
    r"^(?:new|old|older|younger|elder|eldest|youngest|big|little|best|other|late|dear|baby|own)\s+", re.I
)


def person_name(text: str, *, strict: bool) -> str | None:
    """The name at the start of `text`, capitalized; None when it does not read like one.

    `strict` wants a known given name, a title or a capital; otherwise any one to three words will do.
    """
    text = _NAME_STOP.sub("", text.strip(" ,.")).strip()
    words = text.split()
    if (
        not 1 <= len(words) <= 3
        or words[0].casefold() in _NOT_A_NAME
        or not words[0].replace("'", "").isalpha()
    ):
        return None
    known = words[0].casefold() in GIVEN_NAMES or words[0][0].isupper() or _TITLE.match(text) is not None
    if strict and not known:
        return None
    return " ".join(word if word[0].isupper() else word[0].upper() + word[1:] for word in words)


def trimmed(value: str) -> str:
    """A value without what only frames it: "now", "please", "to be honest"."""
    return _TAIL.sub("", value.strip(" ,.")).strip(" ,.")


def parse_subject(clause: str, referents: Referents) -> tuple[Subject, str] | None:
    """Whom the clause is about, and its predicate; None when it is about nobody we keep facts of."""
    if match := re.match(
        r"^(?:i|we|me and (?:my )?\w+|my \w+ and i|\w+ and i)\s+(.+)$", clause, re.IGNORECASE
    ):
        return Subject(key=USER), match[1]
    if match := re.match(r"^(she|he)\s+(.+)$", clause, re.IGNORECASE):
        key = referents.she if match[1].casefold() == "she" else referents.he
        return (Subject(key=key), match[2]) if key else None
    if match := re.match(r"^it\s+(.+)$", clause, re.IGNORECASE):
        return (Subject(key=referents.it), match[1]) if referents.it else None
    if match := _POSSESSED.match(clause):
        return _possessed(clause, referents)
    if match := _THE.match(clause):
        noun = match["np"].casefold()
        if noun.split()[-1] in THINGS | PETS or noun == referents.it:
            return _noun_subject(noun), match["rest"]
        return None
    words = clause.split()
    if len(words) >= 2 and (bearer := referents.bearer(words[0])):
        return Subject(key=bearer, name=words[0]), " ".join(words[1:])
    if len(words) >= 2 and words[0].casefold() in GIVEN_NAMES and _is_verb(words[1]):
        return Subject(key=words[0].casefold(), name=words[0]), " ".join(words[1:])
    return None


def _is_verb(word: str) -> bool:
    base = lemma(word)
    return base in HABIT_VERBS | EVENT_VERBS | {
        "be",
        "have",
        "do",
        "go",
        "live",
        "work",
        "turn",
        "die",
        "pass",
        "can",
        "will",
    }


def _possessed(clause: str, referents: Referents) -> tuple[Subject, str] | None:
    words = clause.split()
    for end in range(2, min(7, len(words))):
        if not _is_verb(words[end]) and words[end].casefold() not in {
            "never",
            "used",
            "also",
            "just",
            "really",
            "no",
        }:
            continue
        noun = " ".join(words[1:end])
        rest = " ".join(words[end:])
        possessor = re.match(r"^(?P<who>[\w ]+?)['’]?s['’]?\s+(?P<what>[\w ]+)$", noun)
        if possessor and possessor["who"].split()[-1].casefold() in PERSON_RELATIONS | PETS:
            return Subject(key=_relation(possessor["who"]), attribute=possessor["what"].casefold()), rest
        return _noun_subject(noun), rest
    return None


def _relation(noun: str) -> str:
    while (shorter := _AGE_ADJECTIVE.sub("", noun)) != noun:
        noun = shorter
    return noun.casefold()


def _noun_subject(noun: str) -> Subject:
    bare = _relation(noun)
    words = bare.split()
    kin = PERSON_RELATIONS | PETS
    if words[0] in kin:
        return Subject(key=words[0], name=noun.split()[-1] if len(words) > 1 else None)
    if words[-1] in kin:
        return Subject(key=words[-1])
    singular = words[-1].removesuffix("s")
    if singular in kin:
        return Subject(key=words[-1])
    return Subject(key=USER, attribute=noun.casefold())


def state_changes(subject: Subject, predicate: str, referents: Referents) -> list[Change]:
    """What a clause states, in order; empty when it states nothing to keep."""
    out: list[Change] = []
    if (
        subject.name
        and subject.key not in (USER, subject.name.casefold())
        and referents.bearer(subject.name) is None
    ):
        out.append(_one(subject.key, "name", person_name(subject.name, strict=False) or subject.name))
    if subject.attribute is not None:
        return out + list(_noun_frame(subject, predicate))
    name = person_name(subject.name, strict=False) if subject.name else referents.name_of(subject.key)
    return out + list(_Clause(subject.key, predicate, name).changes())


def _one(subject: str, attribute: str, value: str, **more: object) -> Assertion:
    polarity = more.get("polarity", Polarity.AFFIRMED)
    assert isinstance(polarity, Polarity)
    return Assertion(
        subject=subject,
        attribute=attribute,
        value=value,
        statement=sentence(subject, f"'s {attribute}", third_person("is", value, polarity)),
        polarity=polarity,
        cardinality=Cardinality.ONE,
    )


def _noun_frame(subject: Subject, predicate: str) -> Iterator[Change]:
    """ "my phone number is ...", "our anniversary is ...", "the boiler is not working"."""
    assert subject.attribute is not None
    noun = subject.attribute
    if re.match(
        r"^(?:is|are|was|got|has been|have been) (?:cancelled|canceled|called off)", predicate, re.IGNORECASE
    ):
        yield Ending(subject=USER, attributes=frozenset(), value=noun)
        return
    match = re.match(
        rf"^(?:{_ADVERB}\s+)?(?:{_BE}|will be|ends in|is now)\s+(?P<not>not\s+)?(?:{_ADVERB}\s+)?(?P<v>.+)$",
        predicate,
        re.I,
    )
    if match is None:
        return
    value = trimmed(match["v"])
    if not value or len(value.split()) > 12:
        return
    noun = {"first name": "name", "full name": "name", "surname": "last name", "favorite": "favourite"}.get(
        noun, noun
    )
    if noun in {"name", "last name"}:
        name = person_name(value, strict=False)
        if name is not None:
            yield _one(subject.key, noun, name)
        return
    polarity = Polarity.NEGATED if match["not"] else Polarity.AFFIRMED
    yield _one(subject.key, noun, value, polarity=polarity)


@dataclass(slots=True)
class _Clause:
    """The frames of one predicate; `changes` yields what the first that fits says."""

    subject: str
    text: str
    name: str | None = None

    def changes(self) -> Iterator[Change]:
        text = re.sub(rf"^(?:{_ADVERB}\s+)+(?=\w)", "", self.text.strip(), flags=re.IGNORECASE)
        self.text = text
        for frame in (
            self._over, self._marrying, self._names, self._contact, self._being, self._having, self._living, self._liking,
            self._wanting, self._progressive, self._denying, self._doing,
        ):  # fmt: skip
            found = list(frame())
            if found:
                yield from found
                return

    def _match(self, pattern: str) -> re.Match[str] | None:
        return re.match(rf"^(?:{pattern})$", self.text, re.IGNORECASE)

    def _verb(
        self, verb: str, value: str, *, polarity: Polarity = Polarity.AFFIRMED, shown: str | None = None
    ) -> Assertion:
        value = trimmed(value)
        return Assertion(
            subject=self.subject,
            attribute=verb,
            value=value,
            statement=sentence(
                self.subject, "", third_person(shown or verb, value, polarity), name=self.name
            ),
            polarity=polarity,
            cardinality=Cardinality.ONE if verb in ONE_VALUE_VERBS else Cardinality.MANY,
        )

    def _over(self) -> Iterator[Change]:
        """What has ended: jobs, couples, lives, habits."""
        if self._match(
            r"(?:quit|left|lost|gave up) (?:my|the|her|his|their) job.*|got (?:laid off|fired|sacked|made redundant).*|(?:was|were) (?:laid off|fired|made redundant).*"
        ):
            yield Ending(subject=self.subject, attributes=WORKING)
        elif self._match(
            r"(?:have |has )?(?:broke|broken|split) up.*|(?:got|are|am|is) (?:divorced|separated).*|are not together.*"
        ):
            for partner in sorted(PARTNERS):
                yield Ending(subject=partner, attributes=frozenset())
        elif match := self._match(
            r"(?:has |have )?(?:just )?(?:died|passed away|passed on|is dead|is no longer with us)(?P<v>.*)"
        ):
            yield Ending(subject=self.subject, attributes=frozenset())
            if self.subject != USER:
                yield Assertion(
                    subject=self.subject, attribute="state", value=f"died{match['v']}".strip(), cardinality=Cardinality.ONE,
                    statement=sentence(self.subject, "", f"died{match['v']}".strip()),
                )  # fmt: skip
        elif match := self._match(
            r"(?:(?:was|were|got) told to |(?:have|has|had) to |should |must |recently )?"
            r"(?:stop|stopped|quit|gave up|give up|given up|have stopped|have given up|have quit|has stopped)\s+(?P<v>.+)"
        ):
            yield from self._stopped(match["v"])
        elif match := self._match(r"used to (?P<verb>[\w']+)\s*(?P<v>.*)"):
            yield Ending(
                subject=self.subject, attributes=frozenset({lemma(match["verb"])}), value=trimmed(match["v"])
            )
        elif match := self._match(
            r"(?:left|sold|got rid of|cancelled|canceled|dropped out of|gave away)\s+(?:the|my|our)\s+(?P<v>.+)"
        ):
            yield Ending(subject=self.subject, attributes=frozenset(), value=trimmed(match["v"]))
        elif match := self._match(
            rf"{_BE}\s+no longer\s+(?:(?:in|at|on|with|part of|a member of)\s+)?(?P<v>.+)"
        ):
            yield Ending(subject=self.subject, attributes=frozenset(), value=trimmed(match["v"]))
        elif match := self._match(r"(?:has |have )?(?:switched|changed|gone over|went over) to (?P<v>.+)"):
            yield self._verb("switch to", match["v"], shown="switched to")

    def _marrying(self) -> Iterator[Change]:
        if match := self._match(r"(?:have |has )?(?:just )?(?:got|get|getting|were|was) married\s*(?P<v>.*)"):
            yield self._verb("marry", match["v"], shown="got married")

    def _stopped(self, what: str) -> Iterator[Change]:
        words = trimmed(what).split()
        if not words:
            return
        verb, value = lemma(words[0]), " ".join(words[1:])
        if not words[0].endswith("ing"):
            verb, value = "do", " ".join(words)
        if not value:
            verb, value = "do", words[0]
        yield Ending(subject=self.subject, attributes=frozenset(), value=value)
        yield self._verb(verb, value, polarity=Polarity.NEGATED)

    def _names(self) -> Iterator[Change]:
        """Names and nicknames."""
        if match := self._match(rf"{_BE} (?:called|named)\s+(?P<v>.+)|(?:goes|go) by\s+(?P<w>.+)"):
            name = person_name(match["v"] or match["w"], strict=False)
            if name:
                yield _one(self.subject, "name", name)
        elif match := self._match(rf"{_BE}\s+(?P<v>.+)"):
            name = person_name(match["v"], strict=True)
            if name is None or (self.subject == USER and is_occupation(match["v"])):
                return
            yield _one(self.subject, "name", name)

    def _contact(self) -> Iterator[Change]:
        if self.subject == USER and (
            match := self._match(
                r"can (?:pay|spend|afford)\s+(?:up to |at most |about |around |maximum )?(?P<v>.+)"
            )
        ):
            yield _one(USER, "budget", trimmed(match["v"]))

    def _being(self) -> Iterator[Change]:
        """What the subject is."""
        match = self._match(rf"(?P<be>{_BE}|turns|turned|will be|will turn)\s+(?:{_ADVERB}\s+)?(?P<v>.+)")
        if match is None:
            return
        value = trimmed(match["v"])
        negated = re.match(r"^not\s+(.+)$", value, re.IGNORECASE)
        polarity = Polarity.NEGATED if negated else Polarity.AFFIRMED
        value = negated[1] if negated else value
        age = re.sub(
            r"\s*(?:years? old|years? of age)$", "", re.sub(r"\s+in\s+\w+$", "", value), flags=re.IGNORECASE
        )
        if is_number_phrase(age) and match["be"].casefold() not in {"was", "were"}:
            yield replace(
                _one(self.subject, "age", age),
                statement=sentence(
                    self.subject, "", third_person("is", f"{age} years old", polarity), name=self.name
                ),
                polarity=polarity,
            )
        elif found := re.match(r"^(?:\w+\s+)?(?:allergic|intolerant) to (.+)$", value, re.IGNORECASE):
            for each in re.split(r"\s+and\s+(?:to\s+)?", found[1]):
                yield self._verb("be allergic to", each, polarity=polarity)
        elif found := re.match(r"^(?:based|living|located)\s+in (.+)$", value, re.IGNORECASE):
            yield self._verb("live in", found[1])
        elif found := re.match(r"^(?:originally )?from (.+)$", value, re.IGNORECASE):
            yield self._verb("come from", found[1], polarity=polarity)
        elif found := re.match(
            r"^(?:an? )?(?:\w+ )?fan of (.+)$|^(?:really )?into (.+)$", value, re.IGNORECASE
        ):
            yield self._verb("like", found[1] or found[2], polarity=polarity)
        elif found := re.match(
            r"^(?:now )?(?:working|employed|hired) as (?:an? )?(.+)$", value, re.IGNORECASE
        ):
            yield self._verb("work as", found[1], polarity=polarity)
        elif found := re.match(r"^born (?:(on)|in|at) (.+)$", value, re.IGNORECASE):
            yield _one(self.subject, "birthday" if found[1] else "birthplace or date", trimmed(found[2]))
        else:
            yield from self._being_so(value, polarity)

    def _being_so(self, value: str, polarity: Polarity) -> Iterator[Change]:
        article = re.match(r"^(?:an?|the)\s+(.+)$", value, re.IGNORECASE)
        if re.match(r"^\w+ing\b", value, re.IGNORECASE) and value.split()[0].casefold() not in {
            "nothing",
            "something",
        }:
            return
        head = (article[1] if article else value).split()[0].casefold() if value else ""
        if is_occupation(article[1] if article else "") and head not in ADJECTIVES:
            assert article is not None
            yield self._verb("work as", article[1], polarity=polarity)
        elif self.subject == USER:
            if head in ADJECTIVES or (article and article[1].split()[-1].casefold() in ADJECTIVES):
                yield self._verb("be", value, polarity=polarity)
            elif found := re.match(r"^on (\w+(?: \w+)?)$", value, re.IGNORECASE):
                yield self._verb("be on", found[1], polarity=polarity)
            elif found := re.match(r"^(?:at )?home (.+)$", value, re.IGNORECASE):
                yield self._verb("be home", found[1], polarity=polarity)
        elif value and len(value.split()) <= 8:
            verb = "be a" if article else "state"
            yield replace(
                self._verb("be" if article else "state", value, polarity=polarity),
                statement=sentence(self.subject, "", third_person("is", value, polarity), name=self.name),
                cardinality=Cardinality.MANY if verb == "be a" else Cardinality.ONE,
            )

    def _having(self) -> Iterator[Change]:
        match = self._match(r"(?P<verb>have got|has got|have|has|had|got|own|owns)\s+(?P<v>.+)")
        if match is None or re.match(
            r"^(?:to|been|not|never|\w+ed|gone|bought|seen|heard|had|no idea)\b", match["v"], re.I
        ):
            return
        value, past = trimmed(match["v"]), match["verb"].casefold() in {"had", "got"}
        if found := re.match(
            r"^(?:an?|my|our|the)\s+(?P<n>(?:[\w-]+\s+){0,2}?[\w-]+)\s+(?P<w>(?:on|at|for|in|next|this|tomorrow)\b.+)$",
            value,
            re.I,
        ):
            if found["n"].split()[-1].casefold() in THINGS:
                yield _one(self.subject, found["n"].casefold(), found["w"])
                return
        if no := re.match(r"^no\s+(.+)$", value, re.IGNORECASE):
            yield self._verb("have", no[1], polarity=Polarity.NEGATED)
            return
        named = re.match(r"^(?P<n>.+?)\s+(?:called|named|whose name is)\s+(?P<w>.+)$", value, re.IGNORECASE)
        if named:
            value = named["n"]
        verb = "have" if not past else ("have had" if match["verb"].casefold() == "had" else "get")
        if past and not re.search(
            r"\b(?:surgery|operation|accident|baby|heart attack|stroke|puppy|kitten|dog|cat|job)\b",
            value,
        ):
            return
        yield self._verb(verb, value)
        if named and (name := person_name(named["w"], strict=False)):
            yield _one(value.split()[-1].casefold(), "name", name)

    def _living(self) -> Iterator[Change]:
        """Where the subject lives, works, comes from."""
        if match := self._match(r"(?:live|lives|living|reside|resides)\s+(?:in|at|near|on)\s+(?P<v>.+)"):
            yield self._verb("live in", re.sub(r"\s+with\s+(?:my|our|his|her)\b.*$", "", match["v"]))
            if found := re.search(r"\swith my (\w+) (\w+)$", self.text, re.IGNORECASE):
                name = person_name(found[2], strict=True)
                if found[1].casefold() in PERSON_RELATIONS and name:
                    yield _one(found[1].casefold(), "name", name)
        elif match := self._match(
            r"(?:have |has )?(?:just |recently )?moved\s+(?:back |over |house |home )?to\s+(?P<v>.+?)"
            r"(?:\s+(?:last|this|in|for|to be|with|because|a few|two|three)\b.*)?"
        ):
            yield self._verb("live in", match["v"])
        elif match := self._match(
            r"(?:work|works|worked|working)\s+as\s+(?:an?\s+)?(?P<v>.+?)(?:\s+(?:at|for|in)\s+(?P<at>.+))?"
        ):
            yield self._verb("work as", match["v"])
            if match["at"]:
                yield self._verb("work at", match["at"])
        elif match := self._match(r"(?:work|works)\s+(?:for|at|in)\s+(?P<v>.+)"):
            yield self._verb("work at", match["v"])
        elif match := self._match(
            r"(?:start|starts|started|got a job|will start|am starting)\b.*?\bas\s+(?:an?\s+)?(?P<v>.+)"
        ):
            yield self._verb("work as", match["v"])
        elif match := self._match(r"(?:come|comes)\s+from\s+(?P<v>.+)"):
            yield self._verb("come from", match["v"])
        elif match := self._match(r"grew up\s+(?:in|on|near)\s+(?P<v>.+)"):
            yield self._verb("grow up in", match["v"], shown="grew up in")

    def _liking(self) -> Iterator[Change]:
        match = self._match(
            r"(?P<not>(?:do|does) not (?:really )?|never )?(?P<verb>like|likes|love|loves|enjoy|enjoys|adore|adores|hate|hates|"
            r"dislike|dislikes|can not stand|can not bear|prefer|prefers|would rather|would prefer|would love)\s+(?P<v>.+)"
        )
        if match is None:
            return
        verb, value = match["verb"].casefold(), match["v"]
        negative = verb in {"hate", "hates", "dislike", "dislikes", "can not stand", "can not bear"}
        if verb in {"would rather", "would prefer", "prefer", "prefers"}:
            yield self._verb("prefer", re.sub(r"\s+(?:to|over|rather than)\s+(?!be\b|have\b)\w+$", "", value))
            return
        if (
            verb == "would love"
            or re.match(r"^(?:it|that|this|you|your|him|her|them)\b", value, re.IGNORECASE)
            and self.subject == USER
        ):
            return
        denied = bool(match["not"]) != negative
        polarity = Polarity.NEGATED if denied else Polarity.AFFIRMED
        for each in re.split(r"\s+and\s+(?=\w+$)", value):
            yield self._verb("like", each, polarity=polarity)

    def _wanting(self) -> Iterator[Change]:
        match = self._match(
            r"(?P<not>do not |does not )?(?P<verb>need|needs|want|wants|would like|require|requires)\s+(?P<v>.+)"
        )
        if match is None or re.match(
            r"^(?:you|to know|to ask|to say|it|that|this|to talk|to think)\b", match["v"], re.IGNORECASE
        ):
            return
        verb = "need" if match["verb"].casefold().startswith(("need", "require")) else "want"
        yield self._verb(verb, match["v"], polarity=Polarity.NEGATED if match["not"] else Polarity.AFFIRMED)

    def _progressive(self) -> Iterator[Change]:
        """ "is learning japanese", "are flying to lisbon on ...", "am going to move"."""
        match = self._match(
            rf"(?:{_BE}|have been|has been)\s+(?P<not>not\s+)?(?:{_ADVERB}\s+)*(?P<ing>\w+ing)\s*(?P<v>.*)"
        )
        if match is None or match["not"]:
            return
        ing, value = match["ing"].casefold(), trimmed(match["v"])
        if found := re.match(
            r"^(?:out )?with (?:an? )?(?:guy|girl|man|woman|boy|lady)?\s*(?:called|named)\s+(.+)$",
            value,
            re.I,
        ):
            if ing in {"going", "dating", "living"} and (name := person_name(found[1], strict=False)):
                yield _one("partner", "name", name)
            return
        if ing in {"planning", "hoping", "intending", "thinking"} or (
            ing == "going" and value.startswith("to ")
        ):
            if value.startswith("to ") and len(value.split()) > 2:
                yield self._verb("plan", value, shown="plans")
            return
        if ing == "calling":
            if found := re.match(r"^(?:about|because of|regarding)\s+(.+)$", value, re.IGNORECASE):
                yield self._verb("call about", found[1], shown="is calling about")
            return
        base = lemma(ing)
        if base in HABIT_VERBS and base not in {"go"}:
            yield self._verb(base, value, shown=f"is {ing}")
        elif value and ing not in _EMPTY_PROGRESSIVES:
            yield self._verb(f"be {ing}", value, shown=f"is {ing}")

    def _denying(self) -> Iterator[Change]:
        match = self._match(
            r"(?:(?P<aux>do|does|can|could|will|would|may) not|never|(?P<no>no longer))\s+(?:ever\s+|even\s+|really\s+)?(?P<verb>[\w']+)\s*(?P<v>.*)"
        )
        if match is None:
            return
        verb = lemma(match["verb"])
        able = (match["aux"] or "").casefold() == "can"
        if verb in _NOT_DENIED or (
            not able and verb not in HABIT_VERBS | EVENT_VERBS | {"have", "own", "work", "live"}
        ):
            return
        value = trimmed(match["v"])
        if match["no"] or re.search(r"\b(?:any ?more|any longer)\b", self.text, re.IGNORECASE):
            yield Ending(subject=self.subject, attributes=frozenset(), value=value)
        shown = f"can not {verb}" if able else verb
        yield self._verb("have" if verb in OWNING else verb, value, polarity=Polarity.NEGATED, shown=shown)

    def _doing(self) -> Iterator[Change]:
        """Any verb of the lists, in the present or, for events, in the past."""
        match = self._match(rf"(?:(?:have|has)\s+)?(?:{_ADVERB}\s+)*(?P<verb>[\w']+)\s*(?P<v>.*)")
        if match is None:
            return
        said, value = match["verb"].casefold(), trimmed(match["v"])
        verb = lemma(said)
        if said == "go" and re.match(r"^(?:back|ahead|on|now|and)\b", value, re.IGNORECASE):
            return
        if verb in HABIT_VERBS and said in {verb, f"{verb}s", f"{verb}es", f"{verb[:-1]}ies"}:
            if not value and verb not in _INTRANSITIVE:
                return
            if without := re.match(r"^(.*?)\s+but (?:no|not|never)\s+(.+)$", value, re.IGNORECASE):
                value = without[1]
                yield self._verb(verb, without[2], polarity=Polarity.NEGATED)
            for each in re.split(r"\s+and\s+(?:a (?:little|bit of)\s+)?(?=\w+$)", value):
                attribute = "go to" if verb == "go" and each.startswith("to ") else verb
                yield self._verb(attribute, each.removeprefix("to ") if attribute == "go to" else each)
        elif verb in EVENT_VERBS and (value or verb in _INTRANSITIVE):
            yield self._verb(verb, value, shown=_past(said))


_EMPTY_PROGRESSIVES_TEXT = """calling trying thinking wondering looking asking talking saying getting doing kidding joking
checking hoping feeling being having making telling going coming waiting sitting listening speaking wanting guessing"""
_EMPTY_PROGRESSIVES = frozenset(_EMPTY_PROGRESSIVES_TEXT.split()) - {"getting", "going", "looking", "waiting"}
_NOT_DENIED_TEXT = (
    "know think remember mind understand believe see care say worry get hear mean want need guess be"
)
_NOT_DENIED = frozenset(_NOT_DENIED_TEXT.split())
_INTRANSITIVE = frozenset(
    {"drive", "smoke", "swim", "run", "cook", "hike", "cycle", "dance", "sing", "drink", "paint", "retire"}
)


def _past(said: str) -> str:
    return said


_USED = (CONSUMING, field)
