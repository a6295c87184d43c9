"""All states and the running configuration at one moment."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipecat_voicectx.states.acoustics import AcousticState
from pipecat_voicectx.states.affect import AffectState
from pipecat_voicectx.states.network import NetworkState
from pipecat_voicectx.states.speaking_rate import SpeakingRateState

__all__ = ["VoiceSnapshot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceSnapshot:
    """What is known about the call, and how the bot is set to behave."""

    speaking_rate: SpeakingRateState = field(default_factory=lambda: SpeakingRateState(rate=None))
    network: NetworkState = field(default_factory=NetworkState)
    acoustics: AcousticState = field(default_factory=AcousticState)
    affect: AffectState = field(default_factory=AffectState)
    """Of the caller's latest turn."""
    response_speed_wpm: int | None = None
    """Words per minute the voice output is set to. None: unknown, or it has no speed control."""
    vad_silence_ms: int | None = None
    """Silence that ends a turn while a directive or a deferral lengthens it. None: the strategies' own."""
    pending_deferral: str | None = None
    """Reason of the response that waits. None: nothing waits."""
