"""Caller audio passes processors that only look at it without a stop.

Fifty frames of audio a second run through every processor of a pipeline, and a stop in one costs about 20
microseconds: a queue, a task switch, two events, a trace message. A processor that neither changes nor holds audio
can hand it to its neighbour instead and look at it afterwards. Nothing is lost by that: the neighbour queues what
comes before it was started, and audio may only get ahead of frames that wait in the same instant.
"""

from __future__ import annotations

from pipecat.frames.frames import Frame, InputAudioRawFrame
from pipecat.processors.frame_processor import FrameCallback, FrameDirection, FrameProcessor

__all__ = ["AudioLane"]


class AudioLane(FrameProcessor):
    """Base of processors that leave the caller's audio as it is. It never reaches their `process_frame`."""

    async def queue_frame(
        self,
        frame: Frame,
        direction: FrameDirection = FrameDirection.DOWNSTREAM,
        callback: FrameCallback | None = None,
    ) -> None:
        following = self.next
        if (
            isinstance(frame, InputAudioRawFrame)
            and direction is FrameDirection.DOWNSTREAM
            and callback is None
            and following is not None
        ):
            await following.queue_frame(frame, direction)
            await self.audio_passed(frame)
            return
        await super().queue_frame(frame, direction, callback)

    async def audio_passed(self, frame: InputAudioRawFrame) -> None:
        """Looks at a frame that has been handed on. Runs in the sender's task: must not raise, must not wait."""
