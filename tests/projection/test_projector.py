from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.projection.projector import Budget, Candidate, Fidelity, ProjectedHistory, project


def candidate(
    key: str,
    relevance: float,
    *,
    order: float = 0,
    audio: int | None = 100,
    transcript: int | None = 30,
    summary: int | None = 10,
    floor: Fidelity = Fidelity.OMITTED,
) -> Candidate:
    return Candidate(
        key=key,
        order=order,
        relevance=relevance,
        audio_tokens=audio,
        transcript_tokens=transcript,
        summary_tokens=summary,
        floor=floor,
    )


def shape(history: ProjectedHistory) -> dict[str, str]:
    return {item.key: item.fidelity.name for item in history.items}


def fit(candidates: list[Candidate], tokens: int, *, safety: int = 0) -> ProjectedHistory:
    return project(candidates, Budget(total_tokens=tokens, safety_tokens=safety))


THREE = [candidate("low", 1, order=2), candidate("high", 3, order=1), candidate("mid", 2, order=3)]


def test_within_the_budget_everything_keeps_its_best_fidelity_in_conversational_order() -> None:
    history = fit(THREE, 300)
    assert [item.key for item in history.items] == ["high", "low", "mid"]
    assert set(shape(history).values()) == {"AUDIO"}
    assert history.tokens == 300


def test_the_least_relevant_is_lowered_first_and_only_as_far_as_needed() -> None:
    assert shape(fit(THREE, 299)) == {"low": "TRANSCRIPT", "high": "AUDIO", "mid": "AUDIO"}
    assert shape(fit(THREE, 160)) == {"low": "TRANSCRIPT", "high": "AUDIO", "mid": "TRANSCRIPT"}


def test_every_page_is_shortened_before_any_is_left_out() -> None:
    assert shape(fit(THREE, 30)) == {"low": "SUMMARY", "high": "SUMMARY", "mid": "SUMMARY"}
    history = fit(THREE, 29)
    assert shape(history) == {"high": "SUMMARY", "mid": "SUMMARY"}
    assert history.omitted == ("low",)
    assert (history.count(Fidelity.OMITTED), history.count(Fidelity.SUMMARY)) == (1, 2)


def test_the_safety_margin_is_not_spent() -> None:
    assert fit(THREE, 310, safety=10).tokens == 300
    assert fit(THREE, 310, safety=11).tokens < 300
    assert fit(THREE, 5, safety=10).items == ()


def test_missing_fidelities_are_skipped() -> None:
    only_summary = candidate("s", 1, audio=None, transcript=None)
    no_summary = candidate("t", 2, audio=None, summary=None)
    nothing = candidate("n", 3, audio=None, transcript=None, summary=None)
    assert shape(fit([only_summary, no_summary, nothing], 100)) == {"s": "SUMMARY", "t": "TRANSCRIPT"}
    assert shape(fit([only_summary, no_summary], 30)) == {"t": "TRANSCRIPT"}


def test_a_summary_longer_than_its_transcript_is_no_step_down() -> None:
    assert shape(fit([candidate("x", 1, audio=None, transcript=10, summary=50)], 5)) == {}


def test_a_floor_holds_while_others_can_be_lowered_and_yields_when_nothing_else_is_left() -> None:
    kept = candidate("kept", 9, audio=None, floor=Fidelity.TRANSCRIPT)
    others = [candidate("a", 1, audio=None), candidate("b", 2, audio=None)]
    assert shape(fit([kept, *others], 40)) == {"kept": "TRANSCRIPT", "b": "SUMMARY"}
    assert shape(fit([kept, *others], 15)) == {"kept": "SUMMARY"}


def test_a_page_that_comes_twice_counts_once_with_its_higher_relevance() -> None:
    history = fit([candidate("x", 1), candidate("y", 2), candidate("x", 3)], 130)
    assert shape(history) == {"x": "AUDIO", "y": "TRANSCRIPT"}


def test_negative_budgets_are_refused() -> None:
    with pytest.raises(UsageError):
        Budget(total_tokens=-1)


COSTS = st.none() | st.integers(0, 200)
CANDIDATES = st.lists(
    st.builds(
        Candidate,
        key=st.sampled_from("abcdefghij"),
        order=st.integers(0, 50),
        relevance=st.integers(0, 10),
        audio_tokens=COSTS,
        transcript_tokens=COSTS,
        summary_tokens=COSTS,
        floor=st.sampled_from(Fidelity),
    ),
    max_size=12,
)


@given(CANDIDATES, st.integers(0, 600), st.integers(0, 100))
def test_the_result_is_never_over_budget_and_in_conversational_order(
    candidates: list[Candidate], total: int, safety: int
) -> None:
    history = fit(candidates, total, safety=safety)
    assert history.tokens == sum(item.tokens for item in history.items) <= max(0, total - safety)
    best = {
        c.key: max((x for x in candidates if x.key == c.key), key=lambda x: x.relevance) for c in candidates
    }
    orders = [
        next(c.order for c in candidates if c.key == item.key and c.relevance == best[c.key].relevance)
        for item in history.items
    ]
    assert orders == sorted(orders)
    keys = [item.key for item in history.items]
    assert len(keys) == len(set(keys))
    assert set(keys) | set(history.omitted) == set(best)


@given(CANDIDATES, st.integers(0, 600), st.randoms())
def test_projecting_again_changes_nothing_and_the_input_order_does_not_matter(
    candidates: list[Candidate], total: int, random: object
) -> None:
    unique = list({c.key: c for c in candidates}.values())
    history = fit(unique, total)
    shuffled = list(unique)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert fit(shuffled, total) == history
    by_key = {c.key: c for c in unique}
    again = [
        Candidate(
            key=item.key,
            order=by_key[item.key].order,
            relevance=by_key[item.key].relevance,
            transcript_tokens=item.tokens,
        )
        for item in history.items
    ]
    assert [(i.key, i.tokens) for i in fit(again, total).items] == [(i.key, i.tokens) for i in history.items]


def test_two_hundred_candidates_take_about_a_millisecond() -> None:
    many = [candidate(str(n), n % 17, order=n) for n in range(200)]
    times = []
    for _ in range(20):
        started = time.thread_time()
        fit(many, 1_000)
        times.append(time.thread_time() - started)
    # A quiet machine needs 0.5 ms; the bound leaves room for one that does other work.
    assert min(times) < 0.003
