"""A bot turn on paper: words of half a second each, written in real time to a track of 1 kHz that began at time 0."""

import numpy as np

from pipecat_voicectx.playback.clock import PlayoutAck, PlayoutClock, PlayoutClockConfig, SentAudio
from pipecat_voicectx.playback.ledger import LedgerEntry, TurnLedger
from pipecat_voicectx.playback.settlement import SettlementConfig, TurnSettler

RATE = 1000
DELAY_SECS = 0.2


class Call:
    def __init__(self, config: SettlementConfig | None = None) -> None:
        self.ledger = TurnLedger()
        self.clock = PlayoutClock(
            rate_hz=RATE, config=PlayoutClockConfig(playout_delay_secs=DELAY_SECS, uplink_delay_secs=0.0)
        )
        self.settler = TurnSettler(ledger=self.ledger, clock=self.clock, config=config or SettlementConfig())

    def turn(
        self, words: str, *, at: float, written_secs: float | None = None, close: bool = True
    ) -> LedgerEntry:
        """A turn whose audio is written from `at` on, all of it or the first `written_secs`."""
        entry = self.ledger.open_turn(at)
        number = self.ledger.open_utterance(entry, "c", rate_hz=RATE)
        utterance = entry.utterances[number]
        utterance.announce(number, words)
        for index, word in enumerate(words.split()):
            utterance.mark_word(number, word, index * 0.5)
            utterance.add_pcm(np.full(500, 5000, np.int16).tobytes())
        if close:
            utterance.close(self.ledger.pace)
            entry.closed = True
        secs = len(words.split()) * 0.5 if written_secs is None else written_secs
        for index in range(round(secs / 0.05)):
            end = round((at + (index + 1) * 0.05) * RATE)
            self.ledger.add_written(entry, bytes(100), rate_hz=RATE, now_secs=end / RATE)
            self.clock.add_sent(
                SentAudio(
                    position_samples=end,
                    samples=50,
                    utterance=number,
                    utterance_end_samples=(index + 1) * 50,
                    at_secs=end / RATE,
                )
            )
        return entry

    def burst(self, number: int, *, at: float, secs: float) -> None:
        """The audio of an utterance leaves in one moment."""
        for index in range(round(secs / 0.05)):
            self.clock.add_sent(
                SentAudio(
                    position_samples=round((at + (index + 1) * 0.05) * RATE),
                    samples=50,
                    utterance=number,
                    utterance_end_samples=(index + 1) * 50,
                    at_secs=at,
                )
            )

    def ack(self, at: float, position_secs: float) -> None:
        self.clock.add_ack(
            PlayoutAck(epoch=0, position_samples=position_secs * RATE, at_secs=at, uplink_secs=0.0)
        )
