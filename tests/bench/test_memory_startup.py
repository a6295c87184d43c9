from __future__ import annotations

from pipecat_voicectx.bench.memory_startup import measure_startup


def test_both_starts_find_a_page_before_they_are_through() -> None:
    for start in measure_startup(60, seed=1):
        assert 0 < start.searchable_secs <= start.open_secs
        assert start.searchable_cpu_secs > 0
