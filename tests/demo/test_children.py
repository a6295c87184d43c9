from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from pipecat_voicectx.demo.children import Child, Group, interruptions_deferred


def _module(folder: Path, text: str) -> dict[str, str]:
    (folder / "voicectx_test_child.py").write_text(text)
    return {"PYTHONPATH": str(folder)}


def _exists(process: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def test_output_and_exit_code_of_a_child_are_kept(tmp_path: Path) -> None:
    env = _module(tmp_path, "import sys; print('said', sys.argv[1]); sys.exit(3)")
    child = Child("voicectx_test_child", ["this"], output=tmp_path / "out", group=Group.OWN, env=env)
    deadline = time.monotonic() + 20
    while child.exit_code is None and time.monotonic() < deadline:
        time.sleep(0.02)
    child.stop()
    assert child.exit_code == 3
    assert (tmp_path / "out").read_text() == "said this\n"


def test_a_child_that_ignores_being_asked_is_killed_with_its_own_children(tmp_path: Path) -> None:
    text = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "grandchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(os.getpid(), grandchild.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    output = tmp_path / "out"
    child = Child("voicectx_test_child", [], output=output, group=Group.OWN, env=_module(tmp_path, text))
    deadline = time.monotonic() + 20
    while not output.read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    processes = [int(number) for number in output.read_text().split()]
    assert all(_exists(process) for process in processes)
    child.stop()
    child.stop()
    deadline = time.monotonic() + 5
    while any(_exists(process) for process in processes) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(_exists(process) for process in processes)


def test_an_interruption_waits_until_the_child_is_known() -> None:
    known = []

    def start() -> None:
        with interruptions_deferred():
            os.kill(os.getpid(), signal.SIGINT)
            known.append("child")

    # A shell starts its background jobs with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            start()
    finally:
        signal.signal(signal.SIGINT, before)
    assert known == ["child"]


def test_without_an_interruption_the_handlers_are_as_before() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with interruptions_deferred():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
    assert sys.exc_info() == (None, None, None)
