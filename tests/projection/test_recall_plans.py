"""A plan that was made while the caller spoke is given again only while nothing that it rests on has changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.memory.ranking import RankedPage
from pipecat_voicectx.projection.block import RecalledLine
from pipecat_voicectx.projection.recall import RecallConfig
from pipecat_voicectx.projection.recall_plans import RecallPlans, RecallWish
from tests.memory.builders import page

PAGES = {each.id: each for each in (page(1, "No stairs please.", "Fine."), page(2, "I have a dog.", "Nice."))}
HITS = tuple(RankedPage(key, 2.0 - place, 0.6, 0.6, 0.6) for place, key in enumerate(PAGES))
WISH = RecallWish(
    ranked=HITS, note="", known=(), audio_secs={}, sounding={}, wanted=frozenset(), topics=(), filling=()
)
CONFIG = RecallConfig()


def plans_after(
    wish: RecallWish, pages: dict[str, VoicePage], *, wall_secs: float = 100_001.0
) -> RecallPlans:
    """The plans of a session in which `WISH` was planned for a second ago, and now this is asked for."""
    plans = RecallPlans(session_id="s1")
    plans.plan(WISH, PAGES, config=CONFIG, wall_secs=100_000.0)
    plans.plan(wish, pages, config=CONFIG, wall_secs=wall_secs)
    return plans


def test_what_was_foreseen_is_not_planned_again() -> None:
    assert plans_after(replace(WISH, ranked=tuple(replace(hit) for hit in HITS)), PAGES).planned == 1


@pytest.mark.parametrize(
    "other",
    [
        replace(WISH, ranked=HITS[::-1]),
        replace(WISH, note="Returning caller."),
        replace(WISH, known=(RecalledLine(text="The user is Ann."),)),
        replace(WISH, wanted=frozenset({HITS[1].key})),
        replace(WISH, sounding={HITS[0].key: "noisy"}),
    ],
)
def test_another_wish_is_planned_for(other: RecallWish) -> None:
    assert plans_after(other, PAGES).planned == 2


def test_a_page_that_changed_meanwhile_is_planned_and_worded_anew() -> None:
    changed = PAGES | {HITS[0].key: replace(PAGES[HITS[0].key], bot_text="Fine, no stairs at all.")}
    plans = plans_after(WISH, changed)
    assert plans.planned == 2
    assert "no stairs at all" in plans.plan(WISH, changed, config=CONFIG, wall_secs=100_002.0).block_text


@pytest.mark.parametrize("wall_secs", [100_011.0, 99_000.0])
def test_a_plan_does_not_outlive_its_headings_also_when_the_clock_goes_back(wall_secs: float) -> None:
    assert plans_after(WISH, PAGES, wall_secs=wall_secs).planned == 2
