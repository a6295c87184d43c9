"""Clauses about things, and about people known by description: "the front door sticks", "the lady next door is iris".

`subjects` reads the subjects that speech uses most; this module reads any noun phrase in front of a finite verb. What
is not the speaker's own world (the weather, the website, the point) is left out.
"""

from __future__ import annotations

import re
from dataclasses import replace

from pipecat_voicectx.memory.clause import Clause
from pipecat_voicectx.memory.facts import USER, Assertion, Cardinality, Change, Polarity
from pipecat_voicectx.memory.frames import is_occupation, theirs
from pipecat_voicectx.memory.predicates import state_changes
from pipecat_voicectx.memory.predicates_open import OPEN_CONFIDENCE, VerbGroup, verb_group
from pipecat_voicectx.memory.spoken_english import PEOPLE, PERSON_RELATIONS, PETS, is_number_phrase
from pipecat_voicectx.memory.subjects import Referents, Subject, noun_attribute, trimmed
from pipecat_voicectx.memory.verbs import AUXILIARIES, MIND_AND_TALK, base_form, is_finite

__all__ = ["arrangement", "copula_written_out", "done_to_user", "noun_statement", "there_is", "with_subject"]

# Chosen: between what a frame reads and what is read openly.
_ASKED_CONFIDENCE = 0.7
# Chosen: longer subjects are seldom read right.
_MAX_SUBJECT_WORDS = 6
_MAX_PREDICATE_WORDS = 14
_DETERMINER = re.compile(
    r"^(?P<det>my|our|his|her|their|the|this|that|these|those|an?|both|all|some|every|each|neither of|none "
    r"of|one of|all of|"
    r"both of|most of)(?: (?P<own>my|our|the|his|her|their))? (?P<rest>.+)$",
    re.IGNORECASE,
)
_NOT_OURS_TEXT = """
weather thing things point problem problems question questions reason truth idea time line website app system
recording music bot agent first last other others one ones rest way world news government people person traffic
guy's answer matter fact deal trouble story call connection sound moment day today tomorrow stuff what which who
something nothing anything everything somebody someone nobody anybody everybody everyone hope plan menu option
options email emails text texts message link page form rules policy price prices company companies thanks sorry
please yes no okay hello only mess minute second question's number's"""
_NOT_OURS = frozenset(_NOT_OURS_TEXT.split())
_POST_MODIFIER = re.compile(
    r"\s+(?:in|on|at|of|from|for|with|upstairs|downstairs|next|across|behind|over|by|near|under|outside|who|that|"
    r"which|called|named)\b.*$",
    re.IGNORECASE,
)
_ABOUT_ME = re.compile(r"\b(?:me|us|my|our)\b", re.IGNORECASE)
_PLURAL_HEAD = re.compile(r"(?:[^s]s|people|children|kids|men|women)$", re.IGNORECASE)
_DROPPED_I = re.compile(
    r"^(?:(?:just|recently|already|finally|only|also|never|always|actually|really) )*"
    r"(?P<verb>had|got|went|did|was|were|used to|been|sold|bought|lost|broke|tried|took|gave|moved|quit|started|"
    r"stopped|left|made|found|switched|cancelled|canceled|returned|grew up|worked|lived|threw|hurt|retired|married|"
    r"can not|could not|never|am|have|have been)\b(?! (?:that|it) (?:is|was)\b)(?P<rest> .+)$",
    re.IGNORECASE,
)
_NO_DROPPED_I = re.compile(
    r"^(?:had|was|were|am|did|have|can not|could not) (?:i|we|you|he|she|it|they|not|that|the|to)\b|^left "
    r"(?:side|hand|foot|"
    r"leg|arm|eye|ear|turn|over)\b|^have (?:a|you)\b|^been you\b|^got (?:it|that|to|you)$|^never mind\b|^lost "
    r"(?:and|in)\b|"
    r"^(?:used|made|was) (?:up|of|by)\b",
    re.IGNORECASE,
)
_ARRANGED = re.compile(
    r"^(?:please |just |and |then |so )*(?P<v>(?:(?:pick|drop|meet|leave|deliver|send|mail|ship|put|seat|"
    r"ring|knock|park|"
    r"bring|wake|collect|charge|bill|invoice|address|make|fax|hide|store|keep|pull up|come) "
    r"(?!(?:a|the) (?:message|copy)\b|that\b|this\b|through\b|up with\b|in mind\b)(?:[\w'-]+ ){0,6}?"
    r"(?:at|in|outside|inside|by|with|behind|under|beneath|on|onto|to|near|next to|across from|over|around|"
    r"before|after|"
    r"round|out to)"
    r" (?!hold\b|the phone\b|line\b|mind\b|it\b|that\b|you\b|file\b|here\b)[\w' -]+)|"
    r"let us (?:meet|do|go|take|use|say|try|stick|keep) [\w' -]+|tell (?:the|my|our|him|her|them|your) [\w' -]+|"
    r"have (?:him|her|them|the \w+|your \w+) (?:call|ring|text|come|knock|leave|bring|meet|buzz|use|wait) [\w' -]+)$",
    re.IGNORECASE,
)


_SAYS_LITTLE_TEXT = """seem appear happen help matter look sound mean say tell depend feel let"""
_SAYS_LITTLE = frozenset(_SAYS_LITTLE_TEXT.split())
_PRONOUNS_TEXT = """
i you he she it we they that this there who what which when where why how whose whom if maybe perhaps let"""
_PRONOUNS = frozenset(_PRONOUNS_TEXT.split())


def with_subject(bare: str) -> str:
    """The clause with the "i" that speakers leave out: "used to run a shop", "sold it last week"."""
    if _DROPPED_I.match(bare) is None or _NO_DROPPED_I.match(bare):
        return bare
    return f"i have {bare}" if bare.casefold().startswith("been ") else f"i {bare}"


def arrangement(bare: str) -> Assertion | None:
    """Where or how something is wanted: "pick me up at the library"; None when the clause asks for nothing."""
    match = _ARRANGED.match(bare)
    if match is None or len(bare.split()) > _MAX_PREDICATE_WORDS:
        return None
    value = trimmed(match["v"])
    return Assertion(
        subject=USER,
        attribute="arrangement",
        value=value,
        statement=f"The user asked: {theirs(value)}.",
        confidence=_ASKED_CONFIDENCE,
    )


_DONE_TO_ME = re.compile(
    r"^(?P<who>they|you|you guys|you people|you all) (?P<verb>[\w']+) (?P<v>(?:me|us|my|our)\b.+)$",
    re.IGNORECASE,
)


def done_to_user(clause: str) -> Assertion | None:
    """ "you guys bill me on the first": what others do with the speaker."""
    match = _DONE_TO_ME.match(clause)
    base = base_form(match["verb"]) if match else None
    if (
        match is None
        or base is None
        or base in MIND_AND_TALK
        or base in {"let", "make", "give", "get", "have", "do"}
    ):
        return None
    value = trimmed(match["v"])
    shown = _ME.sub(lambda found: _THE_USER[found[0].casefold()], value)
    return Assertion(
        subject=USER,
        attribute=base,
        value=value,
        statement=f"They {match['verb'].casefold()} {shown}.",
        confidence=OPEN_CONFIDENCE,
    )


_THE_USER = {"me": "the user", "us": "the user", "my": "the user's", "our": "the user's"}
_ME = re.compile(r"\b(?:me|us|my|our)\b", re.IGNORECASE)
# Words behind "'s" that make it "is": "the buzzer's broken".
_STATE_WORDS_TEXT = """
due ready full empty broken closed open late early sick ill fine better worse old new young free busy away gone
here there upstairs downstairs out off over on in at under behind next by with from about around near between so
very too really just always usually never still only now also not a an the my our his her one two three four five
six seven eight nine ten moving coming going doing getting working staying leaving living turning running driving
flying expecting allergic blind deaf pregnant retired married divorced single engaged dead alive asleep awake loose
tight stuck stiff sore swollen locked jammed cracked leaking dripping red blue green black white grey gray yellow
brown silver named called scared afraid good bad great terrible nice loud quiet cold hot warm wet dry dirty clean
heavy light cheap expensive"""
_STATE_WORDS = frozenset(_STATE_WORDS_TEXT.split())


# Nouns of which a caller says what they are, rather than what is theirs.
_OWN_DATA = frozenset(
    {"type", "name", "number", "address", "size", "birthday", "color", "colour", "age", "code", "job", "email", "phone",
     "account", "favorite", "favourite", "maiden", "zip", "postcode", "password", "pin", "title", "language", "team"}
)  # fmt: skip
_THERE_IS = re.compile(
    r"^there (?:is|are) (?:also |usually |always |still )*(?P<n>(?:an?|the|some|two|three) (?:[\w-]+ ){0,2}?[\w-]+) "
    r"(?P<v>(?:on|at|with|in|by|under|behind|next to|outside|inside|near|between)\s(?!the (?:problem|way|"
    r"line)\b|it\b|this\b)[\w' -]+)$",
    re.IGNORECASE,
)


def there_is(clause: str) -> Assertion | None:
    """ "there's a key with the neighbour": where something is."""
    match = _THERE_IS.match(clause)
    if match is None or match["n"].split()[-1].casefold() in _NOT_OURS or len(match["v"].split()) > 8:
        return None
    noun, value = re.sub(r"^(?:an?|the|some)\s+", "", match["n"], flags=re.IGNORECASE), trimmed(match["v"])
    return Assertion(
        subject=USER,
        attribute=noun.casefold(),
        value=value,
        statement=f"There is {theirs(match['n'])} {theirs(value)}.",
        confidence=OPEN_CONFIDENCE,
    )


def copula_written_out(clause: str) -> str:
    """ "the buzzer's broken" as "the buzzer is broken"; possessives stay: "the super's office is downstairs"."""
    match = re.match(
        r"^(?P<np>(?:(?:the|my|our|his|her|their) )?(?:[\w-]+ ){0,3}?[\w-]{2,})['’]s (?P<next>[\w'-]+)(?P<rest>.*)$",
        clause,
        re.IGNORECASE,
    )
    if match is None or match["np"].casefold() in _PRONOUNS | {"let", "what", "here", "how", "where"}:
        return clause
    follows = match["rest"].split()[:3]
    if any(word.casefold() in {"is", "are", "was", "were", "has", "have"} for word in follows):
        return clause
    noun = match["np"].split()[-1].casefold()
    mine = re.match(r"^(?:my|our) ", match["np"], re.IGNORECASE) is not None and noun in _OWN_DATA
    state = (
        mine or match["next"].casefold() in _STATE_WORDS or match["next"].casefold().endswith(("ing", "ed"))
    )
    return f"{match['np']} is {match['next']}{match['rest']}" if state else clause


def noun_statement(clause: str, referents: Referents) -> list[Change]:
    """What a clause says of the noun phrase in front of its verb; [] when it says nothing of the speaker's world."""
    match = _DETERMINER.match(clause)
    determiner = match["det"].casefold() if match else ""
    own = (match["own"] or "").casefold() if match else ""
    words = (match["rest"] if match else clause).split()
    start = _verb_position(words)
    if start is None:
        return []
    noun, predicate = " ".join(words[:start]).casefold(), " ".join(words[start:])
    if words[0].casefold() in _PRONOUNS | AUXILIARIES or (not determiner and is_number_phrase(words[0])):
        return []
    possessor = re.match(r"^(?P<who>[\w -]+?)['’]s (?P<what>[\w -]+)$", noun)
    if possessor and (_kin(possessor["who"]) or _is_person(possessor["who"].split()[-1])):
        owner = _kin(possessor["who"]) or possessor["who"]
        return _of_noun(possessor["what"], predicate, f"The user's {noun}", owner)
    head = _POST_MODIFIER.sub("", noun).split()[-1].removesuffix("'s").removesuffix("’s")
    if head in _NOT_OURS or len(predicate.split()) > _MAX_PREDICATE_WORDS:
        return []
    if determiner in {"neither of", "none of"} and own:
        predicate = _denied(predicate)
    kin = _kin(noun)
    if kin is not None:
        return state_changes(Subject(key=kin), predicate, referents)
    if not determiner and not (_ABOUT_ME.search(predicate) or head in _things(referents)):
        return []
    if determiner in {
        "a",
        "an",
        "some",
        "every",
        "each",
        "this",
        "that",
        "these",
        "those",
    } and not _ABOUT_ME.search(predicate):
        return []
    whose = own or determiner
    if whose in {"his", "her", "their"}:
        bearer = {"his": referents.he, "her": referents.she, "their": referents.they}[whose]
        bearer = bearer or (referents.she or referents.he if whose != "their" else None)
        return [] if bearer is None else _of_noun(noun, predicate, f"The user's {bearer}'s {noun}", bearer)
    if _is_person(head):
        return state_changes(Subject(key=noun), predicate, referents)
    shown = (
        f"The user's {noun}"
        if whose in {"my", "our"}
        else f"The {noun}"
        if whose == "the"
        else noun.capitalize()
    )
    return _of_noun(noun, predicate, shown, USER)


def _verb_position(words: list[str]) -> int | None:
    for position in range(1, min(_MAX_SUBJECT_WORDS + 1, len(words))):
        before = words[position - 1].casefold()
        if before in {
            "to",
            "of",
            "in",
            "on",
            "at",
            "from",
            "for",
            "with",
            "and",
            "or",
            "a",
            "the",
            "my",
            "not",
        }:
            continue
        plural = _PLURAL_HEAD.search(_POST_MODIFIER.sub("", " ".join(words[:position]))) is not None
        word = words[position].casefold()
        adverbs = {
            "really",
            "just",
            "also",
            "always",
            "never",
            "still",
            "only",
            "now",
            "usually",
            "actually",
            "already",
        }
        if word in adverbs and position + 1 < len(words) and is_finite(words[position + 1], plural=plural):
            return position
        following = words[position + 1].casefold() if position + 1 < len(words) else ""
        if is_finite(word, plural=plural) and not (
            following in {"is", "are", "was", "were"} and word != "is"
        ):
            return position
    return None


def _kin(noun: str) -> str | None:
    """The relation that a noun phrase names, without what describes it: "kids" of "older kids"."""
    head = _POST_MODIFIER.sub("", noun).split()[-1]
    kin = PERSON_RELATIONS | PETS
    return head if head in kin or head.removesuffix("s") in kin else None


def _is_person(head: str) -> bool:
    return head in PEOPLE or head.removesuffix("s") in PEOPLE or is_occupation(head)


def _things(referents: Referents) -> frozenset[str]:
    return frozenset((referents.it or "").split())


def _denied(predicate: str) -> str:
    first, _, rest = predicate.partition(" ")
    if first in {"can", "is", "are", "was", "were", "do", "does", "did", "have", "has", "will"}:
        return f"{first} not {rest}"
    return f"do not {base_form(first) or first} {rest}"


def _of_noun(noun: str, predicate: str, shown: str, owner: str) -> list[Change]:
    group = verb_group(predicate)
    if group is None or group.auxiliary == "used to":
        return []
    polarity = Polarity.NEGATED if group.negated else Polarity.AFFIRMED
    value = trimmed(group.rest)
    if group.verb == "be":
        value, polarity = _not_stripped(value, polarity)
        if not value or re.match(r"^(?:that|what|why|how|if|whether|you)\b", value, re.IGNORECASE):
            return []
        said = Clause(owner, "").noun(noun_attribute(noun), value, polarity=polarity)
        return [replace(said, statement=f"{shown} {theirs(predicate)}.", confidence=OPEN_CONFIDENCE)]
    if group.verb in _SAYS_LITTLE or not _lasting(group, value):
        return []
    return [
        Assertion(
            subject=noun_attribute(noun) if owner == USER else owner,
            attribute=group.verb if owner == USER else f"{noun} {group.verb}",
            value=value,
            statement=f"{shown} {theirs(predicate)}.",
            polarity=polarity,
            cardinality=Cardinality.MANY,
            confidence=OPEN_CONFIDENCE,
        )
    ]


def _lasting(group: VerbGroup, value: str) -> bool:
    if re.match(r"^(?:that|what|why|how|if|whether|you)\b", value, re.IGNORECASE):
        return False
    return bool(value) or group.verb not in {"have", "do", "go", "come", "get", "make", "let"}


def _not_stripped(value: str, polarity: Polarity) -> tuple[str, Polarity]:
    denied = re.match(r"^not (.+)$", value, re.IGNORECASE)
    return (denied[1], Polarity.NEGATED) if denied else (value, polarity)
