"""The check-up says what is missing and how to mend it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pipecat_voicectx import cli
from pipecat_voicectx.commands import doctor
from pipecat_voicectx.commands.doctor import Verdict
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.page_store import open_page_store


def test_a_good_installation_exits_with_0_and_names_its_versions(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--port", "0"]) == 0
    out = capsys.readouterr().out
    assert "pipecat-ai" in out
    assert "1." in out


def test_a_taken_port_is_named_with_its_fix() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = next(finding for finding in doctor.findings(port=port) if finding.part == f"port {port}")
    assert found.verdict is Verdict.OPTIONAL
    assert "--port" in found.detail


@pytest.mark.parametrize("port", ["99999", "-1", "x", "²"])
def test_a_port_that_is_none_is_an_error_of_the_caller(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["doctor", f"--port={port}"])
    assert stopped.value.code == 2
    assert "1 to 65535" in capsys.readouterr().err


def test_a_store_is_new_or_free_or_held_or_no_folder(tmp_path: Path) -> None:
    assert "made by the first call" in doctor._store(tmp_path / "new" / "store").detail
    assert "no memory in it yet" in doctor._store(tmp_path).detail
    (tmp_path / "file").write_text("")
    assert doctor._store(tmp_path / "file").verdict is Verdict.BAD
    folder = tmp_path / "memory"
    store = open_page_store(folder, embedder=LexicalEmbedder())
    held = doctor._store(folder)
    assert (held.verdict, "another process" in held.detail) == (Verdict.OPTIONAL, True)
    store.close()
    free = doctor._store(folder)
    assert (free.verdict, "lexical" in free.detail) == (Verdict.GOOD, True)


def test_a_missing_core_package_is_bad_and_an_optional_one_is_not() -> None:
    bad = doctor._distribution("no-such-distribution", missing=Verdict.BAD, fix="pip install it")
    assert bad.verdict is Verdict.BAD
    assert "pip install it" in bad.detail
    assert doctor._distribution("numpy", missing=Verdict.BAD, fix="").verdict is Verdict.GOOD


def test_a_version_outside_of_what_is_allowed_is_named_with_its_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda _name: "1.10.0")
    found = doctor._distribution("pipecat-ai", missing=Verdict.BAD, fix="")
    assert found.verdict is Verdict.BAD
    assert found.detail.startswith("1.10.0, but ")
    assert ">=1.14" in found.detail
    monkeypatch.setattr(doctor, "version", lambda _name: "1.99.0rc1")
    assert doctor._distribution("pipecat-ai", missing=Verdict.BAD, fix="").verdict is Verdict.GOOD


def test_a_setting_that_would_stop_a_bot_is_bad() -> None:
    settings = {
        "VOICECTX_EMBEDDINGS": "/nowhere",
        "VOICECTX_WHISPER_MODEL": "/nowhere",
        "VOICECTX_INSPECTOR_TOKEN": "short",
        "VOICECTX_PRIVATE_READS": "no",
        "OPENAI_BASE_URL": "localhost:1",
    }
    found = list(doctor._settings(settings))
    assert {finding.part for finding in found} == set(settings)
    assert {finding.verdict for finding in found} == {Verdict.BAD}
    assert not list(doctor._settings({"VOICECTX_INSPECTOR": "0", "OPENAI_BASE_URL": "https://host/v1"}))


def test_half_a_fetched_model_is_not_called_cached(tmp_path: Path) -> None:
    environ = {"FASTEMBED_CACHE_PATH": str(tmp_path)}
    folder = tmp_path / "models--qdrant--all-MiniLM-L6-v2-onnx" / "snapshots" / "1"
    folder.mkdir(parents=True)
    missing = doctor._embedder_model(environ)
    assert (missing.verdict, str(tmp_path) in missing.detail) == (Verdict.OPTIONAL, True)
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.onnx").write_text("")
    assert doctor._embedder_model(environ).verdict is Verdict.GOOD
    assert str(folder) in doctor._embedder_model({"VOICECTX_EMBEDDINGS": str(folder)}).detail


def test_without_a_key_it_says_what_stops_the_bot_and_what_runs() -> None:
    assert "local_bot.py stops: missing OPENAI_API_KEY" in doctor._key({}).detail
    deaf = doctor._key({"OPENAI_BASE_URL": "http://localhost:1/v1"})
    assert "nothing to listen with" in deaf.detail
    assert "voicectx demo" in deaf.detail
    assert doctor._key({"OPENAI_API_KEY": "k"}).verdict is Verdict.GOOD


def test_a_full_disk_is_bad() -> None:
    class Usage:
        free = 10 * 2**20

    assert doctor._disk(lambda _path: Usage()).verdict is Verdict.BAD
