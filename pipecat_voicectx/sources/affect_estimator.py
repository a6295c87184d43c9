"""What an affect estimator of the host's own looks like to `AcousticsTracker`."""

from __future__ import annotations

from typing import Protocol

from pipecat_voicectx.states.affect import AffectEvidence, AffectReading

__all__ = ["AffectEstimator"]


class AffectEstimator(Protocol):
    """A model or a service, in place of the rules."""

    wants_audio: bool
    """Whether `AffectEvidence.audio` is to be filled."""

    async def estimate(self, evidence: AffectEvidence) -> AffectReading | None:
        """The reading of one turn; None claims nothing. Never waited for: what comes late serves the next turn."""
        ...
