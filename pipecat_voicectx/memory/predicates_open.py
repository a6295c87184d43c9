"""Statements by any verb: what the frames of `predicates` have no words for.

The frames know how people name, move, like and give up; talk is full of other verbs. Here a predicate is read by its
verb group alone: auxiliary, "not", adverbs, a verb of the list in `verbs`, and what follows it. What keeps small
talk out is the kind of verb (thinking, asking and telling state nothing), conditionals ("would", "could", "might"), and
that a person's state of the moment ("i'm tired") is no fact. Facts found this way are less sure than those of a frame.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pipecat_voicectx.memory.clause import Clause
from pipecat_voicectx.memory.facts import USER, Assertion, Cardinality, Change, Polarity
from pipecat_voicectx.memory.frames import ADJECTIVES, is_occupation, sentence, theirs, third_person
from pipecat_voicectx.memory.spoken_english import is_number_phrase
from pipecat_voicectx.memory.subjects import trimmed
from pipecat_voicectx.memory.verbs import MIND_AND_TALK, base_form, is_past

__all__ = ["OPEN_CONFIDENCE", "VerbGroup", "open_predicate", "verb_group"]

# Chosen: below the frames' 0.8; nothing was measured.
OPEN_CONFIDENCE = 0.6
# Chosen: longer ones are stories, of which the start says little.
_MAX_WORDS = 12

_ADVERB = (
    r"(?:really|just|also|actually|now|usually|always|still|already|recently|only|even|currently|normally|mostly|"
    r"absolutely|totally|definitely|probably|finally|sometimes|often|generally|both|all|quite|so|very|since|mainly|"
    r"happily|kind of|sort of|basically|literally|then|ever|almost|nearly|barely|hardly|constantly|lately|again|"
    r"usually|once|simply|straight|mainly|not really|as well)"
)
_GROUP = re.compile(
    rf"^(?:{_ADVERB} )*"
    r"(?:(?P<aux>am|is|are|was|were|do|does|did|have|has|had|can|will|used to|could)(?: (?P<not>not|"
    r"never))?|(?P<never>never))?"
    rf"(?: ?\b(?:{_ADVERB} )*)(?P<verb>[\w'-]+)(?: (?P<v>.*))?$",
    re.IGNORECASE,
)
_BE = frozenset({"am", "is", "are", "was", "were"})
_STATES_OF_MIND_TEXT = """
worried interested confused excited supposed surprised scared disappointed annoyed frustrated bored tired done
finished embarrassed concerned pleased afraid lost stuck gonna meant allowed bothered amazed upset told asked
called wondered used"""
_STATES_OF_MIND = frozenset(_STATES_OF_MIND_TEXT.split())
# Verbs that name too little without more: what they state is in the frames or nowhere.
_LIGHT_TEXT = """
be have do go get come let make want need like love hate prefer try call keep put start stop give find"""
_LIGHT = frozenset(_LIGHT_TEXT.split())
_TALK_OF_THE_CALL = re.compile(
    r"^(?:on|at|in|from|with|back|through|to)\s+(?:hold|the (?:line|phone|website|app|site|page|menu|call)|you|your|a "
    r"(?:hurry|rush|minute|second)|it|that|this|my way|luck|touch|mind|love|charge|trouble|fact|general|order)\b",
    re.IGNORECASE,
)
_NO_OBJECT = re.compile(
    r"^(?:it|that|this|them|him|her|you|what|how|why|if|whether|when|where|who|which|so|to (?:know|ask|say|see|check|"
    r"tell|talk|speak|call|hear|find)|for (?:help|calling)|me|us|one|here|there|nothing|something|a (?:call|question|"
    r"look|bit|lot|favou?r))\b(?! (?:twice|three|every|in the|at (?:night|home|work)))",
    re.IGNORECASE,
)
_PLACED = re.compile(
    r"^(?:in|at|on|out of|off|between|from|under|over|near|by|with|without|into|up|down|back on|allergic|half|part|"
    r"mostly|hard of|new to|responsible|in charge of)\b",
    re.IGNORECASE,
)
_NOT_A_KIND = re.compile(
    r"^an? (?:bit|little|lot|customer|caller|mess|moron|idiot|moment|second|minute|problem|question|while|few|couple|"
    r"shame|pity|joke|regular)\b|^the (?:one|same|only|first|last)\b",
    re.IGNORECASE,
)
_GIVEN_UP = re.compile(r"\b(?:any ?more|any longer)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbGroup:
    """A predicate read by its verbs."""

    auxiliary: str
    """In lower case; "" when there is none."""
    negated: bool
    verb: str
    """The base form; of "is asleep" it is "be"."""
    said: str
    """The verb as it was said."""
    rest: str
    """What follows it."""


def verb_group(predicate: str) -> VerbGroup | None:
    """The verb group that opens a predicate; None when there is none of known verbs, or when it supposes something."""
    match = _GROUP.match(predicate.strip())
    if match is None:
        return None
    auxiliary = (match["aux"] or "").casefold()
    negated = bool(match["not"] or match["never"])
    said, rest = match["verb"].casefold(), (match["v"] or "").strip()
    base = base_form(said)
    participle = base is not None and (said.endswith(("ing", "ed", "en")) or is_past(said))
    if auxiliary in _BE and not participle:
        return VerbGroup(
            auxiliary=auxiliary, negated=negated, verb="be", said=auxiliary, rest=f"{said} {rest}".strip()
        )
    if not auxiliary and said in _BE:
        return VerbGroup(auxiliary="", negated=negated, verb="be", said=said, rest=rest)
    if base is None and not negated and auxiliary in {"do", "does", "did", "have", "has", "had"}:
        # "she does the crossword": the auxiliary is the verb.
        return VerbGroup(
            auxiliary="",
            negated=False,
            verb=base_form(auxiliary) or "do",
            said=auxiliary,
            rest=f"{said} {rest}".strip(),
        )
    if (
        said == "been"
        and auxiliary in {"have", "has", "had"}
        and (doing := rest.partition(" "))[0].endswith("ing")
    ):
        base, said, rest, auxiliary = base_form(doing[0]), doing[0].casefold(), doing[2], "is"
    if base is None or (auxiliary == "could" and not negated):
        return None
    return VerbGroup(auxiliary=auxiliary, negated=negated, verb=base, said=said, rest=rest)


def open_predicate(clause: Clause) -> Iterator[Change]:
    """What a predicate of a person or of the user states by any other verb than those of the frames."""
    group = verb_group(clause.text)
    if group is None:
        return
    value = trimmed(group.rest)
    words = value.split()
    if len(words) > _MAX_WORDS:
        return
    polarity = Polarity.NEGATED if group.negated else Polarity.AFFIRMED
    if group.verb == "be":
        if clause.subject == USER and (kind := _lasting(value)):
            yield from _sure(clause, "be", kind[0], kind[1] or polarity, shown="is")
        return
    if not _tells(clause, group, value):
        return
    if group.auxiliary in _BE:
        yield from _participle(clause, group, value, polarity)
        return
    unable = group.negated and group.auxiliary in {"can", "could"}
    shown = f"can not {group.verb}" if unable else _shown(group)
    yield from _sure(clause, group.verb, value, polarity, shown=shown)


def _tells(clause: Clause, group: VerbGroup, value: str) -> bool:
    """Whether verb and object tell more than that people talk with each other."""
    unable = group.negated and group.auxiliary in {"can", "could", "do", "does"}
    if group.verb == "see" and is_occupation(re.sub(r"^(?:an?|the|my|our)\s+", "", value)):
        return True
    if group.verb == "look" and re.match(r"^after \w", value, re.IGNORECASE):
        return True
    if group.verb in MIND_AND_TALK and not (
        unable and group.verb in {"see", "hear", "feel", "stand"} and value
    ):
        return False
    if group.auxiliary in _BE and group.said in _STATES_OF_MIND:
        return False
    if clause.subject == USER and (not value or _NO_OBJECT.match(value) or _TALK_OF_THE_CALL.match(value)):
        return False
    if group.verb in _LIGHT and (not value or _NO_OBJECT.match(value)):
        return False
    if (
        clause.subject == USER
        and group.verb in {"get", "go", "come", "have", "do"}
        and group.auxiliary not in _BE
    ):
        return _light_tells(group, value)
    return bool(value) or clause.subject != USER


def _light_tells(group: VerbGroup, value: str) -> bool:
    """ "i get paid weekly", "i do payroll for a school"; not "i got it", "i do", "i have called"."""
    if re.match(r"^(?:to|through|back|on|off|ahead|with|about|not|a hold|in touch)\b", value, re.IGNORECASE):
        return group.verb in {"go", "come"} and re.match(r"^(?:to|back to|through) \w", value) is not None
    if group.verb == "have":
        return base_form(value.split()[0]) is None
    return group.verb != "do" or not group.negated


def _participle(clause: Clause, group: VerbGroup, value: str, polarity: Polarity) -> Iterator[Change]:
    """ "is learning to sail", "was diagnosed with lupus", "am not downloading any app"."""
    if group.said.endswith("ing"):
        lasting = group.verb in {"start", "stop", "make", "keep"} or is_counted(value)
        if group.verb in _LIGHT and not lasting and clause.subject == USER:
            return
        yield from _sure(clause, group.verb, value, polarity, shown=f"is {group.said}")
    elif value or clause.subject != USER:
        yield from _sure(clause, f"be {group.said}", value, polarity, shown=f"is {group.said}")


def is_counted(value: str) -> bool:
    """Whether a number of something is in the value: "here ten years"."""
    return any(is_number_phrase(word) for word in value.split())


def _lasting(value: str) -> tuple[str, Polarity | None] | None:
    """What the user is beyond this moment: "between jobs", "half deaf in one ear", "not much of a tea person"."""
    polarity = None
    if denied := re.match(
        r"^(?:not|never) (?:much of |really |exactly |that much of )*(.+)$", value, re.IGNORECASE
    ):
        value, polarity = denied[1], Polarity.NEGATED
    value = re.sub(r"^(?:more|kind|sort|a bit|something) of (?=an? )", "", value, flags=re.IGNORECASE)
    if not value or _TALK_OF_THE_CALL.match(value) or _NOT_A_KIND.match(value):
        return None
    words = value.casefold().split()
    if _PLACED.match(value) and len(words) > 1:
        return value, polarity
    if set(words[:3]) & ADJECTIVES:
        return value, polarity
    if re.match(r"^an? [\w' -]+$", value, re.IGNORECASE) and 2 <= len(words) <= 7:
        return value, polarity
    counted = (
        len(words) > 2 and is_number_phrase(words[0]) and words[1] in {"weeks", "months", "years", "days"}
    )
    return (value, polarity) if counted else None


def _shown(group: VerbGroup) -> str:
    if group.auxiliary in {"have", "has", "had"}:
        return f"has {group.said}"
    if group.auxiliary in {"can", "will", "used to"}:
        return group.verb
    return group.said if is_past(group.said) else group.verb


def _sure(clause: Clause, verb: str, value: str, polarity: Polarity, *, shown: str) -> Iterator[Assertion]:
    value = trimmed(value)
    said = clause.verb(verb, value, polarity=polarity, cardinality=Cardinality.MANY)
    first, _, more = shown.partition(" ")
    if first == "has" and more:
        head = "has not" if polarity is Polarity.NEGATED else "has"
        predicate = f"{head} {more} {theirs(value)}".strip()
        said = replace(said, statement=sentence(clause.subject, "", predicate, name=clause.name))
    elif is_past(first) and not more and polarity is Polarity.AFFIRMED:
        predicate = f"{first} {theirs(value)}".strip()
        said = replace(said, statement=sentence(clause.subject, "", predicate, name=clause.name))
    else:
        said = replace(
            said,
            statement=sentence(clause.subject, "", third_person(shown, value, polarity), name=clause.name),
        )
    yield replace(said, confidence=OPEN_CONFIDENCE)
