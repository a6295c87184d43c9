"""The load bench measures whole bots; small forms of it, on virtual time."""

from __future__ import annotations

import asyncio
import time

import pytest

from pipecat_voicectx import cli
from pipecat_voicectx.bench import load


def test_only_ours_has_a_path_and_both_cost_cpu() -> None:
    bare = load._measure(1, 0.2, ours=False, seed=1, run_calls=load._in_virtual_time)
    ours = load._measure(1, 0.2, ours=True, seed=1, run_calls=load._in_virtual_time)
    assert bare.path_ms == ()
    assert len(ours.path_ms) >= 2
    assert 0 < bare.cpu_secs < bare.call_secs
    assert 12 <= bare.call_secs <= 40
    assert ours.lag_ms
    assert ours.rss_mb > 0


def test_in_real_time_a_loop_that_is_held_up_is_noticed() -> None:
    async def call() -> float:
        await asyncio.sleep(2 * load._LOOK_SECS)
        time.sleep(0.1)  # noqa: ASYNC251  holds the loop up
        await asyncio.sleep(2 * load._LOOK_SECS)
        return 1.5

    waited_secs: list[float] = []
    assert load._in_real_time(call(), waited_secs.append) == 1.5
    assert max(waited_secs) > 0.1 - load._LOOK_SECS - 0.01
    assert load._in_real_time(call(), None) == 1.5


@pytest.mark.parametrize(
    "words", [["--sessions", "0"], ["--minutes", "-1"], ["--sessions", "2", "--processes", "3"]]
)
def test_sizes_that_make_no_sense_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "load", *words]) == 2
    assert words[-2].lstrip("-") in capsys.readouterr().err


def test_quantiles_survive_thinning() -> None:
    values = [float(n) for n in range(100_000)]
    thinned = load._thinned(values)
    assert len(thinned) <= 20_000
    assert load._quantile(thinned, 0.99) == pytest.approx(99_000, rel=0.001)


def test_growth_compares_the_last_third_with_the_first_and_leaves_the_first_exchange_out() -> None:
    assert load._growth([[9.0, 1.0, 1.0, 1.5, 1.5, 2.0, 2.0]]) == pytest.approx(2.0)
    assert load._growth([[9.0]]) == 1.0
