from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from pipecat_voicectx.bench.locomo import (
    Conversation,
    EmbeddingCache,
    Question,
    load_conversations,
    score_rankings,
)
from pipecat_voicectx.bench.memory_methods import METHODS, texts_to_embed
from pipecat_voicectx.errors import BadInputError
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from tests.bench import talk


def loaded(folder: Path) -> tuple[Conversation, EmbeddingCache]:
    (conversation,) = load_conversations(talk.write(folder))
    cache = EmbeddingCache(LexicalEmbedder())
    cache.prepare(texts_to_embed(conversation, conversation.questions))
    return conversation, cache


def test_pages_are_pairs_of_turns_that_never_cross_a_session(tmp_path: Path) -> None:
    conversation, _ = loaded(tmp_path)
    assert [[turn.id for turn in page.turns] for page in conversation.pages] == [
        ["D1:1", "D1:2"],
        ["D1:3", "D1:4"],
        ["D1:5", "D1:6"],
        ["D1:7"],
        ["D2:1", "D2:2"],
        ["D2:3", "D2:4"],
        ["D2:5", "D2:6"],
    ]


def test_malformed_evidence_is_repaired_and_unknown_turns_are_dropped(tmp_path: Path) -> None:
    conversation, _ = loaded(tmp_path)
    assert [question.evidence for question in conversation.questions][2:5] == [
        ("D1:4", "D2:1"),
        ("D2:4",),
        (),
    ]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"conversation": {}}]'])
def test_a_file_in_another_format_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    if text == "{}":
        assert load_conversations(path) == []
        return
    with pytest.raises(BadInputError):
        load_conversations(path)
    with pytest.raises(BadInputError):
        load_conversations(tmp_path / "none.json")


def test_recall_counts_evidence_turns_among_the_first_items(tmp_path: Path) -> None:
    conversation, _ = loaded(tmp_path)

    def retrieve(_c: Conversation, _q: Question) -> list[list[str]]:
        return [["D1:1"], ["D1:3", "D1:4"], ["D2:3"]]

    scores = score_rankings([conversation], retrieve)
    assert scores["questions"] == 4
    assert scores["recall_at_1"] == pytest.approx((0.5 + 0 + 0 + 0) / 4)
    assert scores["recall_at_3"] == pytest.approx((1 + 1 + 0.5 + 0) / 4)
    by_category = scores["by_category"]
    assert isinstance(by_category, dict)
    assert by_category["5"]["recall_at_1"] == 1
    assert by_category["3"] == {"questions": 0}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_ranks_existing_turns_and_finds_the_bakery(tmp_path: Path, name: str) -> None:
    conversation, cache = loaded(tmp_path)
    ranking = METHODS[name](conversation, cache)(conversation, conversation.questions[1])
    turns = [turn for item in ranking for turn in item]
    assert len(turns) == len(set(turns))
    assert set(turns) <= {turn.id for turn in conversation.turns}
    assert {"D2:1", "D2:3", "D1:4"} & set(turns[:6])


@pytest.mark.data
def test_the_scores_are_those_of_the_reference_script(tmp_path: Path, test_data: Path) -> None:
    reference = _reference(test_data / "lab/memory/eval_score.py")
    conversation, cache = loaded(tmp_path)
    theirs = reference.load(talk.write(tmp_path))
    by_text = {question.text: question for question in conversation.questions}
    for name, build in METHODS.items():
        method = build(conversation, cache)
        expected = reference.score(theirs, lambda _id, text, m=method: m(conversation, by_text[text]))
        ours = score_rankings([conversation], method)
        for mine, other in (
            ("recall_at_1", "recall@1"),
            ("recall_at_5", "recall@5"),
            ("recall_at_10", "recall@10"),
            ("recall_430_tokens", "recall@430t"),
            ("tokens_at_5", "tokens@5"),
        ):
            assert ours[mine] == pytest.approx(expected["1-4"][other], abs=1e-4), (name, mine)


def _reference(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("eval_score_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_cache_embeds_each_text_once_and_reports_progress() -> None:
    seen: list[tuple[int, int]] = []
    cache = EmbeddingCache(LexicalEmbedder(), lambda done, of: seen.append((done, of)))
    cache.prepare([f"text {n}" for n in range(100)])
    cache.prepare(["text 5"])
    assert seen == [(64, 100), (100, 100)]
    assert cache["new text"].shape == (256,)
    assert json.dumps(seen)
