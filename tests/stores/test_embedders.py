from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from loguru import logger

from pipecat_voicectx.errors import UnavailableError, UsageError
from pipecat_voicectx.stores.embedders import (
    BGE_SMALL,
    MINILM,
    Embedder,
    EmbeddingThread,
    FastEmbedder,
    LexicalEmbedder,
    default_embedder,
)

MODEL = "models/all-MiniLM-L6-v2-int8"


def test_the_lexical_embedder_finds_shared_words_and_is_stable() -> None:
    dog, dogs, tax = LexicalEmbedder().embed(["my dog barks", "the dogs barking", "income tax form"])
    assert float(dog @ dogs) > 0.9
    assert abs(float(dog @ tax)) < 0.5
    np.testing.assert_array_equal(dog, LexicalEmbedder().embed(["my dog barks"])[0])
    assert not LexicalEmbedder().embed([""])[0].any()


def test_all_embedders_fit_the_protocol_and_say_their_names() -> None:
    assert isinstance(LexicalEmbedder(), Embedder)
    assert isinstance(FastEmbedder(), Embedder)
    assert FastEmbedder().name == MINILM
    assert FastEmbedder(BGE_SMALL).name == BGE_SMALL
    assert LexicalEmbedder().name == "voicectx-lexical-256"


def test_unknown_models_and_folders_without_one_are_errors_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown embedding model"):
        FastEmbedder("nobody/knows")
    with pytest.raises(UsageError, match=r"tokenizer\.json"):
        FastEmbedder(path=tmp_path)


def test_a_model_that_is_in_no_cache_is_unavailable_at_once_and_the_network_is_not_asked(
    tmp_path: Path,
) -> None:
    started = time.monotonic()
    logged: list[str] = []
    sink = logger.add(logged.append, level="WARNING")
    try:
        with pytest.raises(UnavailableError, match="not in fastembed's cache"):
            FastEmbedder(cache_dir=tmp_path).embed(["hello"])
    finally:
        logger.remove(sink)
    assert time.monotonic() - started < 10
    assert logged == [], "a first start is no fault"


@pytest.mark.data
# The plainest layout fastembed reads; it warns of its age, and the hub of the progress bars that are off.
@pytest.mark.filterwarnings("ignore:Loading .* a copy downloaded from Google:FutureWarning")
@pytest.mark.filterwarnings("ignore:Cannot enable progress bars:UserWarning")
def test_a_model_in_the_cache_is_found_there(tmp_path: Path, test_data: Path) -> None:
    (tmp_path / "fast-all-MiniLM-L6-v2").symlink_to(test_data / MODEL)
    assert FastEmbedder(cache_dir=tmp_path).embed(["hello"])[0].shape == (384,)


def test_a_broken_model_folder_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UnavailableError, match="does not load"):
        FastEmbedder(path=tmp_path).embed(["hello"])


def test_the_default_falls_back_to_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    assert default_embedder().name == LexicalEmbedder().name


def test_the_embedding_thread_ends_with_its_last_user() -> None:
    first, second = EmbeddingThread.acquire(), EmbeddingThread.acquire()
    assert first is second
    EmbeddingThread.release()
    assert second.submit(lambda: 7).result(5) == 7
    EmbeddingThread.release()
    with pytest.raises(RuntimeError):
        second.submit(lambda: 7)


@pytest.mark.data
def test_minilm_knows_that_a_puppy_is_a_dog(test_data: Path) -> None:
    embedder = FastEmbedder(path=test_data / MODEL)
    dog, puppy, tax = embedder.embed(["I own a dog", "we bought a puppy", "the tax office closes"])
    assert float(dog @ puppy) > 0.4 > float(dog @ tax) + 0.2
    assert dog.shape == (embedder.dimension,)
    assert embedder.embed([]) == []
    assert embedder.embed(["  "])[0].shape == (384,)


@pytest.mark.data
def test_the_default_is_minilm_when_a_folder_is_given(test_data: Path) -> None:
    assert default_embedder(path=test_data / MODEL).name == MINILM
