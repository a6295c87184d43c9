"""The sentences a tool call rests on: what was asked or offered, and what leads in to the call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pipecat_voicectx.playback.spans import Span, SpanRole

__all__ = ["Proposal", "find_proposals", "is_filler"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A sentence that a call rests on."""

    turn_id: int
    span: Span


_ASKING = (SpanRole.PROPOSAL, SpanRole.QUESTION, SpanRole.CONFIRMATION_REQUEST)
_WORD = re.compile(r"\w+")
_NAME_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# What is said on the way to a call and proposes nothing: acknowledgements, thanks, waiting. English, with the German,
# Spanish and French ones that are as common. Chosen.
_FILLER_WORDS = (
    "fine sure ok okay kay alright all right great good perfect excellent wonderful lovely nice cool super awesome "
    "yes yeah yep yup no of course certainly absolutely definitely gladly understood noted got it sounds thanks thank "
    "you very much so problem worries well then now and oh ah hm hmm um uh i see with my pleasure happy to sorry "
    "one just a an moment second sec minute please hold hang on bear me wait let lets us check look that this here we "
    "go gut klar gerne alles verstanden danke einen augenblick bitte sofort nat\u00fcrlich "
    "claro vale muy bien perfecto gracias un momento por favor s\u00fbr accord entendu merci instant"
)
_FILLERS = frozenset(_FILLER_WORDS.split())
_MAX_FILLER_WORDS = 8


def is_filler(text: str) -> bool:
    """Whether a sentence holds nothing but acknowledgement or "one moment". False for one without any word."""
    words = _WORD.findall(text.casefold().replace("'", "").replace("\u2019", ""))
    return 0 < len(words) <= _MAX_FILLER_WORDS and all(word in _FILLERS for word in words)


def find_proposals(
    turns: Sequence[tuple[int, Sequence[Span]]], *, calling_turn: int, function: str
) -> tuple[Proposal, ...]:
    """The sentences that must have been heard before a call runs.

    A question, an offer or a request for confirmation outranks a statement; a statement that leads in to the call
    counts when it says what is being done, and then beside the question it follows, not in its place. Fillers never
    count.

    Args:
        turns: (turn, its sentences before the call), oldest first.
        calling_turn: The turn the call belongs to.
        function: Name of the function.

    Returns:
        The one that identifies the call, then what else must have been heard. Empty if the bot said nothing that
        could propose it.
    """
    said = [
        [Proposal(turn_id=turn_id, span=span) for span in spans if not is_filler(span.text)]
        for turn_id, spans in turns
        if turn_id <= calling_turn
    ]
    said = [sentences for sentences in said if sentences]
    lead_in = said.pop() if said and said[-1][0].turn_id == calling_turn else []
    before = said[-1] if said else []
    named = [each for each in lead_in if _names(each.span, function)]
    if _asking(lead_in):
        return ([each for each in lead_in if each in named or each.span.role in _ASKING][-1],)
    if asked := _asking([each for sentences in said for each in sentences]):
        # Also one further back: it is the last thing that was asked. One go-ahead is for one execution.
        statement = named if _asking(before) else named or before
        return (asked[-1], *statement[-1:])
    return tuple((named or before or lead_in)[-1:])


def _asking(sentences: Sequence[Proposal]) -> list[Proposal]:
    return [each for each in sentences if each.span.role in _ASKING]


def _names(span: Span, function: str) -> bool:
    """Whether a sentence says what is being done: by its form, or by the verb that most function names begin with."""
    if span.role is SpanRole.TOOL_INTENT:
        return True
    parts = [part.casefold() for part in _NAME_PART.findall(function)]
    words = _WORD.findall(span.text.casefold())
    return bool(parts) and len(parts[0]) > 2 and any(word.startswith(parts[0]) for word in words)
