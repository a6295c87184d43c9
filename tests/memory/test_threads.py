from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.memory.threads import (
    ThreadBook,
    ThreadConfig,
    calibrate,
    page_vector,
    summarize_thread,
)
from tests.memory.builders import page


def at(degrees: float) -> FloatArray:
    """A vector in the plane: the cosine of two is that of the angle between them."""
    return np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], np.float32)


def book(**options: object) -> ThreadBook:
    return ThreadBook(config=ThreadConfig(**({"threshold": 0.8} | options)))  # type: ignore[arg-type]


def members(threads: ThreadBook) -> list[list[str]]:
    return [thread.page_ids for thread in threads.threads()]


def test_a_near_page_joins_and_a_far_one_begins_its_own_thread() -> None:
    threads = book()
    threads.add("a", at(0))
    threads.add("b", at(20))
    threads.add("c", at(90))
    assert members(threads) == [["a", "b"], ["c"]]


def test_the_leader_stays_so_that_a_topic_cannot_drift_away() -> None:
    threads = book()
    for number, degrees in enumerate((0, 30, 60)):
        threads.add(str(number), at(degrees))
    assert members(threads) == [["0", "1"], ["2"]]


def test_a_page_between_two_topics_belongs_to_both() -> None:
    threads = book()
    threads.add("a", at(0))
    threads.add("b", at(60))
    joined = threads.add("c", at(30))
    assert len(joined) == 2
    assert [t.page_ids[0] for t in threads.threads_of("c")] == ["a", "b"]


def test_a_page_that_matches_no_thread_spawns_one_with_the_earlier_pages_near_it() -> None:
    threads = book(max_seed_pages=2)
    threads.add("a", at(0))
    (spawned,) = threads.add("b", at(90), similar=["near", "b", "nearer", "third"])
    assert spawned.page_ids == ["nearer", "near", "b"]
    assert spawned in threads.threads_of("near")


def test_adding_a_page_again_changes_nothing() -> None:
    threads = book()
    threads.add("a", at(0))
    assert threads.add("a", at(90)) == []
    assert members(threads) == [["a"]]


def test_size_and_joins_are_capped() -> None:
    threads = book(max_pages=2)
    for number in range(5):
        threads.add(str(number), at(number))
    assert max(len(pages) for pages in members(threads)) == 2
    threads = book(max_joins=1)
    threads.add("a", at(0))
    threads.add("b", at(60))
    assert len(threads.add("c", at(29))) == 1
    assert [t.page_ids[0] for t in threads.threads_of("c")] == ["a"]


def test_the_bonus_goes_to_pages_that_share_a_thread_with_the_best() -> None:
    threads = book()
    for key, degrees in (("a", 0.0), ("b", 10.0), ("c", 90.0)):
        threads.add(key, at(degrees))
    assert threads.bonus(["b"], weight=0.1) == {"a": 0.1, "b": 0.1}
    assert threads.bonus(["unknown"], weight=0.1) == {}


def test_forgotten_pages_leave_their_threads_and_empty_threads_go() -> None:
    threads = book()
    for key, degrees in (("a", 0.0), ("b", 10.0), ("c", 90.0)):
        threads.add(key, at(degrees))
    threads.forget({"a", "c"})
    assert members(threads) == [["b"]]
    assert threads.threads_of("a") == []
    threads.add("d", at(5))
    assert members(threads) == [["b", "d"]]
    threads.forget({"b", "d"})
    assert len(threads) == 0
    threads.add("e", at(0))
    assert members(threads) == [["e"]]


def test_restored_threads_go_on_where_they_were() -> None:
    threads = book()
    threads.add("a", at(0))
    again = book()
    again.restore(threads.threads())
    again.restore(threads.threads())
    again.add("b", at(5))
    assert members(again) == [["a", "b"]]


def test_a_page_vector_is_the_mean_direction_of_its_turns() -> None:
    vector = page_vector([at(0) * 5, at(90)])
    assert vector is not None
    assert float(vector @ at(45)) == pytest.approx(1, abs=1e-6)
    assert page_vector([None, None]) is None


def test_a_summary_names_what_the_pages_share_and_ends_with_the_latest() -> None:
    pages = [page(n, f"The hotel in Lyon, question {n}", "The hotel is open.") for n in range(3)]
    summary = summarize_thread(pages)
    assert summary.startswith("3 exchanges about hotel")
    assert "last: User: The hotel in Lyon, question 2" in summary
    assert len(summarize_thread(pages, max_words=5).split()) == 6
    assert summarize_thread([]) == ""


def test_calibration_finds_a_threshold_that_separates_the_topics() -> None:
    rng = np.random.default_rng(5)
    centres = rng.normal(size=(12, 16))
    vectors = [np.asarray(centres[n % 12] + rng.normal(size=16) * 0.25, np.float32) for n in range(240)]
    threshold = calibrate(vectors, joins_per_page=1.5)
    threads = ThreadBook(config=ThreadConfig(threshold=threshold))
    for number, vector in enumerate(vectors):
        threads.add(str(number), vector)
    for thread in threads.threads():
        assert len({int(key) % 12 for key in thread.page_ids}) <= 4
    with pytest.raises(UsageError):
        calibrate(vectors[:5])


def test_bad_settings_are_refused() -> None:
    with pytest.raises(UsageError):
        ThreadConfig(threshold=2)


@given(st.lists(st.floats(0, 360), max_size=40))
def test_every_page_is_in_a_thread_and_no_thread_is_over_its_cap(angles: list[float]) -> None:
    threads = book(max_pages=5, max_joins=2)
    for number, degrees in enumerate(angles):
        assert 1 <= len(threads.add(str(number), at(degrees))) <= 2
    assert all(1 <= len(pages) <= 5 for pages in members(threads))
    assert all(threads.threads_of(str(number)) for number in range(len(angles)))
