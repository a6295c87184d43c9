"""What the rule-based extraction knows of spoken English: contractions, clauses, numbers, relations, names, verbs.

Speech recognizers deliver run-on text without capitals or punctuation, so nothing here relies on either; where they
are there, they help. All functions are pure and work on one utterance.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pipecat_voicectx.memory.given_names import GIVEN_NAMES
from pipecat_voicectx.memory.verbs import base_form, is_finite

__all__ = [
    "GENDER",
    "GIVEN_NAMES",
    "PEOPLE",
    "PERSON_RELATIONS",
    "PETS",
    "clauses",
    "expand_contractions",
    "is_number_phrase",
    "kind_span",
    "lemma",
    "spoken_number",
    "value_class",
    "without_spelling",
]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_FEMALE = """wife girlfriend mother mum mom mama sister daughter niece aunt auntie grandmother grandma gran granny nan
stepmother stepsister stepdaughter bride landlady granddaughter goddaughter godmother stepmom sis nana grammy
mother-in-law daughter-in-law sister-in-law"""
_MALE = """husband boyfriend father dad papa brother son nephew uncle grandfather grandpa grandad granddad stepfather
stepbrother stepson groom landlord grandson godson godfather stepdad pop gramps pa bro fella father-in-law
son-in-law brother-in-law"""
_EITHER = """partner fiance fiancee spouse ex cousin friend boss manager colleague coworker neighbour neighbor roommate
flatmate housemate child kid baby toddler doctor dentist therapist lawyer accountant teacher assistant
parents children twins siblings grandchild grandkid grandparents stepkid godchild supervisor tutor coach trainer tenant
caretaker carer nanny babysitter lodger eldest oldest youngest in-laws"""
_PET_WORDS = (
    "dog cat puppy kitten parrot rabbit hamster horse pony bird fish goldfish turtle tortoise snake budgie"
)

PERSON_RELATIONS = _set(f"{_FEMALE} {_MALE} {_EITHER}")
"""Nouns for a person by the relation to the speaker."""
PETS = _set(_PET_WORDS)
_PEOPLE_TEXT = """lady gentleman guy man woman boy girl bloke chap dude kid super superintendent neighbor neighbour
tenant owner roofer plumber driver courier agent clerk rep nurse guest patient client customer principal pastor priest
rabbi imam professor colleague classmate teammate trainer instructor handyman janitor concierge doorman chef couple
family folks person someone somebody"""
PEOPLE = _set(_PEOPLE_TEXT)
"""Nouns for people who are no relations: known by a description."""
GENDER: Mapping[str, str] = (
    dict.fromkeys(_FEMALE.split(), "she")
    | dict.fromkeys(_MALE.split(), "he")
    | dict.fromkeys(("lady", "woman", "girl"), "she")
    | dict.fromkeys(("gentleman", "guy", "man", "boy", "bloke", "chap", "dude", "doorman", "super"), "he")
)
"""The pronoun of a relation; relations of either gender are not in it."""


_CONTRACTIONS = (
    # "at my sister's in dover" is at her place.
    (
        r"\b((?:at|to|from|with|near) (?:my|our|the) \w+)['’]s\b(?=\s+(?:in|on|at|near|out|over|up|down|for)\b)",
        r"\1s",
    ),
    (r"\b(i)['’]?m\b", r"\1 am"),
    (r"\b(you|we|they)['’]re\b", r"\1 are"),
    (r"\b(i|you|we|they)['’]ve\b", r"\1 have"),
    (r"\b(i|you|he|she|it|we|they)['’]ll\b", r"\1 will"),
    (
        r"\b(he|she)['’]s\b(?=\s+(?:just |already |now |since )?(?!married|retired|divorced|engaged|tired|"
        r"worried|excited|interested|scared|bored|called|named|need|bed|red|based|used|supposed|located|"
        r"employed|"
        r"broke)\w{2,}ed\b)",
        r"\1 has",
    ),
    (
        r"\b(it|that|he|she|there)['’]s\b(?=\s+(?:been|gone|turned|come|got|had|grown|moved|left|died)\b)",
        r"\1 has",
    ),
    (
        r"\b(he|she|it|that|there|here|who|what|where|how|everyone|everybody|name)['’]s\b(?=\s+got\b)",
        r"\1 has",
    ),
    (r"\b(he|she|it|that|there|here|who|what|where|how)['’]s\b", r"\1 is"),
    (
        r"\b(\w+)['’]s\b(?=\s+(?:off|over|gone|cancelled|canceled|back|broken|fixed|better|nicer|retired|"
        r"left|called|named|allergic|not|a|an|the|in|at|on|pregnant|ill|sick|retired|married|"
        r"diabetic|vegan|vegetarian|from|(?!(?:wedding|building|meeting|evening|morning|ceiling|parking|"
        r"hearing|painting|housing|"
        r"viewing|training|closing|reading|spelling)\b)\w{2,}ing)\b)(?!\s+\w+\s+(?:is|are|was|were|has)\b)",
        r"\1 is",
    ),
    (r"\b(i|you|he|she|it|we|they)['’]d\b(?=\s+(?:been|had|gone)\b)", r"\1 had"),
    (r"\b(i|you|he|she|it|we|they)['’]d\b", r"\1 would"),
    (r"\bcan['’]?t\b|\bcannot\b", "can not"),
    (r"\b(?:ca|ka) not\b", "can not"),
    (r"['’]?\bcause\b(?= (?:i|we|he|she|they|it|the|my)\b)", "because"),
    (r"\bwon['’]t\b", "will not"),
    (r"\bain['’]t\b", "is not"),
    (r"\b(do|does|did|is|are|was|were|have|has|had|would|should|could|must|need)n['’]?t\b", r"\1 not"),
    (r"\bname['’]s\b", "name is"),
    (r"\b(?:wanna)\b", "want to"),
    (r"\b(?:gonna)\b", "going to"),
    (r"\b(?:gotta)\b", "got to"),
    (r"\blet['’]?s\b", "let us"),
    (r"\b(mother|father|sister|brother|son|daughter)s? in laws?\b", r"\1-in-law"),
    (r"\bmy in laws\b", "my in-laws"),
)
_CONTRACTION_PATTERNS = tuple((re.compile(a, re.IGNORECASE), b) for a, b in _CONTRACTIONS)

_PUNCTUATION = re.compile(r"\s*(?:[.!?;:]+(?=\s|$)|[,—–](?=\s|$)|\s-\s)\s*")
_SUBJECT = (
    r"(?:i|we|he|she|they|it|my|our|his|her|their|me and my|there|that|you|everybody|everyone|"
    r"the \w+ (?:is|are|was|has|works|runs|does|got)|no more|make (?:it|that)|let us)"
)
_CONNECTIVE = re.compile(
    rf"\s+(?:and|but|so|because|although|though|while|plus|or|since \w+)\s+"
    rf"(?!i (?:are|were|both|broke up|split up|split)\b)(?={_SUBJECT}\b)|\s+because\s+|"
    r"\s+(?:so|and|but)\s+(?=(?:please|forget|delete|erase|strike|wipe|do not|never)\b)|\s+so\s+(?=(?:drop|"
    r"leave|keep|lose|take|get) "
    r"(?:it|that|this)\b)",
    re.IGNORECASE,
)
_VERB = (
    r"(?:am|is|are|was|were|have|has|had|do|does|did|will|would|can|could|should|need|want|like|love|hate|"
    r"prefer|"
    r"live|lives|lived|work|works|got|get|just|also|actually|never|always|used|moved|moves|went|go|goes|"
    r"start|starts|"
    r"started|bought|sold|drink|eat|eats|play|plays|speak|speaks|changed|switched|left|gave|stopped|quit|"
    r"turn|turns|"
    r"turned|relocated|retrained|cancelled|dropped|ditched|met|adopted|said|told|took|take|usually|really|"
    r"still|now(?= \w)|changed|meant|mean|broke|died|passed|come|came|supports)"
)
# A pronoun and a verb in the middle of a run-on start a clause of their own, unless the word before leads into it.
_RUN_ON = re.compile(
    rf"(?<!\bthat)(?<!\bif)(?<!\bwhen)(?<!\bwhat)(?<!\bwhere)(?<!\bhow)(?<!\bas)(?<!\bthan)(?<!\bthink)(?<!\bguess)"
    rf"(?<!\bforget)(?<!\bdo)(?<!\bdoes)(?<!\bdid)(?<!\bcan)(?<!\bcould)(?<!\bshould)(?<!\bshall)(?<!\bmay)(?<!\bwill)(?<!\bwould)"
    rf"(?<!\bmust)(?<!\bam)(?<!\bare)(?<!\bis)(?<!\bwas)(?<!\bwere)(?<!\bpretend)(?<!\bassume)(?<!\bwish)(?<!\bwhether)"
    rf"(?<!\bsaid)(?<!\bsay)(?<!\bas)(?<!\byou)(?<!\bhope)(?<!\bwhich)(?<!\bwho)(?<!\bwhy)(?<!\bmeans)(?<!\btime)(?<!\bimagine)"
    rf"(?<!\bsuppose)(?<!\bthing)(?<!\band)(?<!\brather)(?<!\bprefer)\s+(?=(?:(?:i|we|he|she|they|it|"
    rf"that)\s+{_VERB}|(?:he|she)\s+\w{{3,}}(?<!s)s|(?:her|his|"
    rf"their|my)\s+name\s+is|(?:everybody|everyone|(?:most )?people)\s+calls?)\b)",
    re.IGNORECASE,
)

_DANGLING = re.compile(
    r"(?<=\w)(?:\s+(?:and|but|so|or|then|because|plus|and now|so now|but now))+\s*$", re.IGNORECASE
)

_IRREGULAR = {
    "am": "be", "is": "be", "are": "be", "was": "be", "were": "be", "been": "be", "has": "have", "had": "have",
    "having": "have", "does": "do", "did": "do", "goes": "go", "went": "go", "gone": "go", "bought": "buy",
    "sold": "sell", "spoke": "speak", "ate": "eat", "drank": "drink", "drove": "drive", "took": "take",
    "taken": "take", "came": "come", "got": "get", "gotten": "get", "left": "leave", "lost": "lose", "found": "find",
    "met": "meet", "broke": "break", "flew": "fly", "taught": "teach", "ran": "run", "running": "run",
    "swimming": "swim", "swam": "swim", "gave": "give", "quit": "quit", "quitting": "quit", "hurt": "hurt",
    "grew": "grow", "sang": "sing", "died": "die", "dies": "die", "dying": "die", "living": "live",
    "moving": "move", "driving": "drive", "using": "use", "taking": "take", "making": "make", "having to": "have",
    "leaving": "leave", "giving": "give", "writing": "write", "riding": "ride", "smoking": "smoke", "loving": "love",
    "getting": "get", "planning": "plan", "sitting": "sit", "shopping": "shop", "studies": "study", "flies": "fly",
    "dancing": "dance", "hiking": "hike", "cycling": "cycle", "arriving": "arrive", "married": "marry",
    "switched": "switch", "being": "be", "needs": "need",
}  # fmt: skip

_NUMBER_TEXT = """oh zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million half
dozen double triple noon midnight"""
_NUMBERS = _set(_NUMBER_TEXT)
_ORDINALS = """first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth
fifteenth sixteenth seventeenth eighteenth nineteenth twentieth thirtieth"""
_MONTHS = "january february march april may june july august september october november december"
_DAYS = "monday tuesday wednesday thursday friday saturday sunday today tomorrow tonight"
_MONEY = "euros euro dollars dollar pounds pound bucks quid"

_NUMBER = rf"(?:{'|'.join(sorted(_NUMBERS))}|\d[\d,.:]*)"
_NUMBER_RUN = re.compile(rf"\b{_NUMBER}\b(?:[\s-]+(?:and\s+(?:a\s+)?)?{_NUMBER}\b)*", re.IGNORECASE)
_ORDINAL = rf"(?:(?:twenty|thirty)[\s-])?(?:{'|'.join(_ORDINALS.split())})|\d{{1,2}}(?:st|nd|rd|th)"
_DATE_SPAN = re.compile(
    rf"(?:the\s+)?\b(?:{_ORDINAL})(?:\s+(?:of\s+)?(?:{'|'.join(_MONTHS.split())}))?\b"
    rf"|\b(?:{'|'.join(_MONTHS.split())})\s+(?:the\s+)?(?:{_ORDINAL}|\d{{1,2}})\b"
    rf"|\b(?:{'|'.join(_DAYS.split())})s?\b(?:\s+(?:morning|afternoon|evening|night|at\s+\w+(?:\s+thirty|"
    rf"\s+fifteen)?))?",
    re.IGNORECASE,
)


def expand_contractions(text: str) -> str:
    """ "I'm", "it's", "don't" in full, whichever apostrophe was used, also where the recognizer left it out."""
    for pattern, full in _CONTRACTION_PATTERNS:
        text = pattern.sub(full, text)
    return text


_LETTERS = re.compile(r"(?:(?<=\s)|^)(?:[a-z][ -]){2,}[a-z](?=\s|$)", re.IGNORECASE)


def without_spelling(text: str) -> str:
    """ "reyes r e y e s" is "reyes"; letters alone are the word that they spell."""

    def word(match: re.Match[str]) -> str:
        letters = re.sub(r"[ -]", "", match[0])
        before = text[: match.start()].split()
        tail = (
            " i"
            if letters.casefold().endswith("i")
            and before
            and before[-1].casefold() == letters[:-1].casefold()
            else ""
        )
        if before and before[-1].casefold() == letters.removesuffix(tail.strip()).casefold():
            return tail
        return letters

    return re.sub(r"\s{2,}", " ", _LETTERS.sub(word, text)).strip()


_SUBJECT_PRONOUNS = _set("i we he she it they")
_BEFORE_OWN_CLAUSE = _set("just also always never still only really now usually actually")
# Words that a following subject and verb depend on: "when i", "the day she", "i think it", "what they".
_LEADS_IN = _set(
    """that if when what where how as than think guess forget do does did can could should shall may will would must am
    are is was were pretend assume wish whether said say you hope which who why means time imagine suppose thing
    and or but so because until till before after while since unless though although once whenever whatever
    everything all one day way place reason know believe mean feel sure afraid says think told tell to the a an
    my our in on at for with from of by first last only every each not"""
)


_FORGET = frozenset({"forget", "delete", "erase", "disregard", "ignore", "unlearn", "unremember"})
_KEEP = frozenset({"remember", "store", "save", "keep", "note", "record", "mention"})


def _is_to_be_forgotten(words: list[str]) -> bool:
    """Whether what comes after these words and "that" is what is to be forgotten, and not stated."""
    first, verb = ([""] + [word.casefold() for word in words])[-2:]
    negated = first in {"not", "never"}
    return verb in (_KEEP if negated else _FORGET) and first not in {"i", "we"}


def _at_subjects(part: str) -> list[str]:
    """A run-on cut before a pronoun and its verb, unless these belong to what stands before: "the car i drive"."""
    words = part.split()
    cuts = [0]
    for position in range(3, len(words) - 1):
        word, before = words[position].casefold(), words[position - 1].casefold()
        object_that = before == "that" and base_form(words[position - 2]) not in {
            None,
            "say",
            "think",
            "know",
            "be",
            "tell",
            "hope",
        }
        if (
            word not in _SUBJECT_PRONOUNS
            or (before in _LEADS_IN and not object_that)
            or (before == "that" and _is_to_be_forgotten(words[: position - 1]))
            or position - cuts[-1] < 3
        ):
            continue
        verb = words[position + 1].casefold()
        if verb in _BEFORE_OWN_CLAUSE and position + 2 < len(words):
            verb = words[position + 2].casefold()
        if not is_finite(verb, plural=word in {"i", "we", "they"}):
            continue
        led = words[cuts[-1] : position]
        if any(is_finite(each, plural=True) for each in led[1:]):  # else a noun with its relative clause
            cuts.append(position)
    return [" ".join(words[a:b]) for a, b in zip(cuts, [*cuts[1:], len(words)], strict=True)]


def clauses(text: str) -> list[str]:
    """The parts of an utterance that may each state something; contractions must have been expanded."""
    parts: list[str] = []
    for sentence in _PUNCTUATION.split(text):
        for joined in _CONNECTIVE.split(sentence):
            for part in _RUN_ON.split(joined):
                parts.extend(_at_subjects(part))
    bare = (_DANGLING.sub("", part).strip(" ,'\"") for part in parts)
    return [part for part in bare if part]


def lemma(verb: str) -> str:
    """The base form of a verb, by a short list and the regular endings."""
    verb = verb.casefold()
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if (known := base_form(verb)) is not None:
        return known
    for ending, replacement in (("ies", "y"), ("ied", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh")):
        if verb.endswith(ending) and len(verb) > len(ending) + 1:
            return verb[: -len(ending)] + replacement
    if (doubled := re.match(r"^(\w+?([bgmnprt]))\2(?:ing|ed)$", verb)) is not None:
        return doubled[1]
    if verb.endswith("ing") and len(verb) > 5:
        return verb[:-3]
    if verb.endswith("ed") and len(verb) > 4:
        return verb[:-1] if verb[-3] in "vsuz" or (verb.endswith(("yed",)) and False) else verb[:-2]
    if verb.endswith("s") and not verb.endswith("ss") and len(verb) > 3:
        return verb[:-1]
    return verb


_TIME_SPAN = re.compile(
    rf"\b(?:(?:half|quarter) (?:past|to) {_NUMBER}|half (?:one|two|three|four|five|six|seven|eight|nine|"
    rf"ten|eleven|twelve)|{_NUMBER} (?:o['’]?clock|am|pm|a m|p m|thirty|fifteen|"
    rf"forty[ -]five)"
    rf"|(?<=\bat ){_NUMBER})\b",
    re.IGNORECASE,
)


# "may" and "march" mean a month where a preposition says so, or where nothing else is said.
_MONTH_ALONE = re.compile(
    r"(?:(?<=\bin )|(?<=\bby )|(?<=\bof )|(?<=\buntil )|(?<=\bnext )|(?<=^))"
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december)\b",
    re.IGNORECASE,
)


def kind_span(text: str, kind: str) -> tuple[int, int] | None:
    """Where in a text a value of a kind is, as `value_class` names kinds; None when there is none."""
    if kind == "date":
        found = _DATE_SPAN.search(text) or _MONTH_ALONE.search(text)
    elif kind == "time":
        found = _TIME_SPAN.search(text)
    else:
        numbers = (number for number in _NUMBER_RUN.finditer(text) if number[0].casefold() != "oh")
        found = next(numbers, None)
    return found.span() if found is not None else None


def is_number_phrase(text: str) -> bool:
    """Whether the text is a number: digits, or number words only."""
    words = re.findall(r"[\w']+", text.casefold())
    return bool(words) and all(word in _NUMBERS or word == "and" or word[0].isdigit() for word in words)


def value_class(text: str) -> tuple[str, tuple[int, int]] | None:
    """The kind of thing a value turns on ("date", "time", "number") and where: what a correction would replace."""
    for kind in ("date", "time", "number"):
        span = kind_span(text, kind)
        if span is not None:
            return kind, span
    return None


_UNITS = dict(zip(_NUMBER_TEXT.split()[1:21], range(20), strict=True)) | {"oh": 0}
_TENS = dict(zip(_NUMBER_TEXT.split()[21:29], range(20, 100, 10), strict=True))


def spoken_number(text: str) -> float | int | None:
    """The number in "forty two", "fifteen hundred" or "2,000 euros"; None when there is none to be sure of."""
    digits = re.search(r"\d[\d,]*(?:\.\d+)?", text)
    if digits is not None:
        plain = digits[0].replace(",", "")
        return float(plain) if "." in plain else int(plain)
    total, current, found = 0, 0, False
    for word in re.findall(r"[a-z]+", text.casefold()):
        if word in _UNITS or word in _TENS:
            current += _UNITS.get(word, 0) + _TENS.get(word, 0)
        elif word == "hundred" and found:
            current *= 100
        elif word == "thousand" and found:
            total, current = total + current * 1000, 0
        elif word == "and" and found:
            continue
        elif found:
            break
        else:
            continue
        found = True
    return total + current if found else None
