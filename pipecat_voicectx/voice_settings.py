"""What `VoiceContext` builds, and with which settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.orchestrator.turn_hold import TurnHoldConfig
from pipecat_voicectx.playback.speech_candidate import SpeechCandidateConfig
from pipecat_voicectx.processors.audio_pages import AudioPagesConfig
from pipecat_voicectx.processors.false_interruption import FalseInterruptionConfig
from pipecat_voicectx.processors.memory_settings import MemoryProjectorConfig
from pipecat_voicectx.processors.orchestrator import OrchestratorConfig
from pipecat_voicectx.processors.playback_ledger import PlaybackLedgerConfig
from pipecat_voicectx.processors.speech_to_speech import SpeechToSpeechConfig
from pipecat_voicectx.processors.state_reports import StateMessages
from pipecat_voicectx.projection.recall_request import RecallToolConfig
from pipecat_voicectx.sources.affect_estimator import AffectEstimator
from pipecat_voicectx.states.acoustics import AcousticConfig
from pipecat_voicectx.states.affect import AffectConfig
from pipecat_voicectx.states.network import NetworkConfig
from pipecat_voicectx.stores.fact_session import FactsConfig

__all__ = ["ALL_PARTS", "Part", "VoiceContextConfig"]


class Part(Enum):
    """What can be switched off on its own."""

    SPEAKING_RATE = "speaking_rate"
    NETWORK = "network"
    ACOUSTICS = "acoustics"
    """Noise, distortion and echo around the caller's words."""
    AFFECT = "affect"
    """An estimate of how the caller feels; see `AcousticsTracker` on where it may not be made."""
    TURN_HOLD = "turn_hold"
    """The reflex in front of the LLM; needs NETWORK to know when to act."""
    MEMORY = "memory"
    ORCHESTRATOR = "orchestrator"
    PLAYBACK = "playback"


ALL_PARTS = frozenset(Part)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceContextConfig:
    """Settings of every part; the defaults are the ones all published figures were measured with."""

    parts: frozenset[Part] = ALL_PARTS
    """The parts that are built. Left out: not in the pipeline at all."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """Thresholds of `NetworkTracker`."""
    acoustics: AcousticConfig = field(default_factory=AcousticConfig)
    """When noise and distortion are worth acting on."""
    affect: AffectConfig = field(default_factory=AffectConfig)
    """When an estimate of the caller's affect is claimed."""
    affect_estimator: AffectEstimator | None = None
    """An affect estimator of your own. None: the voice against its own baseline, and the words."""
    turn_hold: TurnHoldConfig = field(default_factory=TurnHoldConfig)
    """Deadlines of the turn hold."""
    memory: MemoryProjectorConfig = field(default_factory=MemoryProjectorConfig)
    """Budget and window of `MemoryProjector`."""
    facts: FactsConfig | None = field(default_factory=FactsConfig)
    """What is kept of the caller beside pages: read by local rules, kept by Mem0 over embedded Qdrant in `store_path`.
    None: nothing. Another engine, extractor or judge goes in here."""
    recording: AudioPagesConfig = field(default_factory=AudioPagesConfig)
    """Bounds of what `record_audio` keeps, and whether the LLM is given it."""
    recall_tool: RecallToolConfig | None = field(default_factory=RecallToolConfig)
    """Limits of the `recall` function, offered once more is in memory than the window shows. None: not offered."""
    orchestrator: OrchestratorConfig = field(default_factory=OrchestratorConfig)
    """Functions and modes of `Orchestrator`."""
    state_messages: StateMessages = StateMessages.OFF
    """Whether a client is sent states and directives for a display."""
    playback: PlaybackLedgerConfig = field(default_factory=PlaybackLedgerConfig)
    """Clock and commit rules of `PlaybackLedger`."""
    recovery: FalseInterruptionConfig | None = field(default_factory=FalseInterruptionConfig)
    """When an interruption was none, so that the answer goes on. None: off. Needs PLAYBACK, and takes the place of
    Pipecat's own `empty_user_turn`; a host that sets that to something of its own keeps it instead."""
    speech_start: SpeechCandidateConfig | None = field(default_factory=SpeechCandidateConfig)
    """When speech over the bot's voice is an interruption; a cough and "mhm" are none. None: off, any sound is.
    Start strategies of the host or of a service stay as they are. Needs PLAYBACK."""

    speech_to_speech: SpeechToSpeechConfig = field(default_factory=SpeechToSpeechConfig)
    """Where `llm` hears and speaks by itself."""

    def __post_init__(self) -> None:
        if Part.TURN_HOLD in self.parts and Part.NETWORK not in self.parts:
            raise UsageError("VoiceContextConfig.parts: TURN_HOLD needs NETWORK; add it or leave both out")
