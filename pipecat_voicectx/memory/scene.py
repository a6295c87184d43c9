"""Finding a page by how it sounded: "the call from the noisy cafe", "when I was so angry".

What was measured around and in the caller's voice (noise, distortion, echo, the line, affect) makes a page *heard as*
something, in a handful of kinds. A request asks for kinds by their words, but only where it speaks of a call or of
the speaker's own manner: "a hotel without a noisy bar" asks for no recording. Pages of a kind that was asked for are
found though none of their words match; beside that, words and meaning rank them as always.

Known limits: the words are English. Nothing tells a cafe from a street: both are noise, and the place itself is found
only when somebody named it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum

from pipecat_voicectx.memory.pages import PageStates, VoicePage

__all__ = ["HeardAs", "SceneIndex", "heard_as", "kinds_asked_for"]

# Chosen: from here on a line is as clean as a studio; a quiet room on a phone has 20 to 30 dB.
_QUIET_FROM_DB = 25.0


class HeardAs(Enum):
    """What a page sounded like."""

    NOISY = "noisy"
    QUIET = "quiet"
    DISTORTED = "distorted"
    ECHO = "echo"
    BAD_LINE = "bad line"
    UPSET = "upset"
    HAPPY = "happy"
    SAD = "sad"
    WORRIED = "worried"
    EXCITED = "agitated"


_AFFECTS = {
    "anger": HeardAs.UPSET,
    "disgust": HeardAs.UPSET,
    "joy": HeardAs.HAPPY,
    "gratitude": HeardAs.HAPPY,
    "sadness": HeardAs.SAD,
    "fear": HeardAs.WORRIED,
    "aroused": HeardAs.EXCITED,
}
_BAD_BANDS = frozenset({"poor", "degraded"})

# Places stand for noise only beside a word that makes the place a call's.
_WORDS = {
    HeardAs.NOISY: r"nois[ey]\w*|loud|background|traffic|crowded|caf[eé]|coffee shop|pub|bar|restaurant|street|"
    r"station|train|airport|bus|party|music|wind\w*",
    HeardAs.QUIET: r"quiet|silent|calm room",
    HeardAs.DISTORTED: r"distort\w*|crackl\w*|muffled|clipp\w*",
    HeardAs.ECHO: r"echo\w*|speakerphone",
    HeardAs.BAD_LINE: r"(?:bad|poor|terrible|awful) (?:line|connection|reception|signal)|break\w* up|choppy|"
    r"cut(?:ting)? out",
    HeardAs.UPSET: r"angry|anger|upset|annoyed|furious|frustrat\w*|cross|complain\w*|irritated",
    HeardAs.HAPPY: r"happy|glad|cheerful|delighted|pleased|grateful|laugh\w*",
    HeardAs.SAD: r"sad|down|crying|depressed|unhappy",
    HeardAs.WORRIED: r"worried|anxious|scared|afraid|nervous",
    HeardAs.EXCITED: r"excited|agitated|stressed|upset|angry|furious",
}
_ASKED = {kind: re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for kind, words in _WORDS.items()}
_OF_A_CALL = re.compile(
    r"\b(?:calls?|call(?:ed|ing)|phoned?|rang|ring(?:ing)?|conversations?|chat|talk(?:ed)?|spoke|line|background|"
    r"sound(?:ed|ing)?|voice|recordings?)\b|\bwhen i was\b|\bi was (?:so|very|really|in|at|on)\b",
    re.IGNORECASE,
)


def heard_as(states: PageStates) -> frozenset[HeardAs]:
    """The kinds that a page's states make it."""
    kinds: set[HeardAs] = set()
    if states.noisy:
        kinds.add(HeardAs.NOISY)
    elif states.snr_db is not None and states.snr_db >= _QUIET_FROM_DB:
        kinds.add(HeardAs.QUIET)
    if states.clipped:
        kinds.add(HeardAs.DISTORTED)
    if states.echo:
        kinds.add(HeardAs.ECHO)
    if states.network_band in _BAD_BANDS:
        kinds.add(HeardAs.BAD_LINE)
    if states.affect in _AFFECTS:
        kinds.add(_AFFECTS[states.affect])
    return frozenset(kinds)


def kinds_asked_for(text: str) -> frozenset[HeardAs]:
    """The kinds a request asks for; none unless it speaks of a call or of how somebody sounded."""
    if not _OF_A_CALL.search(text):
        return frozenset()
    return frozenset(kind for kind, words in _ASKED.items() if words.search(text))


class SceneIndex:
    """Which of an owner's pages were heard as what."""

    def __init__(self, pages: Iterable[VoicePage] = ()) -> None:
        self._kinds: dict[str, frozenset[HeardAs]] = {}
        for page in pages:
            self.add(page)

    def add(self, page: VoicePage) -> None:
        """Adds a page, or replaces what was known of it."""
        kinds = heard_as(page.states)
        if kinds:
            self._kinds[page.id] = kinds
        else:
            self._kinds.pop(page.id, None)

    def matching(self, text: str) -> Mapping[str, frozenset[HeardAs]]:
        """Pages that a request asks for by their sound, and the kinds it asked for that they have."""
        asked = kinds_asked_for(text) if self._kinds else frozenset()
        if not asked:
            return {}
        return {page_id: both for page_id, kinds in self._kinds.items() if (both := kinds & asked)}
