"""Since when the user has been speaking: the boundary of an interruption lies there, not where it was noticed."""

from __future__ import annotations

from dataclasses import dataclass

from pipecat_voicectx.playback.settlement_events import SettlementConfig

__all__ = ["SpeechOnset"]


@dataclass(slots=True, kw_only=True)
class SpeechOnset:
    """The user's latest speech."""

    config: SettlementConfig
    _onset_secs: float | None = None
    _stopped_secs: float | None = None

    def started(self, onset_secs: float) -> None:
        """The user began to speak at `onset_secs` (detection minus the detector's start time)."""
        self._onset_secs = onset_secs
        self._stopped_secs = None

    def stopped(self, now_secs: float) -> None:
        """The user fell silent."""
        self._stopped_secs = now_secs

    def of_cut(self, now_secs: float) -> float:
        """Where the boundary of an interruption at `now_secs` lies in time."""
        onset = self._onset_secs
        if onset is None or not 0 <= now_secs - onset <= self.config.max_onset_secs:
            return now_secs
        stopped = self._stopped_secs
        if stopped is not None and now_secs - stopped > self.config.speech_gap_secs:
            return now_secs
        return onset

    def sure_secs(self, now_secs: float) -> float:
        """Up to when what was played stays played, even if the user turns out to be interrupting right now."""
        return min(self.of_cut(now_secs), now_secs - self.config.detection_secs)
