"""The voice-context layer for Pipecat. The public names; everything else may move.

Names are imported when they are first used (PEP 562): a core is then imported in milliseconds, and a bot without
WebRTC does not need its extra.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import pipecat_voicectx.stores.no_telemetry  # noqa: F401  # before anything imports onnxruntime

if TYPE_CHECKING:
    from pipecat_voicectx.memory.pages import Owner, VoicePage
    from pipecat_voicectx.playback.heard import BoundaryEvidence, HeardTurn
    from pipecat_voicectx.processors.memory_projector import MemoryProjector
    from pipecat_voicectx.processors.memory_settings import MemoryProjectorConfig
    from pipecat_voicectx.processors.network_tracker import NetworkTracker
    from pipecat_voicectx.processors.orchestrator import Orchestrator, OrchestratorConfig
    from pipecat_voicectx.processors.playback_ledger import PlaybackLedger, PlaybackLedgerConfig
    from pipecat_voicectx.processors.speaking_rate_tracker import SpeakingRateTracker
    from pipecat_voicectx.states.network import LinkBand, NetworkState
    from pipecat_voicectx.states.speaking_rate import SpeakingRateState
    from pipecat_voicectx.voice_context import VoiceContext
    from pipecat_voicectx.voice_settings import Part, VoiceContextConfig

__all__ = [
    "BoundaryEvidence",
    "HeardTurn",
    "LinkBand",
    "MemoryProjector",
    "MemoryProjectorConfig",
    "NetworkState",
    "NetworkTracker",
    "Orchestrator",
    "OrchestratorConfig",
    "Owner",
    "Part",
    "PlaybackLedger",
    "PlaybackLedgerConfig",
    "SpeakingRateState",
    "SpeakingRateTracker",
    "VoiceContext",
    "VoiceContextConfig",
    "VoicePage",
]

_HOMES = {
    "BoundaryEvidence": "playback.heard",
    "HeardTurn": "playback.heard",
    "LinkBand": "states.network",
    "MemoryProjector": "processors.memory_projector",
    "MemoryProjectorConfig": "processors.memory_settings",
    "NetworkState": "states.network",
    "NetworkTracker": "processors.network_tracker",
    "Orchestrator": "processors.orchestrator",
    "OrchestratorConfig": "processors.orchestrator",
    "Owner": "memory.pages",
    "Part": "voice_settings",
    "PlaybackLedger": "processors.playback_ledger",
    "PlaybackLedgerConfig": "processors.playback_ledger",
    "SpeakingRateState": "states.speaking_rate",
    "SpeakingRateTracker": "processors.speaking_rate_tracker",
    "VoiceContext": "voice_context",
    "VoiceContextConfig": "voice_settings",
    "VoicePage": "memory.pages",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
