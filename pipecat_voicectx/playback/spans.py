"""The sentences of a bot turn: their places and what each of them does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

__all__ = ["Span", "SpanRole", "question_begun", "span_role"]


class SpanRole(Enum):
    """What a sentence of the bot does."""

    STATEMENT = "statement"
    PROPOSAL = "proposal"
    """Offers to do something: "I could book the nine o'clock train"."""
    QUESTION = "question"
    TOOL_INTENT = "tool_intent"
    """Says that something is being done: "let me look that up"."""
    CONFIRMATION_REQUEST = "confirmation_request"
    """Asks for a go-ahead: "shall I book it?"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One sentence of a turn with its place."""

    text: str
    role: SpanRole
    start_samples: int
    """Turn-local: samples of the turn's audio before it, all utterances in a row."""
    end_samples: int
    """Turn-local. Meaningful only once `finalized`."""
    finalized: bool
    """Whether its end is known from word times and will not move. Only such a span makes a semantic boundary."""

    @property
    def asks(self) -> bool:
        """Whether it waits for an answer."""
        return self.role in (SpanRole.QUESTION, SpanRole.CONFIRMATION_REQUEST)


# Sentences that ask for a go-ahead, offer something or announce an action. English; other languages fall to
# STATEMENT and QUESTION by punctuation. Chosen; the roles only inform, except that the action gate looks for the
# sentence before a tool call, whatever its role.
_CONFIRMATION = re.compile(
    r"\b(shall i|should i|do you want me to|would you like me to|is that (right|correct|ok(ay)?)|can i go ahead"
    r"|may i|go ahead\?|confirm)\b",
    re.IGNORECASE,
)
_PROPOSAL = re.compile(
    r"\b(i (can|could|would|suggest|recommend|propose)|how about|we could|let's)\b", re.IGNORECASE
)
_INTENT = re.compile(
    r"\b(let me|i('ll| will| am going to|'m going to)|one moment|just a (moment|second)|i am|i'm)\b.*"
    r"\b(look|check|book|find|search|cancel|send|order|order|pull|get|see|add|update|transfer|place)",
    re.IGNORECASE,
)


def question_begun(spans: Sequence[Span], played_samples: int) -> bool:
    """Whether a question whose end is not known was being asked by then, or came just before what was.

    The ends of sentences without word times are estimates, so one sentence more is looked at.
    """
    begun = [span for span in spans if span.start_samples < played_samples]
    return any(span.asks and not span.finalized for span in begun[-2:])


def span_role(text: str) -> SpanRole:
    """Rule-based role of a sentence."""
    if _CONFIRMATION.search(text):
        return SpanRole.CONFIRMATION_REQUEST
    if text.rstrip().endswith(("?", "\uff1f", "\u061f")):
        return SpanRole.QUESTION
    if _INTENT.search(text):
        return SpanRole.TOOL_INTENT
    if _PROPOSAL.search(text):
        return SpanRole.PROPOSAL
    return SpanRole.STATEMENT
