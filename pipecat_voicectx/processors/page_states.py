"""What of the voice states is kept on a page, from the frames that carry them."""

from __future__ import annotations

from dataclasses import replace

from pipecat.frames.frames import Frame, UserStartedSpeakingFrame

from pipecat_voicectx.memory.pages import PageStates
from pipecat_voicectx.processors.frames import (
    AcousticsFrame,
    AffectFrame,
    NetworkStateFrame,
    SpeakingRateFrame,
)

__all__ = ["with_state"]


def with_state(states: PageStates, frame: Frame) -> PageStates:
    """`states` with what the frame says; unchanged for any other frame."""
    match frame:
        case SpeakingRateFrame():
            return replace(states, speaking_rate_wpm=frame.state.speaking_rate_wpm)
        case NetworkStateFrame():
            return replace(states, network_band=frame.state.band.value)
        case AcousticsFrame():
            heard = frame.state
            return replace(
                states,
                snr_db=heard.snr_db,
                noisy=heard.noisy,
                clipped=heard.clipped,
                echo=bool(heard.echo),
            )
        case UserStartedSpeakingFrame():
            # Noise and the line stay as they are from turn to turn; a feeling is of its own turn.
            return replace(states, affect=None, affect_confidence=None)
        case AffectFrame():
            reading = frame.state.reading
            return replace(
                states,
                affect=reading.label if reading is not None else None,
                affect_confidence=reading.confidence if reading is not None else None,
            )
        case _:
            return states
