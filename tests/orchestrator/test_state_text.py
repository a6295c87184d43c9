from __future__ import annotations

import pytest

from pipecat_voicectx.orchestrator.state_text import GUIDING_PRINCIPLE, render_state
from pipecat_voicectx.states.network import LinkBand, NetworkState
from pipecat_voicectx.states.snapshot import VoiceSnapshot
from pipecat_voicectx.states.speaking_rate import RateUnit, SpeakingRateState
from pipecat_voicectx.testing.tokens import estimate_tokens


def snapshot(
    wpm: float | None = None, own: int | None = 165, band: LinkBand = LinkBand.GOOD
) -> VoiceSnapshot:
    return VoiceSnapshot(
        speaking_rate=SpeakingRateState(rate=wpm),
        network=NetworkState(band=band),
        response_speed_wpm=own,
        vad_silence_ms=1700,
    )


def test_a_rate_away_from_the_response_speed_is_told() -> None:
    text = render_state(snapshot(221))
    assert text is not None
    assert text.startswith("Caller speaks 221 wpm; your response speed is 165 wpm.")


@pytest.mark.parametrize(
    "state", [snapshot(), snapshot(170), snapshot(221, own=None), snapshot(band=LinkBand.RECOVERING)]
)
def test_nothing_is_said_when_nothing_can_be_done(state: VoiceSnapshot) -> None:
    assert render_state(state) is None


def test_characters_per_minute_are_never_told_as_words() -> None:
    state = VoiceSnapshot(
        speaking_rate=SpeakingRateState(rate=255, unit=RateUnit.CHARACTERS_PER_MINUTE), response_speed_wpm=165
    )
    assert render_state(state) is None


def test_loss_in_the_turn_and_a_bad_line_are_told() -> None:
    assert "0.8 s of the caller's audio was lost" in str(render_state(snapshot(), lost_in_turn_secs=0.8))
    assert "losing audio" in str(render_state(snapshot(band=LinkBand.POOR)))
    assert render_state(snapshot(), lost_in_turn_secs=0.1) is None


def test_the_longest_state_fits_its_sixty_tokens_and_the_principle_its_eighty() -> None:
    text = render_state(snapshot(221, band=LinkBand.POOR), lost_in_turn_secs=12.8)
    assert text is not None
    assert estimate_tokens(text) <= 60
    assert estimate_tokens(GUIDING_PRINCIPLE) <= 80
