"""The word lists and the sentences of the rule-based fact extraction."""

from __future__ import annotations

import re

from pipecat_voicectx.memory.facts import USER, Polarity
from pipecat_voicectx.memory.spoken_english import GIVEN_NAMES, PERSON_RELATIONS, PETS, lemma

__all__ = [
    "ADJECTIVES",
    "CONSUMING",
    "EVENT_VERBS",
    "HABIT_VERBS",
    "ONE_VALUE_VERBS",
    "OWNING",
    "PARTNERS",
    "THINGS",
    "TROUBLE",
    "WORKING",
    "is_occupation",
    "sentence",
    "theirs",
    "third_person",
]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


HABIT_VERBS = _set(
    """drink eat smoke play speak learn study teach take use own drive ride sing swim run hike cycle dance cook paint
    watch read collect support volunteer wear sell rent grow keep go work live need prefer like love hate commute
    exercise train travel"""
)
"""Verbs that state something lasting in the present tense."""
EVENT_VERBS = _set(
    """buy sell marry join start finish pass hurt break lose adopt move book order graduate retire win fail visit rent
    find get leave arrive return fly land meet pay install sign receive forget call change sprain twist injure damage
    crash burn"""
) - _set("get find call forget change start meet")
"""Verbs that state something worth keeping when it happened."""
ONE_VALUE_VERBS = _set("leave arrive return land state") | {
    "stay", "be staying", "live in", "work as", "work at", "come from", "grow up in", "go to", "get back", "be home",
}  # fmt: skip
"""Attributes that hold one value at a time."""
OWNING = _set("have own buy get adopt")
"""Attributes that all say the subject has something."""
CONSUMING = _set("like prefer drink eat love enjoy take")
"""Attributes that all say the subject takes to something; denying one of a thing ends the others of it."""
WORKING = _set("work job") | {"work as", "work at"}
"""Attributes that a lost job ends."""
PARTNERS = _set("girlfriend boyfriend partner wife husband fiance fiancee spouse")
"""Subjects that a separation ends."""
ADJECTIVES = _set(
    """vegetarian vegan diabetic pregnant married divorced single retired engaged unemployed deaf blind left-handed
    widowed disabled student homeowner pescatarian celiac coeliac asthmatic epileptic jewish muslim christian hindu
    buddhist catholic"""
)
"""What a person may be for longer than a moment."""
THINGS = _set(
    """code password appointment meeting wedding flight train boiler heating router internet delivery parcel package
    order invoice contract interview reservation booking table exam checkup party wifi number address email account
    car bike laptop phone computer house flat apartment opera concert festival show trip holiday class lesson ticket
    surgery operation digits pin checkup check-up dinner lunch breakfast haircut inspection repair course training test
    scan consultation review session match game gig ceremony funeral christening reunion conference viewing workshop
    lecture seminar deadline rehearsal collection visit ferry bus taxi"""
)
"""Nouns that mean the speaker's own even behind "the"."""

TROUBLE = _set(
    """broken broke break hurt hurts sprain sprained twist twisted cut burn burned injure injured lost lose missing
    late delayed ill sick pain painful hospital stolen damaged damage dead flat cancelled sore swollen faulty
    leaking stuck cracked smashed dented torn jammed frozen dripping clogged burst down problem trouble issue failed
    crashed wrong working overdue unpaid blocked headache fever flu cold cough roll rolled throw threw thrown pull
    pulled strain strained tear tore torn bust busted fracture fractured bruise bruised infected swell fall fell"""
)
"""Words of facts that state something amiss ("working" only where it is denied)."""

_OCCUPATIONS = _set(
    """nurse teacher lawyer accountant doctor engineer driver pilot chef cook carpenter plumber electrician student
    professor designer developer programmer writer journalist artist musician actor actress dentist vet pharmacist
    firefighter soldier farmer mechanic cleaner waiter waitress bartender barista hairdresser receptionist secretary
    manager consultant salesman scientist researcher architect builder painter photographer translator librarian
    cashier officer policeman paramedic midwife surgeon judge baker butcher gardener tailor sailor priest analyst"""
)
_NOT_OCCUPATIONS = _set(
    "member lover beginner owner customer sister brother mother father number leader reader winner"
)
_OCCUPATION_ENDING = re.compile(r"(?:er|or|ist|ian|ant|man|woman)$")

_MINE = {
    "my": "their", "our": "their", "mine": "theirs", "ours": "theirs", "me": "them", "us": "them", "i": "they",
    "we": "they", "myself": "themselves", "am": "are",
}  # fmt: skip
_MINE_PATTERN = re.compile(r"\b(?:" + "|".join(_MINE) + r")\b", re.IGNORECASE)
_ALREADY_FINITE = re.compile(
    r"^(?:is|was|can|got|grew|switched|plans|died|bought|sold|moved|joined|passed|hurt|broke|lost|won)\b|"
    r"(?<!ne)(?<!fe)ed$",
    re.I,
)


_PLURAL_FORMS = {"is": "are", "has": "have", "does": "do", "goes": "go", "was": "were"}


def is_occupation(text: str) -> bool:
    """Whether the head of a noun phrase is somebody's work."""
    words = re.sub(r"\s+(?:at|in|for|by|with|from|on|of|now|and)\b.*$", "", text.casefold()).split()
    head = words[-1] if words else ""
    if head in _OCCUPATIONS:
        return True
    return len(head) > 5 and head not in _NOT_OCCUPATIONS and _OCCUPATION_ENDING.search(head) is not None


def theirs(value: str) -> str:
    """What somebody said of themselves, said of them: "my office" is "their office"."""
    return _MINE_PATTERN.sub(lambda match: _MINE[match[0].casefold()], value)


def third_person(verb: str, value: str, polarity: Polarity) -> str:
    """A predicate in the third person: "likes tea", "does not like tea", "is not working"."""
    value = theirs(value)
    first, _, more = verb.partition(" ")
    negated = polarity is Polarity.NEGATED
    if first in {"is", "be"}:
        head = "is not" if negated else "is"
    elif first == "can":
        head = "cannot" if "not" in more or negated else "can"
        more = more.removeprefix("not").strip()
    elif negated:
        head = f"does not {first}"
    elif _ALREADY_FINITE.search(first):
        head = first
    else:
        head = _add_s(first)
    return " ".join(part for part in (head, more, value) if part)


def _add_s(verb: str) -> str:
    if verb in {"have", "do", "go"}:
        return {"have": "has", "do": "does", "go": "goes"}[verb]
    if verb.endswith(("s", "sh", "ch", "x")):
        return verb + "es"
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return verb[:-1] + "ies"
    return verb if verb != lemma(verb) and verb.endswith("s") else verb + "s"


def sentence(subject: str, possession: str, predicate: str, *, name: str | None = None) -> str:
    """One sentence about a subject, or about something of theirs ("'s phone number"), with the name where known."""
    if subject == USER:
        who = "The user"
    elif subject in GIVEN_NAMES:
        who = subject.capitalize()
    else:
        who = f"The user's {subject}" + (f" {name}" if name else "")
    if not possession and _is_plural(subject):
        predicate = _plural(predicate)
    return f"{who}{possession} {predicate}."


def _is_plural(subject: str) -> bool:
    return subject == "children" or (
        subject.endswith("s") and subject.removesuffix("s") in PERSON_RELATIONS | PETS
    )


def _plural(predicate: str) -> str:
    """ "goes to school" of several people."""
    first, _, rest = predicate.partition(" ")
    return " ".join(part for part in (_PLURAL_FORMS.get(first, first.removesuffix("s")), rest) if part)
