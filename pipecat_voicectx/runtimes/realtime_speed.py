"""Speed of a speech-to-speech service that has a setting for it: `audio.output.speed` of the session."""

from __future__ import annotations

from dataclasses import dataclass

from pipecat.frames.frames import Frame, SystemFrame
from pipecat.processors.frame_processor import FrameProcessor

from pipecat_voicectx.orchestrator.speed_map import SpeedMap
from pipecat_voicectx.runtimes.realtime_settings import RealtimeSettings

__all__ = ["OPENAI_SPEED", "XAI_SPEED", "RealtimeSpeed", "RealtimeSpeedFrame", "speed_map_of"]

# LOV, section 4.1: OpenAI's voices deliver 142.4 words per minute at 0.8 and 267.0 at 1.5.
OPENAI_SPEED = SpeedMap(slowest_wpm=142.4, fastest_wpm=267.0, slowest_value=0.8, fastest_value=1.5)
# Pipecat's source states 0.7-1.5 for xAI. The rates are OpenAI's line, which runs through the origin; untested.
XAI_SPEED = SpeedMap(slowest_wpm=124.6, fastest_wpm=267.0, slowest_value=0.7, fastest_value=1.5)


@dataclass
class RealtimeSpeedFrame(SystemFrame):
    """For `RealtimeLink`: the voice's speed from the next answer on."""

    speed: float


class RealtimeSpeed:
    """A `SpeedActuator` for one session. Takes effect with the next answer: the server refuses it within one."""

    def __init__(self, settings: RealtimeSettings, speeds: SpeedMap) -> None:
        """Args:
        settings: Of the session.
        speeds: What the voice delivers.
        """
        self._settings = settings
        self._map = speeds

    @property
    def words_per_minute(self) -> int | None:
        """The rate the voice is set to, as far as the server told; nothing told is its own speed, 1.0."""
        return round(self._map.wpm_for(self._settings.speed or 1.0))

    def nearest_wpm(self, words_per_minute: int) -> int:
        """The rate that the voice delivers when asked for this one."""
        return round(self._map.wpm_for(self._map.value_for(words_per_minute)))

    def frame_for(self, words_per_minute: int) -> Frame:
        """See `SpeedActuator`."""
        return RealtimeSpeedFrame(speed=round(self._map.value_for(words_per_minute), 2))


def speed_map_of(llm: FrameProcessor) -> SpeedMap:
    """What the service's voices deliver."""
    return XAI_SPEED if ".xai." in type(llm).__module__ else OPENAI_SPEED
