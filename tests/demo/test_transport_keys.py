"""What each transport of the runner needs, and how a bot is asked for one."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

import pytest
from pipecat.runner.run import TELEPHONY_TRANSPORTS

from pipecat_voicectx.demo.transport_keys import (
    TELEPHONES,
    asked_transport,
    installed,
    missing_for,
    missing_transport,
    not_taken,
)

TRANSPORTS = ("webrtc", "daily", "eval")


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["-t", "daily"], "daily"),
        (["--transport", "livekit", "--port", "1"], "livekit"),
        (["--port", "1", "--transport=daily"], "daily"),
        (["-ttwilio"], "twilio"),
        (["-d"], "daily"),
        (["--port", "1"], None),
        (["-t"], None),
        ([], None),
    ],
)
def test_a_transport_is_asked_for_in_every_form_the_runner_takes(
    words: Sequence[str], asked: str | None
) -> None:
    assert asked_transport(words) == asked


def test_a_transport_that_the_bot_does_not_have_names_the_bot_that_has_it() -> None:
    assert "bots/phone_bot.py" in str(missing_transport(["-t", "twilio"], TRANSPORTS))
    assert "bots/local_bot.py" in str(
        missing_transport(["--port", "1", "--transport", "webrtc"], ("twilio",))
    )
    assert missing_transport(["-t", "eval", "--port", "1"], TRANSPORTS) is None
    assert missing_transport([], TRANSPORTS) is None


def test_the_telephones_are_pipecats() -> None:
    assert set(TELEPHONES) == set(TELEPHONY_TRANSPORTS)


@pytest.mark.parametrize(
    ("transport", "keys"),
    [
        ("livekit", ["LIVEKIT_URL", "LIVEKIT_API_KEY", "LIVEKIT_API_SECRET"]),
        ("daily", ["DAILY_API_KEY"]),
        ("twilio", ["TWILIO_ACCOUNT_SID", "TWILIO_AUTH_TOKEN"]),
        ("telnyx", ["TELNYX_API_KEY"]),
        ("plivo", ["PLIVO_AUTH_ID", "PLIVO_AUTH_TOKEN"]),
    ],
)
def test_only_the_keys_that_are_missing_are_named(
    transport: str, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: object())
    assert str(missing_for(transport, {})).startswith(f"missing {', '.join(keys)}: ")
    assert keys[0] not in str(missing_for(transport, {keys[0]: "k"}))
    assert missing_for(transport, dict.fromkeys(keys, "k")) is None


def test_a_twilio_api_key_does_in_place_of_the_token() -> None:
    assert missing_for("twilio", {"TWILIO_ACCOUNT_SID": "AC", "TWILIO_API_KEY": "SK"}) is None


def test_a_transport_without_its_library_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> None:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(importlib.util, "find_spec", nothing)
    assert "pip install 'pipecat-ai[livekit]'" in str(missing_for("livekit", {}))
    assert "pip install 'pipecat-voicectx[daily]'" in str(missing_for("daily", {"DAILY_API_KEY": "k"}))


def test_what_needs_nothing_misses_nothing() -> None:
    for transport in ("webrtc", "exotel", None):
        assert missing_for(transport, {}) is None


def test_a_bot_that_takes_every_call_names_the_providers_whose_calls_would_fail() -> None:
    line = not_taken(TELEPHONES, {"TWILIO_ACCOUNT_SID": "AC", "TWILIO_AUTH_TOKEN": "t", "PLIVO_AUTH_ID": "p"})
    assert line == "calls that fail for want of a key: telnyx (TELNYX_API_KEY), plivo (PLIVO_AUTH_TOKEN)"
    assert not_taken(("exotel", "webrtc"), {}) is None


def test_a_module_of_an_absent_package_is_not_installed() -> None:
    assert installed("json.decoder")
    assert not installed("no_such_package_at_all.part")
