"""`VoiceContext`: builds the processors, wires them to each other and to the host's services, in pipeline order.

Each processor also works alone; this object only saves the placement, the aggregators' settings that turn holding
needs, and the event plumbing. It holds no state of the conversation.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias

from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMAssistantAggregatorParams,
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.transports.base_transport import BaseTransport
from pipecat.turns.empty_user_turn import EmptyUserTurnConfig

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.orchestrator.turn_hold import TurnHoldConfig
from pipecat_voicectx.playback.speech_candidate import SpeechCandidateConfig
from pipecat_voicectx.processors.acoustics_tracker import AcousticsTracker
from pipecat_voicectx.processors.action_gate import ActionGate
from pipecat_voicectx.processors.audio_pages import AudioPagesConfig, AudioPrompt
from pipecat_voicectx.processors.false_interruption import FalseInterruptionConfig, FalseInterruptionRecovery
from pipecat_voicectx.processors.memory_projector import MemoryProjector
from pipecat_voicectx.processors.memory_settings import MemoryProjectorConfig
from pipecat_voicectx.processors.memory_tools import forget_function, remember_function
from pipecat_voicectx.processors.network_tracker import NetworkTracker
from pipecat_voicectx.processors.orchestrator import Orchestrator, OrchestratorConfig
from pipecat_voicectx.processors.playback_ledger import PlaybackLedger, PlaybackLedgerConfig
from pipecat_voicectx.processors.recall_tool import recall_function
from pipecat_voicectx.processors.speaking_rate_tracker import SpeakingRateTracker
from pipecat_voicectx.processors.speech_start import install_candidate_start
from pipecat_voicectx.processors.speech_to_speech import SpeechToSpeech, SpeechToSpeechConfig
from pipecat_voicectx.processors.state_reports import StateMessages, StateReports
from pipecat_voicectx.processors.turn_hold_install import install_turn_hold
from pipecat_voicectx.projection.recall_request import RecallToolConfig
from pipecat_voicectx.runtimes.audio_input import takes_audio
from pipecat_voicectx.runtimes.playout_position import PlayoutPositionSource
from pipecat_voicectx.sources.affect_estimator import AffectEstimator
from pipecat_voicectx.states.acoustics import AcousticConfig
from pipecat_voicectx.states.affect import AffectConfig
from pipecat_voicectx.states.network import NetworkConfig
from pipecat_voicectx.stores.embedders import Embedder, FastEmbedder
from pipecat_voicectx.stores.fact_session import FactsConfig
from pipecat_voicectx.stores.page_memory import PageStoreConfig
from pipecat_voicectx.stores.voice_speeds import VoiceSpeeds

__all__ = ["Part", "VoiceContext", "VoiceContextConfig"]

EventHandler: TypeAlias = Callable[..., Awaitable[None]]

# The host's watchdogs end a turn past every strategy, so they must outlast the longest hold by a clear second.
_WATCHDOG_MARGIN_SECS = 1.0
# Chosen: an answer of half a minute is a long one; eight of them are 12 MB at 24 kHz.
_RECORDED_TURN_SECS = 30.0


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


class VoiceContext:
    """The voice context of one session, of a cascaded bot (speech to text, LLM, text to speech) or of one with a
    speech-to-speech service (`llm` alone).

        voice = VoiceContext(context=LLMContext(), transport=transport, stt=stt, llm=llm, tts=tts, user_id="ann")
        pipeline = Pipeline(voice.processors())

    Make one per session. Event handlers are called as `handler(source, value)`: see `EVENTS`.
    """

    EVENTS: Mapping[str, Part] = {
        "on_speaking_rate": Part.SPEAKING_RATE,
        "on_network_state": Part.NETWORK,
        "on_audio_gap": Part.NETWORK,
        "on_acoustics": Part.ACOUSTICS,
        "on_affect": Part.AFFECT,
        "on_turn_held": Part.TURN_HOLD,
        "on_turn_released": Part.TURN_HOLD,
        "on_recall": Part.MEMORY,
        "on_projected": Part.MEMORY,
        "on_memory_written": Part.MEMORY,
        "on_directive": Part.ORCHESTRATOR,
        "on_directive_rejected": Part.ORCHESTRATOR,
        "on_heard": Part.PLAYBACK,
        "on_recovered": Part.PLAYBACK,
    }
    """Every event, and the part that raises it."""

    def __init__(
        self,
        *,
        context: LLMContext,
        transport: BaseTransport,
        llm: FrameProcessor,
        stt: FrameProcessor | None = None,
        tts: FrameProcessor | None = None,
        user_id: str | None = None,
        agent_id: str = "default",
        store_path: str | Path | None = None,
        record_audio: bool = False,
        embedder: Embedder | None = None,
        user_params: LLMUserAggregatorParams | None = None,
        assistant_params: LLMAssistantAggregatorParams | None = None,
        position: PlayoutPositionSource | None = None,
        config: VoiceContextConfig | None = None,
    ) -> None:
        """Builds every part; nothing runs before the pipeline does.

        Args:
            context: The conversation, shared with the host. It is edited in place.
            transport: The transport whose `input()` and `output()` begin and end the pipeline.
            llm: The serving LLM; the orchestrator's functions are registered with it. Or a speech-to-speech service.
            stt: Speech to text. Left out with a speech-to-speech service.
            tts: Text to speech. Left out with a speech-to-speech service.
            user_id: Whose call this is, from your own login or the phone number; never from the model. None: an
                anonymous caller, whose memory ends with the call.
            agent_id: Which of your bots this is; bots do not read each other's memory.
            store_path: Folder in which pages are kept between calls (embedded Qdrant: one process per folder). None:
                nothing outlives the call.
            record_audio: Keep recordings of both sides in `store_path`. Only with the caller's consent: say so before.
            embedder: How texts become vectors. None: all-MiniLM-L6-v2 from fastembed's cache, fetched once when it
                is not there; until then, words alone are matched.
            user_params: The host's settings of the user aggregator. Its two watchdogs are raised above the longest
                hold where they are shorter.
            assistant_params: The host's settings of the assistant aggregator.
            position: Where the outgoing track stands, for transports of your own. None: found, or counted from writes.
            config: Settings of the parts.

        Raises:
            UsageError: No `tts` although `llm` is no speech-to-speech service that we know.
                `store_path` without `user_id`: pages need an owner who comes back. `record_audio` without a
                folder.
        """
        if store_path is not None and user_id is None:
            raise UsageError(
                "VoiceContext: store_path needs user_id, or nobody could ever read the pages again; "
                "give the caller's id, or leave store_path out for an anonymous call"
            )
        self._config = config or VoiceContextConfig()
        self._agent_id = agent_id
        self._transport, self._stt, self._llm, self._tts = transport, stt, llm, tts
        speech = SpeechToSpeech.of(llm, self._config.speech_to_speech) if tts is None else None
        if tts is None and speech is None:
            raise UsageError(
                f"VoiceContext: tts is missing, and {type(llm).__name__} is no speech-to-speech service we know; "
                "give the voice, or one of the services of docs/speech-to-speech.md"
            )
        voice = tts if tts is not None else llm
        self._handlers: dict[str, list[EventHandler]] = {name: [] for name in self.EVENTS}
        params = self._outlast_holds(user_params)
        # A speech-to-speech service goes on by itself when an interruption was none.
        recovers = (
            Part.PLAYBACK in self._config.parts and self._config.recovery is not None and speech is None
        )
        if recovers and params.empty_user_turn == EmptyUserTurnConfig():
            params = dataclasses.replace(params, empty_user_turn=None)
        self.aggregators = LLMContextAggregatorPair(
            context, user_params=params, assistant_params=assistant_params
        )
        """The host's aggregators, with turn holding around their stop strategies."""
        parts = self._config.parts
        self.speaking_rate = SpeakingRateTracker() if Part.SPEAKING_RATE in parts else None
        self.network = (
            NetworkTracker(transport=transport, config=self._config.network)
            if Part.NETWORK in parts
            else None
        )
        if self.speaking_rate is not None and self.network is not None:
            self.speaking_rate.listen_to(self.network)
        self.acoustics = (
            AcousticsTracker(
                output=transport.output() if Part.ACOUSTICS in parts else None,
                acoustics=self._config.acoustics,
                affect=self._config.affect if Part.AFFECT in parts else None,
                estimator=self._config.affect_estimator,
            )
            if parts & {Part.ACOUSTICS, Part.AFFECT}
            else None
        )
        if Part.TURN_HOLD in parts:
            install_turn_hold(
                self.aggregators.user(),
                self._config.turn_hold,
                handlers=[(name, self._relay(name)) for name in ("on_turn_held", "on_turn_released")],
            )
        self.memory: MemoryProjector | None = None
        if Part.MEMORY in parts:
            self.memory = MemoryProjector(
                owner=Owner(user_id=user_id or f"anonymous-{uuid.uuid4()}", agent_id=agent_id),
                store=PageStoreConfig(path=store_path) if store_path is not None else None,
                embedder=embedder or FastEmbedder(download=True),
                config=self._config.memory,
                stt=stt or (llm if speech is not None else None),
                facts=self._config.facts,
                audio=self._recording() if record_audio else None,
                played_audio=self._played_audio,
            )
            if self._config.recall_tool is not None:
                self.memory.add_tool(recall_function(self.memory, config=self._config.recall_tool))
        self.orchestrator: Orchestrator | None = None
        if Part.ORCHESTRATOR in parts and speech is not None:
            self.orchestrator = speech.orchestrator(context, self._config.orchestrator)
        elif Part.ORCHESTRATOR in parts:
            self.orchestrator = Orchestrator(
                context=context,
                llm=llm,
                tts=tts,
                voice_speeds=VoiceSpeeds(Path(store_path) / "voice_speeds.json") if store_path else None,
                config=self._config.orchestrator,
            )
        self.state_reports = (
            StateReports(self.orchestrator, messages=self._config.state_messages)
            if self.orchestrator is not None
            else None
        )
        self.playback: PlaybackLedger | None = None
        if Part.PLAYBACK in parts:
            self.playback = PlaybackLedger(
                context=context,
                tts=voice,
                output=transport.output(),
                position=position,
                config=self._playback_config(record_audio=record_audio),
            )
        self.action_gate = ActionGate(self.playback) if self.playback is not None else None
        """Makes tools with consequences wait until the user has heard what they rest on:
        `llm.register_function(name, voice.action_gate.guard(handler, ToolPolicy(...)))`. None without PLAYBACK."""
        self.recovery: FalseInterruptionRecovery | None = None
        if self.playback is not None and recovers and params.empty_user_turn is None:
            self.recovery = FalseInterruptionRecovery(
                self.playback,
                context=context,
                llm=llm,
                user=self.aggregators.user(),
                config=self._config.recovery,
            )
        if self.playback is not None and tts is not None and self._config.speech_start is not None:
            install_candidate_start(self.aggregators.user(), self._config.speech_start)
        self.speech_to_speech = (
            speech.processors(
                orchestrator=self.orchestrator,
                ledger=self.playback,
                remembers=self.memory is not None,
                holds=Part.TURN_HOLD in parts,
            )
            if speech is not None
            else []
        )
        """What stands directly in front of a speech-to-speech service; empty for a cascaded bot."""
        self._connect_events()

    def processors(self) -> list[FrameProcessor]:
        """The whole pipeline, transport, services and aggregators included, in order."""
        # A service that hears by itself sends transcripts towards the user aggregator, which consumes them.
        hears_itself = self._stt is None
        order = [
            self._transport.input(),
            self._stt,
            None if hears_itself else self.speaking_rate,
            self.network,
            self.acoustics,
            self.aggregators.user(),
            self.speaking_rate if hears_itself else None,
            self.memory,
            self.orchestrator,
            *self.speech_to_speech,
            self._llm,
            self._tts,
            self._transport.output(),
            self.playback,
            self.aggregators.assistant(),
        ]
        return [processor for processor in order if processor is not None]

    def memory_tools(self) -> list[FunctionSchema]:
        """`remember` and `forget` for the context's tools: the caller's own say in what is kept. [] without facts."""
        if self.memory is None or self.memory.facts is None:
            return []
        return [remember_function(self.memory), forget_function(self.memory)]

    async def identify(self, user_id: str, *, store_path: str | Path | None = None) -> None:
        """The caller, anonymous so far, turned out to be `user_id`: loads their memory into this call.

        Args:
            user_id: From your own login or lookup (see `sources.caller_id`); never from the model.
            store_path: Folder in which their pages and facts are kept. None: for this call only.

        Raises:
            UsageError: The call belongs to another user already.
        """
        if self.memory is None:
            return
        store = PageStoreConfig(path=store_path) if store_path is not None else None
        await self.memory.identify(Owner(user_id=user_id, agent_id=self._agent_id), store=store)

    def add_event_handler(self, name: str, handler: EventHandler) -> None:
        """Calls `handler(source, value)` whenever the event comes.

        Raises:
            UsageError: No such event; the message lists them.
        """
        if name not in self._handlers:
            raise UsageError(
                f"VoiceContext has no event {name!r}; there are {', '.join(sorted(self.EVENTS))}"
            )
        self._handlers[name].append(handler)

    def event_handler(self, name: str) -> Callable[[EventHandler], EventHandler]:
        """The same as a decorator."""

        def register(handler: EventHandler) -> EventHandler:
            self.add_event_handler(name, handler)
            return handler

        return register

    def _outlast_holds(self, params: LLMUserAggregatorParams | None) -> LLMUserAggregatorParams:
        params = params or LLMUserAggregatorParams()
        if Part.TURN_HOLD not in self._config.parts:
            return params
        least_secs = self._config.turn_hold.cap_secs + _WATCHDOG_MARGIN_SECS
        idle_secs = params.audio_idle_timeout
        return dataclasses.replace(
            params,
            user_turn_stop_timeout=max(params.user_turn_stop_timeout, least_secs),
            # 0 switches that watchdog off, and stays.
            audio_idle_timeout=max(idle_secs, least_secs) if idle_secs else idle_secs,
        )

    def _recording(self) -> AudioPagesConfig:
        config = self._config.recording
        if config.prompt is not None:
            return config
        listens = takes_audio(self._llm)
        return dataclasses.replace(config, prompt=AudioPrompt.INPUT_AUDIO if listens else AudioPrompt.NEVER)

    def _played_audio(self, turn_id: int) -> tuple[bytes, int]:
        if self.playback is None:
            return b"", 0
        return self.playback.played_audio(turn_id, secs=self._config.recording.turn.max_secs)

    def _playback_config(self, *, record_audio: bool) -> PlaybackLedgerConfig:
        """The ledger keeps the last seconds of each turn; who records wants more of them."""
        config = self._config.playback
        if not record_audio:
            return config
        kept_secs = max(config.ledger.audio_secs, _RECORDED_TURN_SECS)
        return dataclasses.replace(config, ledger=dataclasses.replace(config.ledger, audio_secs=kept_secs))

    def _connect_events(self) -> None:
        sources: Mapping[Part, FrameProcessor | None] = {
            Part.SPEAKING_RATE: self.speaking_rate,
            Part.NETWORK: self.network,
            Part.ACOUSTICS: self.acoustics,
            Part.AFFECT: self.acoustics,
            Part.MEMORY: self.memory,
            Part.ORCHESTRATOR: self.orchestrator,
            Part.PLAYBACK: self.playback,
        }
        for name, part in self.EVENTS.items():
            source = self.recovery if name == "on_recovered" else sources.get(part)
            if source is not None:
                source.add_event_handler(name, self._relay(name))

    def _relay(self, name: str) -> EventHandler:
        handlers = self._handlers[name]

        async def relay(source: Any, *values: Any) -> None:
            for handler in handlers:
                await handler(source, *values)

        return relay
