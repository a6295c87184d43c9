from __future__ import annotations

import json

import pytest

from pipecat_voicectx.errors import BadInputError, UsageError
from pipecat_voicectx.projection.costs import estimate_tokens
from pipecat_voicectx.projection.projector import Fidelity
from pipecat_voicectx.projection.recall_request import (
    RecallToolConfig,
    find_handle,
    page_handle,
    read_request,
    recall_result,
)
from tests.memory.builders import page


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": "a", "page": "#1234"},
        {"query": ""},
        {"query": 7},
        {"query": "x" * 501},
        {"query": "a", "fidelity": "video"},
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_a_reason(arguments: dict[str, object]) -> None:
    with pytest.raises(BadInputError):
        read_request(arguments)


@pytest.mark.parametrize("arguments", [None, [], ["query"], "query", 5, True])
def test_arguments_that_are_no_object_are_refused_with_a_reason(arguments: object) -> None:
    with pytest.raises(BadInputError, match="as an object"):
        read_request(arguments)


def test_a_query_or_a_handle_is_read_and_transcripts_are_the_default() -> None:
    assert read_request({"query": " hotel "}).query == "hotel"
    request = read_request({"page": "#3fa9", "fidelity": "summary"})
    assert (request.handle, request.fidelity) == ("#3fa9", Fidelity.SUMMARY)
    assert read_request({"query": "x"}).fidelity is Fidelity.TRANSCRIPT
    assert read_request({"query": "x", "fidelity": "audio"}).fidelity is Fidelity.AUDIO


def test_a_handle_finds_its_page_and_nothing_else_does() -> None:
    pages = [page(n) for n in range(5)]
    assert find_handle(page_handle(pages[2].id), pages) == pages[2]
    assert find_handle(page_handle(pages[2].id).lstrip("#").upper(), pages) == pages[2]
    assert find_handle("#zzzz", pages) is None
    assert find_handle("#", pages) is None


def test_pages_come_word_for_word_within_the_budget_most_relevant_first() -> None:
    config = RecallToolConfig(budget_tokens=120)
    pages = [page(n, f"Question {n} " + "about the garden " * 8, "Yes.", unheard="SECRET") for n in range(5)]
    result = recall_result(pages, fidelity=Fidelity.TRANSCRIPT, config=config, wall_secs=10_000)
    text = json.dumps(result)
    assert "Question 0" in text
    assert "Question 4" not in text
    assert "SECRET" not in text
    assert estimate_tokens(" ".join(v for e in result["found"] for v in e.values())) <= 120  # type: ignore[attr-defined]


def test_a_page_that_alone_is_too_big_is_cut() -> None:
    huge = page(0, "word " * 50_000)
    result = recall_result([huge], fidelity=Fidelity.TRANSCRIPT, config=RecallToolConfig(), wall_secs=0)
    (entry,) = result["found"]  # type: ignore[misc]
    assert estimate_tokens(entry["user"]) <= 300  # type: ignore[has-type]
    assert entry["user"].endswith("…")  # type: ignore[has-type]


def test_nothing_found_is_said() -> None:
    assert "note" in recall_result([], fidelity=Fidelity.SUMMARY, config=RecallToolConfig(), wall_secs=0)
    with pytest.raises(UsageError):
        RecallToolConfig(budget_tokens=1)
