"""Plans of one session: made while the user speaks, and given again when the turn's end asks for the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.memory.ranking import RankedPage
from pipecat_voicectx.projection.block import RecalledLine
from pipecat_voicectx.projection.recall import RecallConfig, RecallPlan, plan_recall
from pipecat_voicectx.projection.topics import TopicSummary
from pipecat_voicectx.projection.wording import PageWordings

__all__ = ["RecallPlans", "RecallWish"]

# Chosen: headings tell ages in minutes at the finest.
_SAME_AGE_SECS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallWish:
    """What a plan is made of; see `plan_recall`."""

    ranked: tuple[RankedPage, ...]
    note: str
    known: tuple[RecalledLine, ...]
    audio_secs: Mapping[str, float]
    sounding: Mapping[str, str]
    wanted: frozenset[str]
    topics: tuple[TopicSummary, ...]
    filling: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Made:
    wish: RecallWish
    pages: tuple[VoicePage | None, ...]
    config: RecallConfig
    wall_secs: float
    plan: RecallPlan


class RecallPlans:
    """Makes plans, and keeps the latest.

    Args:
        session_id: The current session.
    """

    def __init__(self, *, session_id: str) -> None:
        self._session_id = session_id
        self._wordings = PageWordings()
        self._made: _Made | None = None
        self.planned = 0
        """Plans that were worked out."""

    def plan(
        self, wish: RecallWish, pages: Mapping[str, VoicePage], *, config: RecallConfig, wall_secs: float
    ) -> RecallPlan:
        """The plan for a wish."""
        named = _pages_of(wish, pages)
        made = self._made
        if (
            made is not None
            and 0 <= wall_secs - made.wall_secs < _SAME_AGE_SECS
            and made.config is config
            and made.wish == wish
            and _are_same(made.pages, named)
        ):
            return made.plan
        self.planned += 1
        plan = plan_recall(
            wish.ranked,
            pages,
            config=config,
            note=wish.note,
            known=wish.known,
            audio_secs=wish.audio_secs,
            sounding=wish.sounding,
            wanted=wish.wanted,
            topics=wish.topics,
            filling=wish.filling,
            session_id=self._session_id,
            wall_secs=wall_secs,
            wordings=self._wordings,
        )
        self._made = _Made(wish, named, config, wall_secs, plan)
        return plan


def _pages_of(wish: RecallWish, pages: Mapping[str, VoicePage]) -> tuple[VoicePage | None, ...]:
    return tuple(pages.get(key) for key in (*(hit.key for hit in wish.ranked), *wish.filling))


def _are_same(one: Sequence[VoicePage | None], other: Sequence[VoicePage | None]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
