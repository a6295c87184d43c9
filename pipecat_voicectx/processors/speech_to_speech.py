"""What stands in front of a service that hears and speaks by itself, by what it lets us do.

- OpenAI Realtime and what shares its class (Azure, and xAI's for the most part): its conversation can be edited, so
  `RealtimeLink` edits it.
- Services that take nothing but audio (Gemini Live): what the user heard is re-injected as audio behind a gate.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameProcessor

from pipecat_voicectx.playback.forward_gate import ForwardGateConfig
from pipecat_voicectx.private_reads import has_private
from pipecat_voicectx.processors.forward_gate import ForwardGate
from pipecat_voicectx.processors.orchestrator import Orchestrator, OrchestratorConfig
from pipecat_voicectx.processors.playback_ledger import PlaybackLedger
from pipecat_voicectx.processors.realtime_link import RealtimeLink, RealtimeLinkConfig
from pipecat_voicectx.processors.realtime_orchestrator import RealtimeOrchestrator
from pipecat_voicectx.runtimes.realtime_session import RealtimeRenewal
from pipecat_voicectx.runtimes.realtime_settings import RealtimeSettings
from pipecat_voicectx.runtimes.realtime_socket import RealtimeSocket
from pipecat_voicectx.runtimes.realtime_speed import RealtimeSpeed, speed_map_of
from pipecat_voicectx.runtimes.reinject import ReinjectionConfig

__all__ = ["SpeechToSpeech", "SpeechToSpeechConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechToSpeechConfig:
    """Settings for speech-to-speech services; the others do not read them."""

    realtime: RealtimeLinkConfig = field(default_factory=RealtimeLinkConfig)
    """OpenAI Realtime."""
    reinjection: ReinjectionConfig = field(default_factory=ReinjectionConfig)
    """Gemini Live: what is re-injected after an interruption."""
    gate: ForwardGateConfig = field(default_factory=ForwardGateConfig)
    """Gemini Live: how long the user's audio waits for that at most."""


class SpeechToSpeech:
    """Builds what one session of such a service needs. `of` says whether it is one."""

    def __init__(self, llm: FrameProcessor, config: SpeechToSpeechConfig) -> None:
        self._llm = llm
        self._config = config
        self._settings = RealtimeSettings(llm) if _is_openai(llm) else None

    @classmethod
    def of(cls, llm: FrameProcessor, config: SpeechToSpeechConfig | None = None) -> SpeechToSpeech | None:
        """None: `llm` is asked with text, and needs speech to text and a voice around it."""
        known = RealtimeSocket.fits(llm) or takes_only_audio(llm)
        return cls(llm, config or SpeechToSpeechConfig()) if known else None

    def orchestrator(self, context: LLMContext, config: OrchestratorConfig) -> RealtimeOrchestrator | None:
        """The orchestrator that fits the service; None where there is nothing it could change."""
        if self._settings is None:
            return None
        speed = RealtimeSpeed(self._settings, speed_map_of(self._llm))
        return RealtimeOrchestrator(context=context, llm=self._llm, speed=speed, config=config)

    def processors(
        self,
        *,
        orchestrator: Orchestrator | None,
        ledger: PlaybackLedger | None,
        remembers: bool,
        holds: bool,
    ) -> list[FrameProcessor]:
        """What goes directly in front of the service, in order.

        Args:
            orchestrator: Made by `orchestrator`; None when that part is off.
            ledger: None when that part is off.
            remembers: Whether what leaves the server's conversation lives on in memory.
            holds: Whether turns are held on an unreliable line.
        """
        if takes_only_audio(self._llm):
            if ledger is None:
                return []
            gate = ForwardGate(ledger=ledger, config=self._config.gate, reinjection=self._config.reinjection)
            return [gate]
        if self._settings is None:
            return []
        config = self._config.realtime
        config = replace(
            config, window=config.window if remembers else None, hold=config.hold if holds else None
        )
        ours = orchestrator if isinstance(orchestrator, RealtimeOrchestrator) else None
        return [RealtimeLink(llm=self._llm, settings=self._settings, orchestrator=ours, config=config)]


def takes_only_audio(llm: FrameProcessor) -> bool:
    """Whether the service's conversation cannot be edited, only heard: Gemini Live."""
    return has_private(llm, "_session_resumption_handle", "_connection_task_handler")


def _is_openai(llm: FrameProcessor) -> bool:
    return RealtimeSocket.fits(llm) and RealtimeRenewal.fits(llm)
