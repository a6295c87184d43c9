"""The rate bench: callers as stated, and a quick run whose figures are measured from the voice's audio."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pytest

from pipecat_voicectx.bench import rate

pytest.importorskip("espeakng_loader", reason="pip install 'pipecat-voicectx[demo]'")


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    rate.add_arguments(parser)
    return parser.parse_args(words)


def test_callers_cover_the_range_with_at_least_forty_utterances() -> None:
    callers = rate._callers(seed=1, count=rate.CALLERS)
    rates = [turn.wpm for turns in callers for turn in turns]
    assert len(rates) >= 40
    assert min(rates) == pytest.approx(110, abs=12)
    assert max(rates) == pytest.approx(240, abs=15)
    # A caller scatters from turn to turn and is still one person.
    assert all(np.ptp([turn.wpm for turn in turns]) < 60 for turns in callers)


def test_speech_is_measured_between_its_first_and_last_sound() -> None:
    sound = np.concatenate([np.zeros(2400), np.full(24_000, 3000), np.zeros(7200)]).astype(np.int16)
    assert rate._voiced_secs(sound.tobytes()) == pytest.approx(1.0, abs=0.001)
    assert rate._voiced_secs(bytes(4800)) == 0.0


def test_a_quick_run_brings_the_bot_nearer_to_its_callers(tmp_path: Path) -> None:
    file = tmp_path / "rate.json"
    assert rate.run(options("--quick", "--json", str(file))) == 0
    result = json.loads(file.read_text())
    assert result["utterances"] == 12
    assert result["settings"]["llm"] == "scripted"
    assert result["reduction"] == pytest.approx(
        1 - result["mae_voicectx_wpm"] / result["mae_fixed_wpm"], abs=0.001
    )
    # Two callers have six turns each to be known; the full bench is held to 60%.
    assert result["reduction"] >= 0.5
    # A turn in which nothing is changed costs no extra request.
    extra = result["llm_requests"]["voicectx"] - result["llm_requests"]["fixed"]
    assert 0 < extra < result["utterances"]
