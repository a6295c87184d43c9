"""Who may look at a session."""

from __future__ import annotations

from typing import Any

import pytest

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.inspector.access import RequestFacts, Verdict, check_token, judge

TOKEN = "correct-horse-battery"


def facts(**given: Any) -> RequestFacts:
    return RequestFacts(**{"peer": "127.0.0.1", "host": "localhost:7860", **given})


@pytest.mark.parametrize("host", ["localhost:7860", "127.0.0.1:7860", "[::1]:7860", "LOCALHOST"])
@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "127.9.9.9"])
def test_this_machine_may_look_without_a_token(peer: str, host: str) -> None:
    assert judge(facts(peer=peer, host=host), token=None) is Verdict.ALLOWED


@pytest.mark.parametrize(
    "given",
    [
        {"peer": "192.168.1.7", "host": "192.168.1.2:7860"},
        {"peer": "192.168.1.7", "host": "localhost:7860"},
        {"host": "evil.example:7860"},  # a name that was pointed at 127.0.0.1
        {"host": "localhost.evil.example"},
        {"host": "bot.ngrok.app", "forwarded": True},  # a tunnel ends on loopback
        {"forwarded": True},
        {"peer": None},
        {"host": ""},
        {"host": "[::1"},
    ],
)
def test_anybody_else_needs_the_token(given: dict[str, Any]) -> None:
    assert judge(facts(**given), token=None) is Verdict.NO_TOKEN_SET
    assert judge(facts(**given), token=TOKEN) is Verdict.NEEDS_TOKEN
    assert judge(facts(**given, token="wrong-horse-battery-x"), token=TOKEN) is Verdict.WRONG_TOKEN
    assert judge(facts(**given, token="schön"), token=TOKEN) is Verdict.WRONG_TOKEN
    assert judge(facts(**given, token=TOKEN), token=TOKEN) is Verdict.ALLOWED


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:3000", "http://[bad"])
def test_a_page_of_another_origin_may_not_even_with_the_token(origin: str) -> None:
    assert judge(facts(origin=origin, token=TOKEN), token=TOKEN) is Verdict.FOREIGN_ORIGIN
    assert judge(facts(site="cross-site"), token=None) is Verdict.FOREIGN_ORIGIN


def test_the_page_s_own_requests_are_of_its_origin() -> None:
    assert judge(facts(origin="http://localhost:7860", site="same-origin"), token=None) is Verdict.ALLOWED


def test_a_short_token_is_refused_and_an_empty_one_is_none() -> None:
    assert check_token("") is None
    with pytest.raises(UsageError, match="16 or more"):
        check_token("secret")
