"""Who decides about an unreliable line."""

from __future__ import annotations

from enum import Enum

__all__ = ["ControlMode"]


class ControlMode(Enum):
    """The reflex acts on the network state alone; the model on what was said as well."""

    REFLEX = "reflex"
    """Turns are held by the network state; the model sets speed and instructions only."""
    LLM = "llm"
    """Nothing is held unless the model lengthened the silence or deferred its response."""
    BOTH = "both"
    """The reflex first; what gets past it is the model's to judge."""
    OFF = "off"
    """States are measured, nothing acts on them."""

    @property
    def reflex(self) -> bool:
        """Whether turns are held by the network state."""
        return self in (ControlMode.REFLEX, ControlMode.BOTH)

    @property
    def model_judges_line(self) -> bool:
        """Whether the model may defer and lengthen the silence."""
        return self in (ControlMode.LLM, ControlMode.BOTH)
