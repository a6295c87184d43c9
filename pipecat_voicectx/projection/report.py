"""Who used how many tokens of one request: what an observer reads, and a log line may show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipecat_voicectx.projection.block import RECALLED_TAG, STATE_TAG, is_our_block
from pipecat_voicectx.projection.costs import estimate_message_tokens
from pipecat_voicectx.projection.projector import Fidelity
from pipecat_voicectx.projection.recall import RecallPlan
from pipecat_voicectx.projection.window import WindowEdit

__all__ = ["PartTokens", "ProjectionReport", "count_parts", "make_report"]


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
    """Our recalled block: what memory adds."""
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
    """Recalled pages whose recording is in the window."""
    transcripts: int
    summaries: int
    audio_tokens: int
    """Tokens of those, by fidelity; with headings and the like they are `tokens.recalled`."""
    transcript_tokens: int
    summary_tokens: int
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


def make_report(
    edit: WindowEdit,
    plan: RecallPlan | None,
    *,
    tools_tokens: int,
    by_meaning: bool,
    resumed: bool,
    took_secs: float,
) -> ProjectionReport:
    """Counts one projection. `plan` is None when the turn's block stood already."""
    history = plan.history if plan is not None else None
    audio, transcript, summary, omitted = (
        (history.count(fidelity), history.tokens_of(fidelity)) if history is not None else (0, 0)
        for fidelity in (Fidelity.AUDIO, Fidelity.TRANSCRIPT, Fidelity.SUMMARY, Fidelity.OMITTED)
    )
    return ProjectionReport(
        tokens=count_parts(edit.messages, tools_tokens=tools_tokens),
        candidates=plan.candidates if plan is not None else 0,
        audio=audio[0],
        transcripts=transcript[0],
        summaries=summary[0],
        audio_tokens=audio[1],
        transcript_tokens=transcript[1],
        summary_tokens=summary[1],
        omitted=omitted[0],
        kept_exchanges=len(edit.kept),
        removed_exchanges=len(edit.removed),
        by_meaning=by_meaning,
        resumed=resumed,
        took_secs=took_secs,
    )


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
