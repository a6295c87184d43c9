"""Every example runs as a user runs it, and shows what its docstring says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

SHOWS = {
    "voice_context.py": ["heard:   The castle opens at nine.", "words a minute"],
    "speaking_rate.py": ["latest 240, estimate 240 words a minute", "latest 168"],
    "network_hold.py": [
        "user_turn_stopped: please book the early train\n",
        "held:",
        "early train to Ghent on Friday",
    ],
    "playback_ledger.py": ["[cut off here by the user]", "kept aside, unheard:"],
    "memory_projector.py": ["<recalled_context>", "allergic to peanuts"],
    "realtime.py": ["speed of the answers: [1.0, 1.0, 0.84]", "truncated at", "connections: 2"],
    "orchestrator.py": ["out_of_range", "took effect: SetResponseSpeed(words_per_minute=150"],
    "recorder.py": ["guide: 3 requests", "the same", "came out: SetResponseSpeed(words_per_minute=140"],
    "inspector.py": ["before: 0 viewers, nothing subscribed", "seen: 2 requests with their parts"],
}


def test_every_example_is_listed_here_and_in_the_readme() -> None:
    files = {path.name for path in EXAMPLES.glob("*.py")}
    assert files == set(SHOWS)
    readme = (EXAMPLES / "README.md").read_text()
    assert all(f"({name})" in readme for name in files)


@pytest.mark.parametrize("name", sorted(SHOWS))
def test_the_example_runs_and_shows_its_point(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for expected in SHOWS[name]:
        assert expected in done.stdout, done.stdout
    assert len((EXAMPLES / name).read_text().splitlines()) <= 80
