"""Whether the user says words, seen before they are a message."""

from __future__ import annotations

from pipecat.frames.frames import Frame, InterimTranscriptionFrame, TranscriptionFrame
from pipecat.processors.frame_processor import FrameProcessor

from pipecat_voicectx.runtimes.frame_listeners import listen

__all__ = ["WordWatch"]


class WordWatch:
    """Counts transcripts with words as they reach the user aggregator, which passes none of them on."""

    def __init__(self, aggregator: FrameProcessor) -> None:
        """Starts listening at the aggregator."""
        self.count = 0
        listen(aggregator, "on_before_process_frame", self._arriving)

    def _arriving(self, _aggregator: FrameProcessor, frame: Frame) -> None:
        if isinstance(frame, (TranscriptionFrame, InterimTranscriptionFrame)):
            self.count += any(char.isalnum() for char in frame.text)
