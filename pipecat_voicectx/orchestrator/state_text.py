"""The snapshot as a few words for the model, when there is something it could act on."""

from __future__ import annotations

from dataclasses import dataclass

from pipecat_voicectx.states.acoustics import AcousticState
from pipecat_voicectx.states.affect import AffectReading
from pipecat_voicectx.states.snapshot import VoiceSnapshot

__all__ = ["GUIDING_PRINCIPLE", "RenderConfig", "render_state"]

# LOV, section 3.3: first the input, then what was asked for, then what is inferred.
GUIDING_PRINCIPLE = (
    "If the caller's words seem incomplete, get them completed first (defer or ask to repeat). "
    "Otherwise do what the caller asked for about your voice; otherwise match the caller's speed."
)


# In the order of their use: what the model can act on with a function, what makes words doubtful, what sets the tone.
# Three sentences are about 50 tokens, and no turn has more to say that matters.
MOST_PARTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderConfig:
    """When a state is worth its tokens."""

    smallest_rate_ratio: float = 0.08
    """The caller's rate is told when it differs from the response speed by more than this share. Listeners notice
    changes of tempo from about 5%; chosen above that, since each change costs a request."""
    smallest_lost_secs: float = 0.2
    """Audio lost within the caller's turn that is worth telling: about a syllable."""


def render_state(
    snapshot: VoiceSnapshot, *, lost_in_turn_secs: float = 0.0, config: RenderConfig | None = None
) -> str | None:
    """At most about 60 tokens of state; None when nothing is worth saying.

    Args:
        snapshot: All states now.
        lost_in_turn_secs: Audio that never came while the caller's present turn lasted.
        config: Thresholds.
    """
    config = config or RenderConfig()
    parts = []
    caller_wpm, own_wpm = snapshot.speaking_rate.speaking_rate_wpm, snapshot.response_speed_wpm
    if caller_wpm is not None and own_wpm and abs(caller_wpm / own_wpm - 1.0) > config.smallest_rate_ratio:
        parts.append(f"Caller speaks {caller_wpm:.0f} wpm; your response speed is {own_wpm} wpm.")
    if lost_in_turn_secs >= config.smallest_lost_secs:
        parts.append(f"{lost_in_turn_secs:.1f} s of the caller's audio was lost in this turn.")
    elif snapshot.network.impaired:
        parts.append("The caller's line is losing audio now.")
    parts += _around_the_words(snapshot.acoustics)
    if snapshot.affect.reading is not None:
        parts += _feeling(snapshot.affect.reading)
    if not parts:
        return None
    del parts[MOST_PARTS:]
    if snapshot.vad_silence_ms is not None:
        parts.append(f"Silence that ends a turn: {snapshot.vad_silence_ms} ms.")
    return " ".join(parts)


def _around_the_words(acoustics: AcousticState) -> list[str]:
    parts = []
    if acoustics.echo:
        parts.append("Your own voice echoes into the caller's microphone; stray words may be yours.")
    if acoustics.noisy:
        parts.append("There is loud noise around the caller; words may be misheard.")
    elif acoustics.clipped:
        parts.append("The caller's microphone distorts; words may be misheard.")
    return parts


def _feeling(reading: AffectReading) -> list[str]:
    match reading.label:
        case "neutral" | "calm":
            return []
        case "aroused":
            return ["The caller sounds more agitated or excited than before."]
        case "subdued":
            return ["The caller sounds more subdued than before."]
        case label:
            return [f"The caller seems to feel {label} (confidence {reading.confidence:.1f})."]
