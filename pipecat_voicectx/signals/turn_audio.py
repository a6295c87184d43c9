"""The caller's audio of one turn, cut out of the stream that never ends.

A voice detector reports speech a moment after it began, so the last moments before a report are kept and belong to the
turn. Silence between the pieces of a turn is left out. A piece that no turn came of (a cough, an "mm-hm" while the bot
spoke) is dropped when the next turn starts. All of it is bounded: what a turn says beyond the limit is not kept.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from pipecat_voicectx.errors import UsageError

__all__ = ["Recording", "TurnAudio", "TurnAudioConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnAudioConfig:
    """Bounds of a turn's audio."""

    lead_secs: float = 0.5
    """Audio from before the report of speech that belongs to it. Silero reports after 0.2 s of speech. Chosen."""
    max_secs: float = 60.0
    """Most audio of one turn: 2 MB at 16 kHz. Chosen: a minute is a long turn."""

    def __post_init__(self) -> None:
        if not (0 <= self.lead_secs <= 5 and 0 < self.max_secs <= 600):
            raise UsageError("TurnAudioConfig needs lead_secs in 0..5 and max_secs in 0..600")


@dataclass(frozen=True, slots=True)
class Recording:
    """Mono 16-bit samples and their rate."""

    pcm: bytes
    rate_hz: int

    @property
    def secs(self) -> float:
        """How long it plays."""
        return len(self.pcm) / (2 * self.rate_hz)


class TurnAudio:
    """Collects one turn after the other. Feed it everything that was received, and the detector's reports."""

    def __init__(self, config: TurnAudioConfig | None = None) -> None:
        self._config = config or TurnAudioConfig()
        self._rate_hz = 0
        self._speaking = False
        self._lead: deque[bytes] = deque()
        self._lead_bytes = 0
        self._pieces: list[list[bytes]] = []
        self._bytes = 0

    def add(self, pcm: bytes, *, rate_hz: int) -> None:
        """The next samples, mono and 16 bit. A new rate begins anew: two rates make no recording."""
        if rate_hz != self._rate_hz:
            self._rate_hz = rate_hz
            self._clear()
            self._lead.clear()
            self._lead_bytes = 0
        if self._speaking:
            self._keep(pcm)
            return
        self._lead.append(pcm)
        self._lead_bytes += len(pcm)
        limit = self._config.lead_secs * 2 * rate_hz
        while self._lead and self._lead_bytes - len(self._lead[0]) >= limit:
            self._lead_bytes -= len(self._lead.popleft())

    def speech_started(self) -> None:
        """The detector reports speech: a new piece, from a moment ago."""
        if self._speaking:
            return
        self._speaking = True
        self._pieces.append([])
        for pcm in self._lead:
            self._keep(pcm)
        self._lead.clear()
        self._lead_bytes = 0

    def speech_stopped(self) -> None:
        """The detector reports silence: the piece ends here."""
        self._speaking = False

    def turn_started(self) -> None:
        """The host opens a turn: of what came before, only the piece that made it do so belongs to it."""
        del self._pieces[:-1]
        self._bytes = sum(len(pcm) for piece in self._pieces for pcm in piece)

    def take(self) -> Recording | None:
        """What was said since the last call. None: nothing. A piece still being said goes on in the next one."""
        pcm = b"".join(part for piece in self._pieces for part in piece)
        self._clear()
        return Recording(pcm, self._rate_hz) if pcm else None

    def _keep(self, pcm: bytes) -> None:
        if self._bytes + len(pcm) <= self._config.max_secs * 2 * self._rate_hz:
            self._pieces[-1].append(pcm)
            self._bytes += len(pcm)

    def _clear(self) -> None:
        self._pieces = [[]] if self._speaking else []
        self._bytes = 0
