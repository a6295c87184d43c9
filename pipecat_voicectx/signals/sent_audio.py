"""When the audio was sent that a server counts in milliseconds.

A server with its own turn detection says where in the audio it got the user began to speak ("at 41,300 ms"), some time
after the fact. This keeps when each stretch was sent, so that the position becomes a moment of our own clock.
"""

from __future__ import annotations

from collections import deque

__all__ = ["SentAudioTimeline"]

# Chosen: a detector reports within a second or two; a minute of 20 ms packets is 3,000 pairs of numbers.
_KEPT_SECS = 60.0


class SentAudioTimeline:
    """Maps positions in the audio sent to a server to times. Audio is sent as it arrives, gaps and all."""

    def __init__(self) -> None:
        self._sent_secs = 0.0
        self._marks: deque[tuple[float, float]] = deque()

    @property
    def sent_secs(self) -> float:
        """Audio sent since the session began."""
        return self._sent_secs

    def add(self, duration_secs: float, *, now_secs: float) -> None:
        """A stretch was sent; its last sample was spoken about now."""
        self._sent_secs += duration_secs
        self._marks.append((self._sent_secs, now_secs))
        while self._marks[0][1] < now_secs - _KEPT_SECS:
            self._marks.popleft()

    def time_of(self, position_secs: float) -> float | None:
        """When the audio at a position was spoken, as far as we know. None: not sent yet, or long ago."""
        if not self._marks or not 0.0 <= position_secs <= self._sent_secs:
            return None
        if self._sent_secs - position_secs > _KEPT_SECS:
            return None
        # Asked once per turn, about something recent: from the newest backwards.
        end_secs, now_secs = self._marks[-1]
        for mark in reversed(self._marks):
            if mark[0] < position_secs:
                break
            end_secs, now_secs = mark
        return now_secs - (end_secs - position_secs)

    def restart(self) -> None:
        """A new session counts from zero."""
        self._sent_secs = 0.0
        self._marks.clear()
