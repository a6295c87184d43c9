"""Who used how many tokens of one request: what an observer reads, and a log line may show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipecat_voicectx.projection.block import RECALLED_TAG, STATE_TAG, is_our_block
from pipecat_voicectx.projection.costs import estimate_message_tokens

__all__ = ["PartTokens", "ProjectionReport", "count_parts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTokens:
    """Estimated tokens of a request by part."""

    system: int = 0
    """The application's system and developer messages."""
    tools: int = 0
    """Function definitions."""
    history: int = 0
    """Exchanges word for word, the current request and tool results included."""
    recalled: int = 0
    """Our recalled block."""
    state: int = 0
    """Our voice-state block."""

    @property
    def total(self) -> int:
        """All parts."""
        return self.system + self.tools + self.history + self.recalled + self.state


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionReport:
    """One projection: what entered the window, what left it, what it costs."""

    tokens: PartTokens
    candidates: int
    """Pages that were relevant enough to be considered."""
    audio: int
    transcripts: int
    summaries: int
    omitted: int
    """Candidates that did not fit the budget."""
    kept_exchanges: int
    """Exchanges word for word in the window, the open one included."""
    removed_exchanges: int
    """Exchanges that left the window at this projection; they live in pages."""
    by_meaning: bool
    """Whether the query's embedding was ready; else the ranking was by words alone."""
    resumed: bool
    """Whether the last session's pages were brought because the caller wants to go on."""
    took_secs: float
    """Time on the response path."""


def count_parts(
    messages: Sequence[object], *, tools_tokens: int, count: Callable[[object], int] = estimate_message_tokens
) -> PartTokens:
    """Tokens by part of a list of messages as it would be sent."""
    system = history = recalled = state = 0
    for message in messages:
        tokens = count(message)
        if is_our_block(message, tag=RECALLED_TAG):
            recalled += tokens
        elif is_our_block(message, tag=STATE_TAG):
            state += tokens
        elif isinstance(message, dict) and message.get("role") in ("system", "developer"):
            system += tokens
        else:
            history += tokens
    return PartTokens(system=system, tools=tools_tokens, history=history, recalled=recalled, state=state)
