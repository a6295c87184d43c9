"""One short call over real WebRTC: bot process, caller process, packets on the loopback interface."""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiortc", reason="pip install 'pipecat-voicectx[demo]'")
pytest.importorskip("espeakng_loader", reason="pip install 'pipecat-voicectx[demo]'")

from rich.console import Console

from pipecat_voicectx.demo.runner import play_pass
from pipecat_voicectx.demo.scenario import Scenario, load_scenario
from pipecat_voicectx.demo.score import score_pass
from pipecat_voicectx.demo.timeline import Timeline

pytestmark = pytest.mark.peers

_DEMO = Path(__file__).parents[2] / "pipecat_voicectx" / "demo"
_ROOT = _DEMO.parents[1]


@pytest.fixture(scope="module")
def scenario_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packaged scenario's first three utterances: a wish, a loss burst, a barge-in."""
    folder = tmp_path_factory.mktemp("scenario")
    raw = json.loads((_DEMO / "scenario.json").read_text())
    raw["calls"] = [{**raw["calls"][0], "utterances": raw["calls"][0]["utterances"][:3]}]
    (folder / "scenario.json").write_text(json.dumps(raw))
    shutil.copytree(_DEMO / "recordings", folder / "recordings")
    return folder / "scenario.json"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _play(scenario_path: Path, folder: Path, *, plugin: bool) -> tuple[Scenario, list[dict[str, Any]]]:
    scenario = load_scenario(scenario_path)
    saved = dict(os.environ)
    os.environ["VOICECTX_DEMO_PORT"] = str(_free_port())
    os.environ["PYTHONPATH"] = str(_ROOT)
    try:
        events = play_pass(
            plugin=plugin,
            fast=False,
            folder=folder,
            scenario_path=scenario_path,
            timeline=Timeline(scenario, console=Console(file=io.StringIO())),
        )
    finally:
        os.environ.clear()
        os.environ.update(saved)
    return scenario, events


def _of(events: list[dict[str, Any]], source: str, kind: str) -> list[Mapping[str, Any]]:
    return [event for event in events if event["src"] == source and event["kind"] == kind]


def _check_witnesses(events: list[dict[str, Any]]) -> None:
    """What must be true of any pass."""
    (loss,) = _of(events, "caller", "loss")
    assert loss["packets"] == 112
    gaps = [gap for gap in _of(events, "bot", "received_gap") if gap["end"] - gap["at"] > 1.0]
    assert len(gaps) == 1
    assert gaps[0]["end"] - gaps[0]["at"] == pytest.approx(2.24, abs=0.15)
    positions = [event["track_sample"] for event in _of(events, "caller", "played")]
    assert positions == sorted(positions)
    (barge_in,) = _of(events, "caller", "barge_in")
    written = [turn["words"][0][1] for turn in _of(events, "bot", "bot_words") if turn["words"]]
    assert min(written) < barge_in["track_sample"]
    for turn in _of(events, "bot", "bot_words"):
        starts = [start for _, start, _ in turn["words"]]
        assert starts == sorted(starts)


def test_stock_is_cut_off_by_the_burst_and_believes_it_said_more(scenario_path: Path, tmp_path: Path) -> None:
    scenario, events = _play(scenario_path, tmp_path, plugin=False)
    _check_witnesses(events)
    score = score_pass(events, scenario)
    assert score.turns_cut_by_loss == 1
    assert score.words_over is not None
    assert score.words_over > 1


def test_with_the_plugin_the_turn_is_held_and_the_context_says_what_was_heard(
    scenario_path: Path, tmp_path: Path
) -> None:
    scenario, events = _play(scenario_path, tmp_path, plugin=True)
    _check_witnesses(events)
    score = score_pass(events, scenario)
    assert score.turns_cut_by_loss == 0
    assert score.words_over is not None
    assert score.words_under is not None
    assert score.words_over + score.words_under <= 1
