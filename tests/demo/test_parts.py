from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("aiortc", reason="pip install 'pipecat-voicectx[demo]'")
pytest.importorskip("espeakng_loader", reason="pip install 'pipecat-voicectx[demo]'")

from pipecat.runner.types import CallData, RunnerArguments, WebSocketRunnerArguments
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.transports.base_transport import TransportParams
from pipecat.transports.smallwebrtc.transport import SmallWebRTCTransport

from pipecat_voicectx.demo.espeak_tts import EspeakTTSService
from pipecat_voicectx.demo.inprocess import InProcessConnection
from pipecat_voicectx.demo.parts import (
    BotSettings,
    Parts,
    choose_embedder,
    choose_parts,
    user_speech_timeout_secs,
)
from pipecat_voicectx.demo.recorded_stt import RecordedCallSTT
from pipecat_voicectx.demo.scenario import DEFAULT_SCENARIO_PATH
from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.testing import virtual_time

_VARIABLES = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_MODEL",
    "VOICECTX_DEMO_PLUGIN",
    "VOICECTX_EMBEDDINGS",
    "VOICECTX_SCRIPTED_LLM",
    "VOICECTX_STORE",
    "VOICECTX_WHISPER_MODEL",
)


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key, no model, nothing set."""
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path / "no-cache"))


def _choose(settings: BotSettings) -> Parts:
    async def choose() -> Parts:
        transport = SmallWebRTCTransport(InProcessConnection(), TransportParams())
        return choose_parts(settings, transport, system_prompt="You are Ada.")

    return virtual_time.run(choose())


def _demo_settings() -> BotSettings:
    return BotSettings.of_session({"plugin": 0, "scenario": str(DEFAULT_SCENARIO_PATH)})


def test_the_session_decides_about_the_plugin_and_else_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert BotSettings.of_session(None).plugin
    monkeypatch.setenv("VOICECTX_DEMO_PLUGIN", "0")
    assert not BotSettings.of_session({}).plugin
    assert BotSettings.of_session({"plugin": 1}).plugin


def test_a_plugin_setting_that_is_neither_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOICECTX_DEMO_PLUGIN", "maybe")
    with pytest.raises(UsageError, match="VOICECTX_DEMO_PLUGIN is 'maybe'"):
        BotSettings.of_session({})


def call(transport: str | None, number: str | None) -> WebSocketRunnerArguments:
    arguments = WebSocketRunnerArguments(websocket=None, transport_type=transport)
    arguments.call_data = CallData(stream_id="S1", call_id="C1", from_number=number)
    return arguments


def test_on_a_telephone_the_number_says_whose_call_it_is_and_a_withheld_one_leaves_nothing() -> None:
    settings = BotSettings.of_session({})
    known = settings.of_caller(call("twilio", "+49 151 2345678"))
    assert (known.user_id, known.store_path) == ("tel:+491512345678", settings.store_path)
    withheld = settings.of_caller(call("telnyx", "anonymous"))
    assert (withheld.user_id, withheld.store_path) == (None, None)


def test_elsewhere_than_on_a_telephone_the_caller_is_this_machines_user() -> None:
    settings = BotSettings.of_session({})
    assert settings.of_caller(call("websocket", None)) == settings
    assert settings.of_caller(RunnerArguments()) == settings


def test_the_demo_gets_scripted_and_local_parts_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("VOICECTX_SCRIPTED_LLM", "1")
    parts = _choose(_demo_settings())
    assert isinstance(parts.stt, RecordedCallSTT)
    assert isinstance(parts.tts, EspeakTTSService)
    assert type(parts.llm) is OpenAILLMService
    hears, thinks, speaks, plugin = capsys.readouterr().out.splitlines()
    assert "scripted" in hears
    assert "scripted" in thinks
    assert "eSpeak NG" in speaks
    assert "stock Pipecat" in plugin


def test_without_ears_a_person_is_told_what_to_set() -> None:
    with pytest.raises(
        UsageError, match="nothing to listen with: set OPENAI_API_KEY, or VOICECTX_WHISPER_MODEL"
    ):
        _choose(BotSettings.of_session({}))


def test_a_whisper_folder_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VOICECTX_WHISPER_MODEL", str(tmp_path / "missing"))
    with pytest.raises(UsageError, match="VOICECTX_WHISPER_MODEL"):
        _choose(BotSettings.of_session({}))


def test_without_a_model_to_think_with_the_demo_says_what_to_set() -> None:
    with pytest.raises(UsageError, match="nothing to think with: set OPENAI_API_KEY, or OPENAI_BASE_URL"):
        _choose(_demo_settings())


def test_with_a_key_the_parts_are_hosted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    _choose(BotSettings.of_session({}))
    assert capsys.readouterr().out.count("(hosted)") == 3


def test_the_demo_recalls_by_words_without_a_model_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(choose_embedder(_demo_settings()), LexicalEmbedder)
    assert "recalls by words" in capsys.readouterr().out


def test_outside_the_demo_the_plugin_chooses_its_embedder() -> None:
    assert choose_embedder(BotSettings.of_session({})) is None


def test_the_stop_strategys_timeout_is_the_scenarios_or_pipecats() -> None:
    assert user_speech_timeout_secs(_demo_settings()) == 0.6
    assert user_speech_timeout_secs(BotSettings.of_session({})) == 0.6
