from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.index import IndexedTurn, PageIndex
from pipecat_voicectx.memory.tokens import tokenize


def add(index: PageIndex, key: str, user: str, bot: str, *, session: str = "s") -> None:
    index.upsert(
        key,
        session=session,
        turns=[IndexedTurn(speaker="user", text=user), IndexedTurn(speaker="bot", text=bot)],
    )


def hits(index: PageIndex, text: str) -> list[int]:
    return [int(row) for row in np.flatnonzero(index.lexical_scores(tokenize(text)).turn)]


def unit(position: int, size: int = 4) -> np.ndarray:
    vector = np.zeros(size, np.float32)
    vector[position] = 1
    return vector


def test_a_page_is_found_by_its_words_from_the_moment_it_is_added() -> None:
    index = PageIndex(dimension=4)
    add(index, "a", "I have a dog", "What breed?")
    assert hits(index, "dogs") == [0]
    assert "a" in index
    assert len(index) == 1


def test_changing_a_page_forgets_its_old_words_and_the_changed_turns_vector() -> None:
    index = PageIndex(dimension=4)
    add(index, "a", "I have a dog", "Nice")
    index.set_vectors("a", [unit(0), unit(1)])
    add(index, "a", "I have a dog", "Lovely breed")
    assert hits(index, "nice") == []
    assert hits(index, "breed") == [1]
    assert index.cosines(unit(0))[0] == pytest.approx(1)
    assert index.cosines(unit(1))[1] == 0


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    index = PageIndex(dimension=4)
    for number in range(9):
        add(index, str(number), "the garden is green", "yes")
    add(index, "x", "the garden has a walrus", "yes")
    scores = index.lexical_scores(tokenize("garden walrus")).turn
    assert int(scores.argmax()) == 18


def test_the_window_reaches_two_turns_but_never_into_another_session() -> None:
    index = PageIndex(dimension=4)
    add(index, "a", "walrus", "one")
    add(index, "b", "two", "three")
    add(index, "c", "four", "five", session="t")
    window = index.lexical_scores(["walrus"]).window
    assert [bool(score) for score in window] == [True, True, True, False, False, False, False, False]
    add(index, "d", "walrus", "six", session="t")
    window = index.lexical_scores(["walrus"]).window
    assert window[2] > 0
    assert window[3] == 0
    assert window[6] > 0


def test_unknown_words_an_empty_index_and_an_empty_query_score_nothing() -> None:
    index = PageIndex(dimension=4)
    assert len(index.lexical_scores(["dog"]).turn) == 0
    add(index, "a", "dog", "cat")
    assert not index.lexical_scores(["zebra"]).turn.any()
    assert not index.lexical_scores([]).window.any()


def test_vectors_are_normalised_and_a_foreign_dimension_is_refused() -> None:
    index = PageIndex(dimension=4)
    add(index, "a", "dog", "cat")
    index.set_vectors("a", [unit(2) * 7, None])
    index.set_vectors("unknown", [unit(2)])
    assert index.cosines(unit(2) * 3)[0] == pytest.approx(1)
    with pytest.raises(UsageError):
        index.set_vectors("a", [np.zeros(3, np.float32)])
    assert not index.cosines(np.zeros(4, np.float32)).any()


def test_a_turn_after_a_question_is_marked() -> None:
    index = PageIndex(dimension=4)
    add(index, "a", "Where do you live?", "In Oslo.")
    assert index.after_question().tolist() == [0, 1]


def test_the_number_of_pages_is_bounded_and_the_newest_stay() -> None:
    index = PageIndex(dimension=4, max_pages=10)
    for number in range(35):
        add(index, str(number), f"number {number}", "yes")
        index.set_vectors(str(number), [unit(number % 4), None])
    assert len(index) <= 10
    assert "34" in index
    assert "0" not in index
    position = index.position_of("34")
    assert position is not None
    assert index.cosines(unit(34 % 4))[2 * position] == pytest.approx(1)
    assert hits(index, "number 3") == hits(index, "number")


def test_three_turns_are_no_exchange() -> None:
    with pytest.raises(UsageError):
        PageIndex(dimension=4).upsert("a", session="s", turns=[IndexedTurn(speaker="user", text="x")] * 3)


@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.sampled_from(["dog", "cat bird", "", "dog dog fish"])), max_size=30
    )
)
def test_any_order_of_writes_leaves_what_a_fresh_index_of_the_last_versions_has(
    writes: list[tuple[int, str]],
) -> None:
    index, fresh, last = PageIndex(dimension=4), PageIndex(dimension=4), dict[int, str]()
    for key, text in writes:
        add(index, str(key), text, "yes")
        last[key] = text
    for key in dict.fromkeys(key for key, _ in writes):
        add(fresh, str(key), last[key], "yes")
    for word in ("dog", "cat", "bird", "fish", "yes"):
        np.testing.assert_allclose(
            index.lexical_scores([word]).turn, fresh.lexical_scores([word]).turn, rtol=1e-5
        )
