"""How the caller seems to feel, from how they sound and what they say.

Theory of operation. Prosody says how *aroused* a voice is, and only against the same voice: every speaker has a pitch,
a loudness and a tempo of their own, and so does every microphone. So each finished turn goes into a baseline of this
caller (median and spread of the latest turns), and the present turn's deviations from it, in the caller's own spreads,
are weighed into one arousal: higher, wider-ranging, louder, faster and less paused is aroused; the opposite is subdued
(Scherer 2003, table 2; Juslin and Laukka 2003). Prosody does not say whether an aroused caller is delighted or angry:
for vocal expression of valence the literature finds little that carries over between speakers. So the voice alone
claims "aroused" or "subdued", of neutral valence; the valence comes from the words, and the two together settle the
confidence.

Confidence is bounded by the evidence: turns in the baseline, seconds of voiced speech, noise, lost audio. What stays
below `AffectConfig.least_confidence` is not claimed at all.

Known limits: the weights come from the cited tables, not from labelled calls; acted or synthetic speech is only a check
of the arithmetic. Tempo and loudness change for other reasons (a busy street, a bad line). It is a hint for tone,
nothing to decide about a person with.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.signals.prosody import Prosody

__all__ = [
    "AffectConfig",
    "AffectEvidence",
    "AffectReading",
    "AffectState",
    "ProsodyAffect",
    "blended",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectReading:
    """An estimate of how the user sounds or what their words say."""

    label: str
    """"joy", "gratitude", "calm", "anger", "sadness", "fear", "disgust" or "neutral"; from the voice alone, which
    does not tell good from bad, "aroused" or "subdued"."""
    valence: float
    """-1 (bad) to 1 (good); 0.0 for "aroused" and "subdued"."""
    confidence: float
    """0..1."""


VOICE_LABELS = frozenset({"aroused", "subdued"})
# Which feelings raise and which lower a voice (Scherer 2003, table 2).
_HIGH_AROUSAL = frozenset({"joy", "anger", "fear"})
_LOW_AROUSAL = frozenset({"calm", "sadness"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectState:
    """The caller's latest turn; what is not claimed is None."""

    turn: int = 0
    """The caller's turn in this call, from 1; 0 before the first."""
    arousal: float | None = None
    """-1 (subdued) to 1 (aroused), against this caller's own baseline. None: the baseline or the turn is too short."""
    voice: AffectReading | None = None
    """What the voice alone supports."""
    words: AffectReading | None = None
    """What the words alone say."""
    reading: AffectReading | None = None
    """Both together; the one to act on."""
    prosody: Prosody | None = None
    """What was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectConfig:
    """When an estimate is claimed."""

    least_confidence: float = 0.35
    """Claims below this are not made. Chosen: words alone are worth 0.5, the voice alone at most 0.6."""
    arousal_from: float = 0.4
    """Arousal from which on the voice counts as aroused (and below its negative as subdued): about one and a half
    of the caller's own spreads on every feature at once. Chosen."""
    baseline_turns: int = 20
    """Latest turns that make the baseline."""
    fewest_turns: int = 3
    """Turns before the first comparison."""

    def __post_init__(self) -> None:
        for name in ("least_confidence", "arousal_from"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise UsageError(f"AffectConfig.{name} must be within 0..1, is {getattr(self, name)}")
        if not 2 <= self.fewest_turns <= self.baseline_turns <= 1000:
            raise UsageError("AffectConfig: 2 <= fewest_turns <= baseline_turns <= 1000 must hold")


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectEvidence:
    """What is known of one turn."""

    turn: int
    prosody: Prosody | None
    words: AffectReading | None
    """What the turn's words say. None: nothing, or no transcript yet."""
    text: str = ""
    """The turn's transcript so far."""
    snr_db: float | None = None
    """None: unknown."""
    lost_secs: float = 0.0
    """Audio of the turn that never came or was invented by a receiver."""
    audio: bytes = b""
    """16-bit mono samples of the turn's speech, at most 30 s; empty unless the estimator asked for them."""
    sample_rate_hz: int = 0


# Feature: weight, least spread. A spread smaller than the measurement's own scatter is taken as that. The weights
# follow how consistently the cited tables report each; chosen.
_FEATURES: Mapping[str, tuple[float, float]] = {
    "pitch": (0.3, 0.8),
    "pitch_spread": (0.15, 1.5),
    "level": (0.25, 2.0),
    "tempo": (0.2, 0.4),
    "pauses": (-0.1, 0.08),
}
# One feature counts at most three spreads: one outlier alone claims nothing.
MOST_SPREADS = 3.0
# Arousal is the weighted mean of spreads over this. Chosen: 3 on every feature is 0.8.
SPREADS_TO_ONE = 3.75
# The voice alone is never surer than this. Chosen.
MOST_VOICE_CONFIDENCE = 0.6
# Voiced speech that makes pitch statistics sound, and noise in which they are. Chosen; the second from `pitch`.
ENOUGH_VOICED_SECS = 2.0
CLEAN_SNR_DB, UNUSABLE_SNR_DB = 15.0, 0.0
# A turn of which a fifth is missing is not judged.
MOST_LOST_RATIO = 0.2


class ProsodyAffect:
    """The default estimator: the caller's voice against its own baseline, and the words."""

    def __init__(self, config: AffectConfig | None = None) -> None:
        self._config = config or AffectConfig()
        self._baseline: deque[Mapping[str, float]] = deque(maxlen=self._config.baseline_turns)

    @property
    def baseline_turns(self) -> int:
        """Turns that the baseline is made of now."""
        return len(self._baseline)

    def estimate(self, evidence: AffectEvidence) -> AffectState:
        """The state of a turn. Changes nothing; `finish` makes the turn part of the baseline."""
        arousal = self._arousal(evidence.prosody)
        voice = self._claimed(self._voice(arousal, evidence))
        words = self._claimed(evidence.words)
        return AffectState(
            turn=evidence.turn,
            arousal=arousal,
            voice=voice,
            words=words,
            reading=self._claimed(blended(words, voice)),
            prosody=evidence.prosody,
        )

    def finish(self, evidence: AffectEvidence) -> None:
        """The turn is over: what it sounded like is usual for this caller from now on, a little."""
        if _usable(evidence):
            assert evidence.prosody is not None
            self._baseline.append(_features(evidence.prosody))

    def restart(self) -> None:
        """Another person speaks: their voice has no baseline yet."""
        self._baseline.clear()

    def _arousal(self, prosody: Prosody | None) -> float | None:
        if prosody is None or prosody.f0_hz is None or len(self._baseline) < self._config.fewest_turns:
            return None
        now = _features(prosody)
        total = 0.0
        for name, (weight, least_spread) in _FEATURES.items():
            usual = [turn[name] for turn in self._baseline]
            middle = statistics.median(usual)
            # 1.48 x the median absolute deviation is a standard deviation for normal scatter.
            spread = max(least_spread, 1.48 * statistics.median(abs(value - middle) for value in usual))
            total += weight * max(-MOST_SPREADS, min(MOST_SPREADS, (now[name] - middle) / spread))
        return max(-1.0, min(1.0, total / SPREADS_TO_ONE))

    def _voice(self, arousal: float | None, evidence: AffectEvidence) -> AffectReading | None:
        if arousal is None or abs(arousal) < self._config.arousal_from or not _usable(evidence):
            return None
        assert evidence.prosody is not None
        turns = min(1.0, len(self._baseline) / (2.0 * self._config.fewest_turns))
        voiced = min(1.0, evidence.prosody.voiced_secs / ENOUGH_VOICED_SECS)
        snr_db = CLEAN_SNR_DB if evidence.snr_db is None else evidence.snr_db
        clean = max(0.0, min(1.0, (snr_db - UNUSABLE_SNR_DB) / (CLEAN_SNR_DB - UNUSABLE_SNR_DB)))
        strength = min(1.0, abs(arousal) / (2.0 * self._config.arousal_from))
        evidence_share = math.prod((turns, voiced, clean)) ** 0.5
        return AffectReading(
            label="aroused" if arousal > 0.0 else "subdued",
            valence=0.0,
            confidence=MOST_VOICE_CONFIDENCE * (0.5 + 0.5 * strength) * evidence_share,
        )

    def _claimed(self, reading: AffectReading | None) -> AffectReading | None:
        if reading is None or not reading.confidence >= self._config.least_confidence:
            return None
        return reading


def blended(spoken: AffectReading | None, heard: AffectReading | None) -> AffectReading | None:
    """Words and voice together: agreement raises the confidence of the surer one, contradiction lowers it.

    A voice that is only aroused or subdued has no valence of its own: it strengthens the feelings that raise or lower
    a voice, and weakens the others.
    """
    if spoken is None or heard is None:
        return spoken or heard
    if heard.label in VOICE_LABELS:
        fits = _HIGH_AROUSAL if heard.label == "aroused" else _LOW_AROUSAL
        clashes = _LOW_AROUSAL if heard.label == "aroused" else _HIGH_AROUSAL
        factor = 1.3 if spoken.label in fits else 0.7 if spoken.label in clashes else 1.0
        return AffectReading(
            label=spoken.label, valence=spoken.valence, confidence=min(1.0, factor * spoken.confidence)
        )
    total = spoken.confidence + heard.confidence
    if total <= 0.0:
        return None
    valence = (spoken.valence * spoken.confidence + heard.valence * heard.confidence) / total
    surer = spoken if spoken.confidence >= heard.confidence else heard
    agree = spoken.valence * heard.valence > 0.0
    confidence = min(1.0, surer.confidence * (1.3 if agree else 0.7))
    return AffectReading(label=surer.label, valence=valence, confidence=confidence)


def _usable(evidence: AffectEvidence) -> bool:
    prosody = evidence.prosody
    if prosody is None or prosody.f0_hz is None:
        return False
    if evidence.snr_db is not None and evidence.snr_db <= UNUSABLE_SNR_DB:
        return False
    return evidence.lost_secs <= MOST_LOST_RATIO * prosody.speech_secs


def _features(prosody: Prosody) -> Mapping[str, float]:
    return {
        "pitch": 12.0 * math.log2(prosody.f0_hz or 1.0),
        "pitch_spread": prosody.f0_spread_semitones or 0.0,
        "level": prosody.level_dbfs,
        "tempo": prosody.nuclei_per_sec,
        "pauses": prosody.pause_ratio,
    }
