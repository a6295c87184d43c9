"""Audio that is missing between two received frames, read from their presentation times.

A frame's presentation time (pts) that comes from the sender's clock steps by exactly the frame's length while
nothing is lost; what it steps beyond that was cut out. The unit of pts differs by transport (48 kHz RTP units on
SmallWebRTC, nanoseconds, or the frame's own sample rate), so it is recognised from the first steps that agree
with one, and nothing is reported before.

Not a gap: steps backwards or by more than `longest_gap_secs` (the sender or the stream restarted), and a repeated
pts (several frames cut from one). After one of these the next frame is the new reference.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AudioGap", "PtsGapDetector"]

# The clocks pts were seen to count in: RTP audio (48 kHz Opus), nanoseconds, microseconds, milliseconds.
KNOWN_CLOCKS_HZ = (48_000, 1_000_000_000, 1_000_000, 1_000)
# Steps that must agree before a clock is believed. Chosen: 60 ms of ordinary frames.
STEPS_TO_AGREE = 3
# Rounding of pts in millisecond clocks, and resamplers that hand out uneven frames, stay below this. Chosen: half a
# 20 ms packet, the smallest loss there is.
TOLERANCE_SECS = 0.010


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioGap:
    """A stretch of audio that never came."""

    at_secs: float
    """When the audio after it arrived."""
    missing_secs: float


class PtsGapDetector:
    """Finds gaps in one stream of frames. Feed every frame, in order."""

    def __init__(self, *, clock_hz: int | None = None, longest_gap_secs: float = 60.0) -> None:
        """Args:
        clock_hz: What pts counts in; None finds out.
        longest_gap_secs: A larger step is a restart, not a loss.
        """
        self._configured_hz = clock_hz
        self._clock_hz = clock_hz
        self._longest_gap_secs = longest_gap_secs
        self._last_pts: int | None = None
        self._carried_secs = 0.0
        self._candidate_hz: int | None = None
        self._agreed = 0

    @property
    def active(self) -> bool:
        """Whether pts are there and their clock is known."""
        return self._clock_hz is not None and self._last_pts is not None

    def add(
        self, *, now_secs: float, pts: int | None, duration_secs: float, sample_rate_hz: int
    ) -> AudioGap | None:
        """Feeds one frame; returns the gap in front of it, if there is one."""
        if pts is None or duration_secs <= 0.0:
            return None
        last, self._last_pts = self._last_pts, pts
        if last is None:
            self._carried_secs = duration_secs
            return None
        if pts == last:
            self._carried_secs += duration_secs
            return None
        expected_secs, self._carried_secs = self._carried_secs, duration_secs
        step = pts - last
        if step < 0:
            return None
        if self._clock_hz is None:
            self._recognise(step, expected_secs, sample_rate_hz)
            return None
        missing_secs = step / self._clock_hz - expected_secs
        if missing_secs < TOLERANCE_SECS or missing_secs > self._longest_gap_secs:
            return None
        return AudioGap(at_secs=now_secs, missing_secs=missing_secs)

    def restart(self) -> None:
        """Forgets the stream: the next frame belongs to another track or another clock."""
        self._clock_hz, self._last_pts = self._configured_hz, None
        self._candidate_hz, self._agreed = None, 0

    def _recognise(self, step: int, expected_secs: float, sample_rate_hz: int) -> None:
        fitting = [hz for hz in (*KNOWN_CLOCKS_HZ, sample_rate_hz) if abs(step / hz - expected_secs) < 0.002]
        if not fitting:
            self._candidate_hz, self._agreed = None, 0
            return
        if self._candidate_hz not in fitting:
            self._candidate_hz, self._agreed = fitting[0], 0
        self._agreed += 1
        if self._agreed >= STEPS_TO_AGREE:
            self._clock_hz = self._candidate_hz
