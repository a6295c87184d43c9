"""Order at an interruption: what the user says waits until the model's context is repaired.

The gate closes with the interruption and opens again when the repair is done, or after a deadline, whichever comes
first: it always reopens. What arrives in between is held in order. Should more arrive than the bound allows, the gate
opens early rather than drop anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from pipecat_voicectx.errors import UsageError

__all__ = ["ForwardGateConfig", "ForwardQueue", "GateState"]

T = TypeVar("T")


class GateState(Enum):
    """Whether what arrives passes or is held."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardGateConfig:
    """Bounds of the gate."""

    max_closed_secs: float = 0.6
    """The gate reopens after this, repaired or not. A repair takes milliseconds; speech held longer would be late."""
    max_held_secs: float = 10.0
    """Audio held at most."""
    settle_secs: float = 0.3
    """The boundary is taken this long after the gate closed: acknowledgements that are under way move it. With the
    clock going on by itself for 250 ms, acknowledgements up to 400 ms late are in by then. The user is still speaking:
    what is held goes out at once afterwards."""

    def __post_init__(self) -> None:
        if not 0 <= self.settle_secs <= 10:
            raise UsageError("settle_secs must lie in 0..10; max_closed_secs cuts it short")
        if not 0 < self.max_closed_secs <= 10 or not 0 < self.max_held_secs <= 60:
            raise UsageError("max_closed_secs must lie in 0..10 and max_held_secs in 0..60 (both above 0)")


@dataclass(slots=True)
class ForwardQueue(Generic[T]):
    """What is held, and when it may go."""

    config: ForwardGateConfig = field(default_factory=ForwardGateConfig)
    state: GateState = GateState.OPEN
    _held: list[T] = field(default_factory=list)
    _held_secs: float = 0.0
    _deadline_secs: float | None = None

    def close(self, now_secs: float) -> None:
        """An interruption. Closing a closed gate changes nothing: the first deadline stands."""
        if self.state is GateState.OPEN:
            self.state = GateState.CLOSED
            self._deadline_secs = now_secs + self.config.max_closed_secs

    def offer(self, item: T, secs: float) -> bool:
        """Takes an item that lasts `secs`. False: the gate is open, pass it on."""
        if self.state is GateState.OPEN:
            return False
        self._held.append(item)
        self._held_secs += secs
        return True

    @property
    def waiting(self) -> int:
        """Items held."""
        return len(self._held)

    @property
    def is_full(self) -> bool:
        """Whether as much is held as may be: open now."""
        return self._held_secs >= self.config.max_held_secs

    def next_deadline(self) -> float | None:
        """When the gate must open; None while it is open."""
        return self._deadline_secs

    def take(self) -> list[T]:
        """What is held, in order. The gate stays as it is: what comes while this is passed on is held behind it."""
        held, self._held = self._held, []
        self._held_secs = 0.0
        return held

    def open(self) -> list[T]:
        """Opens the gate and returns what was held, in order."""
        held, self._held = self._held, []
        self._held_secs = 0.0
        self._deadline_secs = None
        self.state = GateState.OPEN
        return held
