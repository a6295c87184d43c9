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


def test_a_full_disk_is_bad() -> None:
    class Usage:
        free = 10 * 2**20

    assert doctor._disk(lambda _path: Usage()).verdict is Verdict.BAD
