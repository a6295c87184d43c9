"""`voicectx demo --fast` from the command line, on a short form of the packaged call."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("aiortc", reason="pip install 'pipecat-voicectx[demo]'")
pytest.importorskip("espeakng_loader", reason="pip install 'pipecat-voicectx[demo]'")

pytestmark = pytest.mark.peers

_ROOT = Path(__file__).parents[2]
_DEMO = _ROOT / "pipecat_voicectx" / "demo"


def test_the_command_writes_numbers_and_report_and_the_plugin_is_not_worse(tmp_path: Path) -> None:
    raw = json.loads((_DEMO / "scenario.json").read_text())
    raw["calls"][0]["utterances"] = raw["calls"][0]["utterances"][:3]
    (tmp_path / "scenario.json").write_text(json.dumps(raw))
    shutil.copytree(_DEMO / "recordings", tmp_path / "recordings")
    (tmp_path / "tmp").mkdir()
    options = ["--fast", "--scenario", "scenario.json", "--json", "out.json", "--report", "report.html"]
    done = subprocess.run(
        [sys.executable, "-m", "pipecat_voicectx.cli", "demo", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(_ROOT), "TMPDIR": str(tmp_path / "tmp")},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    numbers = json.loads((tmp_path / "out.json").read_text())
    assert numbers["transport"] == "in-process"
    stock, ours = numbers["stock"], numbers["voicectx"]
    assert (stock["turns_cut_by_loss"], ours["turns_cut_by_loss"]) == (1, 0)
    assert ours["words_over"] <= 1 < stock["words_over"]
    assert ours["words_under"] <= 1
    assert ours["rate_error_wpm"] < stock["rate_error_wpm"]
    assert not stock["resumed"]
    assert ours["resumed"]
    assert (tmp_path / "report.html").stat().st_size > 100_000
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "out.json",
        "recordings",
        "report.html",
        "scenario.json",
        "tmp",
    ]
