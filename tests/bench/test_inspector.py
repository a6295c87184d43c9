from __future__ import annotations

from pipecat_voicectx.bench import inspector
from pipecat_voicectx.bench.overhead_bot import BotSize


def test_a_run_has_a_ratio_and_its_spread_for_every_bot_beside_the_first() -> None:
    figures = inspector.measure(BotSize(turns=1, chunks=6, pages=3), seed=1)
    assert set(figures) == {inspector.AGAIN, inspector.CLOSED, inspector.OPEN}
    for found in figures.values():
        assert 0.0 < found.low_ratio <= found.median_ratio <= found.high_ratio
