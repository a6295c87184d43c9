"""What the settler says is to be done, and the times it goes by."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.playback.heard import HeardTurn

__all__ = [
    "AmendText",
    "CommitText",
    "CutReason",
    "RevokeAudio",
    "Settled",
    "SettlementConfig",
    "SettlementEvent",
]


class CutReason(Enum):
    """Why a turn ended before its last word."""

    INTERRUPTION = "interruption"
    """The user's speech, push-to-talk or an interruption by the application."""
    ENDED = "ended"
    """The call ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitText:
    """Put this text into the conversation as (part of) the assistant message now being made."""

    message: int
    """Number of the message, for later amendments."""
    text: str
    interrupted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AmendText:
    """Change a committed message. An empty text removes it."""

    message: int
    text: str
    interrupted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A turn reached its end, or a settled one was corrected."""

    turn: HeardTurn


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeAudio:
    """Audio beyond a track position no longer counts; a client that has it buffered should drop it."""

    turn_id: int
    after_samples: int
    """Track position."""
    reason: CutReason


SettlementEvent: TypeAlias = CommitText | AmendText | Settled | RevokeAudio


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementConfig:
    """Times of the settler."""

    amend_secs: float = 1.5
    """How long after an interruption acknowledgements may still move its boundary. The next answer is requested
    about a second after the user stopped speaking; later changes would be seen by nobody."""
    speech_gap_secs: float = 1.5
    """An interruption this long after the user's speech stopped still belongs to it (transcription takes time)."""
    max_onset_secs: float = 5.0
    """An onset further back than this is not the interruption's: the user talked along for a while first."""
    late_onset_secs: float = 1.0
    """A detector that reports speech after the interruption may move the boundary back by so much. Chosen: twice the
    longest lag seen between an interim transcript and Silero's report (0.48 s)."""
    detection_secs: float = 0.25
    """How long speech goes on before it is reported. Pipecat's detectors start after 0.2 s; the rest is their window
    and the way of the report."""
    ack_grace_secs: float = 1.0
    """How long the end of a turn waits for the client to acknowledge it, before the write clock decides."""

    def __post_init__(self) -> None:
        for name in (
            "amend_secs",
            "speech_gap_secs",
            "max_onset_secs",
            "late_onset_secs",
            "detection_secs",
            "ack_grace_secs",
        ):
            if not 0 <= getattr(self, name) <= 60:
                raise UsageError(f"{name} must lie in 0..60 seconds")
