"""A bot says in one line, before anybody is on the line, what is missing or wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import pipecat_voicectx.demo.startup as startup
from pipecat_voicectx.demo import environment
from pipecat_voicectx.demo.environment import missing_ears_or_voice, wrong_settings
from pipecat_voicectx.demo.startup import preload, preload_speech
from pipecat_voicectx.inspector.mount import mount_on_runner

TRANSPORTS = ("webrtc", "daily", "eval", "twilio")


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("OPENAI_API_KEY", "", "missing OPENAI_API_KEY"),
        ("OPENAI_BASE_URL", "nonsense", "http://HOST:PORT/v1"),
        ("VOICECTX_WHISPER_MODEL", "/nowhere", "'/nowhere', which is no folder"),
        ("VOICECTX_DEMO_PLUGIN", "2", "0 (stock) or 1"),
        ("VOICECTX_EMBEDDINGS", "/nowhere", "/nowhere has no tokenizer.json"),
        ("VOICECTX_INSPECTOR", "9", "0 (no inspector) or 1"),
        ("VOICECTX_INSPECTOR_TOKEN", "short", "16 or more"),
    ],
)
def test_a_setting_that_cannot_be_used_is_one_line_and_exit_code_2(
    setting: str, value: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import pipecat.runner.run as runner

    if hasattr(runner.app.state, "voicectx_inspector"):
        monkeypatch.delattr(runner.app.state, "voicectx_inspector")
    for name in ("OPENAI_BASE_URL", "VOICECTX_WHISPER_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-secret")
    monkeypatch.setenv(setting, value)
    monkeypatch.setattr(sys, "argv", ["bot.py"])
    with pytest.raises(SystemExit) as stopped:
        preload(TRANSPORTS, show=mount_on_runner)
    assert stopped.value.code == 2
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert told in lines[0]


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No key and nothing set; the inspector is not on the runner."""
    for name in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "GOOGLE_API_KEY",
        "TWILIO_ACCOUNT_SID",
        "TWILIO_AUTH_TOKEN",
        "TELNYX_API_KEY",
        "VOICECTX_SCRIPTED_LLM",
        "VOICECTX_WHISPER_MODEL",
    ):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def told(capsys: pytest.CaptureFixture[str], start: Callable[[], None]) -> str:
    """What a bot that cannot start says; it stops with exit code 2."""
    with pytest.raises(SystemExit) as stopped:
        start()
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().out.splitlines()
    return str(line)


def test_a_bot_on_a_telephone_names_the_keys_without_which_every_call_would_fail(
    bare: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare.setenv("OPENAI_API_KEY", "not-a-secret")
    bare.setattr(sys, "argv", ["bot.py", "-t", "twilio"])
    line = told(capsys, lambda: preload(TRANSPORTS, show=mount_on_runner))
    assert line.startswith("missing TWILIO_ACCOUNT_SID, TWILIO_AUTH_TOKEN:")


def test_a_bot_that_takes_every_call_says_whose_calls_would_fail_and_starts(
    bare: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare.setenv("OPENAI_API_KEY", "not-a-secret")
    bare.setenv("TELNYX_API_KEY", "not-a-secret")
    bare.setattr(sys, "argv", ["bot.py"])
    bare.setattr(startup, "load_memory", lambda: None)
    shown: list[str] = []
    preload(("twilio", "telnyx", "exotel"), show=lambda: shown.append("inspector"))
    assert shown == ["inspector"]
    (line,) = capsys.readouterr().out.splitlines()
    assert line == "calls that fail for want of a key: twilio (TWILIO_ACCOUNT_SID, TWILIO_AUTH_TOKEN)"


def test_a_local_language_model_alone_has_nothing_to_listen_with(
    bare: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    bare.setattr(sys, "argv", ["bot.py"])
    assert "nothing to listen with" in told(capsys, lambda: preload(TRANSPORTS, show=mount_on_runner))


def test_a_library_that_the_settings_ask_for_is_named_before_the_first_call(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    present: set[str] = set()
    bare.setattr(environment, "installed", lambda module: module in present)
    local = {"VOICECTX_WHISPER_MODEL": str(tmp_path), "OPENAI_BASE_URL": "http://localhost:1/v1"}
    assert "pip install 'pipecat-voicectx[whisper]'" in str(missing_ears_or_voice(local))
    present.add("faster_whisper")
    assert "pip install 'pipecat-voicectx[demo]'" in str(missing_ears_or_voice(local))
    present.add("espeakng_loader")
    assert missing_ears_or_voice(local) is None
    assert missing_ears_or_voice({"OPENAI_API_KEY": "k"}) is None


@pytest.mark.parametrize(
    ("words", "key", "installed", "said"),
    [
        ([], "", True, "missing GOOGLE_API_KEY; without a key there is `voicectx demo`"),
        ([], "k", False, "missing google.genai; run: pip install 'pipecat-voicectx[gemini]'"),
        (["-t", "daily"], "k", True, "this bot has no transport 'daily', only webrtc; see bots/local_bot.py"),
    ],
)
def test_a_speech_bot_says_what_it_misses(
    words: list[str],
    key: str,
    installed: bool,
    said: str,
    bare: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bare.setenv("GOOGLE_API_KEY", key)
    bare.setattr(sys, "argv", ["bot.py", *words])
    bare.setattr(startup, "installed", lambda _module: installed)

    def start() -> None:
        preload_speech(
            ("webrtc",), key="GOOGLE_API_KEY", show=mount_on_runner, library=("google.genai", "gemini")
        )

    assert told(capsys, start).startswith(said)


def test_settings_that_can_be_used_are_no_problem(tmp_path: object) -> None:
    assert not list(wrong_settings({"OPENAI_BASE_URL": "http://localhost:1/v1"}))
    assert not list(wrong_settings({"VOICECTX_WHISPER_MODEL": str(tmp_path)}))
    assert not list(wrong_settings({}))
