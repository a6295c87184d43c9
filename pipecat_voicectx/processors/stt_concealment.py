"""Short holes in the caller's audio are filled for the speech-to-text service, and for nobody else.

The service stands in front of everything that measures. So the filling is handed to the service itself, right before
it takes the frame behind the hole: it is never pushed, no detector of voice activity, no tracker and no recording
behind the service comes to hear it, and audio stays in order. What the service makes of it is the service's: one with
endpointing of its own hears speech go on for at most 60 ms.

Holes are read from presentation times (SmallWebRTC, and whatever passes the sender's clock on); elsewhere nothing
happens.
"""

from __future__ import annotations

import copy
import time

from loguru import logger
from pipecat.frames.frames import Frame, InputAudioRawFrame
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.stt_service import STTService

from pipecat_voicectx.signals.audio_gaps import PtsGapDetector
from pipecat_voicectx.signals.short_holes import HoleFiller

__all__ = ["CONCEALED", "SttConcealment"]

CONCEALED = "voicectx_concealed"
"""Key in the metadata of a frame that was invented. True."""


class SttConcealment:
    """Listens in front of one service. Keep a reference; `detach` ends it."""

    def __init__(self, stt: STTService, *, longest_secs: float, pts_clock_hz: int | None = None) -> None:
        """Args:
        stt: The speech-to-text service.
        longest_secs: Longer holes stay as they are.
        pts_clock_hz: What presentation times count in; None finds out.
        """
        self._stt = stt
        self._longest_secs = longest_secs
        self._gaps = PtsGapDetector(clock_hz=pts_clock_hz)
        self._filler = HoleFiller()
        self._format = (0, 0)
        self.filled_secs = 0.0
        """Audio that was invented since the call began."""
        self.failures = 0
        """Frames whose evaluation failed; each reached the service all the same."""
        stt.add_event_handler("on_before_process_frame", self._arriving)

    def detach(self) -> None:
        """Stops listening."""
        self._stt.remove_event_handler("on_before_process_frame", self._arriving)

    async def _arriving(self, _stt: FrameProcessor, frame: Frame) -> None:
        if not isinstance(frame, InputAudioRawFrame):
            return
        try:
            await self._audio(frame)
        except Exception as error:  # The outer edge: the real frame follows in any case.
            self.failures += 1
            if self.failures == 1:
                logger.warning("{}: a hole stays as it is ({})", self._stt, type(error).__name__)

    async def _audio(self, frame: InputAudioRawFrame) -> None:
        bytes_per_sec = frame.sample_rate * frame.num_channels * 2
        if bytes_per_sec <= 0 or not frame.audio:
            return
        gap = self._gaps.add(
            now_secs=time.monotonic(),
            pts=frame.pts,
            duration_secs=len(frame.audio) / bytes_per_sec,
            sample_rate_hz=frame.sample_rate,
        )
        same = self._format == (frame.sample_rate, frame.num_channels)
        self._format = (frame.sample_rate, frame.num_channels)
        filled = (
            self._filler.fill(gap.missing_secs, longest_secs=self._longest_secs)
            if gap is not None and same
            else None
        )
        self._filler.add(frame.audio, sample_rate_hz=frame.sample_rate, channels=frame.num_channels)
        if filled is not None:
            # A copy keeps whose audio it is.
            invented = copy.copy(frame)
            invented.audio, invented.num_frames = filled, len(filled) // (2 * frame.num_channels)
            invented.metadata = {**frame.metadata, CONCEALED: True}
            await self._stt.process_audio_frame(invented, FrameDirection.DOWNSTREAM)
            self.filled_secs += len(filled) / bytes_per_sec
