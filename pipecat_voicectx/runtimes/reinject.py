"""Audio re-injection, for models that take nothing but audio (PACE's adapter for them).

Such a model cannot be told in text where it was cut off. So it is made to hear it: the last seconds of its own voice
that the user heard, then a spoken delimiter, then the user's words. Everything arrives as input audio, at the rate of
the input.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pipecat.audio.utils import create_file_resampler
from pipecat.frames.frames import InputAudioRawFrame

from pipecat_voicectx.errors import UsageError

__all__ = ["Reinjection", "ReinjectionConfig", "SpokenDelimiter"]

SpokenDelimiter = Callable[[], Awaitable[tuple[bytes, int]]]
"""Synthesizes the delimiter in the bot's own voice: (PCM, rate). Called once per session."""

_FRAME_SECS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class ReinjectionConfig:
    """What is re-injected."""

    secs: float = 5.0
    """How much of the bot's played audio. PACE found 5 s enough to tell list items apart; 2.5 and 10 work too."""
    delimiter: SpokenDelimiter | None = None
    """Says something like "I was interrupted here". None: a pause of `pause_secs`."""
    pause_secs: float = 0.3
    """Silence around the delimiter, or instead of it."""

    def __post_init__(self) -> None:
        if not 0 < self.secs <= 10 or not 0 <= self.pause_secs <= 2:
            raise UsageError("secs must lie in 0..10 (above 0) and pause_secs in 0..2")


class Reinjection:
    """Makes the frames to inject."""

    def __init__(self, config: ReinjectionConfig | None = None) -> None:
        """Initialize the maker.

        Args:
            config: Settings.
        """
        self._config = config or ReinjectionConfig()
        self._delimiter: dict[int, bytes] = {}

    @property
    def secs(self) -> float:
        """How much played audio is wanted."""
        return self._config.secs

    async def prepare(self, rate_hz: int) -> None:
        """Synthesizes the delimiter ahead of the first interruption."""
        await self._delimiter_at(rate_hz)

    async def frames(self, pcm: bytes, rate_hz: int, *, input_rate_hz: int) -> list[InputAudioRawFrame]:
        """The frames for the played audio `pcm` and the delimiter, in order; none for no audio."""
        if not pcm:
            return []
        played = pcm[-2 * int(self._config.secs * rate_hz) :]
        data = await _resampled(played, rate_hz, input_rate_hz) + await self._delimiter_at(input_rate_hz)
        step = 2 * int(input_rate_hz * _FRAME_SECS)
        return [
            InputAudioRawFrame(audio=data[start : start + step], sample_rate=input_rate_hz, num_channels=1)
            for start in range(0, len(data), step)
        ]

    async def _delimiter_at(self, rate_hz: int) -> bytes:
        if rate_hz not in self._delimiter:
            pause = bytes(2 * int(self._config.pause_secs * rate_hz))
            spoken = b""
            if self._config.delimiter is not None:
                pcm, own_rate_hz = await self._config.delimiter()
                spoken = await _resampled(pcm, own_rate_hz, rate_hz) + pause
            self._delimiter[rate_hz] = pause + spoken
        return self._delimiter[rate_hz]


async def _resampled(pcm: bytes, rate_hz: int, wanted_hz: int) -> bytes:
    if rate_hz == wanted_hz:
        return pcm
    return await create_file_resampler().resample(pcm, rate_hz, wanted_hz)
