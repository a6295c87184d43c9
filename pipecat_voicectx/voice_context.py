"""`VoiceContext`: builds the processors, wires them to each other and to the host's services, in pipeline order.

Each processor also works alone; this object only saves the placement, the aggregators' settings that turn holding
needs, and the event plumbing. It holds no state of the conversation.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Awaitable, Callable, Mapping
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
from pipecat_voicectx.processors.acoustics_tracker import AcousticsTracker
from pipecat_voicectx.processors.action_gate import ActionGate
from pipecat_voicectx.processors.audio_pages import AudioPagesConfig, AudioPrompt
from pipecat_voicectx.processors.false_interruption import FalseInterruptionRecovery
from pipecat_voicectx.processors.memory_projector import MemoryProjector
from pipecat_voicectx.processors.memory_tools import forget_function, remember_function
from pipecat_voicectx.processors.network_tracker import NetworkTracker
from pipecat_voicectx.processors.orchestrator import Orchestrator
from pipecat_voicectx.processors.playback_ledger import PlaybackLedger, PlaybackLedgerConfig
from pipecat_voicectx.processors.recall_tool import recall_function
from pipecat_voicectx.processors.speaking_rate_tracker import SpeakingRateTracker
from pipecat_voicectx.processors.speech_start import install_candidate_start
from pipecat_voicectx.processors.speech_to_speech import SpeechToSpeech
from pipecat_voicectx.processors.state_reports import StateReports
from pipecat_voicectx.processors.turn_hold_install import install_turn_hold
from pipecat_voicectx.runtimes.audio_input import takes_audio
from pipecat_voicectx.runtimes.playout_position import PlayoutPositionSource
from pipecat_voicectx.stores.embedders import Embedder, FastEmbedder
from pipecat_voicectx.stores.page_memory import PageStoreConfig
from pipecat_voicectx.stores.voice_speeds import VoiceSpeeds
from pipecat_voicectx.voice_settings import Part, VoiceContextConfig

__all__ = ["Part", "VoiceContext", "VoiceContextConfig"]

EventHandler: TypeAlias = Callable[..., Awaitable[None]]

# The host's watchdogs end a turn past every strategy, so they must outlast the longest hold by a clear second.
_WATCHDOG_MARGIN_SECS = 1.0
# Chosen: an answer of half a minute is a long one; eight of them are 12 MB at 24 kHz.
_RECORDED_TURN_SECS = 30.0


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
        self._user_id, self._agent_id = user_id, agent_id
        self._transport, self._stt, self._llm, self._tts = transport, stt, llm, tts
        self._speech = SpeechToSpeech.of(llm, self._config.speech_to_speech) if tts is None else None
        if tts is None and self._speech is None:
            raise UsageError(
                f"VoiceContext: tts is missing, and {type(llm).__name__} is no speech-to-speech service we know; "
                "give the voice, or one of the services of docs/speech-to-speech.md"
            )
        self._handlers: dict[str, list[EventHandler]] = {name: [] for name in self.EVENTS}
        params = self._without_empty_turns(self._outlast_holds(user_params))
        self.aggregators = LLMContextAggregatorPair(
            context, user_params=params, assistant_params=assistant_params
        )
        """The host's aggregators, with turn holding around their stop strategies."""
        self.speaking_rate = SpeakingRateTracker() if self._has(Part.SPEAKING_RATE) else None
        self.network = self._network()
        self.acoustics = self._acoustics()
        self.memory: MemoryProjector | None = None
        if self._has(Part.MEMORY):
            self.memory = MemoryProjector(
                owner=Owner(user_id=user_id or f"anonymous-{uuid.uuid4()}", agent_id=agent_id),
                store=PageStoreConfig(path=store_path) if store_path is not None else None,
                embedder=embedder or FastEmbedder(download=True),
                config=self._config.memory,
                stt=stt or (llm if self._speech is not None else None),
                facts=self._config.facts,
                audio=self._recording() if record_audio else None,
                played_audio=self._played_audio,
            )
            if self._config.recall_tool is not None:
                self.memory.add_tool(recall_function(self.memory, config=self._config.recall_tool))
        self.orchestrator = self._orchestrator(context, store_path)
        self.state_reports = (
            StateReports(self.orchestrator, messages=self._config.state_messages)
            if self.orchestrator is not None
            else None
        )
        self.playback: PlaybackLedger | None = None
        if self._has(Part.PLAYBACK):
            self.playback = PlaybackLedger(
                context=context,
                tts=tts if tts is not None else llm,
                output=transport.output(),
                position=position,
                config=self._playback_config(record_audio=record_audio),
            )
        self.action_gate = ActionGate(self.playback) if self.playback is not None else None
        """Makes tools with consequences wait until the user has heard what they rest on:
        `llm.register_function(name, voice.action_gate.guard(handler, ToolPolicy(...)))`. None without PLAYBACK."""
        self.recovery = self._recovery(context, params)
        self.speech_to_speech = (
            self._speech.processors(
                orchestrator=self.orchestrator,
                ledger=self.playback,
                remembers=self.memory is not None,
                holds=self._has(Part.TURN_HOLD),
            )
            if self._speech is not None
            else []
        )
        """What stands directly in front of a speech-to-speech service; empty for a cascaded bot."""
        self._install_turn_rules()
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
        if self._user_id not in (None, user_id):
            raise UsageError(
                "VoiceContext.identify: this call is another user's; leave out user_id for an anonymous caller"
            )
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

    def _has(self, part: Part) -> bool:
        return part in self._config.parts

    @property
    def _recovers(self) -> bool:
        """A speech-to-speech service goes on by itself when an interruption was none."""
        return self._has(Part.PLAYBACK) and self._config.recovery is not None and self._speech is None

    def _network(self) -> NetworkTracker | None:
        if not self._has(Part.NETWORK):
            return None
        network = NetworkTracker(transport=self._transport, config=self._config.network, stt=self._stt)
        if self.speaking_rate is not None:
            self.speaking_rate.listen_to(network)
        return network

    def _acoustics(self) -> AcousticsTracker | None:
        if not (self._has(Part.ACOUSTICS) or self._has(Part.AFFECT)):
            return None
        return AcousticsTracker(
            output=self._transport.output() if self._has(Part.ACOUSTICS) else None,
            acoustics=self._config.acoustics,
            affect=self._config.affect if self._has(Part.AFFECT) else None,
            estimator=self._config.affect_estimator,
        )

    def _orchestrator(self, context: LLMContext, store_path: str | Path | None) -> Orchestrator | None:
        if not self._has(Part.ORCHESTRATOR):
            return None
        if self._speech is not None:
            return self._speech.orchestrator(context, self._config.orchestrator)
        return Orchestrator(
            context=context,
            llm=self._llm,
            tts=self._tts,
            voice_speeds=VoiceSpeeds(Path(store_path) / "voice_speeds.json") if store_path else None,
            config=self._config.orchestrator,
        )

    def _recovery(
        self, context: LLMContext, params: LLMUserAggregatorParams
    ) -> FalseInterruptionRecovery | None:
        if self.playback is None or not self._recovers or params.empty_user_turn is not None:
            return None
        return FalseInterruptionRecovery(
            self.playback,
            context=context,
            llm=self._llm,
            user=self.aggregators.user(),
            config=self._config.recovery,
        )

    def _install_turn_rules(self) -> None:
        """When a turn ends, and which sounds begin one."""
        if self._has(Part.TURN_HOLD):
            install_turn_hold(
                self.aggregators.user(),
                self._config.turn_hold,
                handlers=[(name, self._relay(name)) for name in ("on_turn_held", "on_turn_released")],
            )
        if self.playback is not None and self._tts is not None and self._config.speech_start is not None:
            install_candidate_start(
                self.aggregators.user(), self._config.speech_start, was_asked=self.playback.has_asked
            )

    def _without_empty_turns(self, params: LLMUserAggregatorParams) -> LLMUserAggregatorParams:
        """Ours takes the place of Pipecat's own answer to a turn without words, unless the host chose one."""
        if self._recovers and params.empty_user_turn == EmptyUserTurnConfig():
            return dataclasses.replace(params, empty_user_turn=None)
        return params

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
