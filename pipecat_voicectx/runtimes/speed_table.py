"""Which Pipecat text-to-speech services have a speed control, under what name, and in which range.

One row per settings class, so that services which share or inherit one are covered by it. The ranges are those the
services' own documentation in Pipecat 1.14 states; where it states none, they are chosen and say so. Another service
adds itself with `register_speed_control`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pipecat_voicectx.orchestrator.speed_map import SpeedMap

__all__ = ["SpeedControl", "SpeedField", "ValueForm", "register_speed_control", "speed_control_named"]

# OpenAI's voices deliver 142.4 words per minute at speed 0.8 and 267.0 at 1.5 (LOV, section 4.1): 178 at 1.0, on a
# line through the origin. Taken for every voice until what was played has shown better.
NATURAL_WPM = 178.0


class ValueForm(Enum):
    """How a multiplier is written in the service's field."""

    NUMBER = "number"
    PERCENT = "percent"
    """ "120%", as SSML prosody has it."""
    TEXT = "text"
    """ "1.20"."""
    WORDS_PER_MINUTE = "words_per_minute"
    """No multiplier at all: the rate itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedField:
    """One settings field. A dot leads into a nested model."""

    path: str
    form: ValueForm = ValueForm.NUMBER


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedControl:
    """How a service's speed is set."""

    fields: tuple[SpeedField, ...]
    """All of them are set: some services read one or the other, by voice."""
    map: SpeedMap


def _multiplier(slowest: float, fastest: float, *fields: SpeedField | str) -> SpeedControl:
    # A larger number is faster, unless slowest > fastest: then the multiplier stretches time.
    def wpm(value: float) -> float:
        return NATURAL_WPM * value if slowest < fastest else NATURAL_WPM / value

    return SpeedControl(
        fields=tuple(SpeedField(path=field) if isinstance(field, str) else field for field in fields),
        map=SpeedMap(
            slowest_wpm=wpm(slowest),
            fastest_wpm=wpm(fastest),
            slowest_value=slowest,
            fastest_value=fastest,
        ),
    )


_CONTROLS: dict[str, SpeedControl] = {
    # Amazon Polly: SSML prosody, 20-200%.
    "pipecat.services.aws.tts.AWSPollyTTSSettings": _multiplier(
        0.2, 2.0, SpeedField(path="rate", form=ValueForm.PERCENT)
    ),
    # Azure: SSML prosody as a multiplier, 0.5-2.
    "pipecat.services.azure.tts.AzureTTSSettings": _multiplier(
        0.5, 2.0, SpeedField(path="rate", form=ValueForm.TEXT)
    ),
    "pipecat.services.cartesia.tts.CartesiaTTSSettings": _multiplier(0.6, 1.5, "generation_config.speed"),
    "pipecat.services.deepgram.flux.tts_base.DeepgramFluxTTSSettings": _multiplier(0.5, 1.5, "speed"),
    "pipecat.services.deepgram.tts.DeepgramTTSSettings": _multiplier(0.7, 1.5, "speed"),
    "pipecat.services.elevenlabs.tts.ElevenLabsTTSSettings": _multiplier(0.7, 1.2, "speed"),
    "pipecat.services.elevenlabs.tts.ElevenLabsHttpTTSSettings": _multiplier(0.7, 1.2, "speed"),
    "pipecat.services.fish.tts.FishAudioTTSSettings": _multiplier(0.5, 2.0, "prosody_speed"),
    "pipecat.services.google.tts.GoogleHttpTTSSettings": _multiplier(
        0.25, 2.0, SpeedField(path="rate", form=ValueForm.PERCENT), "speaking_rate"
    ),
    "pipecat.services.google.tts.GoogleTTSSettings": _multiplier(0.25, 2.0, "speaking_rate"),
    # Groq accepts the field; Pipecat's source notes that 1.0 was the only value served on 2026-02-25.
    "pipecat.services.groq.tts.GroqTTSSettings": _multiplier(0.5, 2.0, "speed"),
    "pipecat.services.hume.tts.HumeTTSSettings": _multiplier(0.5, 2.0, "speed"),
    # No range stated; Inworld's API documents 0.5-1.5.
    "pipecat.services.inworld.tts.InworldTTSSettings": _multiplier(0.5, 1.5, "speaking_rate"),
    "pipecat.services.kokoro.tts.KokoroTTSSettings": _multiplier(0.5, 2.0, "speed"),
    "pipecat.services.minimax.tts.MiniMaxTTSSettings": _multiplier(0.5, 2.0, "speed"),
    # No range stated; chosen.
    "pipecat.services.neuphonic.tts.NeuphonicTTSSettings": _multiplier(0.7, 2.0, "speed"),
    "pipecat.services.openai.tts.OpenAITTSSettings": _multiplier(0.25, 4.0, "speed"),
    # Rime counts the other way round: below 1.0 is faster. No range stated; chosen.
    "pipecat.services.rime.tts.RimeTTSSettings": _multiplier(1.6, 0.6, "speedAlpha"),
    "pipecat.services.sarvam.tts.SarvamHttpTTSSettings": _multiplier(0.5, 2.0, "pace"),
    "pipecat.services.smallest.tts.SmallestTTSSettings": _multiplier(0.5, 2.0, "speed"),
    "pipecat.services.soniox.tts.SonioxTTSSettings": _multiplier(0.7, 1.3, "speed"),
    "pipecat.services.xai.tts.XAITTSSettings": _multiplier(0.7, 1.5, "speed"),
    "pipecat.services.xai.tts.XAIWebsocketTTSSettings": _multiplier(0.7, 1.5, "speed"),
    # The demo's voice takes the rate itself.
    "pipecat_voicectx.demo.espeak_tts.EspeakTTSSettings": SpeedControl(
        fields=(SpeedField(path="words_per_minute", form=ValueForm.WORDS_PER_MINUTE),),
        map=SpeedMap(slowest_wpm=100.0, fastest_wpm=300.0, slowest_value=100.0, fastest_value=300.0),
    ),
}


def register_speed_control(settings_class: type, control: SpeedControl) -> None:
    """Makes a service's speed control known, by the class of its settings. Replaces an earlier one."""
    _CONTROLS[f"{settings_class.__module__}.{settings_class.__qualname__}"] = control


def speed_control_named(name: str) -> SpeedControl | None:
    """The control of a settings class by its full name."""
    return _CONTROLS.get(name)
