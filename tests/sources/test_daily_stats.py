"""Against the shape that Daily documents; daily-python itself needs a call."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from pipecat_voicectx.signals.rtp_stats import RtpStatsSample
from pipecat_voicectx.sources.daily_stats import DailyStatsSource
from pipecat_voicectx.testing import virtual_time


class Client:
    def __init__(self) -> None:
        self.latest: Any = {}

    def get_network_stats(self) -> Any:
        return {"quality": 100, "stats": {"latest": self.latest}, "threshold": "good"}


def read_all(reports: list[Any], *, wrap: int = 0) -> list[RtpStatsSample | None]:
    async def main() -> list[RtpStatsSample | None]:
        client: Any = Client()
        reached: Any = client
        for _ in range(wrap):
            reached = SimpleNamespace(_client=reached)
        source, read = DailyStatsSource(reached), []
        for report in reports:
            client.latest = report
            read.append(await source.read())
            await asyncio.sleep(2.0)
        return read

    return virtual_time.run(main())


def report(at: int, loss: float) -> dict[str, object]:
    return {
        "timestamp": at,
        "audioRecvPacketLoss": loss,
        "networkRoundTripTime": 0.08,
        "audioRecvJitter": 0.004,
    }


@pytest.mark.parametrize("wrap", [0, 1, 2])
def test_ratios_become_counters(wrap: int) -> None:
    first, second, third = read_all([report(1, 0.5), report(2, 0.1), report(3, 0.0)], wrap=wrap)
    assert first is not None
    assert second is not None
    assert third is not None
    assert (first.packets_lost, first.packets_received) == (0, 0)
    assert (second.packets_lost, second.packets_received) == (10, 90)
    assert (third.packets_lost, third.packets_received) == (10, 190)
    assert (third.rtt_secs, third.jitter_secs) == (0.08, 0.004)


def test_a_report_that_did_not_change_counts_once() -> None:
    *_, last = read_all([report(1, 0.0), report(2, 0.1), report(2, 0.1)])
    assert last is not None
    assert last.packets_lost == 10


@pytest.mark.parametrize(
    "odd", [None, [], {"timestamp": 2, "audioRecvPacketLoss": "x"}, {"audioRecvPacketLoss": 7}]
)
def test_odd_reports_count_nothing(odd: Any) -> None:
    read = read_all([report(1, 0.0), odd])
    assert read[1] is None or read[1].packets_lost == 0


def test_without_a_client_there_is_nothing() -> None:
    assert asyncio.run(DailyStatsSource(SimpleNamespace()).read()) is None
    assert asyncio.run(DailyStatsSource(None).read()) is None
