"""How somebody feels, from their words, and about whom or what: the evidence of the right brain.

A small lexicon of feeling words, an optional negation and intensity, and the target: what follows "about", "with",
"of" or "by", the object of a liking, or the entity that is the subject of the clause. Prosody's estimate comes from
outside as an `AffectReading`; `blended` puts the two together.

Known limits: English; one feeling a clause; irony is taken at its word, which is why confidences are low and nothing
becomes a trait from one turn.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from pipecat_voicectx.memory.cleaning import clean_transcript
from pipecat_voicectx.memory.spoken_english import clauses, expand_contractions
from pipecat_voicectx.states.affect import AffectReading, blended

__all__ = ["AffectReading", "Feeling", "blended", "feelings_in", "reading_of_page"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feeling:
    """One feeling that words express."""

    reading: AffectReading
    target: str | None
    """Whom or what it is about, in lower case as said. None: nothing in particular."""


_JOY = """happy glad delighted thrilled excited pleased proud love loves loved adore adores enjoy great wonderful
amazing fantastic cheerful relieved"""
_GRATITUDE = "grateful thankful appreciate appreciates"
_CALM = "calm relaxed comfortable fine content peaceful"
_ANGER = """angry annoyed annoying annoys frustrated frustrating furious mad irritated irritating upset hate hates hated
fed outraged"""
_SADNESS = """sad unhappy miss misses lonely depressed disappointed disappointing heartbroken miserable gutted sorry
grieving"""
_FEAR = """afraid scared worried worry worries worrying nervous anxious stressed stressful stress terrified concerned
panicking dread dreading overwhelmed"""
_DISGUST = "disgusting disgusted awful terrible horrible gross dislike dislikes dreadful"
_VALENCES = {
    "joy": 0.8,
    "gratitude": 0.7,
    "calm": 0.4,
    "anger": -0.7,
    "sadness": -0.6,
    "fear": -0.6,
    "disgust": -0.7,
}
_LEXICON: dict[str, str] = {
    word: label
    for label, words in (
        ("joy", _JOY), ("gratitude", _GRATITUDE), ("calm", _CALM), ("anger", _ANGER), ("sadness", _SADNESS),
        ("fear", _FEAR), ("disgust", _DISGUST),
    )
    for word in words.split()
}  # fmt: skip
_OPPOSITE = {
    "joy": "sadness",
    "gratitude": "anger",
    "calm": "fear",
    "anger": "calm",
    "sadness": "calm",
    "fear": "calm",
    "disgust": "calm",
}
_INTENSE = frozenset({"very", "so", "really", "extremely", "absolutely", "totally", "terribly", "incredibly"})
_MILD = frozenset({"bit", "little", "slightly", "somewhat", "kind", "sort"})
_NEGATION = frozenset({"not", "never", "no", "hardly", "without"})
# "i am afraid that is all", "sorry to bother you", "i am fine": manners, not moods.
_MANNERS = re.compile(
    r"^(?:i am )?(?:sorry|afraid)$|^sorry\b|^great\b|\bi am (?:fine|good|great)(?: thanks| thank you)?$|"
    r"\b(?:i am afraid (?:i|that|we|not)|sorry to (?:bother|hear|interrupt)|would love|great (?:thanks|idea)|"
    r"that is (?:fine|great|wonderful|fantastic|amazing)|sounds (?:great|good|fine))\b",
    re.IGNORECASE,
)
_TARGET = re.compile(
    r"\b(?:about|with|of|by|at|for|over)\s+(?:(?:my|our|the|this|that|his|her|their|a|an)\s+)?"
    r"(?P<t>[\w'-]+(?: [\w'-]+){0,2})",
    re.IGNORECASE,
)
_OBJECT = re.compile(
    r"\b(?:love|loves|adore|adores|enjoy|hate|hates|dislike|dislikes|miss|misses|appreciate|dread)\s+"
    r"(?:(?:my|our|the|this|that|his|her|their|a|an)\s+)?(?P<t>[\w'-]+(?: [\w'-]+){0,2})",
    re.IGNORECASE,
)
_CAUSE = re.compile(
    r"^(?:(?:my|our|the|this|that)\s+)?(?P<t>[\w'-]+(?: [\w'-]+)?)\s+(?:really |always |just )?"
    r"(?:makes? me|annoys|worries|is so|is really|is very|is|are|has been)\b",
    re.IGNORECASE,
)
_NOT_A_TARGET_TEXT = """it that this you me myself everything anything something nothing all them him her us now today
what moment i we he she they there here so very really just"""
_NOT_A_TARGET = frozenset(_NOT_A_TARGET_TEXT.split())
_TARGET_END = re.compile(
    r"\s+(?:is|are|was|and|but|because|when|who|that|in|at|on|for|with|today|now|right|anymore|"
    r"again|so|very|a lot|too)\b.*$",
    re.IGNORECASE,
)


def reading_of_page(label: str | None, confidence: float | None) -> AffectReading | None:
    """The reading that a page keeps as a label; None when nothing was claimed. An unknown label has no valence."""
    if label is None or confidence is None:
        return None
    return AffectReading(
        label=label, valence=_VALENCES.get(label, 0.0), confidence=min(1.0, max(0.0, confidence))
    )


def feelings_in(text: str, *, entities: Collection[str] = ()) -> list[Feeling]:
    """The feelings that a turn puts into words; `entities` are known names that may be their targets."""
    out: list[Feeling] = []
    for clause in clauses(expand_contractions(clean_transcript(text))):
        if _MANNERS.search(clause) or clause.casefold().startswith(("if ", "would ", "do you", "are you")):
            continue
        words = [word.casefold() for word in re.findall(r"[\w'-]+", clause)]
        for position, word in enumerate(words):
            label = _LEXICON.get(word)
            if label is not None:
                out.append(
                    Feeling(reading=_reading(label, words, position), target=_target(clause, words, entities))
                )
                break
    return out


def _reading(label: str, words: list[str], position: int) -> AffectReading:
    before = words[max(0, position - 4) : position]
    if _NEGATION & set(before):
        label = _OPPOSITE[label]
    scale = 1.25 if _INTENSE & set(before) else 0.6 if _MILD & set(before) else 1.0
    # Chosen: words alone are weak evidence of how somebody feels.
    return AffectReading(label=label, valence=max(-1.0, min(1.0, _VALENCES[label] * scale)), confidence=0.5)


def _target(clause: str, words: list[str], entities: Collection[str]) -> str | None:
    for pattern in (_OBJECT, _TARGET, _CAUSE):
        match = pattern.search(clause)
        if match is None:
            continue
        target = _TARGET_END.sub("", match["t"].casefold()).strip()
        first = target.split()[0] if target else ""
        if first and first not in _NOT_A_TARGET and first not in _LEXICON:
            known = [name for name in entities if name in target.split()]
            return known[0] if known else target
    return next((name for name in entities if name in words), None)
