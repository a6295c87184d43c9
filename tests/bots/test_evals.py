"""Pipecat's own eval harness holds typed conversations with our bots, over its real transport."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip(
    "questionary", reason="pip install 'pipecat-ai[cli]': the command-line part of the eval harness"
)

EVALS = Path(__file__).parents[2] / "bots" / "evals"


def test_every_scenario_of_the_suite_passes(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "OPENAI_API_KEY"}
    done = subprocess.run(
        [sys.executable, str(EVALS / "run.py"), "--runs-dir", str(tmp_path), "--timeout", "30"],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+)/(\d+) passed", done.stdout)
    assert passed is not None
    assert passed[1] == passed[2]
    written = [
        re.findall(r"^  - name:", path.read_text(), re.MULTILINE) for path in EVALS.glob("scenarios/*.yaml")
    ]
    assert int(passed[2]) == sum(map(len, written))
