"""`voicectx inspect`: the page of a recording, the check of its decisions, and the setup file."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pipecat_voicectx.cli import main
from pipecat_voicectx.observers import read_session
from pipecat_voicectx.testing.scripted_session import Session
from tests.observers.calls import play_call, record_call


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "call.jsonl"
    record_call(path)
    return path


def test_the_page_holds_every_event_and_loads_nothing(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    assert main(["inspect", str(recording), "--out", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    page = out.read_text()
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    shown = [line for line in read_session(recording)[1] if line["k"] != "calls"]
    assert data["events"] == shown
    assert data["session"]["title"] == "test bot"
    assert re.findall(r'(?:src|href)="(?!data:)[^"#]', page) == []


def test_the_check_says_the_same_or_what_differs(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(recording), "--check"]) == 0
    assert "the same" in capsys.readouterr().out
    assert not recording.with_suffix(".html").exists()
    changed = tmp_path / "changed.jsonl"
    changed.write_text(recording.read_text().replace('"vouched_secs":0.6', '"vouched_secs":1.2', 1))
    assert main(["inspect", str(changed), "--check"]) == 1
    assert "turn_hold." in capsys.readouterr().out


def test_a_page_never_takes_the_place_of_its_recording(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = tmp_path / "call.html"
    named.write_bytes(recording.read_bytes())
    assert main(["inspect", str(named)]) == 2
    assert "--out" in capsys.readouterr().err
    assert named.read_bytes() == recording.read_bytes()


def test_what_cannot_be_read_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text("{}\n")
    assert main(["inspect", str(other)]) == 2
    assert "no recorded session" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path / "nowhere.jsonl")]) == 2
    assert "No such file" in capsys.readouterr().err
    other.write_bytes(b"\xff\xfe\x00")
    assert main(["inspect", str(other)]) == 2
    assert "no text" in capsys.readouterr().err
    assert main(["inspect"]) == 2
    assert "docs/inspector.md" in capsys.readouterr().err


def setup_module_of(capsys: pytest.CaptureFixture[str]) -> ModuleType:
    assert main(["inspect", "--setup-file"]) == 0
    spec = importlib.util.spec_from_file_location("setup_of_test", capsys.readouterr().out.strip())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_setup_file_records_a_session_that_nobody_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    setup: Any = setup_module_of(capsys)
    monkeypatch.setenv("VOICECTX_RECORD_DIR", str(tmp_path / "recordings"))

    async def hook(session: Session) -> None:
        await setup.setup_worker_runner(None)
        await setup.setup_pipeline_worker(session.worker)

    play_call(before=hook)
    (path,) = (tmp_path / "recordings").glob("*.jsonl")
    assert {"heard", "context", "page"} & {str(line["k"]) for line in read_session(path)[1]}


def test_the_setup_file_shows_the_session_where_a_web_server_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from fastapi import FastAPI

    setup: Any = setup_module_of(capsys)
    app = FastAPI()
    monkeypatch.setitem(__import__("sys").modules, "pipecat.runner.run", SimpleNamespace(app=app))
    monkeypatch.delenv("VOICECTX_RECORD_DIR", raising=False)
    listed: list[int] = []

    async def hook(session: Session) -> None:
        await setup.setup_pipeline_worker(session.worker)
        listed.append(len(app.state.voicectx_inspector.sessions))

    async def nothing(_session: Session) -> None:
        pass

    play_call(nothing, before=hook)
    assert listed == [1]
    assert app.state.voicectx_inspector.sessions == []  # ended, and nobody had looked


def test_a_wrong_switch_keeps_no_bot_from_starting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    setup: Any = setup_module_of(capsys)
    monkeypatch.setenv("VOICECTX_INSPECTOR", "maybe")
    monkeypatch.setenv("VOICECTX_RECORD_DIR", "/dev/null/no")

    async def hook(session: Session) -> None:
        await setup.setup_pipeline_worker(session.worker)

    async def nothing(_session: Session) -> None:
        pass

    play_call(nothing, before=hook)


@pytest.mark.parametrize("command", ["inspect", "doctor"])
def test_a_command_that_needs_no_pipecat_does_not_wait_for_its_import(command: str) -> None:
    check = f"import pipecat_voicectx.commands.{command}, sys; sys.exit('pipecat' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], timeout=60, check=False).returncode == 0
