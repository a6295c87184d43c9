"""What a client's statistics and acknowledgements of another track do."""

from __future__ import annotations

from typing import Any

import pytest
from pipecat.frames.frames import OutputTransportMessageUrgentFrame

from pipecat_voicectx.playback.clock import PlayoutClock, SentAudio
from pipecat_voicectx.playback.ledger import TurnLedger
from pipecat_voicectx.runtimes.client_link import Announcements, ClientLink
from pipecat_voicectx.runtimes.playout_position import WrittenPosition

RATE_HZ = 24_000


@pytest.fixture
def link() -> ClientLink:
    return ClientLink(
        ledger=TurnLedger(),
        clock=PlayoutClock(rate_hz=RATE_HZ),
        source=WrittenPosition(),
        announcements=Announcements.AUTO,
    )


def stats(link: ClientLink, at_secs: float, **counters: Any) -> None:
    link.take({"v": 1, "t": "stats", "at": at_secs * 1000, **counters}, at_secs, rtvi=False)


def test_without_acknowledgements_the_delay_is_half_a_round_trip_and_the_jitter_buffer(
    link: ClientLink,
) -> None:
    assert link.clock.delay_secs == link.clock.config.playout_delay_secs
    stats(link, 1.0, roundTripTime=0.1, jitterBufferDelay=4800.0, jitterBufferEmittedCount=48_000)
    assert link.clock.delay_secs == pytest.approx(link.clock.config.playout_delay_secs + 0.05)
    stats(link, 2.0, roundTripTime=0.1, jitterBufferDelay=12_000.0, jitterBufferEmittedCount=96_000)
    assert link.jitter_buffer_secs == pytest.approx(0.15)
    assert link.clock.delay_secs == pytest.approx(0.05 + 0.15 + 0.04)


def test_a_round_trip_measured_by_the_server_beats_the_client_s(link: ClientLink) -> None:
    stats(link, 1.0, roundTripTime=0.5)
    link.measured_rtt(0.1)
    assert link.clock.delay_secs == pytest.approx(link.clock.config.playout_delay_secs + 0.05)


@pytest.mark.parametrize(
    "counters",
    [
        {"jitterBufferDelay": 1.0, "jitterBufferEmittedCount": 48_000},
        {"jitterBufferDelay": 9_000_000.0, "jitterBufferEmittedCount": 96_000},
        {"jitterBufferDelay": 9000.0},
        {},
    ],
)
def test_counters_that_start_over_or_make_no_sense_say_nothing(
    link: ClientLink, counters: dict[str, float]
) -> None:
    stats(link, 1.0, jitterBufferDelay=4800.0, jitterBufferEmittedCount=48_000)
    stats(link, 2.0, **counters)
    assert link.jitter_buffer_secs is None
    assert link.clock.delay_secs == link.clock.config.playout_delay_secs


def test_a_client_on_another_track_is_told_of_the_present_turn_once_a_second(link: ClientLink) -> None:
    def acknowledge(at_secs: float, epoch: int) -> Any:
        message = {"v": 1, "t": "ack", "epoch": epoch, "samples": 10, "live": True}
        link.take(message, at_secs, rtvi=False)
        told = link.reminder(at_secs)
        if told is None:
            return None
        assert isinstance(told[0], OutputTransportMessageUrgentFrame)
        return told[0].message

    link.clock.start_epoch(2, 0.0)
    assert acknowledge(1.0, 0) is None  # nothing is being played
    entry = link.ledger.open_turn(1.0)
    number = link.ledger.open_utterance(entry, "c", rate_hz=RATE_HZ)
    link.clock.add_sent(
        SentAudio(
            position_samples=2000, samples=960, utterance=number, utterance_end_samples=960, at_secs=1.1
        )
    )
    told = acknowledge(1.2, 0)
    assert (told["t"], told["turn"], told["epoch"], told["start_sample"]) == ("turn", entry.turn_id, 2, 1040)
    assert acknowledge(1.3, 0) is None
    assert acknowledge(2.3, 0) is not None
    assert acknowledge(9.0, 2) is None
