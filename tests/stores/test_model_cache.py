"""The folder of embedding models outlives a reboot, and a half-fetched model is none."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from pipecat_voicectx.stores.embedders import MINILM, FastEmbedder
from pipecat_voicectx.stores.model_cache import holds_model, model_cache


def test_models_are_kept_below_the_users_cache(tmp_path: Path) -> None:
    assert model_cache({"HOME": str(tmp_path)}) == tmp_path / ".cache" / "fastembed"
    elsewhere = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "xdg")}
    assert model_cache(elsewhere) == tmp_path / "xdg" / "fastembed"


def test_fastembeds_own_variable_comes_first(tmp_path: Path) -> None:
    named = {"HOME": str(tmp_path), "XDG_CACHE_HOME": "/x", "FASTEMBED_CACHE_PATH": str(tmp_path / "mine")}
    assert model_cache(named) == tmp_path / "mine"


def test_without_a_home_that_can_be_written_it_is_fastembeds_temporary_folder(tmp_path: Path) -> None:
    temporary = Path(tempfile.gettempdir()) / "fastembed_cache"
    assert model_cache({}) == temporary
    assert model_cache({"XDG_CACHE_HOME": "relative/folder"}) == temporary
    (tmp_path / "file").write_text("")
    assert model_cache({"HOME": str(tmp_path / "file")}) == temporary


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_home_that_may_not_be_written_is_passed_over(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    assert model_cache({"HOME": str(tmp_path)}) == Path(tempfile.gettempdir()) / "fastembed_cache"


@pytest.mark.parametrize(
    "layout", ["models--qdrant--all-MiniLM-L6-v2-onnx/snapshots/5f1b8cd", "fast-all-MiniLM-L6-v2"]
)
def test_a_model_is_there_once_all_of_it_is(layout: str, tmp_path: Path) -> None:
    folder = tmp_path / layout
    folder.mkdir(parents=True)
    assert not holds_model(tmp_path, MINILM)
    (folder / "tokenizer.json").write_text("{}")
    assert not holds_model(tmp_path, MINILM), "the weights did not arrive"
    (folder / "model.onnx").write_text("")
    assert holds_model(tmp_path, MINILM)
    assert not holds_model(tmp_path, "BAAI/bge-small-en-v1.5")


def test_a_link_to_weights_that_are_gone_is_no_model(tmp_path: Path) -> None:
    folder = tmp_path / "fast-all-MiniLM-L6-v2"
    folder.mkdir()
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.onnx").symlink_to(tmp_path / "blobs" / "gone")
    assert not holds_model(tmp_path, MINILM)


def test_the_embedder_looks_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FASTEMBED_CACHE_PATH", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert FastEmbedder().cache_folder == tmp_path / "fastembed"
    assert FastEmbedder(cache_dir=tmp_path / "given").cache_folder == tmp_path / "given"
