"""The speech-to-text of a session in which nobody speaks: an eval harness types the user's turns."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from pipecat.frames.frames import Frame
from pipecat.services.settings import STTSettings
from pipecat.services.stt_service import STTService

__all__ = ["TypedOnlySTT"]


class TypedOnlySTT(STTService):
    """Hears nothing; typed turns reach the context on their own way."""

    def __init__(self) -> None:
        super().__init__(settings=STTSettings(model=None, language=None))

    async def run_stt(self, audio: bytes) -> AsyncGenerator[Frame | None, None]:
        """No transcript for any audio."""
        nothing: tuple[Frame, ...] = ()
        for frame in nothing:
            yield frame
