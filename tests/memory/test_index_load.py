"""An index that was loaded at once is the one that was filled page by page, and goes on like it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipecat_voicectx.errors import BadInputError, UsageError
from pipecat_voicectx.memory import turn_terms
from pipecat_voicectx.memory.index import IndexedPage, IndexedTurn, PageIndex
from pipecat_voicectx.memory.ranking import PageQuery, rank_pages
from pipecat_voicectx.memory.turn_terms import TurnTerms

WORDS = ["garden", "house", "dog", "Paris", "seven", "when", "why?", "2019", "yes", "", "東京の天気", "née"]
QUERIES = ["When was the dog in Paris?", "garden seven", "東京", "nothing known"]


def made(seed: int, count: int, *, kept: bool) -> list[IndexedPage]:
    rng = random.Random(seed)
    pages: list[IndexedPage] = []
    for number in range(count):
        texts = [" ".join(rng.choices(WORDS, k=rng.randrange(9))) for _ in range(rng.randrange(3))]
        turns = tuple(
            IndexedTurn(speaker=speaker, text=text)
            for speaker, text in zip(("user", "bot"), texts, strict=False)
        )
        vector = np.random.default_rng(seed + number).normal(size=4).astype(np.float32)
        pages.append(
            IndexedPage(
                key=str(number),
                session=f"s{number // 4}",
                turns=turns,
                terms=tuple(TurnTerms.of(turn.text) for turn in turns) if kept else None,
                vectors=(vector, None),
            )
        )
    return pages


def add(index: PageIndex, pages: Sequence[IndexedPage]) -> None:
    for page in pages:
        index.upsert(page.key, session=page.session, turns=page.turns)
        index.set_vectors(page.key, page.vectors)


def assert_same(one: PageIndex, other: PageIndex) -> None:
    assert one.rows == other.rows
    assert one.speakers() == other.speakers()
    np.testing.assert_array_equal(one.after_question(), other.after_question())
    np.testing.assert_array_equal(one.has_text(), other.has_text())
    vector = np.ones(4, np.float32)
    np.testing.assert_allclose(one.cosines(vector), other.cosines(vector), atol=1e-6)
    for query in QUERIES:
        ranked = [
            rank_pages(index, PageQuery(text=query, cosines=index.cosines(vector)), exclude={"1"}, limit=50)
            for index in (one, other)
        ]
        assert [hit.key for hit in ranked[0]] == [hit.key for hit in ranked[1]]
        for a, b in zip(*ranked, strict=True):
            assert (a.score, a.lexical, a.window) == pytest.approx((b.score, b.lexical, b.window), abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(0, 40), kept=st.booleans())
def test_loading_at_once_gives_the_same_ranking_and_goes_on_alike(seed: int, count: int, kept: bool) -> None:
    pages, later = made(seed, count, kept=kept), made(seed + 1, count + 5, kept=False)
    loaded, filled = PageIndex(dimension=4), PageIndex(dimension=4)
    loaded.load(pages)
    add(filled, pages)
    assert_same(loaded, filled)
    # Some of these take the place of the loaded ones, others come behind them.
    for index in (loaded, filled):
        add(index, later)
    assert_same(loaded, filled)


def test_terms_that_were_kept_are_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = made(1, 20, kept=True)

    def refused(text: str) -> list[str]:
        raise AssertionError(text)

    monkeypatch.setattr(turn_terms, "tokenize", refused)
    index = PageIndex(dimension=4)
    index.load(pages)
    assert len(index) == 20


def test_an_index_in_use_is_not_loaded_over() -> None:
    index = PageIndex(dimension=4)
    index.load(made(1, 3, kept=False))
    with pytest.raises(UsageError, match="empty"):
        index.load(made(2, 3, kept=False))


def test_vectors_of_another_dimension_are_refused() -> None:
    with pytest.raises(UsageError, match="dimension 3"):
        PageIndex(dimension=3).load(made(1, 3, kept=False))


@pytest.mark.parametrize("text", ["", "When do we meet in Paris?", "東京の天気", "at 7"])
def test_terms_come_back_from_their_text(text: str) -> None:
    terms = TurnTerms.of(text)
    assert TurnTerms.unpacked(terms.packed()) == terms


@pytest.mark.parametrize("line", ["", "x", "1", "x 1 word", "999999 0 word"])
def test_a_damaged_line_is_no_terms(line: str) -> None:
    with pytest.raises(BadInputError):
        TurnTerms.unpacked(line)
