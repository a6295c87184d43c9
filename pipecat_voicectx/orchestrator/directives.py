"""Validated instructions to the pipeline. One exists only after its range was enforced."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

__all__ = [
    "DeferResponse",
    "Directive",
    "DirectiveOrigin",
    "SetResponseInstruction",
    "SetResponseSpeed",
    "SetVadSilenceDuration",
]


class DirectiveOrigin(Enum):
    """Who decided. A deferral's own lengthening outranks the model's, which outranks a learned one."""

    MODEL = "model"
    """The serving LLM called a function."""
    DEFERRAL = "deferral"
    """A continuation proved that a turn boundary was premature."""
    REFLEX = "reflex"
    """The network state alone."""
    APPLICATION = "application"
    """The bot's own code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetResponseInstruction:
    """How the next response, and only that, is to be given."""

    text: str
    """At most 300 characters."""
    origin: DirectiveOrigin = DirectiveOrigin.MODEL


@dataclass(frozen=True, slots=True, kw_only=True)
class SetResponseSpeed:
    """How fast the bot speaks from now on."""

    words_per_minute: int
    """100-300."""
    origin: DirectiveOrigin = DirectiveOrigin.MODEL


@dataclass(frozen=True, slots=True, kw_only=True)
class DeferResponse:
    """Do not answer yet: the input is likely incomplete."""

    reason: str
    """At most 120 characters."""
    origin: DirectiveOrigin = DirectiveOrigin.MODEL


@dataclass(frozen=True, slots=True, kw_only=True)
class SetVadSilenceDuration:
    """How much silence ends a turn. None gives the duration back to the strategies' default."""

    duration_ms: int | None
    """200-5000."""
    origin: DirectiveOrigin = DirectiveOrigin.MODEL


Directive: TypeAlias = SetResponseInstruction | SetResponseSpeed | DeferResponse | SetVadSilenceDuration
