"""A bot says in one line, before anybody is on the line, what is missing or wrong."""

from __future__ import annotations

import sys

import pytest

from pipecat_voicectx.demo.startup import missing_transport, preload, wrong_settings
from pipecat_voicectx.inspector.mount import mount_on_runner

TRANSPORTS = ("webrtc", "daily", "eval")


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


def test_a_transport_that_the_bot_does_not_have_names_the_bot_that_has_it() -> None:
    telephone = missing_transport(["-t", "twilio"], TRANSPORTS)
    assert telephone is not None
    assert "bots/phone_bot.py" in telephone
    browser = missing_transport(["--port", "1", "--transport", "webrtc"], ("twilio",))
    assert browser is not None
    assert "bots/local_bot.py" in browser
    assert missing_transport(["-t", "eval", "--port", "1"], TRANSPORTS) is None


def test_settings_that_can_be_used_are_no_problem(tmp_path: object) -> None:
    assert wrong_settings({"OPENAI_BASE_URL": "http://localhost:1/v1"}) is None
    assert wrong_settings({"VOICECTX_WHISPER_MODEL": str(tmp_path)}) is None
    assert wrong_settings({}) is None
