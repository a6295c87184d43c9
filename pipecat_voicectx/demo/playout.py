"""The caller's loudspeaker: which part of the bot's track has been played by when, and where the bot pauses.

Audio arrives as 20 ms pieces placed on the sender's RTP timeline (48 kHz, 0 at the first packet). It starts
`delay_secs` after the first piece arrived and then runs on the clock, at one second per second. A piece that is not
there when its turn comes is a hole and plays as silence; when nothing later is there either, the position waits and
the delay grows by the wait, as a jitter buffer's does. Like one, it catches up again by leaving out silence, and in
the end speech, when more is waiting than it should. Time is an argument; nothing here reads a clock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

__all__ = ["CODEC_DELAY_SAMPLES", "Pause", "PauseDetector", "PlayedPiece", "Playout"]

RTP_RATE_HZ = 48_000
PIECE_SAMPLES = 960
# Opus look-ahead at 48 kHz: decoded audio lies this much behind its RTP timestamp (RFC 7845; measured for aiortc).
CODEC_DELAY_SAMPLES = 312
# Chosen, after what Chromium's buffer does: silence is left out when this much more than the delay is waiting, and
# anything when it is that much more.
_CATCH_UP_SECS = 0.08
_FLUSH_SECS = 0.6
_SILENCE_PEAK = 330
# Bounded: 30 s of pieces; more can only pile up when nobody asks for the position.
_MAX_PIECES = 1500


@dataclass(frozen=True, slots=True)
class PlayedPiece:
    """20 ms that were played, or a hole."""

    at_secs: float
    peak: int


@dataclass(frozen=True, slots=True)
class Pause:
    """A silence inside or behind the bot's speech."""

    start_secs: float


class Playout:
    """Position on the bot's track, in samples a person has heard."""

    def __init__(self, *, delay_secs: float, track_rate_hz: int) -> None:
        self._delay_secs = delay_secs
        self._track_rate_hz = track_rate_hz
        self._pieces: dict[int, int] = {}
        self._order: deque[int] = deque()
        self._newest = -1
        self._next: int | None = None
        self._epoch_secs = 0.0
        self._muted_until = -1

    def add(self, rtp: int, peak: int, *, now_secs: float) -> None:
        """Takes a decoded piece that begins at `rtp`; late pieces are dropped."""
        if self._next is None:
            self._next = rtp
            self._epoch_secs = now_secs + self._delay_secs - rtp / RTP_RATE_HZ
        if rtp < self._next or rtp in self._pieces:
            return
        self._pieces[rtp] = 0 if rtp < self._muted_until else peak
        self._order.append(rtp)
        self._newest = max(self._newest, rtp)
        while len(self._order) > _MAX_PIECES:
            self._pieces.pop(self._order.popleft(), None)

    def drop_after(self, track_sample: int) -> None:
        """Silences what is buffered beyond a position of the track, as a `revoke` asks."""
        limit = track_sample * RTP_RATE_HZ // self._track_rate_hz + CODEC_DELAY_SAMPLES
        self._muted_until = self._newest + PIECE_SAMPLES
        for rtp in self._pieces:
            if rtp >= limit:
                self._pieces[rtp] = 0

    def advance(self, *, now_secs: float) -> list[PlayedPiece]:
        """Plays up to now: the pieces that came to their end since the last call."""
        played: list[PlayedPiece] = []
        if self._next is None:
            return played
        while self._epoch_secs + (self._next + PIECE_SAMPLES) / RTP_RATE_HZ <= now_secs:
            if self._next > self._newest:
                self._epoch_secs = now_secs - self._next / RTP_RATE_HZ
                break
            at_secs = self._epoch_secs + self._next / RTP_RATE_HZ
            if self._leaves_out(now_secs):
                self._pieces.pop(self._next, None)
                self._next += PIECE_SAMPLES
                self._epoch_secs -= PIECE_SAMPLES / RTP_RATE_HZ
                continue
            played.append(PlayedPiece(at_secs, self._pieces.pop(self._next, 0)))
            self._next += PIECE_SAMPLES
        while self._order and self._order[0] < self._next:
            self._order.popleft()
        return played

    def _leaves_out(self, now_secs: float) -> bool:
        """Whether the next piece is skipped to catch up."""
        assert self._next is not None
        waiting_secs = (self._newest + PIECE_SAMPLES) / RTP_RATE_HZ - (now_secs - self._epoch_secs)
        extra_secs = waiting_secs - self._delay_secs
        if extra_secs > _FLUSH_SECS:
            return True
        return extra_secs > _CATCH_UP_SECS and self._pieces.get(self._next, 0) < _SILENCE_PEAK

    def track_sample(self, *, now_secs: float) -> int | None:
        """Samples of the bot's track played by now; None before the first."""
        if self._next is None:
            return None
        rtp = min((now_secs - self._epoch_secs) * RTP_RATE_HZ, float(self._newest + PIECE_SAMPLES))
        heard = (max(rtp, 0.0) - CODEC_DELAY_SAMPLES) * self._track_rate_hz / RTP_RATE_HZ
        return max(0, int(heard))


class PauseDetector:
    """Finds where the bot speaks and pauses in what was played."""

    # Chosen: 1% of full scale; Opus gives digital silence back below 0.1%.
    _SPEECH_PEAK = 330
    # Chosen: longer than the pause between two sentences, shorter than any bot takes to answer.
    _SETTLE_SECS = 0.5

    def __init__(self, *, min_pause_secs: float) -> None:
        self._min_pause_secs = min_pause_secs
        self._silent_since_secs: float | None = None
        self._counted = True
        self._settled = True
        self.spoke = False
        self.pauses: list[Pause] = []

    def restart(self) -> None:
        """Forgets the past: a new turn of the bot may begin, once what it still says of the old one has died away."""
        self.spoke = False
        self.pauses = []
        self._counted = True
        self._settled = False

    def add(self, piece: PlayedPiece) -> None:
        """Takes the next piece in order."""
        if piece.peak > self._SPEECH_PEAK:
            self._silent_since_secs = None
            if self._settled:
                self.spoke = True
                self._counted = False
            return
        if self._silent_since_secs is None:
            self._silent_since_secs = piece.at_secs
        silent_secs = piece.at_secs + PIECE_SAMPLES / RTP_RATE_HZ - self._silent_since_secs
        self._settled = self._settled or silent_secs >= self._SETTLE_SECS
        if not self._counted and silent_secs >= self._min_pause_secs:
            self._counted = True
            self.pauses.append(Pause(self._silent_since_secs))

    def silent_secs(self, *, now_secs: float) -> float:
        """How long the bot has been silent; 0 while it speaks or before anything was played."""
        return 0.0 if self._silent_since_secs is None else now_secs - self._silent_since_secs
