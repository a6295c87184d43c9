from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import pytest

from pipecat_voicectx.bench.updates import Call, parse_script, remember_by_rules, remember_verbatim, score
from pipecat_voicectx.cli import main
from pipecat_voicectx.errors import BadInputError


@pytest.fixture(scope="module")
def calls() -> list[Call]:
    return parse_script(
        resources.files("pipecat_voicectx.bench").joinpath("updates_script.txt").read_text("utf-8")
    )


def test_the_script_has_two_hundred_facts_in_two_halves(calls: list[Call]) -> None:
    for half in ("tuning", "heldout"):
        chosen = [call for call in calls if call.half == half]
        assert sum(line.kind != "trap" for call in chosen for line in call.lines) == 100
    assert len({(call.half, call.name) for call in calls}) == len(calls)


def test_the_figures_do_not_fall_below_what_is_published(calls: list[Call]) -> None:
    row = score([call for call in calls if call.half == "heldout"], remember_by_rules)
    assert row["current_right"] >= 0.95
    assert row["superseded_hidden"] >= 0.75
    assert row["invented"] == 0
    assert row["retractions_honoured"] >= 0.75


def test_wishes_are_kept_with_their_no_and_none_is_invented() -> None:
    script = parse_script(
        resources.files("pipecat_voicectx.bench").joinpath("updates_script_3.txt").read_text("utf-8")
    )
    row = score([call for call in script if call.half == "heldout"], remember_by_rules)
    assert row["current_right"] >= 0.65
    assert row["superseded_hidden"] >= 0.65
    assert row["invented"] == 0


def test_free_talk_that_no_rule_was_made_on_is_understood_as_far_as_published() -> None:
    script = parse_script(
        resources.files("pipecat_voicectx.bench").joinpath("updates_script_4.txt").read_text("utf-8")
    )
    row = score([call for call in script if call.half == "heldout"], remember_by_rules)
    assert row["current_right"] >= 0.68
    assert row["superseded_hidden"] >= 0.6
    assert row["retractions_honoured"] >= 0.8
    assert row["invented"] == 0


def test_keeping_everything_is_measured_as_such(calls: list[Call]) -> None:
    row = score(calls, remember_verbatim)
    assert row["superseded_hidden"] < 0.5
    assert row["invented"] > 0


def test_a_memory_that_knows_nothing_is_right_about_nothing_current(calls: list[Call]) -> None:
    row = score(calls, lambda call: [])
    assert row["current_right"] == 0.0
    assert row["superseded_hidden"] == 1.0
    assert row["invented"] == 0


@pytest.mark.parametrize("bad", ["nonsense", "> before any call", "@ tuning a\n+ no bar"])
def test_a_script_that_is_none_is_refused(bad: str) -> None:
    with pytest.raises(BadInputError):
        parse_script(bad)


def test_the_command_writes_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.json"
    assert main(["bench", "updates", "--json", str(target)]) == 0
    written = json.loads(target.read_text())
    assert {"facts", "current_right", "superseded_hidden", "invented", "retractions_honoured"} <= set(written)
    assert written["facts"] == 200
    assert set(written["halves"]) == {"tuning", "heldout"}
    assert "verbatim" in capsys.readouterr().out
