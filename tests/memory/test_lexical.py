from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipecat_voicectx.memory.lexical import LexicalIndex

WORDS = st.lists(st.sampled_from("abcdefgh"), max_size=6)
# Above the size from which a word's share is kept between writes.
ROWS = 2_100


def large() -> LexicalIndex:
    index = LexicalIndex()
    index.extend(ROWS)
    for row in range(0, ROWS, 3):
        index.fill(row, Counter({"abcdefgh"[row % 8]: 1 + row % 3, f"w{row}": 4}))
    return index


@settings(max_examples=25, deadline=None)
@given(
    writes=st.lists(st.tuples(st.integers(0, ROWS - 1), WORDS), max_size=8),
    ignored=st.sets(st.integers(0, ROWS - 1), max_size=6),
    query=st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=5),
)
def test_what_was_prepared_before_writes_gives_what_working_it_out_now_gives(
    writes: list[tuple[int, list[str]]], ignored: set[int], query: list[str]
) -> None:
    prepared, fresh = large(), large()
    prepared.prepare(query)
    for index in (prepared, fresh):
        for row, words in writes:
            index.fill(row, Counter(words))
    one, other = (index.scores(query, ignored=sorted(ignored)) for index in (prepared, fresh))
    # Only the mean length is as old as the preparation.
    np.testing.assert_allclose(one.turn, other.turn, rtol=0.01, atol=1e-5)
    np.testing.assert_allclose(one.window, other.window, rtol=0.01, atol=1e-5)
    assert not one.turn[sorted(ignored)].any()


def test_many_writes_make_a_word_be_worked_out_anew() -> None:
    index = large()
    index.prepare(["a"])
    for row in range(200):
        index.fill(row, Counter({"a": 1}))
    assert np.flatnonzero(index.scores(["a"]).turn)[:200].tolist() == list(range(200))


def test_rows_added_later_have_the_window_length_they_would_have_had_at_once() -> None:
    grown, whole = LexicalIndex(), LexicalIndex()
    whole.extend(300)
    for row in range(300):
        grown.extend(1)
        for index in (grown, whole):
            index.fill(row, Counter({"a": 1 + row % 5, "b": 1}))
    np.testing.assert_allclose(grown.scores(["a"]).window, whole.scores(["a"]).window, rtol=1e-6)
