"""What each transport of Pipecat's runner needs beside the bot's own services: a library, and keys.

The runner starts without them and fails in the first call, in the middle of a traceback.
"""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["TELEPHONES", "asked_transport", "installed", "missing_for", "missing_transport", "not_taken"]

TELEPHONES = ("twilio", "telnyx", "plivo", "exotel")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Needs:
    """What one transport cannot do without."""

    keys: tuple[tuple[str, ...], ...] = ()
    """Environment variables; of each group one is enough, and the first is the one that is asked for."""
    why: str = ""
    """What the keys are for, in the words of the message."""
    module: str | None = None
    """Its library, by import name."""
    install: str = ""
    """How to get the library."""


_HANG_UP = "the bot hangs up with it"
_NEEDS: Mapping[str, _Needs] = {
    "daily": _Needs(
        keys=(("DAILY_API_KEY",),),
        why="a room is made with it; the key is in Daily's dashboard, under Developers",
        module="daily",
        install="missing daily-python; run: pip install 'pipecat-voicectx[daily]'",
    ),
    "livekit": _Needs(
        keys=(("LIVEKIT_URL",), ("LIVEKIT_API_KEY",), ("LIVEKIT_API_SECRET",)),
        why="the bot joins a room with it",
        module="livekit.api",
        install="missing livekit-api; run: pip install 'pipecat-ai[livekit]'",
    ),
    "twilio": _Needs(
        keys=(("TWILIO_ACCOUNT_SID",), ("TWILIO_AUTH_TOKEN", "TWILIO_API_KEY")),
        why=_HANG_UP,
    ),
    "telnyx": _Needs(keys=(("TELNYX_API_KEY",),), why=_HANG_UP),
    "plivo": _Needs(keys=(("PLIVO_AUTH_ID",), ("PLIVO_AUTH_TOKEN",)), why=_HANG_UP),
    "exotel": _Needs(),
}


def asked_transport(words: Sequence[str]) -> str | None:
    """What the runner is asked for with `-t`, `--transport` or `-d`, in every form argparse takes; None for any."""
    for word, following in itertools.pairwise([*words, ""]):
        if word in ("-d", "--direct"):
            return "daily"
        if word in ("-t", "--transport"):
            return following or None
        if word.startswith("--transport="):
            return word.partition("=")[2]
        if word.startswith("-t") and len(word) > 2:
            return word[2:].removeprefix("=")
    return None


def missing_transport(words: Sequence[str], known: Collection[str]) -> str | None:
    """What to say when another transport is asked for than the bot has; None otherwise."""
    asked = asked_transport(words)
    if asked is None or asked in known:
        return None
    other = "bots/phone_bot.py" if asked in TELEPHONES else "bots/local_bot.py"
    return f"this bot has no transport {asked!r}, only {', '.join(known)}; see {other} for others"


def missing_for(transport: str | None, environ: Mapping[str, str]) -> str | None:
    """What to say when a transport's library or keys are not there; None when all are, or any will do."""
    needs = _NEEDS.get(transport or "")
    if needs is None:
        return None
    if needs.module is not None and not installed(needs.module):
        return needs.install
    keys = _missing_keys(needs, environ)
    return f"missing {', '.join(keys)}: {needs.why}" if keys else None


def not_taken(transports: Collection[str], environ: Mapping[str, str]) -> str | None:
    """Of a bot that answers whoever calls: whose calls would fail for want of a key; None when nobody's."""
    wanting = {name: _missing_keys(_NEEDS[name], environ) for name in transports if name in TELEPHONES}
    named = [f"{name} ({', '.join(keys)})" for name, keys in wanting.items() if keys]
    return f"calls that fail for want of a key: {', '.join(named)}" if named else None


def installed(module: str) -> bool:
    """Whether a module can be imported, without importing more than the packages around it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of a package around it
        return False


def _missing_keys(needs: _Needs, environ: Mapping[str, str]) -> list[str]:
    return [group[0] for group in needs.keys if not any(environ.get(name) for name in group)]
