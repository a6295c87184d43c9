"""A response that waits because its input is likely incomplete.

    IDLE --defer--> PENDING --soft deadline and line healthy | hard deadline--> IDLE (answer now)
                    PENDING --speech--> CONTINUING --speech over, turn ends--> IDLE (one answer to both parts)
                                        CONTINUING --speech over, but no turn comes of it--> IDLE (answer now)

Speech while a response waits is a continuation: it proves that the turn's boundary was premature. The silence that
ends a turn then grows by the gap that was seen (LOV, section 3.3):

    D_new = min(D_max, q * ceil((D_vad + g + delta) / q))

A response is deferred once per turn: a model that defers again would leave the caller alone with a silent line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from pipecat_voicectx.errors import InvalidTransitionError, UsageError

__all__ = ["AnswerReason", "Continuation", "Deferral", "DeferralConfig", "DeferralPhase", "longer_silence_ms"]


class DeferralPhase(Enum):
    """Where a deferred response stands."""

    IDLE = "idle"
    PENDING = "pending"
    CONTINUING = "continuing"


class AnswerReason(Enum):
    """Why a deferred response is given now."""

    RECOVERED = "recovered"
    HARD_DEADLINE = "hard_deadline"
    NOTHING_SAID = "nothing_said"
    """What sounded like a continuation held no words."""


class _Event(Enum):
    DEFER = "defer"
    ANSWER = "answer"
    CONTINUE = "continue"
    CANCEL = "cancel"


_TRANSITIONS = {
    (DeferralPhase.IDLE, _Event.DEFER): DeferralPhase.PENDING,
    (DeferralPhase.PENDING, _Event.ANSWER): DeferralPhase.IDLE,
    (DeferralPhase.PENDING, _Event.CONTINUE): DeferralPhase.CONTINUING,
    (DeferralPhase.PENDING, _Event.CANCEL): DeferralPhase.IDLE,
    (DeferralPhase.CONTINUING, _Event.ANSWER): DeferralPhase.IDLE,
    (DeferralPhase.CONTINUING, _Event.CANCEL): DeferralPhase.IDLE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeferralConfig:
    """Deadlines, and how the silence grows. All from LOV, section 3.3, unless said otherwise."""

    soft_deadline_secs: float = 1.5
    """From then on a healthy line is enough to answer."""
    hard_deadline_secs: float = 5.0
    """Answered in any case."""
    quantum_ms: int = 100
    """The silence that ends a turn grows in steps of this (LOV, section 3.3)."""
    margin_ms: int = 200
    """Kept above the pause that proved the old silence too short (LOV, section 3.3)."""
    longest_silence_ms: int = 5000
    """No pause makes it longer (LOV, section 3.3)."""
    empty_turn_secs: float = 2.0
    """A continuation that ended this long ago without a transcript held no words. Chosen: above the p99 latency of
    the slowest speech-to-text services."""

    def __post_init__(self) -> None:
        if not 0.0 < self.soft_deadline_secs <= self.hard_deadline_secs <= 60.0:
            raise UsageError("DeferralConfig: 0 < soft_deadline_secs <= hard_deadline_secs <= 60 is required")
        if min(self.quantum_ms, self.margin_ms, self.longest_silence_ms) <= 0 or self.empty_turn_secs <= 0.0:
            raise UsageError("DeferralConfig: all durations must be positive")


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """The caller went on while the response waited."""

    gap_secs: float
    silence_ms: int
    """The silence that ends a turn from now on (D_new)."""


def longer_silence_ms(*, vad_silence_ms: float, gap_secs: float, config: DeferralConfig) -> int:
    """D_new for a gap between two parts of one utterance."""
    wanted_ms = vad_silence_ms + max(0.0, gap_secs) * 1000.0 + config.margin_ms
    # A millionth of a quantum keeps binary fractions from costing a whole one.
    quanta = math.ceil(wanted_ms / config.quantum_ms - 1e-6)
    return min(config.longest_silence_ms, config.quantum_ms * quanta)


class Deferral:
    """The machine. All methods take the present time; call `wake` at `next_deadline()` and on network changes."""

    def __init__(self, config: DeferralConfig | None = None) -> None:
        self._config = config or DeferralConfig()
        self._phase = DeferralPhase.IDLE
        self._since_secs = 0.0
        self._reason: str | None = None
        self._impaired = False
        self._speech_over_secs: float | None = None
        self._used = False

    @property
    def phase(self) -> DeferralPhase:
        return self._phase

    @property
    def reason(self) -> str | None:
        """The model's reason while a response waits."""
        return self._reason

    @property
    def available(self) -> bool:
        """Whether this turn's response may still be deferred."""
        return self._phase is DeferralPhase.IDLE and not self._used

    def defer(self, reason: str, *, now_secs: float) -> None:
        """The response waits from now on.

        Raises:
            InvalidTransitionError: One waits already, or this turn's was deferred before.
        """
        if self._used:
            raise InvalidTransitionError("this turn's response was deferred before")
        self._move(_Event.DEFER)
        self._since_secs, self._reason, self._used = now_secs, reason, True

    def network(self, *, impaired: bool) -> None:
        """The line's health as it is now."""
        self._impaired = impaired

    def speech_started(self, *, gap_secs: float, vad_silence_ms: float) -> Continuation | None:
        """The caller speaks, `gap_secs` after the end of what they said before. None: nothing was waiting."""
        self._speech_over_secs = None
        if self._phase is not DeferralPhase.PENDING:
            return None
        self._move(_Event.CONTINUE)
        return Continuation(
            gap_secs=max(0.0, gap_secs),
            silence_ms=longer_silence_ms(
                vad_silence_ms=vad_silence_ms, gap_secs=gap_secs, config=self._config
            ),
        )

    def speech_stopped(self, *, now_secs: float) -> None:
        """The caller stopped speaking; a transcript should follow."""
        self._speech_over_secs = now_secs

    def turn_answered(self) -> bool:
        """A new turn's inference runs, over everything said so far. Returns whether it includes a deferred part."""
        self._used = False
        if self._phase is DeferralPhase.IDLE:
            return False
        self._move(_Event.ANSWER)
        self._reason = None
        return True

    def cancel(self) -> None:
        """The call ends; nothing is answered any more."""
        if self._phase is not DeferralPhase.IDLE:
            self._move(_Event.CANCEL)
        self._reason = None

    def wake(self, *, now_secs: float) -> AnswerReason | None:
        """Returns why the deferred response must be given now, once."""
        reason = self._due(now_secs)
        if reason is not None:
            self._move(_Event.ANSWER)
            self._reason = None
        return reason

    def next_deadline(self) -> float | None:
        """When `wake` must be called at the latest."""
        if self._phase is DeferralPhase.PENDING:
            wait_secs = self._config.hard_deadline_secs if self._impaired else self._config.soft_deadline_secs
            return self._since_secs + wait_secs
        if self._phase is DeferralPhase.CONTINUING and self._speech_over_secs is not None:
            return self._speech_over_secs + self._config.empty_turn_secs
        return None

    def _due(self, now_secs: float) -> AnswerReason | None:
        if self._phase is DeferralPhase.PENDING:
            waited_secs = now_secs - self._since_secs + 1e-6
            if waited_secs >= self._config.hard_deadline_secs:
                return AnswerReason.HARD_DEADLINE
            if waited_secs >= self._config.soft_deadline_secs and not self._impaired:
                return AnswerReason.RECOVERED
        deadline_secs = self.next_deadline()
        if self._phase is DeferralPhase.CONTINUING and deadline_secs is not None:
            return AnswerReason.NOTHING_SAID if now_secs + 1e-6 >= deadline_secs else None
        return None

    def _move(self, event: _Event) -> None:
        after = _TRANSITIONS.get((self._phase, event))
        if after is None:
            raise InvalidTransitionError(f"{event.value} is not possible while {self._phase.value}")
        self._phase = after
