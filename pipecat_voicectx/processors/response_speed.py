"""How fast the bot speaks: what its voice was asked for, what it delivers, and the frame that changes it."""

from __future__ import annotations

import asyncio
import time

from loguru import logger
from pipecat.frames.frames import Frame
from pipecat.processors.frame_processor import FrameProcessor

from pipecat_voicectx.errors import UnavailableError
from pipecat_voicectx.orchestrator.functions import CallError, RejectedCall
from pipecat_voicectx.orchestrator.speed_calibration import SpeedCalibration
from pipecat_voicectx.playback.heard import HeardTurn
from pipecat_voicectx.runtimes.speed import SpeedActuator, find_speed_actuator
from pipecat_voicectx.states.spoken_units import count_spoken_units
from pipecat_voicectx.stores.voice_speeds import VoiceSpeeds

__all__ = ["ResponseSpeed"]


class ResponseSpeed:
    """One voice's speed, calibrated by what was heard of it."""

    def __init__(
        self, tts: FrameProcessor | None, speed: SpeedActuator | None, kept: VoiceSpeeds | None = None
    ) -> None:
        """Args:
        tts: The voice, whose speed control is looked up.
        speed: A speed control of the application's own instead.
        kept: What earlier calls learned. None: nothing is kept.
        """
        self._tts_name = type(tts).__name__ if tts is not None else "this pipeline"
        self._speed = speed or find_speed_actuator(tts)
        self._set_wpm: int | None = None
        self._set_secs = float("-inf")
        self._calibration = SpeedCalibration()
        self._kept = kept
        self._voice = f"{self._tts_name}/{getattr(getattr(tts, '_settings', None), 'voice', '')}"

    async def recall(self) -> None:
        """Takes over what earlier calls learned of this voice. Never raises."""
        if self._kept is not None:
            learned = await asyncio.to_thread(self._kept.load, self._voice)
            self._calibration = SpeedCalibration(learned)

    async def keep(self) -> None:
        """Keeps what this call learned. Never raises."""
        learned = self._calibration.learned
        if self._kept is None or learned is None:
            return
        try:
            await asyncio.to_thread(self._kept.save, self._voice, learned)
        except OSError as error:
            logger.warning("the tempo of {} is not kept ({})", self._tts_name, type(error).__name__)

    @property
    def asked_wpm(self) -> int | None:
        """What the voice is set to, by the table."""
        return self._set_wpm or (self._speed.words_per_minute if self._speed else None)

    @property
    def delivered_wpm(self) -> int | None:
        """What it delivers at that; None: not known."""
        return None if self.asked_wpm is None else self._calibration.delivered(self.asked_wpm)

    def add_heard(self, turn: HeardTurn) -> None:
        """A turn was played; whole ones tell what the voice delivers."""
        asked_wpm = self.asked_wpm
        whole = not turn.interrupted and not turn.estimated and not turn.unheard_text
        # A turn that began before the speed changed was spoken at two speeds.
        if asked_wpm is None or not whole or turn.started_secs < self._set_secs or turn.sample_rate_hz <= 0:
            return
        words = count_spoken_units(turn.heard_text, language="en").count
        secs = turn.played_samples / turn.sample_rate_hz
        self._calibration.add(asked_wpm=asked_wpm, words=words, secs=secs)

    def change(self, words_per_minute: int) -> Frame | RejectedCall:
        """The frame that, sent downstream now, makes the voice deliver this rate; or why there is none."""
        if self._speed is None:
            return _unsupported(f"response speed is not supported by {self._tts_name}")
        asked_wpm = self._calibration.ask_for(words_per_minute)
        try:
            frame = self._speed.frame_for(asked_wpm)
        except UnavailableError as error:
            return _unsupported(str(error))
        self._set_wpm = self._speed.nearest_wpm(asked_wpm)
        self._set_secs = time.monotonic()
        return frame


def _unsupported(detail: str) -> RejectedCall:
    return RejectedCall(function="set_response_speed", error=CallError.NOT_SUPPORTED, detail=detail)
