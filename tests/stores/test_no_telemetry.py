"""Nothing phones home because this package was imported, in a process of its own since imports decide."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "code",
    [
        "import pipecat_voicectx.stores.page_store",
        "import pipecat_voicectx.stores.mem0_engine, pipecat_voicectx.stores.qdrant_engine",
        "import pipecat_voicectx; import onnxruntime",
    ],
)
def test_onnxruntime_writes_no_device_id_and_sends_nothing(code: str, tmp_path: Path) -> None:
    env = {key: value for key, value in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
    env |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=120)
    assert [
        str(path) for path in tmp_path.rglob("*") if "Microsoft" in str(path) or path.name == ".ses"
    ] == []


def test_a_user_who_wants_it_keeps_it() -> None:
    code = "import pipecat_voicectx, os; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    env = {**os.environ, "ORT_DISABLE_TELEMETRY": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, check=True, timeout=120, capture_output=True, text=True
    )
    assert done.stdout.strip() == "0"
