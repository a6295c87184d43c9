"""Gathers what belongs to one turn of the caller and asks the estimator.

A turn is everything said until the host calls it over: several stretches of speech, several final transcripts, in any
order. A transcript that comes after the turn was called over still amends it, until somebody speaks again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from pipecat_voicectx.signals.levels import LevelBlock
from pipecat_voicectx.signals.prosody import Prosody, ProsodyCollector
from pipecat_voicectx.states.affect import (
    AffectConfig,
    AffectEvidence,
    AffectReading,
    AffectState,
    ProsodyAffect,
)

__all__ = ["TurnAffectCollector"]

# Bounds of what one turn may hold.
MOST_AUDIO_SECS = 30.0
MOST_TEXT_CHARS = 4_000


class _Phase(Enum):
    OPEN = "open"
    """The turn goes on."""
    ENDED = "ended"
    """The host called it over; the next speech begins another."""


@dataclass(slots=True, kw_only=True)
class _Turn:
    number: int
    """From 1; 0 stands for no turn yet."""
    phase: _Phase = _Phase.OPEN
    collector: ProsodyCollector = field(default_factory=ProsodyCollector)
    prosody: Prosody | None = None
    snr_db: float | None = None
    words: AffectReading | None = None
    texts: list[str] = field(default_factory=list)
    lost_secs: float = 0.0
    audio: bytearray = field(default_factory=bytearray)
    rate_hz: int = 0


class TurnAffectCollector:
    """Feed it the pieces of a call in order; ask `state` when one changed it."""

    def __init__(self, config: AffectConfig) -> None:
        self._config = config
        self._estimator = ProsodyAffect(config)
        self._keeps_audio = False
        self._now = _Turn(number=0, phase=_Phase.ENDED)
        self._speaker: str | None = None
        self._lost_total_secs = 0.0
        # Without voice activity a transcript is all that tells of a turn.
        self._hears_speech = False

    def keep_audio(self) -> None:
        """The evidence is to carry the turn's samples."""
        self._keeps_audio = True

    def speech_started(self, before: Iterable[LevelBlock]) -> None:
        """Somebody speaks; `before` are the blocks in which the detector had not noticed yet."""
        self._hears_speech = True
        if self._now.phase is _Phase.ENDED:
            self._fold()
            self._begin()
        for block in before:
            self.add(block)

    def add(self, block: LevelBlock) -> None:
        """A block of the speech that goes on."""
        self._now.collector.add(block)
        if self._keeps_audio and len(self._now.audio) < 2 * MOST_AUDIO_SECS * block.rate_hz:
            self._now.rate_hz = block.rate_hz
            self._now.audio += np.round(block.samples * 32768.0).clip(-32768, 32767).astype("<i2").tobytes()

    def speech_stopped(self, *, floor_power: float | None, snr_db: float | None) -> None:
        """A stretch of speech is over, the turn perhaps not."""
        if self._now.number == 0:
            return
        self._now.prosody = self._now.collector.summary(floor_power=floor_power)
        self._now.snr_db = snr_db

    def final(self, text: str, *, words: AffectReading | None, speaker: str) -> None:
        """A final transcript, and what it says of feelings. The same text again changes nothing."""
        ended = self._now.phase is _Phase.ENDED
        if ended and (self._now.number == 0 or not self._hears_speech):
            self._begin()
        if self._speaker is not None and speaker != self._speaker:
            self._estimator.restart()
        self._speaker = speaker
        if text in self._now.texts:
            return
        self._now.texts.append(text)
        if sum(map(len, self._now.texts)) > MOST_TEXT_CHARS:
            del self._now.texts[0]
        if words is not None and (self._now.words is None or words.confidence >= self._now.words.confidence):
            self._now.words = words

    def turn_ended(self) -> None:
        """The host called the turn over."""
        self._now.phase = _Phase.ENDED

    def lost_total(self, secs: float) -> None:
        """Audio lost since the call began."""
        if self._now.phase is _Phase.OPEN:
            self._now.lost_secs += max(0.0, secs - self._lost_total_secs)
        self._lost_total_secs = secs

    def evidence(self) -> AffectEvidence | None:
        """The latest turn so far; None before the first."""
        if self._now.number == 0:
            return None
        return AffectEvidence(
            turn=self._now.number,
            prosody=self._now.prosody,
            words=self._now.words,
            text=" ".join(self._now.texts),
            snr_db=self._now.snr_db,
            lost_secs=self._now.lost_secs,
            audio=bytes(self._now.audio),
            sample_rate_hz=self._now.rate_hz,
        )

    def state(self) -> AffectState:
        """The default estimator's view of the latest turn."""
        evidence = self.evidence()
        return AffectState() if evidence is None else self._estimator.estimate(evidence)

    def state_with(self, evidence: AffectEvidence, reading: AffectReading | None) -> AffectState:
        """The view of another estimator, whose claims are held to the same least confidence."""
        sure = reading is not None and reading.confidence >= self._config.least_confidence
        return AffectState(
            turn=evidence.turn,
            words=evidence.words,
            reading=reading if sure else None,
            prosody=evidence.prosody,
        )

    def _begin(self) -> None:
        self._now = _Turn(number=self._now.number + 1)

    def _fold(self) -> None:
        evidence = self.evidence()
        if evidence is not None:
            self._estimator.finish(evidence)
