"""VoicePage: the record of one exchange, what the user said and what the user heard in answer.

A page is written when the user's turn is complete and written again, under the same id, each time more is known:
the answer was played, a late acknowledgement moved its end. So a crash at any point loses nothing that was finished,
and a page never holds text that was only generated: that is kept apart as `unheard_text`, for the record.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from functools import lru_cache
from typing import cast

from pipecat_voicectx.errors import BadInputError, UsageError

__all__ = [
    "PAGE_SCHEMA_VERSION",
    "BotTextSource",
    "Owner",
    "PageStates",
    "VoicePage",
    "emptied_page",
    "page_id",
]

# 2: the states also say how the caller sounded (noise, clipping, echo, affect).
PAGE_SCHEMA_VERSION = 2

# Fixed, so that the same exchange of the same session always has the same id: writing twice is writing once.
_ID_NAMESPACE = uuid.UUID("6b1f5c0e-52b5-4d0a-9f43-0d4b6d1c8a11")


class BotTextSource(Enum):
    """What `VoicePage.bot_text` rests on."""

    HEARD = "heard"
    """The playback ledger: what was played to the user."""
    CONTEXT = "context"
    """The assistant message in the LLM context; there is no ledger in the pipeline."""
    NONE = "none"
    """The bot has not answered, or nothing of its answer was heard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose memory it is. Both fields must match for a page to be read, changed or erased."""

    user_id: str
    """The person. The application's own key; never taken from the model or a client message."""
    agent_id: str = "default"
    """The bot, so that two bots of one application do not read each other's calls."""

    def __post_init__(self) -> None:
        if not self.user_id or not self.agent_id:
            raise UsageError("Owner needs a non-empty user_id and agent_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageStates:
    """The voice states when the exchange took place."""

    speaking_rate_wpm: float | None = None
    """The caller's estimate in words per minute. None: unknown."""
    network_band: str | None = None
    """Band of the uplink, as `LinkBand.value`. None: unknown."""
    snr_db: float | None = None
    """Signal-to-noise ratio of the caller's speech. None: unknown."""
    noisy: bool = False
    """The caller was hard to understand for the noise around."""
    clipped: bool = False
    """The caller's voice was distorted."""
    echo: bool = False
    """The bot's own voice came back."""
    affect: str | None = None
    """How the caller seemed to feel, as `AffectReading.label`. None: nothing was claimed."""
    affect_confidence: float | None = None
    """0..1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoicePage:
    """One exchange. Text is as transcribed and as played, never cleaned."""

    id: str
    """UUID made from owner, session and index."""
    owner: Owner
    session_id: str
    index: int
    """Position in the session, from 0."""
    started_wall_secs: float
    """Unix time at which the user's turn was complete (the bot's audio began, for a greeting)."""
    ended_wall_secs: float
    """Unix time of the last change: the end of playback, as a rule."""
    user_text: str = ""
    """Confirmed user text. "" for a bot turn that answers nobody, such as a greeting."""
    bot_text: str = ""
    """What the user heard of the bot's answer."""
    bot_text_source: BotTextSource = BotTextSource.NONE
    unheard_text: str = ""
    """Generated, but not heard. Never searched, embedded or put into a prompt."""
    interrupted: bool = False
    """Whether the user cut the answer off."""
    summary: str = ""
    summarizer: str = ""
    """Who wrote `summary`."""
    states: PageStates = field(default_factory=PageStates)
    open_calls: tuple[str, ...] = ()
    """Names of functions that had not returned when the page was written."""
    user_audio_ref: str | None = None
    """Content address of the user's audio clip. None: no audio was kept."""
    bot_audio_ref: str | None = None
    user_audio_secs: float | None = None
    bot_audio_secs: float | None = None

    def to_json(self) -> dict[str, object]:
        """Plain JSON types, with the schema version."""
        out = cast(dict[str, object], asdict(self))
        out["bot_text_source"] = self.bot_text_source.value
        out["open_calls"] = list(self.open_calls)
        out["schema"] = PAGE_SCHEMA_VERSION
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> VoicePage:
        """The page that `to_json` of this or an earlier version wrote; unknown fields are ignored.

        Raises:
            BadInputError: Not a page, or a schema newer than this version of the package reads.
        """
        try:
            schema = data.get("schema")
            if not isinstance(schema, int) or not 1 <= schema <= PAGE_SCHEMA_VERSION:
                raise BadInputError(
                    f"page has schema {schema!r}; this version reads 1 to {PAGE_SCHEMA_VERSION}"
                )
            for older in range(schema, PAGE_SCHEMA_VERSION):
                data = _UPGRADES[older](data)
            owner = cast(Mapping[str, str], data["owner"])
            states = cast(Mapping[str, object], data.get("states") or {})
            return cls(
                id=str(data["id"]),
                owner=_owner(owner["user_id"], owner["agent_id"]),
                session_id=str(data["session_id"]),
                index=int(cast(int, data["index"])),
                started_wall_secs=float(cast(float, data["started_wall_secs"])),
                ended_wall_secs=float(cast(float, data["ended_wall_secs"])),
                user_text=str(data.get("user_text", "")),
                bot_text=str(data.get("bot_text", "")),
                bot_text_source=BotTextSource(data.get("bot_text_source", "none")),
                unheard_text=str(data.get("unheard_text", "")),
                interrupted=bool(data.get("interrupted", False)),
                summary=str(data.get("summary", "")),
                summarizer=str(data.get("summarizer", "")),
                states=_states(states) if any(states.values()) else _NOTHING_MEASURED,
                open_calls=tuple(str(name) for name in cast(list[object], data.get("open_calls") or [])),
                user_audio_ref=_text(data.get("user_audio_ref")),
                bot_audio_ref=_text(data.get("bot_audio_ref")),
                user_audio_secs=_number(data.get("user_audio_secs")),
                bot_audio_secs=_number(data.get("bot_audio_secs")),
            )
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError, UsageError) as error:
            raise BadInputError(f"not a voice page: {type(error).__name__} at {error}") from error


# Thousands of pages are read when a call starts; what they share is one object.
_NOTHING_MEASURED = PageStates()


@lru_cache(maxsize=8)
def _owner(user_id: str, agent_id: str) -> Owner:
    return Owner(user_id=user_id, agent_id=agent_id)


def _states(states: Mapping[str, object]) -> PageStates:
    return PageStates(
        speaking_rate_wpm=_number(states.get("speaking_rate_wpm")),
        network_band=_text(states.get("network_band")),
        snr_db=_number(states.get("snr_db")),
        noisy=bool(states.get("noisy", False)),
        clipped=bool(states.get("clipped", False)),
        echo=bool(states.get("echo", False)),
        affect=_text(states.get("affect")),
        affect_confidence=_number(states.get("affect_confidence")),
    )


def _with_acoustics(data: Mapping[str, object]) -> Mapping[str, object]:
    """From 1 to 2: nothing was known of how the caller sounded."""
    states = cast(Mapping[str, object], data.get("states") or {})
    return {**data, "states": {"noisy": False, "clipped": False, "echo": False, **states}, "schema": 2}


_UPGRADES: Mapping[int, Callable[[Mapping[str, object]], Mapping[str, object]]] = {1: _with_acoustics}
"""By the schema they start from; each makes the next one."""


def emptied_page(page: VoicePage) -> VoicePage:
    """The page without anything that was said: that an exchange took place, and when."""
    return replace(
        page,
        user_text="",
        bot_text="",
        bot_text_source=BotTextSource.NONE,
        unheard_text="",
        summary="",
        summarizer="",
        user_audio_ref=None,
        bot_audio_ref=None,
    )


def _number(value: object) -> float | None:
    return None if value is None else float(cast(float, value))


def _text(value: object) -> str | None:
    return None if value is None else str(value)


@lru_cache(maxsize=1_024)
def page_id(owner: Owner, session_id: str, index: int) -> str:
    """The id of exchange `index` of a session."""
    return str(uuid.uuid5(_ID_NAMESPACE, f"{owner.user_id}\x1f{owner.agent_id}\x1f{session_id}\x1f{index}"))
