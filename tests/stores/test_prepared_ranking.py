"""A ranking made while the user speaks is what the turn's end would find, or is not used."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.memory.ranking import RankedPage, rank_pages
from pipecat_voicectx.stores import query_search
from pipecat_voicectx.stores.page_memory import PageMemory
from pipecat_voicectx.stores.stored_pages import StoredPage
from tests.memory.builders import page

PAGES = [page(n, f"I like the garden of house {n}.", f"House {n} has a pond.") for n in range(8)]
ASKED = "Which house has a garden?"


class Unused:
    name = "unused"
    dimension = 3

    def embed(self, texts: Sequence[str]) -> list[FloatArray]:
        return [np.ones(3, np.float32) for _ in texts]


@pytest.fixture
def rankings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were ranked, as they come."""
    asked: list[str] = []

    def counted(index, query, **options):  # type: ignore[no-untyped-def]
        asked.append(query.text)
        return rank_pages(index, query, **options)

    monkeypatch.setattr(query_search, "rank_pages", counted)
    return asked


def memory_of(pages: Sequence[VoicePage]) -> PageMemory:
    memory = PageMemory(owner=PAGES[0].owner, session_id="s1", embedder=Unused(), store=None)
    memory.preload([StoredPage(item, (None, None)) for item in pages])
    return memory


def fresh(exclude: set[str]) -> list[RankedPage]:
    return memory_of(PAGES).rank(ASKED, exclude=exclude)


def test_the_turns_end_ranks_nothing_when_all_is_as_foreseen(rankings: list[str]) -> None:
    memory = memory_of(PAGES)
    memory.prepare_query(ASKED)
    memory.prepare_ranking(exclude={PAGES[7].id})
    opened = page(20, ASKED, "")
    memory.add(opened)
    hits = memory.rank(ASKED, exclude={PAGES[7].id, opened.id})
    assert len(rankings) == 1
    assert hits == fresh({PAGES[7].id})


@pytest.mark.parametrize(
    ("said", "exclude"),
    [("Which house has a garden and a garage?", {7}), (ASKED, {6, 7}), (ASKED, set())],
    ids=["more words", "another page is in the window", "a page has left the window"],
)
def test_a_ranking_that_was_not_foreseen_is_made_anew(
    rankings: list[str], said: str, exclude: set[int]
) -> None:
    memory = memory_of(PAGES)
    memory.prepare_query(ASKED)
    memory.prepare_ranking(exclude={PAGES[7].id})
    hits = memory.rank(said, exclude={PAGES[n].id for n in exclude})
    assert len(rankings) == 2
    assert not {hit.key for hit in hits} & {PAGES[n].id for n in exclude}


def test_a_page_that_was_written_since_is_found(rankings: list[str]) -> None:
    memory = memory_of(PAGES)
    memory.prepare_query(ASKED)
    memory.prepare_ranking(exclude=set())
    late = page(21, "The blue house has the best garden.", "It has.")
    memory.add(late)
    assert late.id in {hit.key for hit in memory.rank(ASKED)}
    assert len(rankings) == 2


def test_a_prepared_ranking_serves_until_something_changes(rankings: list[str]) -> None:
    memory = memory_of(PAGES)
    memory.prepare_query(ASKED)
    memory.prepare_ranking(exclude=set())
    assert memory.rank(ASKED) == memory.rank(ASKED)
    assert len(rankings) == 1
    assert memory.rank(ASKED.replace("garden", "roof")) != memory.rank(ASKED, exclude={PAGES[0].id})
    assert len(rankings) == 3
