"""The check-up says what is missing and how to mend it."""

from __future__ import annotations

import socket

import pytest

from pipecat_voicectx import cli
from pipecat_voicectx.commands import doctor
from pipecat_voicectx.commands.doctor import Verdict


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


def test_a_missing_core_package_is_bad_and_an_optional_one_is_not() -> None:
    bad = doctor._distribution("no-such-distribution", missing=Verdict.BAD, fix="pip install it")
    assert bad.verdict is Verdict.BAD
    assert "pip install it" in bad.detail
    assert doctor._distribution("numpy", missing=Verdict.BAD, fix="").verdict is Verdict.GOOD


def test_a_full_disk_is_bad() -> None:
    class Usage:
        free = 10 * 2**20

    assert doctor._disk(lambda _path: Usage()).verdict is Verdict.BAD
