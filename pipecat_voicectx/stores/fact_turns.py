"""What goes into a `FactMemory` and what it says of itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from pipecat_voicectx.memory.emergence import Candidate, Verdict
from pipecat_voicectx.memory.extraction import ConversationFocus, Extraction
from pipecat_voicectx.memory.facts import Fact
from pipecat_voicectx.memory.feelings import AffectReading, reading_of_page
from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.memory.text import readable

__all__ = ["AsyncEmergenceJudge", "ErasedFacts", "FactMemoryStatus", "FactTurn", "TurnExtractor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactTurn:
    """One confirmed user turn, for the memory."""

    turn_id: str
    """The page's id."""
    session_id: str
    text: str
    """The confirmed transcript, raw."""
    wall_secs: float
    question: str = ""
    """What the bot said before, as heard."""
    affect: AffectReading | None = None
    """How the user sounded. None: nobody estimated it."""

    @classmethod
    def from_page(cls, page: VoicePage, *, question: str = "") -> FactTurn:
        """The user's side of a page."""
        return cls(
            turn_id=page.id,
            session_id=page.session_id,
            text=readable(page.user_text),
            wall_secs=page.started_wall_secs,
            question=readable(question),
            affect=reading_of_page(page.states.affect, page.states.affect_confidence),
        )


class TurnExtractor(Protocol):
    """Reads a turn in place of the rules; see `runtimes.openai_facts.OpenAIFactExtractor`."""

    async def extract_turn(
        self, text: str, focus: ConversationFocus, *, question: str, known: Iterable[Fact]
    ) -> Extraction:
        """What the turn says.

        Raises:
            UnavailableError: It cannot be asked now.
        """
        ...


class AsyncEmergenceJudge(Protocol):
    """Judges emergence in place of the rules; see `runtimes.openai_facts.OpenAIEmergenceJudge`."""

    async def judge(self, candidate: Candidate) -> Verdict:
        """The verdict.

        Raises:
            UnavailableError: It cannot be asked now.
            BadInputError: Its answer cannot be read.
        """
        ...


@dataclass(slots=True, kw_only=True)
class FactMemoryStatus:
    """What works, and totals since the session began."""

    loaded: bool = False
    """Whether the engine's facts are here."""
    turns: int = 0
    """Turns handled."""
    waiting: int = 0
    """Turns that wait for the engine."""
    unwritten: int = 0
    """Facts that the engine does not have yet."""
    extractor_failures: int = 0
    """Turns that the rules read because the extractor could not be asked."""
    notes: int = 0
    """Turns kept verbatim, because nothing could read them."""
    state_failures: int = 0
    """Times the brains' file could not be read or written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedFacts:
    """What an erasure did, and the proof."""

    records: int
    """Records deleted from the engine."""
    left: int
    """Records that a listing still shows; 0 when the erasure is proven."""
    state_file_left: bool
