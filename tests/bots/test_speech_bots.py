"""The speech-to-speech bots: each says which key it misses, and stops."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BOTS = Path(__file__).parents[2] / "bots"


@pytest.mark.parametrize(
    ("name", "key"), [("realtime_bot.py", "OPENAI_API_KEY"), ("gemini_bot.py", "GOOGLE_API_KEY")]
)
def test_the_bot_names_the_key_it_misses_in_one_line(name: str, key: str) -> None:
    if name == "gemini_bot.py":
        pytest.importorskip("google.genai", reason="google-genai is not installed")
    environment = {variable: value for variable, value in os.environ.items() if variable != key}
    done = subprocess.run(
        [sys.executable, str(BOTS / name)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=environment,
    )
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith(name.removesuffix(".py"))]
    assert f"{key} is missing" in line
