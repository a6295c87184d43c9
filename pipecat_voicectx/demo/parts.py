"""Which speech-to-text, language model and voice the local bot gets, and the lines that say so on screen."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipecat.runner.types import RunnerArguments
from pipecat.services.llm_service import LLMService
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.services.stt_service import STTService
from pipecat.services.tts_service import TTSService
from pipecat.transports.base_transport import BaseTransport

from pipecat_voicectx.demo.environment import EMBEDDINGS_ENV, SCRIPTED_LLM_ENV, WHISPER_ENV
from pipecat_voicectx.demo.espeak_tts import EspeakTTSService
from pipecat_voicectx.demo.recorded_stt import RecordedCallSTT
from pipecat_voicectx.demo.scenario import load_scenario
from pipecat_voicectx.demo.transport_keys import TELEPHONES
from pipecat_voicectx.demo.typed_stt import TypedOnlySTT
from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.sources.caller_id import caller_number

if TYPE_CHECKING:
    from pipecat_voicectx.stores.embedders import Embedder

__all__ = [
    "BotSettings",
    "Parts",
    "choose_embedder",
    "choose_parts",
    "local_embedder",
    "user_speech_timeout_secs",
]

_KEY_ENV = "OPENAI_API_KEY"
_BASE_URL_ENV = "OPENAI_BASE_URL"
_MODEL_ENV = "OPENAI_MODEL"
_DEFAULT_MODEL = "gpt-4.1-mini"


@dataclass(frozen=True, slots=True, kw_only=True)
class BotSettings:
    """What distinguishes one session of the bot from another."""

    plugin: bool
    """Whether our processors are in the pipeline."""
    scenario_path: Path | None
    """The recorded call; set by the demo, None with a person at the microphone."""
    user_id: str | None
    """Whose call it is; None for a caller nobody knows, and then nothing outlives the call."""
    store_path: Path | None
    """Folder of what is remembered."""
    call: int
    """Which call of the pass this is, from 1."""
    events_path: Path | None
    """Where the demo wants its events; None in a bot somebody runs by hand."""
    start_secs: float
    """Monotonic time at which the demo's pass began."""

    @classmethod
    def of_session(cls, body: object) -> BotSettings:
        """From the runner's request body, and the environment for what it does not say.

        Raises:
            UsageError: VOICECTX_DEMO_PLUGIN is neither 0 nor 1.
        """
        given: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
        plugin = str(given.get("plugin", os.environ.get("VOICECTX_DEMO_PLUGIN", "1")))
        if plugin not in ("0", "1"):
            raise UsageError(
                f"VOICECTX_DEMO_PLUGIN is {plugin!r}; set it to 0 (stock) or 1 (with the plugin)"
            )
        scenario = given.get("scenario")
        return cls(
            plugin=plugin == "1",
            scenario_path=Path(scenario) if isinstance(scenario, str) else None,
            user_id=str(given.get("user_id", "local-user")),
            store_path=Path(str(given.get("store", os.environ.get("VOICECTX_STORE", "voicectx_store")))),
            call=int(given.get("call", 1)),
            events_path=Path(str(given["events"])) if "events" in given else None,
            start_secs=float(given.get("start_secs", 0.0)),
        )

    def of_caller(self, runner_args: RunnerArguments) -> BotSettings:
        """On a telephone line the caller's number says whose call it is; elsewhere it stays this machine's user."""
        if getattr(runner_args, "transport_type", None) not in TELEPHONES:
            return self
        number = caller_number(runner_args.call_data)
        if number is None:
            return replace(self, user_id=None, store_path=None)
        return replace(self, user_id=f"tel:{number}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The three services of a cascaded bot."""

    stt: STTService
    llm: LLMService[Any]
    tts: TTSService


def choose_parts(settings: BotSettings, transport: BaseTransport, *, system_prompt: str) -> Parts:
    """Chooses and announces the services of one session.

    Raises:
        UsageError: There is nothing to listen or think with; the message says what to set.
    """
    stt, stt_line = _choose_stt(settings, transport)
    llm, llm_line = _choose_llm(system_prompt)
    tts, tts_line = _choose_tts(settings)
    for name, line in (("hears", stt_line), ("thinks", llm_line), ("speaks", tts_line)):
        print(f"  {name:<8}{line}", flush=True)
    print(f"  plugin  {'pipecat-voicectx' if settings.plugin else 'none: stock Pipecat'}", flush=True)
    return Parts(stt=stt, llm=llm, tts=tts)


def choose_embedder(settings: BotSettings) -> Embedder | None:
    """How memory turns texts into vectors; None for the plugin's own default. Blocks while a model loads.

    With a scripted language model nothing is fetched: without a model on this machine it compares words.
    """
    folder = os.environ.get(EMBEDDINGS_ENV)
    scripted = settings.scenario_path is not None or os.environ.get(SCRIPTED_LLM_ENV) == "1"
    if not scripted and not folder:
        return None
    embedder = local_embedder(folder or None)
    lexical = "lexical" in embedder.name
    how = (
        "by words: no embedding model on this machine"
        if lexical
        else f"by meaning and words, {embedder.name}"
    )
    print(f"  recalls {how}", flush=True)
    return embedder


@lru_cache(maxsize=2)
def local_embedder(folder: str | None) -> Embedder:
    """The embedder of a folder, or the best there is without the network. Loaded once."""
    from pipecat_voicectx.stores.embedders import default_embedder

    return default_embedder(path=folder)


def user_speech_timeout_secs(settings: BotSettings) -> float:
    """The fixed stop strategy's timeout: the scenario's, or Pipecat's default."""
    return load_scenario(settings.scenario_path).user_speech_timeout_secs if settings.scenario_path else 0.6


def _choose_stt(settings: BotSettings, transport: BaseTransport) -> tuple[STTService, str]:
    if _typed(transport):
        return TypedOnlySTT(), "nothing: an eval harness types the turns"
    model = os.environ.get(WHISPER_ENV)
    if model:
        return _whisper(model), f"faster-whisper, model folder {model}"
    if settings.scenario_path is not None:
        recordings = load_scenario(settings.scenario_path).recordings
        stt = RecordedCallSTT(recordings=recordings, rtp_origin=lambda: _rtp_origin(transport))
        return stt, "scripted: the recording's own words, if their audio arrived"
    if os.environ.get(_KEY_ENV):
        from pipecat.services.openai.stt import OpenAISTTService

        return OpenAISTTService(api_key=os.environ[_KEY_ENV]), "OpenAI speech to text (hosted)"
    if os.environ.get(SCRIPTED_LLM_ENV) == "1":
        return (
            TypedOnlySTT(),
            f"nothing: no {_KEY_ENV} and no {WHISPER_ENV}; the language model is scripted too",
        )
    raise UsageError(
        f"nothing to listen with: set {_KEY_ENV}, or {WHISPER_ENV} to a faster-whisper model folder "
        "(voicectx demo needs neither)"
    )


def _typed(transport: BaseTransport) -> bool:
    """By name: Pipecat's eval package is not installed with every transport."""
    return type(transport).__name__.startswith("Eval")


def _whisper(model: str) -> STTService:
    if not Path(model).is_dir():
        raise UsageError(f"{WHISPER_ENV} is {model!r}, which is not a folder with a faster-whisper model")
    try:
        from pipecat.services.whisper.stt import WhisperSTTService
    except ImportError:
        raise UsageError(
            f"{WHISPER_ENV} is set, but faster-whisper is not installed; run: pip install 'pipecat-voicectx[whisper]'"
        ) from None
    settings = WhisperSTTService.Settings(model=model)
    return WhisperSTTService(device="cpu", compute_type="int8", settings=settings)


def _choose_llm(system_prompt: str) -> tuple[LLMService[Any], str]:
    base_url, key = os.environ.get(_BASE_URL_ENV), os.environ.get(_KEY_ENV)
    if not base_url and not key:
        raise UsageError(f"nothing to think with: set {_KEY_ENV}, or {_BASE_URL_ENV} to a compatible server")
    model = os.environ.get(_MODEL_ENV, _DEFAULT_MODEL)
    llm = OpenAILLMService(
        api_key=key or "not-needed",
        base_url=base_url,
        settings=OpenAILLMService.Settings(model=model, system_instruction=system_prompt),
    )
    if os.environ.get(SCRIPTED_LLM_ENV) == "1":
        return llm, "scripted: Pipecat's own OpenAI service, talking to a local server that follows rules"
    return llm, f"{model} at {base_url or 'OpenAI'} (hosted)" if key else f"{model} at {base_url}"


def _choose_tts(settings: BotSettings) -> tuple[TTSService, str]:
    if settings.scenario_path is None and os.environ.get(_KEY_ENV):
        from pipecat.services.openai.tts import OpenAITTSService

        return OpenAITTSService(api_key=os.environ[_KEY_ENV]), "OpenAI text to speech (hosted)"
    rate = load_scenario(settings.scenario_path).bot_words_per_minute if settings.scenario_path else 170
    tts = EspeakTTSService(settings=EspeakTTSService.Settings(words_per_minute=rate))
    return tts, f"eSpeak NG in this process, {rate} words per minute"


def _rtp_origin(transport: BaseTransport) -> int | None:
    """RTP timestamp of pts 0. aiortc keeps it private; without it the scripted STT hears nothing."""
    connection = getattr(getattr(transport, "_client", None), "_webrtc_connection", None)
    if connection is None or not connection.pc.getTransceivers():
        return None
    mapper = getattr(connection.pc.getTransceivers()[0].receiver, "_RTCRtpReceiver__timestamp_mapper", None)
    origin = getattr(mapper, "_origin", None)
    return int(origin) % (1 << 32) if isinstance(origin, int) else None
