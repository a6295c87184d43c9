"""The frames our processors talk with.

All of them are `SystemFrame`s: an interruption drops ordinary data frames, and a state or a settled turn must
outlive one. Each carries one frozen value of a core and nothing else. Foreign processors pass them on unread.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipecat.frames.frames import SystemFrame

from pipecat_voicectx.orchestrator.directives import Directive
from pipecat_voicectx.playback.heard import HeardTurn
from pipecat_voicectx.states.acoustics import AcousticState
from pipecat_voicectx.states.affect import AffectState
from pipecat_voicectx.states.network import NetworkState
from pipecat_voicectx.states.speaking_rate import SpeakingRateState

__all__ = [
    "AcousticsFrame",
    "AffectFrame",
    "DirectiveFrame",
    "HeardTurnFrame",
    "NetworkStateFrame",
    "SpeakingRateFrame",
]


@dataclass
class SpeakingRateFrame(SystemFrame):
    """The caller's speaking rate changed. Downstream from `SpeakingRateTracker`."""

    state: SpeakingRateState


@dataclass
class NetworkStateFrame(SystemFrame):
    """The uplink changed materially. Downstream from `NetworkTracker`, at most every 50 ms."""

    state: NetworkState


@dataclass
class AcousticsFrame(SystemFrame):
    """Noise, distortion or echo changed. Downstream from `AcousticsTracker`."""

    state: AcousticState


@dataclass
class AffectFrame(SystemFrame):
    """More is known of how the caller sounds in this turn. Downstream from `AcousticsTracker`."""

    state: AffectState


@dataclass
class DirectiveFrame(SystemFrame):
    """A validated directive took effect. Broadcast both ways by `Orchestrator`."""

    directive: Directive


@dataclass
class HeardTurnFrame(SystemFrame):
    """A bot turn was settled, or a settled one amended by a late acknowledgement. Broadcast by `PlaybackLedger`."""

    turn: HeardTurn
