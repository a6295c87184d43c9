from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pipecat_voicectx.demo import preflight
from pipecat_voicectx.errors import UsageError


@pytest.mark.parametrize("version", [(3, 10), (3, 14), (2, 7)])
def test_a_python_we_are_not_made_for_is_named(version: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match=f"Python {version[0]}.{version[1]} is not supported"):
        preflight.check_python(version)


def test_this_python_will_do() -> None:
    preflight.check_python()


def test_a_port_in_use_is_named_with_the_way_out() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} is not free.*VOICECTX_DEMO_PORT"):
            preflight.check_port(port)
    preflight.check_port(port)


@pytest.mark.parametrize("text", ["", "abc", "0", "70000", "-1", "7869.5"])
def test_a_port_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("VOICECTX_DEMO_PORT", text)
    with pytest.raises(UsageError, match="VOICECTX_DEMO_PORT"):
        preflight.demo_port()


def test_a_full_disk_is_refused_and_one_with_room_is_not(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="12 MB free"):
        preflight.check_disk(tmp_path, free_bytes=12 * 2**20)
    preflight.check_disk(tmp_path, free_bytes=2**30)


def test_an_output_that_cannot_be_written_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--report .* is a folder"):
        preflight.check_output(tmp_path, "--report")
    with pytest.raises(UsageError, match="does not exist"):
        preflight.check_output(tmp_path / "no" / "report.html", "--report")
    with pytest.raises(UsageError, match="cannot be written"):
        preflight.check_output(Path("/proc/report.html"), "--report")
    preflight.check_output(tmp_path / "report.html", "--report")
    assert list(tmp_path.iterdir()) == []


def test_a_second_demo_is_refused_while_the_first_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with (
        preflight.single_demo(),
        pytest.raises(UsageError, match="another demo is running"),
        preflight.single_demo(),
    ):
        pass
    with preflight.single_demo():
        pass
