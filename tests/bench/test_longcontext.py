from __future__ import annotations

from pathlib import Path

import pytest

from pipecat_voicectx.bench.locomo import EmbeddingCache, load_conversations
from pipecat_voicectx.bench.longcontext import measure
from pipecat_voicectx.bench.longcontext_methods import METHODS, History
from pipecat_voicectx.projection.projector import Fidelity
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.prices import load_prices
from tests.bench import talk


def history(folder: Path) -> History:
    (conversation,) = load_conversations(talk.write(folder))
    return History(conversation, conversation.pages, EmbeddingCache(LexicalEmbedder()))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("form", [Fidelity.AUDIO, Fidelity.TRANSCRIPT])
def test_no_method_but_the_full_history_spends_more_than_the_budget(
    tmp_path: Path, name: str, form: Fidelity
) -> None:
    calls = history(tmp_path)
    for budget in (100, 150, 400):
        window = METHODS[name](calls, "Where is the bakery?", budget, form)
        if name != "full_history":
            assert window.audio_tokens + window.text_tokens <= budget
        assert set(window.pages) <= set(calls.keys)
        assert Fidelity.OMITTED not in window.pages.values()


def test_audio_costs_more_than_text_and_full_history_holds_every_page(tmp_path: Path) -> None:
    calls = history(tmp_path)
    audio = METHODS["full_history"](calls, "x", 0, Fidelity.AUDIO)
    text = METHODS["full_history"](calls, "x", 0, Fidelity.TRANSCRIPT)
    assert set(audio.pages) == set(calls.keys)
    assert audio.audio_tokens > 2 * text.text_tokens > 0
    assert audio.text_tokens == text.audio_tokens == 0


def test_our_window_keeps_the_last_pages_and_brings_the_relevant_one(tmp_path: Path) -> None:
    calls = history(tmp_path)
    window = METHODS["voicectx"](calls, "Where does Ina practise the cello?", 250, Fidelity.TRANSCRIPT)
    assert window.pages[calls.keys[-1]] is Fidelity.TRANSCRIPT
    assert window.pages[calls.keys[0]] is Fidelity.TRANSCRIPT
    assert window.audio_tokens == 0


def test_the_bench_measures_every_method_and_bucketless_talks_have_no_costs_by_minutes(
    tmp_path: Path,
) -> None:
    conversations = load_conversations(talk.write(tmp_path))
    price = load_prices().price("openai/gpt-realtime-mini")
    rows = measure(conversations, EmbeddingCache(LexicalEmbedder()), price, 400, quick=True)
    assert {"full_history", "full_history_text", "page_rag", "voicectx"} <= set(rows)
    assert "voicectx_text" not in rows
    assert rows["full_history"].hits == [1.0] * 4
    assert rows["full_history"].by_minutes == {}
    full, ours = rows["full_history"].costs["0"], rows["voicectx"].costs["0"]
    assert all(mine < theirs for mine, theirs in zip(ours, full, strict=True))
