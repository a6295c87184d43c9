"""Hearing transcripts from behind the user aggregator, which consumes them, by listening at the speech-to-text."""

from __future__ import annotations

from collections.abc import Callable

from pipecat.frames.frames import Frame, InterimTranscriptionFrame, TranscriptionFrame
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.stt_service import STTService

from pipecat_voicectx.runtimes.frame_listeners import listen, stop_listening

__all__ = ["TranscriptTap"]


class TranscriptTap:
    """Calls `on_text` with everything said since `clear`, each time a transcript, interim or final, comes.

    Args:
        stt: The service to listen at. None: the nearest one in front of the processor given to `attach`.
        on_text: Called in the service's task; must not block.
    """

    def __init__(self, *, stt: FrameProcessor | None, on_text: Callable[[str], None]) -> None:
        self._stt = stt
        self._on_text = on_text
        self._attached = False
        self._finals: list[str] = []

    def attach(self, behind: FrameProcessor) -> bool:
        """Starts to listen; False when there is no speech-to-text service in front of `behind`."""
        before = behind.previous
        while self._stt is None and before is not None:
            self._stt = before if isinstance(before, STTService) else None
            before = before.previous
        if self._stt is None:
            return False
        if not self._attached:
            self._attached = True
            listen(self._stt, "on_before_push_frame", self._on_frame)
        return True

    def detach(self) -> None:
        """Stops to listen. Harmless when repeated."""
        if self._stt is not None and self._attached:
            self._attached = False
            stop_listening(self._stt, "on_before_push_frame", self._on_frame)

    def clear(self) -> None:
        """The turn was taken; what comes now belongs to the next."""
        self._finals.clear()

    async def _on_frame(self, _stt: FrameProcessor, frame: Frame) -> None:
        match frame:
            case TranscriptionFrame():
                self._finals.append(frame.text)
                self._on_text(" ".join(self._finals))
            case InterimTranscriptionFrame():
                self._on_text(" ".join([*self._finals, frame.text]))
            case _:
                pass
