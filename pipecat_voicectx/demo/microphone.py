"""The caller's microphone: recordings on a clock, a noise floor between them, and a gate that loses packets."""

from __future__ import annotations

import asyncio
import fractions
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from aiortc.mediastreams import MediaStreamTrack
from aiortc.rtp import is_rtcp
from av import AudioFrame

from pipecat_voicectx.demo.recording import read_audio
from pipecat_voicectx.demo.scenario import Scenario

__all__ = ["LossGate", "Microphone", "caller_audio"]

RATE_HZ = 48_000
FRAME_SAMPLES = 960
_FRAME_SECS = FRAME_SAMPLES / RATE_HZ
# Measured on a headset: a quiet room lies near -75 dBFS; exact zeros would be a muted microphone instead.
_NOISE_RMS = 6.0
_SEED = 1


def caller_audio(scenario: Scenario) -> dict[str, npt.NDArray[np.int16]]:
    """All recordings at 48 kHz.

    Raises:
        BadInputError: A recording is truncated or damaged.
    """
    import soxr  # type: ignore[import-untyped]

    audio = {}
    for utterance_id, recording in scenario.recordings.items():
        samples = read_audio(recording).astype(np.float32)
        resampled = soxr.resample(samples, recording.sample_rate_hz, RATE_HZ)
        audio[utterance_id] = np.clip(resampled, -32768, 32767).astype(np.int16)
    return audio


@dataclass(slots=True)
class _Clip:
    samples: npt.NDArray[np.int16]
    started: asyncio.Future[tuple[int, float]]
    """Number of its first frame, and when that was taken."""
    first_frame: int | None = None


class Microphone(MediaStreamTrack):
    """An audio track that speaks what it is given, starting at a frame boundary."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._start_secs: float | None = None
        self._next_frame = 0
        self._clip: _Clip | None = None
        noise = np.random.default_rng(_SEED).normal(0, _NOISE_RMS, RATE_HZ)
        self._noise: npt.NDArray[np.int16] = np.rint(noise).astype(np.int16)

    def speak(self, samples: npt.NDArray[np.int16]) -> asyncio.Future[tuple[int, float]]:
        """Starts at the next frame, over anything still being said; resolves with frame number and time."""
        self._clip = _Clip(samples, asyncio.get_running_loop().create_future())
        return self._clip.started

    async def recv(self) -> AudioFrame:
        now_secs = time.monotonic()
        if self._start_secs is None:
            self._start_secs = now_secs
        wait_secs = self._start_secs + self._next_frame * _FRAME_SECS - now_secs
        if wait_secs > 0:
            await asyncio.sleep(wait_secs)
        number = self._next_frame
        self._next_frame += 1
        frame = AudioFrame.from_ndarray(self._samples(number)[None, :], layout="mono")
        frame.sample_rate = RATE_HZ
        frame.pts = number * FRAME_SAMPLES
        frame.time_base = fractions.Fraction(1, RATE_HZ)
        return frame

    def _samples(self, number: int) -> npt.NDArray[np.int16]:
        offset = (number * FRAME_SAMPLES) % (len(self._noise) - FRAME_SAMPLES)
        mixed: npt.NDArray[np.int32] = self._noise[offset : offset + FRAME_SAMPLES].astype(np.int32)
        clip = self._clip
        if clip is not None:
            if clip.first_frame is None:
                clip.first_frame = number
                clip.started.set_result((number, time.monotonic()))
            start = (number - clip.first_frame) * FRAME_SAMPLES
            part = clip.samples[start : start + FRAME_SAMPLES]
            mixed[: len(part)] += part
            if start + FRAME_SAMPLES >= len(clip.samples):
                self._clip = None
        clipped: npt.NDArray[np.int16] = np.clip(mixed, -32768, 32767).astype(np.int16)
        return clipped


class LossGate:
    """Drops audio packets after packetisation, by the number of the frame they carry."""

    def __init__(self, on_loss: Callable[[float, float, int], None]) -> None:
        """Without anything to drop; `on_loss` gets start, end and packets of each run of losses."""
        self._on_loss = on_loss
        self._lost: set[int] = set()
        self._installed: list[Any] = []
        self._run: tuple[float, float, int] | None = None
        self._first_packet = asyncio.get_running_loop().create_future()

    def drop(self, frame_number: int) -> None:
        """Loses the packet of that frame."""
        self._lost.add(frame_number)

    async def first_timestamp(self, timeout_secs: float) -> int:
        """RTP timestamp of frame 0. Raises `TimeoutError` when no packet leaves in time."""
        timestamp: int = await asyncio.wait_for(asyncio.shield(self._first_packet), timeout_secs)
        return timestamp

    def install(self, transport: Any) -> None:
        """Puts the gate in front of an aiortc transport's `_send_rtp` (or a stand-in's), once."""
        if transport in self._installed:
            return
        self._installed.append(transport)
        send: Callable[[bytes], Awaitable[None]] = transport._send_rtp

        async def gated(data: bytes) -> None:
            if is_rtcp(data) or not self._is_lost(int.from_bytes(data[4:8], "big")):
                await send(data)

        transport._send_rtp = gated

    def _is_lost(self, timestamp: int) -> bool:
        if not self._first_packet.done():
            self._first_packet.set_result(timestamp)
        number = (timestamp - self._first_packet.result()) % (1 << 32) // FRAME_SAMPLES
        now_secs = time.monotonic()
        if number in self._lost:
            start_secs, _, packets = self._run or (now_secs, now_secs, 0)
            self._run = (start_secs, now_secs + _FRAME_SECS, packets + 1)
            return True
        if self._run is not None:
            self._on_loss(*self._run)
            self._run = None
        return False
