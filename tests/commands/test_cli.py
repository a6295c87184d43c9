"""The command line: what a user sees before any work begins."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from pipecat_voicectx import cli


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["--help"])
    assert stopped.value.code == 0
    out = capsys.readouterr().out
    for command in ("demo", "bench", "doctor"):
        assert f"  {command} " in out


def test_version_is_the_distribution_s(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out.strip() == f"pipecat-voicectx {cli.package_version()}"


@pytest.mark.parametrize("words", [[], ["dance"], ["bench"], ["bench", "dance"], ["demo", "--dance"]])
def test_bad_arguments_exit_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(words)
    assert stopped.value.code == 2
    assert "usage: voicectx" in capsys.readouterr().err


def test_a_bench_does_not_begin_when_its_figures_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in (tmp_path / "nowhere" / "figures.json", tmp_path):
        assert cli.main(["bench", "overhead", "--full", "--json", str(place)]) == 2
        told = capsys.readouterr().err
        assert str(place) in told
        assert "name another" in told


def test_every_bench_and_command_states_its_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    for words in [["demo"], ["doctor"], *(["bench", name] for name in cli.bench_names())]:
        with pytest.raises(SystemExit) as stopped:
            cli.main([*words, "--help"])
        assert stopped.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: voicectx {' '.join(words)}")


def test_all_benches_skip_those_whose_data_was_not_given(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "bench_names", lambda: ["longcontext"])
    assert cli.main(["bench", "all", "--quick"]) == 0
    assert "skipped" in capsys.readouterr().out


def test_all_benches_write_their_figures_into_one_file_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cli, "bench_names", lambda: ["updates", "longcontext"])
    alone, together = tmp_path / "alone.json", tmp_path / "together.json"
    assert cli.main(["bench", "updates", "--json", str(alone)]) == 0
    assert cli.main(["bench", "all", f"--json={together}"]) == 0
    assert json.loads(together.read_text()) == {"updates": json.loads(alone.read_text())}


def test_ctrl_c_ends_all_benches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cli, "bench_names", lambda: ["updates", "updates"])
    asked: list[str] = []

    def interrupted(_module: str, *, prog: str, words: Sequence[str]) -> int:
        asked.append(prog)
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run_module", interrupted)
    assert cli.main(["bench", "all", "--json", str(tmp_path / "figures.json")]) == 130
    assert asked == ["voicectx bench updates"]
