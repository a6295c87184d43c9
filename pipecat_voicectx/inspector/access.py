"""Who may look. Pure: the facts of one request in, a verdict out.

Without a token only the machine itself may look: the peer is a loopback address, the request names a loopback host
(a page elsewhere whose name was pointed at 127.0.0.1 does not), and no proxy handed it on (a tunnel for a telephone
provider ends on loopback, too). Everybody else needs the token. A page of another origin never may.
"""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass
from enum import Enum
from urllib.parse import urlsplit

from pipecat_voicectx.errors import UsageError

__all__ = ["SHORTEST_TOKEN", "TOKEN_ENV", "RequestFacts", "Verdict", "check_token", "judge"]

TOKEN_ENV = "VOICECTX_INSPECTOR_TOKEN"
# Chosen: 16 characters of a random token cannot be tried out over HTTP.
SHORTEST_TOKEN = 16


class Verdict(Enum):
    """What becomes of a request."""

    ALLOWED = "allowed"
    NEEDS_TOKEN = "needs_token"
    WRONG_TOKEN = "wrong_token"
    FOREIGN_ORIGIN = "foreign_origin"
    NO_TOKEN_SET = "no_token_set"
    """A request from elsewhere, and the bot has no token that could let it in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """What of a request matters here."""

    peer: str | None
    """Address of the socket's other end."""
    host: str
    """The Host header."""
    origin: str | None = None
    """The Origin header; None when there is none."""
    site: str | None = None
    """The Sec-Fetch-Site header of current browsers."""
    forwarded: bool = False
    """Whether a proxy says that it handed the request on."""
    token: str | None = None
    """The token that was given, by cookie or by query."""


def check_token(token: str | None) -> str | None:
    """The token to use; None for none.

    Raises:
        UsageError: It is too short to protect anything.
    """
    if not token:
        return None
    if len(token) < SHORTEST_TOKEN:
        raise UsageError(
            f"the inspector's token has {len(token)} characters; use {SHORTEST_TOKEN} or more, for instance from: "
            "python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return token


def judge(request: RequestFacts, *, token: str | None) -> Verdict:
    """Whether the request may see the session; `token` is the bot's."""
    if request.origin is not None and _host_of(request.origin) != request.host.lower():
        return Verdict.FOREIGN_ORIGIN
    if request.site == "cross-site":
        return Verdict.FOREIGN_ORIGIN
    if _is_loopback_address(request.peer) and _is_loopback_name(request.host) and not request.forwarded:
        return Verdict.ALLOWED
    if token is None:
        return Verdict.NO_TOKEN_SET
    if request.token is None:
        return Verdict.NEEDS_TOKEN
    same = hmac.compare_digest(request.token.encode("utf-8", "replace"), token.encode("utf-8"))
    return Verdict.ALLOWED if same else Verdict.WRONG_TOKEN


def _host_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _is_loopback_address(peer: str | None) -> bool:
    try:
        address = ipaddress.ip_address(peer or "")
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def _is_loopback_name(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name == "localhost" or _is_loopback_address(name)
