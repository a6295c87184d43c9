"""Whom a clause is about: "i", "my sister sarah", "she", "tom", "the gate code"."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

from pipecat_voicectx.memory.facts import USER
from pipecat_voicectx.memory.frames import EVENT_VERBS, HABIT_VERBS, THINGS
from pipecat_voicectx.memory.spoken_english import GENDER, GIVEN_NAMES, PEOPLE, PERSON_RELATIONS, PETS, lemma
from pipecat_voicectx.memory.verbs import is_finite

__all__ = ["Referents", "Subject", "noun_attribute", "parse_subject", "person_name", "trimmed"]

# Chosen: a call that names more people than this has other problems than pronouns.
_MAX_NAMES = 64

_TAIL = re.compile(
    r"(?:[\s,]+(?:right now|now|at the moment|these days|any ?more|any longer|again|too|as well|also|though|"
    r"actually|really|you know|to be honest|by the way|please|thanks|thank you|i think|i guess|for now|instead|"
    r"if possible|okay|yeah|a lot|very much|so much|and|but|or|so|because|myself|in total|altogether|sorry|"
    r"obviously|honestly|either|yet))+$",
    re.IGNORECASE,
)
_NAME_STOP = re.compile(
    r"\s+(?:with|spelled|and|but|by|from|speaking|here|who|actually|not|calling|or|is|as|too)\b.*$",
    re.IGNORECASE,
)
_NOT_A_NAME_TEXT = """not a an the my our your his her in on at so very really just going coming calling here there back
fine good great okay ok sorry sure happy sad tired late ready busy glad afraid done home new old he she it they we i
what single married ill sick away out off free right wrong"""
_NOT_A_NAME = frozenset(_NOT_A_NAME_TEXT.split())
_TITLE = re.compile(r"^(?:doctor|dr|mr|mrs|miss|ms|professor|sister|father|aunt|uncle)\.?\s+", re.IGNORECASE)
_ADJECTIVE = re.compile(
    r"^(?:new|current|actual|present|old|older|younger|elder|eldest|youngest|big|little|best|other|late|"
    r"dear|baby|own|"
    r"whole|main)\s+(?=\w)",
    re.IGNORECASE,
)
_FORMER = re.compile(r"^(?:old|former|previous|ex)\s+\w", re.IGNORECASE)
_NOUN_FORMS = {
    "check up": "checkup", "check-up": "checkup",
    "favorite": "favourite", "color": "colour", "surname": "last name", "family name": "last name",
    "second name": "last name", "first name": "name", "full name": "name", "mail": "email", "e-mail": "email",
    "email address": "email", "telephone number": "phone number", "mobile number": "phone number",
    "cell phone number": "phone number", "mobile": "phone number",
}  # fmt: skip
_USER = re.compile(r"^(?:i|we|me and (?:my )?\w+|my \w+ and i|\w+ and i)\s+(.+)$", re.IGNORECASE)
_THE = re.compile(
    r"^the\s+(?P<np>(?:[\w'’-]+\s+){0,2}?[\w'’-]+)\s+(?P<rest>(?:is|are|was|has|have|got|starts|leaves|ends)\b.*)$",
    re.IGNORECASE,
)
_POSSESSOR = re.compile(r"^(?P<who>[\w ]+?)['’]?s['’]?\s+(?P<what>[\w ]+)$")
_FAMILY_TEXT = """mum mom mama dad papa grandma granny gran nan grandpa grandad granddad auntie pop pops gramps sis nana
grandmother grandfather mother father"""
_FAMILY = frozenset(_FAMILY_TEXT.split())
_PLURALS = frozenset({"parents", "children", "twins", "siblings"})
_VERB_FORMS = frozenset(
    {
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
        "become",
        "say",
        "come",
        "get",
        "stop",
        "avoid",
        "last",
        "expire",
        "begin",
        "finish",
        "fall",
        "stay",
        "start",
        "want",
        "call",
        "give",
        "hate",
        "think",
        "know",
    }
)
_BEFORE_VERB = frozenset({"never", "used", "also", "just", "really", "no", "actually", "still", "now"})


def person_name(text: str, *, strict: bool) -> str | None:
    """The name at the start of `text`, capitalized; None when it does not read like one.

    `strict` wants a known given name, a title or a capital; otherwise any one to three words will do.
    """
    text = _NAME_STOP.sub("", text.strip(" ,.")).strip()
    words = text.split()
    if not 1 <= len(words) <= 3 or words[0].casefold() in _NOT_A_NAME:
        return None
    if not words[0].replace("'", "").isalpha():
        return None
    known = words[0].casefold() in GIVEN_NAMES or words[0][0].isupper() or _TITLE.match(text) is not None
    if strict and not known:
        return None
    return " ".join(word if word[0].isupper() else word[0].upper() + word[1:] for word in words)


def trimmed(value: str) -> str:
    """A value without what only frames it: "now", "please", "to be honest"."""
    return _TAIL.sub("", f" {value.strip(' ,.')}").strip(" ,.")


def noun_attribute(noun: str) -> str:
    """One name for a noun however it was said: "new favorite color" is "favourite colour"."""
    noun = _without_adjectives(noun)
    noun = _NOUN_FORMS.get(noun, noun)
    return " ".join(_NOUN_FORMS.get(word, word) for word in noun.split())


def _without_adjectives(noun: str) -> str:
    noun = noun.casefold()
    while (shorter := _ADJECTIVE.sub("", noun)) != noun:
        noun = shorter
    return noun


@dataclass(frozen=True, slots=True, kw_only=True)
class Referents:
    """Whom names and pronouns mean."""

    names: tuple[tuple[str, str], ...] = ()
    """Pairs of a name in lower case and the subject that bears it, the latest last."""
    she: str | None = None
    he: str | None = None
    it: str | None = None
    """The thing spoken of last, as a noun."""
    they: str | None = None
    """The people or animals spoken of last in the plural."""

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
        kind = subject.split()[0]
        gender = GENDER.get(kind)
        names = self.names
        if name and (name.casefold(), subject) not in names:
            names = (*names[-(_MAX_NAMES - 1) :], (name.casefold(), subject))
        kin = PERSON_RELATIONS | PETS
        person = kind in kin or kind.removesuffix("s") in kin or subject in GIVEN_NAMES or kind in PEOPLE
        plural = person and (kind in _PLURALS or (kind not in kin and kind.endswith("s")))
        if plural:
            return replace(self, names=names, they=subject)
        return replace(
            self,
            names=names,
            she=subject if person and gender != "he" else self.she,
            he=subject if person and gender != "she" else self.he,
            it=self.it if person and kind not in PETS else subject,
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


def parse_subject(
    clause: str, referents: Referents, *, user_nouns: Collection[str] = ()
) -> tuple[Subject, str] | None:
    """Whom the clause is about, and its predicate; None when it is about nobody we keep facts of.

    `user_nouns` are attributes of the user that were spoken of, which "it" and "the ..." may mean.
    """
    if match := _USER.match(clause):
        return Subject(key=USER), match[1]
    if match := re.match(r"^(she|he)\s+(.+)$", clause, re.IGNORECASE):
        key = referents.she if match[1].casefold() == "she" else referents.he
        return (Subject(key=key), match[2]) if key else None
    if match := re.match(r"^(?:her|his|their) name\s+(.+)$", clause, re.IGNORECASE):
        female = clause.casefold().startswith("her")
        key = (referents.she or referents.he) if female else (referents.he or referents.she)
        return (Subject(key=key, attribute="name"), match[1]) if key else None
    if match := re.match(r"^they\s+(.+)$", clause, re.IGNORECASE):
        return (Subject(key=referents.they), match[1]) if referents.they else None
    if match := re.match(r"^it\s+(.+)$", clause, re.IGNORECASE):
        if referents.it is None:
            return None
        if referents.it in user_nouns:
            return Subject(key=USER, attribute=referents.it), match[1]
        return Subject(key=referents.it), match[1]
    if re.match(r"^(?:my|our)\s", clause, re.IGNORECASE):
        return _possessed(clause)
    if match := _THE.match(clause):
        noun = noun_attribute(match["np"])
        known = noun.split()[-1] in THINGS | PETS or noun in user_nouns or noun == referents.it
        return (_noun_subject(match["np"]), match["rest"]) if known else None
    words = clause.split()
    if len(words) >= 3 and words[0].casefold() in THINGS and words[1].casefold() in {"is", "starts"}:
        return _noun_subject(words[0]), " ".join(words[1:])
    if len(words) >= 2 and words[0].casefold() in _FAMILY and _is_verb(words[1]):
        return Subject(key=words[0].casefold()), " ".join(words[1:])
    if len(words) >= 2 and (bearer := referents.bearer(words[0])):
        return Subject(key=bearer, name=words[0]), " ".join(words[1:])
    if len(words) >= 2 and words[0].casefold() in GIVEN_NAMES and _is_verb(words[1]):
        return Subject(key=words[0].casefold(), name=words[0]), " ".join(words[1:])
    return None


def _is_verb(word: str) -> bool:
    return lemma(word) in HABIT_VERBS | EVENT_VERBS | _VERB_FORMS or (
        is_finite(word, plural=False) and word.casefold() not in PERSON_RELATIONS | GIVEN_NAMES
    )


def _possessed(clause: str) -> tuple[Subject, str] | None:
    words = clause.split()
    for end in range(2, min(7, len(words))):
        if not _is_verb(words[end]) and words[end].casefold() not in _BEFORE_VERB:
            continue
        noun, rest = " ".join(words[1:end]), " ".join(words[end:])
        if _FORMER.match(noun) and _without_adjectives(noun).split()[-1] not in PERSON_RELATIONS | PETS:
            return None
        possessor = _POSSESSOR.match(noun)
        if possessor and possessor["who"].split()[-1].casefold() in PERSON_RELATIONS | PETS:
            whose = _without_adjectives(possessor["who"]).split()[-1]
            return Subject(key=whose, attribute=noun_attribute(possessor["what"])), rest
        return _noun_subject(noun), rest
    return None


def _noun_subject(noun: str) -> Subject:
    words = _without_adjectives(noun).split()
    kin = PERSON_RELATIONS | PETS
    if words[0] in kin:
        name = noun.split()[-1] if len(words) > 1 else None
        if name and re.search(r"(?:ed|ing|ly)$", name) and name.casefold() not in GIVEN_NAMES:
            name = None  # a verb that is on no list
        return Subject(key=words[0], name=name)
    if words[-1] in kin or words[-1].removesuffix("s") in kin:
        return Subject(key=words[-1])
    return Subject(key=USER, attribute=noun_attribute(noun))
