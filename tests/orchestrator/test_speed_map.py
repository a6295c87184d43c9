from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.orchestrator.speed_map import SpeedMap

REALTIME = SpeedMap(slowest_wpm=142.4, fastest_wpm=267.0, slowest_value=0.8, fastest_value=1.5)


@pytest.mark.parametrize(
    ("wpm", "value"), [(142.4, 0.8), (267.0, 1.5), (204.7, 1.15), (100, 0.8), (300, 1.5), (178, 1.0)]
)
def test_openai_realtime_follows_the_published_line(wpm: float, value: float) -> None:
    assert REALTIME.value_for(wpm) == pytest.approx(value, abs=1e-6)


@given(st.floats(100, 300))
def test_values_stay_in_range_and_come_back_within_it(wpm: float) -> None:
    value = REALTIME.value_for(wpm)
    assert 0.8 <= value <= 1.5
    assert REALTIME.wpm_for(value) == pytest.approx(min(267.0, max(142.4, wpm)))


def test_a_service_that_counts_the_other_way_round_is_a_line_too() -> None:
    stretch = SpeedMap(slowest_wpm=100, fastest_wpm=300, slowest_value=1.6, fastest_value=0.6)
    assert stretch.value_for(100) == 1.6
    assert stretch.value_for(300) == pytest.approx(0.6)
    assert stretch.wpm_for(1.1) == pytest.approx(200)


@pytest.mark.parametrize(
    "wrong",
    [(200, 100, 0.8, 1.5), (100, 200, 1.0, 1.0), (0, 200, 0.8, 1.5), (100, float("nan"), 0.8, 1.5)],
)
def test_a_line_that_is_none_is_refused(wrong: tuple[float, float, float, float]) -> None:
    slow, fast, low, high = wrong
    with pytest.raises(UsageError):
        SpeedMap(slowest_wpm=slow, fastest_wpm=fast, slowest_value=low, fastest_value=high)
