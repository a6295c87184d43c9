"""What the model is told of noise, echo and affect, and what all of it costs."""

from __future__ import annotations

import itertools

import pytest

from pipecat_voicectx.orchestrator.state_text import render_state
from pipecat_voicectx.states.acoustics import AcousticState
from pipecat_voicectx.states.affect import AffectReading, AffectState
from pipecat_voicectx.states.network import LinkBand, NetworkState
from pipecat_voicectx.states.snapshot import VoiceSnapshot
from pipecat_voicectx.states.speaking_rate import SpeakingRateState
from pipecat_voicectx.testing.tokens import estimate_tokens

LABELS = ("joy", "gratitude", "anger", "sadness", "fear", "disgust", "aroused", "subdued")


def affect(label: str) -> AffectState:
    return AffectState(turn=1, reading=AffectReading(label=label, valence=0.0, confidence=0.65))


@pytest.mark.parametrize("label", ["calm", "neutral"])
def test_calm_callers_in_quiet_rooms_are_not_worth_a_token(label: str) -> None:
    quiet = AcousticState(noise_floor_dbfs=-60.0, snr_db=30.0, echo=False)
    assert render_state(VoiceSnapshot(acoustics=quiet, affect=affect(label))) is None


def test_each_thing_worth_saying_is_said() -> None:
    assert "noise" in str(render_state(VoiceSnapshot(acoustics=AcousticState(noisy=True))))
    assert "distorts" in str(render_state(VoiceSnapshot(acoustics=AcousticState(clipped=True))))
    assert "echoes" in str(render_state(VoiceSnapshot(acoustics=AcousticState(echo=True))))
    for label in LABELS[:6]:
        assert f"feel {label}" in str(render_state(VoiceSnapshot(affect=affect(label))))
    assert "agitated" in str(render_state(VoiceSnapshot(affect=affect("aroused"))))


@pytest.mark.parametrize(
    ("label", "noisy", "clipped", "echo", "lost_secs"),
    list(itertools.product(LABELS, (True, False), (True, False), (True, False), (0.0, 1.4))),
)
def test_whatever_comes_together_costs_at_most_sixty_tokens(
    label: str, noisy: bool, clipped: bool, echo: bool, lost_secs: float
) -> None:
    snapshot = VoiceSnapshot(
        speaking_rate=SpeakingRateState(rate=231.0, utterances=5),
        network=NetworkState(band=LinkBand.POOR),
        acoustics=AcousticState(noisy=noisy, clipped=clipped, echo=echo),
        affect=affect(label),
        response_speed_wpm=140,
        vad_silence_ms=1500,
    )
    text = render_state(snapshot, lost_in_turn_secs=lost_secs)
    assert text is not None
    assert estimate_tokens(text) <= 60
