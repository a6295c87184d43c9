"""Settings of `PlaybackLedger`."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipecat_voicectx.playback.clock import PlayoutClockConfig
from pipecat_voicectx.playback.heard import CUT_OFF_NOTE
from pipecat_voicectx.playback.ledger import LedgerConfig
from pipecat_voicectx.playback.settlement import SettlementConfig
from pipecat_voicectx.runtimes.client_link import Announcements

__all__ = ["PlaybackLedgerConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybackLedgerConfig:
    """Settings of `PlaybackLedger`."""

    ledger: LedgerConfig = field(default_factory=LedgerConfig)
    """Bounds of the record of turns."""
    clock: PlayoutClockConfig = field(default_factory=PlayoutClockConfig)
    """Delays and bounds of the playout clock."""
    settlement: SettlementConfig = field(default_factory=SettlementConfig)
    """Times of commits and amendments."""
    cut_off_note: str = CUT_OFF_NOTE
    """Follows an interrupted assistant message. Empty: none. `strip_cut_off_note` takes it off again."""
    announcements: Announcements = Announcements.AUTO
    """How the client is told about turns and revocations."""
