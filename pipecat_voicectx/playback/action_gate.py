"""Whether a tool with consequences may run: only if the user heard the sentence that proposed it.

A model that was interrupted while it said "shall I book the nine o'clock train?" believes that it asked. If the user's
next words look like a yes, it books. The gate looks at what was played instead.

A call rests on the last question, offer or request for confirmation before it, and on the sentence that leads in to
it in the same answer, if that one says what is being done ("I'm booking it now", not "Fine."); see `proposal`. While
one of them is being played the call waits. It runs once the semantic boundary has passed each of them, and is refused
when a turn was cut before. Where a voice has no word times there is no semantic boundary; then only a turn that was
acknowledged to its very end opens the gate (nothing has to be cut there, so nothing is estimated).

Speech is reported some time after it began, and may be a backchannel or an interruption; an interruption cuts where
it began. What counts as played is therefore what was played before any speech that may still turn out to be one.

`CallBook` keeps every call to one terminal state, and a call with consequences to one execution: a second call with
the same function, arguments and proposal gets the first one's result, and one that comes while the first is still
running waits for it.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from pipecat_voicectx.errors import InvalidTransitionError, UsageError
from pipecat_voicectx.playback.boundary import PhysicalBoundary, SemanticBoundary
from pipecat_voicectx.playback.ledger import TurnState
from pipecat_voicectx.playback.proposal import Proposal

__all__ = [
    "CallBook",
    "CallEvent",
    "CallState",
    "GateVerdict",
    "OnInterruption",
    "ToolClass",
    "ToolPolicy",
    "call_key",
    "judge",
]


class ToolClass(Enum):
    """What running a tool does to the world."""

    READ = "read"
    """Nothing: it may run any time and any number of times."""
    REVERSIBLE = "reversible"
    """Something that can be undone."""
    IRREVERSIBLE = "irreversible"
    """Something that cannot: money, messages, deletions."""


class OnInterruption(Enum):
    """What an interruption does to a call that has begun to run."""

    CANCEL = "cancel"
    FINISH = "finish"
    """It runs to its end; its result is kept for a call that asks again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPolicy:
    """How one tool is treated."""

    tool_class: ToolClass = ToolClass.READ
    consequential: bool | None = None
    """Whether its proposal must have been heard. None: for irreversible tools only."""
    on_interruption: OnInterruption | None = None
    """None: reading is cancelled, the rest finishes once begun."""
    max_wait_secs: float = 20.0
    """How long a call waits for its proposal to be played before it is refused. Chosen: longer than an answer."""
    repeat_secs: float = 30.0
    """A call that rests on no proposal is the same call again for so long; later, it is a new wish. Chosen: a model
    that was interrupted asks again within a turn or two. Calls on the same proposal are the same for good."""

    def __post_init__(self) -> None:
        if not 0 <= self.repeat_secs <= 3600:
            raise UsageError("repeat_secs must lie in 0..3600 seconds")
        if not 0 < self.max_wait_secs <= 300:
            raise UsageError("max_wait_secs must lie above 0 and at most at 300 seconds")

    @property
    def must_be_heard(self) -> bool:
        """Whether the gate applies."""
        return self.tool_class is ToolClass.IRREVERSIBLE if self.consequential is None else self.consequential

    @property
    def finishes(self) -> bool:
        """Whether a running call outlives an interruption."""
        if self.on_interruption is None:
            return self.tool_class is not ToolClass.READ
        return self.on_interruption is OnInterruption.FINISH


class GateVerdict(Enum):
    """What the gate says now."""

    OPEN = "open"
    WAIT = "wait"
    """The proposal is still being played."""
    CLOSED = "closed"
    """It was cut before the user heard it."""


def judge(
    proposal: Proposal,
    state: TurnState,
    *,
    physical: PhysicalBoundary,
    semantic: SemanticBoundary | None,
) -> GateVerdict:
    """Whether the proposal was heard, is being played, or never will be.

    Args:
        proposal: The sentence.
        state: Its turn's state.
        physical: How much of the turn is known to have been played; of a complete turn, possibly not all yet.
        semantic: The last sentence of that, if there is one.
    """
    if semantic is not None and semantic.span.end_samples >= proposal.span.end_samples:
        return GateVerdict.OPEN
    if state is TurnState.REVOKED:
        return GateVerdict.CLOSED
    if state is TurnState.COMPLETE and physical.complete:
        return GateVerdict.CLOSED if physical.estimated else GateVerdict.OPEN
    return GateVerdict.WAIT


def call_key(function: str, arguments: Mapping[str, object]) -> str:
    """What makes two calls the same: the function and its arguments, whatever their order and spacing."""
    return f"{function}({json.dumps(_normal(arguments), sort_keys=True, ensure_ascii=False, default=str)})"


def _normal(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _normal(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_normal(item) for item in value]
    if isinstance(value, str):
        return " ".join(value.split()).casefold()
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


class CallState(Enum):
    """Where in its life a call is. The last four are final."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    FAILED = "failed"


class CallEvent(Enum):
    """What moves a call on."""

    STARTED = "started"
    RETURNED = "returned"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    RAISED = "raised"


_TRANSITIONS: Mapping[tuple[CallState, CallEvent], CallState] = {
    (CallState.WAITING, CallEvent.STARTED): CallState.RUNNING,
    (CallState.WAITING, CallEvent.REFUSED): CallState.REFUSED,
    (CallState.WAITING, CallEvent.CANCELLED): CallState.CANCELLED,
    (CallState.RUNNING, CallEvent.RETURNED): CallState.DONE,
    (CallState.RUNNING, CallEvent.CANCELLED): CallState.CANCELLED,
    (CallState.RUNNING, CallEvent.RAISED): CallState.FAILED,
}


@dataclass(slots=True)
class CallBook:
    """Calls by their id, and the results of those that must not run twice."""

    max_results: int = 64
    """Results remembered; the oldest leave first."""
    max_calls: int = 256
    """Calls remembered; the oldest leave first."""
    _calls: OrderedDict[str, CallState] = field(default_factory=OrderedDict)
    _results: OrderedDict[tuple[str, int], tuple[object, float]] = field(default_factory=OrderedDict)

    def open(self, call_id: str) -> None:
        """A call arrived. One with a known id keeps its state."""
        self._calls.setdefault(call_id, CallState.WAITING)
        while len(self._calls) > self.max_calls:
            self._calls.popitem(last=False)

    def state(self, call_id: str) -> CallState | None:
        """A call's state; None for one that never came, or long ago."""
        return self._calls.get(call_id)

    def apply(self, call_id: str, event: CallEvent) -> CallState:
        """Moves a call on.

        Raises:
            InvalidTransitionError: Unknown call, or one that is already over; nothing was changed.
        """
        state = self._calls.get(call_id)
        following = None if state is None else _TRANSITIONS.get((state, event))
        if following is None:
            raise InvalidTransitionError(
                f"call: {event.value} is illegal when {state.value if state else 'unknown'}"
            )
        self._calls[call_id] = following
        return following

    def remember(self, key: str, proposal_turn: int, result: object, *, now_secs: float) -> None:
        """Keeps the result of a call with consequences."""
        self._results[key, proposal_turn] = (result, now_secs)
        self._results.move_to_end((key, proposal_turn))
        while len(self._results) > self.max_results:
            self._results.popitem(last=False)

    def has_result(self, key: str, proposal_turn: int, *, now_secs: float, repeat_secs: float) -> bool:
        """Whether the same call was already carried out: on the same proposal or, without one (turn 0), lately."""
        kept = self._results.get((key, proposal_turn))
        return kept is not None and (proposal_turn != 0 or now_secs - kept[1] <= repeat_secs)

    def result(self, key: str, proposal_turn: int) -> object:
        """Its result."""
        return self._results[key, proposal_turn][0]
