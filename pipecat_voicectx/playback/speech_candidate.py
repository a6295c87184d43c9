"""Whether speech over the bot's voice is an interruption: a start of speech alone is a candidate only.

    IDLE --speech begins while the bot speaks--> CANDIDATE --words, or it lasts, or the bot ends--> CONFIRMED
                                                     |
                                                     +--it ends, or only a backchannel was said--> IDLE

While the bot is silent, the beginning of speech confirms itself. A backchannel ("mhm") and a cough end a candidate
without any effect. Words may come long after the sound of them: a transcript confirms whenever it arrives while the
bot speaks, unless it is a backchannel. "Yes" or "sure" after a question that was heard whole is an answer, not a
backchannel, although the bot talks on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from pipecat_voicectx.errors import UsageError

__all__ = [
    "CandidateState",
    "CandidateVerdict",
    "SpeechCandidate",
    "SpeechCandidateConfig",
    "is_answer",
    "is_backchannel",
]

# What listeners say without wanting the floor. Words that may as well be an answer ("yes", "right", "no") count as
# backchannels only because this is asked while the bot is speaking. English, German, Spanish, French, Japanese.
_BACKCHANNEL_WORDS = (
    "mhm mm mmm mhmm hm hmm hmmm uh uhh um umm ah aha ahh oh ohh uhhuh uhuh huh yeah yep yup yes ok okay right sure "
    "good great nice cool wow i see got it alright ja genau ach so stimmt si vale claro ya oui daccord voila "
    "\u306f\u3044 \u3046\u3093 \u3048\u3048 \u3078\u3048 \u306a\u308b\u307b\u3069 \u305d\u3046\u3067\u3059\u306d"
)
_BACKCHANNELS = frozenset(_BACKCHANNEL_WORDS.split())
# Those among them that also answer a question.
_ANSWER_WORDS = (
    "yeah yep yup yes ok okay right sure good great alright uhhuh uhuh mhm mhmm ja genau stimmt si vale claro oui "
    "daccord \u306f\u3044 \u3046\u3093 \u3048\u3048 \u305d\u3046\u3067\u3059\u306d"
)
_ANSWERS = frozenset(_ANSWER_WORDS.split())
_WORD = re.compile(r"\w+")
# The longest backchannels: "oh okay I see", "yeah yeah yeah right".
_MAX_BACKCHANNEL_WORDS = 4


def is_backchannel(text: str) -> bool:
    """Whether a transcript holds nothing but backchannels. False for one without any word."""
    words = _words(text)
    return 0 < len(words) <= _MAX_BACKCHANNEL_WORDS and all(word in _BACKCHANNELS for word in words)


def is_answer(text: str) -> bool:
    """Whether a backchannel would answer a question: "yes", "oh sure"."""
    return any(word in _ANSWERS for word in _words(text))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold().replace("-", "").replace("'", "").replace("\u2019", ""))


class CandidateState(Enum):
    """Where the user's present speech stands."""

    IDLE = "idle"
    CANDIDATE = "candidate"
    CONFIRMED = "confirmed"


class CandidateVerdict(Enum):
    """What an event means."""

    NOTHING = "nothing"
    CONFIRM = "confirm"
    """The user takes the floor: interrupt."""
    BACKCHANNEL = "backchannel"
    """The user said something and does not want the floor: its words are no turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechCandidateConfig:
    """When speech over the bot's voice is taken for an interruption."""

    confirm_secs: float = 0.5
    """Speech that lasts so long after it was reported is one, words or not. With the detector's own 0.2 s this is
    0.7 s of sound: coughs and "mhm" last 0.3-0.6 s. Chosen; a transcript with words confirms earlier."""

    def __post_init__(self) -> None:
        if not 0 <= self.confirm_secs <= 5:
            raise UsageError("confirm_secs must lie in 0..5 seconds")


@dataclass(slots=True)
class SpeechCandidate:
    """See the module's text. Feed it with what happens; it answers with a verdict."""

    config: SpeechCandidateConfig = field(default_factory=SpeechCandidateConfig)
    state: CandidateState = CandidateState.IDLE
    _bot_speaks: bool = False
    _due_secs: float | None = None

    def bot_started(self) -> None:
        """The bot began to speak."""
        self._bot_speaks = True

    def bot_stopped(self) -> CandidateVerdict:
        """The bot is silent: who speaks now has the floor."""
        self._bot_speaks = False
        return self._confirm() if self.state is CandidateState.CANDIDATE else CandidateVerdict.NOTHING

    def speech_started(self, now_secs: float) -> CandidateVerdict:
        """The detector reports speech."""
        if not self._bot_speaks:
            return self._confirm()
        if self.state is not CandidateState.CANDIDATE:
            self.state = CandidateState.CANDIDATE
            self._due_secs = now_secs + self.config.confirm_secs
        return CandidateVerdict.NOTHING

    def speech_stopped(self) -> None:
        """The detector reports silence."""
        self.state = CandidateState.IDLE
        self._due_secs = None

    def transcribed(self, text: str, *, was_asked: bool = False) -> CandidateVerdict:
        """A transcript, provisional or final.

        Args:
            text: The words.
            was_asked: Whether the last sentence that the bot has said whole is a question.
        """
        if not _WORD.search(text):
            return CandidateVerdict.NOTHING
        if self._bot_speaks and is_backchannel(text) and not (was_asked and is_answer(text)):
            return CandidateVerdict.BACKCHANNEL
        return self._confirm()

    def next_deadline(self) -> float | None:
        """When `tick` should be called; None while nothing is pending."""
        return self._due_secs

    def tick(self, now_secs: float) -> CandidateVerdict:
        """Time has passed."""
        if self._due_secs is None or now_secs < self._due_secs:
            return CandidateVerdict.NOTHING
        return self._confirm()

    def turn_started(self) -> None:
        """The turn began, for this reason or another."""
        self._due_secs = None
        self._bot_speaks = False

    def _confirm(self) -> CandidateVerdict:
        self._due_secs = None
        self.state = CandidateState.CONFIRMED
        return CandidateVerdict.CONFIRM
