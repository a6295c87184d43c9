"""Every mistake before a demo: one line, exit code 2, nothing written, nobody left running."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("aiortc", reason="pip install 'pipecat-voicectx[demo]'")
pytest.importorskip("espeakng_loader", reason="pip install 'pipecat-voicectx[demo]'")

_ROOT = Path(__file__).parents[2]
_DEMO = _ROOT / "pipecat_voicectx" / "demo"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A working directory and a temporary folder of its own, so that the demo's lock is its own too."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "work").mkdir()
    yield tmp_path
    assert list((tmp_path / "work").glob(".*")) == []


def _environment(place: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(_ROOT), "TMPDIR": str(place / "tmp"), **more}


def _demo(place: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pipecat_voicectx.cli", "demo", *args],
        cwd=place / "work",
        env=_environment(place, **environment),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _refused(place: Path, *args: str, **environment: str) -> str:
    done = _demo(place, *args, "--json", "out.json", **environment)
    assert done.returncode == 2, done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert done.stdout == ""
    assert list((place / "work").iterdir()) == []
    assert [p.name for p in (place / "tmp").iterdir() if not p.name.endswith(".lock")] == []
    return lines[0]


def _scenario(place: Path) -> Path:
    """A copy to spoil."""
    folder = place / "scenario"
    folder.mkdir()
    shutil.copy(_DEMO / "scenario.json", folder)
    shutil.copytree(_DEMO / "recordings", folder / "recordings")
    return folder / "scenario.json"


def test_a_report_in_a_folder_that_does_not_exist(place: Path) -> None:
    assert "no/such/folder does not exist" in _refused(place, "--report", "no/such/folder/report.html")


def test_a_report_path_that_is_a_folder(place: Path) -> None:
    assert "is a folder" in _refused(place, "--report", "/")


def test_a_report_that_cannot_be_written(place: Path) -> None:
    assert "cannot be written" in _refused(place, "--report", "/proc/report.html")


def test_a_scenario_that_does_not_exist(place: Path) -> None:
    assert "does not exist" in _refused(place, "--scenario", "nowhere.json")


def test_a_scenario_that_is_not_json_is_named_with_its_line(place: Path) -> None:
    path = _scenario(place)
    path.write_text(path.read_text().replace('"version": 1,', '"version": 1'))
    line = _refused(place, "--scenario", str(path))
    assert str(path) in line
    assert "line 3" in line


def test_a_scenario_with_a_wrong_value_is_named_with_its_place(place: Path) -> None:
    path = _scenario(place)
    scenario = json.loads(path.read_text())
    scenario["calls"][0]["utterances"][1]["cue"]["secs"] = "soon"
    path.write_text(json.dumps(scenario))
    assert "calls[0].utterances[1].cue.secs" in _refused(place, "--scenario", str(path))


def test_a_truncated_recording_is_named(place: Path) -> None:
    path = _scenario(place)
    recording = path.parent / "recordings" / "dog.flac"
    recording.write_bytes(recording.read_bytes()[: recording.stat().st_size // 2])
    assert "dog.flac" in _refused(place, "--scenario", str(path))


def test_an_empty_recording_is_named(place: Path) -> None:
    path = _scenario(place)
    (path.parent / "recordings" / "dog.flac").write_bytes(b"")
    assert "dog.flac" in _refused(place, "--scenario", str(path))


def test_a_port_in_use(place: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"port {port} is not free" in _refused(place, VOICECTX_DEMO_PORT=str(port))


def test_a_port_that_is_none(place: Path) -> None:
    assert "VOICECTX_DEMO_PORT" in _refused(place, VOICECTX_DEMO_PORT="eighty")


def test_a_second_demo_at_once(place: Path) -> None:
    with (place / "tmp" / f"voicectx-demo-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another demo is running" in _refused(place, "--fast")


@pytest.mark.parametrize(
    ("options", "processes", "number"),
    [
        pytest.param(["--fast"], 3, signal.SIGTERM, id="fast"),
        pytest.param([], 4, signal.SIGINT, id="webrtc"),
    ],
)
def test_an_interrupted_demo_leaves_no_process_and_no_file(
    place: Path, options: list[str], processes: int, number: signal.Signals
) -> None:
    mark = f"voicectx-mark-{os.getpid()}-{processes}"
    demo = subprocess.Popen(
        [sys.executable, "-m", "pipecat_voicectx.cli", "demo", *options, "--json", "out.json"],
        cwd=place / "work",
        env=_environment(place, VOICECTX_TEST_MARK=mark, VOICECTX_DEMO_PORT=str(_free_port())),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background job inherits an ignored SIGINT, and so would the demo if the tests run in one.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        _wait_for(lambda: len(_marked(mark)) == processes, "the first pass to start")
        demo.send_signal(number)
        _, complaint = demo.communicate(timeout=20)
    finally:
        demo.kill()
        demo.wait()
    assert demo.returncode == 130
    assert complaint.strip() == "voicectx: interrupted"
    assert _marked(mark) == []
    assert list((place / "work").iterdir()) == []
    assert [p.name for p in (place / "tmp").iterdir() if not p.name.endswith(".lock")] == []


def test_a_killed_demo_takes_its_children_with_it(place: Path) -> None:
    mark = f"voicectx-mark-killed-{os.getpid()}"
    demo = subprocess.Popen(
        [sys.executable, "-m", "pipecat_voicectx.cli", "demo", "--fast"],
        cwd=place / "work",
        env=_environment(place, VOICECTX_TEST_MARK=mark),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(lambda: len(_marked(mark)) == 3, "both passes to start")
    finally:
        demo.kill()
        demo.wait()
    _wait_for(lambda: _marked(mark) == [], "the children to end")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _marked(mark: str) -> list[int]:
    """Processes with our mark in their environment, zombies aside."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"VOICECTX_TEST_MARK={mark}".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def _wait_for(condition: object, what: str) -> None:
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        if callable(condition) and condition():
            return
        time.sleep(0.1)
    pytest.fail(f"waited in vain for {what}")
