"""Results of one response's calls, and whether the model is asked again."""

from __future__ import annotations

import pytest

from pipecat_voicectx.processors.call_results import CallResults
from pipecat_voicectx.runtimes.llm_tap import LLMTap

OURS = ("set_response_speed", "defer_response")


def response(*called: str, spoken: bool = False) -> LLMTap:
    tap = LLMTap(None, on_response=lambda: None)
    tap.called, tap.spoken = called, spoken
    return tap


def test_a_call_keeps_its_result_until_the_next_response() -> None:
    results = CallResults()
    results.add("a", "set_response_speed", {"status": "ok"})
    assert results.get("a", "set_response_speed") == {"status": "ok"}
    assert results.get("a", "defer_response") is None
    results.restart()
    assert results.get("a", "set_response_speed") is None


@pytest.mark.parametrize(
    ("called", "contradictory"),
    [
        (("set_response_speed",), False),
        (("set_response_speed", "defer_response"), False),
        (("set_response_speed", "set_response_speed"), True),
        (("lookup", "lookup", "set_response_speed"), False),
    ],
)
def test_only_a_repeated_call_of_ours_is_contradictory(called: tuple[str, ...], contradictory: bool) -> None:
    assert CallResults().contradictory(response(*called), OURS) is contradictory


@pytest.mark.parametrize(
    ("called", "spoken", "status", "runs"),
    [
        (("set_response_speed",), False, "ok", True),
        (("set_response_speed",), True, "ok", False),
        (("set_response_speed",), True, "error", True),
        (("set_response_speed", "lookup"), True, "ok", None),
        ((), False, "ok", None),
    ],
)
def test_the_model_runs_again_unless_it_has_answered(
    called: tuple[str, ...], spoken: bool, status: str, runs: bool | None
) -> None:
    results = CallResults()
    results.add("a", "set_response_speed", {"status": status})
    results.answered()
    assert results.run_after(response(*called, spoken=spoken), OURS) is runs


def test_of_several_calls_the_last_result_decides() -> None:
    results, tap = CallResults(), response(*OURS)
    results.answered()
    assert results.run_after(tap, OURS) is False
    results.answered()
    assert results.run_after(tap, OURS) is True
