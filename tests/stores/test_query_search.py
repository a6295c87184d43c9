"""Late embeddings: what they find is staged for the next turn, and for no later one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from pipecat_voicectx.memory.index import FloatArray, IndexedTurn, PageIndex
from pipecat_voicectx.stores.query_search import QuerySearch

_MEANINGS = {"terrier": 0, "dog": 0, "poodle": 0, "budget": 1, "euros": 1}


class Meanings:
    """Two directions: pets and money."""

    name = "meanings"
    dimension = 3

    def embed(self, texts: Sequence[str]) -> list[FloatArray]:
        vectors = []
        for text in texts:
            vector = np.zeros(3, np.float32)
            for word in text.lower().replace("?", "").split():
                vector[_MEANINGS.get(word, 2)] += 1 if word in _MEANINGS else 0.01
            vectors.append(vector)
        return vectors


def pages(*texts: str) -> PageIndex:
    index = PageIndex(dimension=3)
    for number, text in enumerate(texts):
        index.upsert(f"p{number}", session=str(number), turns=[IndexedTurn(speaker="user", text=text)])
        index.set_vectors(f"p{number}", Meanings().embed([text]))
    return index


async def _nothing_more(_vector: FloatArray) -> bool:
    return False


@pytest.fixture
def search_of() -> Iterator[Callable[..., QuerySearch]]:
    with ThreadPoolExecutor(max_workers=1) as worker:

        def make(index: Callable[[], PageIndex]) -> QuerySearch:
            return QuerySearch(
                embedder=Meanings(), worker=lambda: worker, index=index, extend=_nothing_more, weights=None
            )

        yield make


def asked(search: QuerySearch, text: str) -> None:
    """The text is embedded after its turn was ranked."""
    assert search.want(text)
    asyncio.run(search.run())


def keys(search: QuerySearch, text: str, exclude: Sequence[str] = ()) -> dict[str, float]:
    return {hit.key: hit.cosine for hit in search.rank(text, exclude=exclude, limit=1)}


def test_what_a_late_embedding_finds_is_there_at_the_next_turn_on_the_topic(
    search_of: Callable[..., QuerySearch],
) -> None:
    index = pages("we have a terrier", "fine weather", "two rooms")
    search = search_of(lambda: index)
    keys(search, "can the dog come")
    asked(search, "can the dog come")
    assert "p0" in keys(search, "and another dog in two rooms")
    assert "p0" not in keys(search, "what is the weather, fine?"), "only for one turn"


def test_a_topic_shift_discards_what_was_staged(search_of: Callable[..., QuerySearch]) -> None:
    index = pages("we have a terrier", "fine weather", "two rooms")
    search = search_of(lambda: index)
    keys(search, "can the dog come")
    asked(search, "can the dog come")
    assert "p0" not in keys(search, "what is the weather")
    assert "p0" not in keys(search, "two rooms")


def test_an_acknowledgement_goes_on_with_the_topic(search_of: Callable[..., QuerySearch]) -> None:
    index = pages("we have a terrier", "fine weather")
    search = search_of(lambda: index)
    keys(search, "can the dog come", exclude=["p1"])
    asked(search, "can the dog come")
    found = keys(search, "okay great")
    assert "p0" in found
    assert "p1" not in found or found["p1"] == 0, "what was in the window then is not staged"


def test_a_query_embedded_against_an_older_index_is_compared_with_the_new_one(
    search_of: Callable[..., QuerySearch],
) -> None:
    current = [pages("fine weather")]
    search = search_of(lambda: current[0])
    asked(search, "can the dog come")
    current[0] = pages("two rooms", "we have a terrier")
    query = search.usable("can the dog come")
    assert query is not None
    assert len(query.cosines) == current[0].rows
    assert list(keys(search, "can the dog come")) == ["p1"]
