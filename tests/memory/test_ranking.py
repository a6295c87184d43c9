from __future__ import annotations

import numpy as np
import pytest

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.index import IndexedTurn, PageIndex
from pipecat_voicectx.memory.ranking import PageQuery, RankingWeights, named_speakers, rank_pages


def index_of(*texts: tuple[str, str], speakers: tuple[str, str] = ("user", "bot")) -> PageIndex:
    index = PageIndex(dimension=2)
    for number, (first, second) in enumerate(texts):
        turns = [IndexedTurn(speaker=speakers[0], text=first), IndexedTurn(speaker=speakers[1], text=second)]
        index.upsert(f"p{number}", session="s", turns=turns)
    return index


def keys(index: PageIndex, text: str, **options: object) -> list[str]:
    return [hit.key for hit in rank_pages(index, PageQuery(text=text), **options)]  # type: ignore[arg-type]


def test_the_page_that_shares_words_comes_first() -> None:
    index = index_of(("a cat", "yes"), ("my dog barks", "no"), ("a bird", "maybe"))
    assert keys(index, "Why does the dog bark?")[0] == "p1"


def test_meaning_outranks_a_page_without_it_when_no_words_match() -> None:
    index = index_of(("alpha", "one"), ("beta", "two"))
    index.set_vectors("p1", [np.array([1, 0], np.float32), None])
    query = PageQuery(text="gamma", cosines=index.cosines(np.array([1, 0], np.float32)))
    best = rank_pages(index, query)[0]
    assert (best.key, round(best.cosine, 3), best.lexical) == ("p1", 1.0, 0.0)


def test_pages_added_after_the_embedding_are_ranked_by_their_words() -> None:
    index = index_of(("alpha", "one"), ("beta", "two"))
    cosines = index.cosines(np.array([1, 0], np.float32))
    turns = [IndexedTurn(speaker="user", text="walrus"), IndexedTurn(speaker="bot", text="a walrus")]
    index.upsert("new", session="s", turns=turns)
    assert rank_pages(index, PageQuery(text="walrus", cosines=cosines))[0].key == "new"


def test_who_is_named_decides_between_equal_turns() -> None:
    filler = [(f"word{n}", f"thing{n}") for n in range(4)]
    index = index_of(("I like tea", "z"), *filler, ("q", "I like tea"), speakers=("Ann", "Ben"))
    assert named_speakers("What does Ben like?", index.speakers()) == {"ben"}
    assert keys(index, "Does Ben like tea?")[0] == "p5"
    assert keys(index, "Does Ann like tea?")[0] == "p0"


def test_did_i_means_the_user_and_you_said_means_the_bot() -> None:
    speakers = frozenset({"user", "bot"})
    assert named_speakers("What did I say?", speakers) == {"user"}
    assert named_speakers("Which one did you suggest?", speakers) == {"bot"}
    assert named_speakers("Which one is it?", speakers) == frozenset()


def test_the_open_exchange_which_is_the_query_itself_is_not_the_measure_of_the_others() -> None:
    query = "So which trip would you book for us, now that the dog is coming along?"
    index = index_of(
        ("I want a short trip in October", "All right"), ("How is the weather", "Mild"), (query, "")
    )
    best = rank_pages(index, PageQuery(text=query), exclude={"p2"})[0]
    assert (best.key, best.lexical, best.window) == ("p0", 1.0, 1.0)


def test_excluded_pages_are_left_out() -> None:
    index = index_of(("dog", "x"), ("dog dog", "x"), ("cat", "x"))
    assert "p1" not in keys(index, "dog", exclude={"p1"})


def test_the_gap_between_sessions_is_never_a_result() -> None:
    index = index_of(("dog", "x"))
    index.upsert("other", session="t", turns=[IndexedTurn(speaker="user", text="dog")])
    assert sorted(keys(index, "dog")) == ["other", "p0"]
    assert len(keys(index, "dog", limit=1)) == 1


def test_nothing_in_nothing_out() -> None:
    assert keys(PageIndex(dimension=2), "dog") == []
    assert keys(index_of(("dog", "x")), "dog", limit=0) == []


def test_negative_weights_are_refused() -> None:
    with pytest.raises(UsageError):
        RankingWeights(cosine=-1)
