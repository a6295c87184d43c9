from __future__ import annotations

from dataclasses import replace

from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.memory.ranking import RankedPage
from pipecat_voicectx.projection.filling import filling_order
from pipecat_voicectx.projection.recall import RecallConfig, RecallPlan, plan_recall
from tests.memory.builders import page

WISH = page(0, "The room must be on the ground floor, my mother cannot climb stairs.", "I have noted that.")
WEATHER = page(1, "What is the weather like there?", "Mild, with some rain.")
THANKS = page(2, "Okay, great.", "Anything else?")
NEWER = page(3, "We arrive on the ninth.", "Noted.")
LONG = replace(page(4, "I will tell you everything about my garden. " * 60, "Oh."), summary="")
CALL = [WISH, WEATHER, THANKS, NEWER]


def order(pages: list[VoicePage], limit: int = 6) -> list[str]:
    return filling_order(reversed(pages), limit=limit)


def plan(
    relevant: list[VoicePage], filling: list[VoicePage], *, config: RecallConfig | None = None
) -> RecallPlan:
    return plan_recall(
        [RankedPage(item.id, 1.0, 0.5, 0.5, 0.5) for item in relevant],
        {item.id: item for item in (*relevant, *filling)},
        config=config or RecallConfig(),
        filling=[item.id for item in filling],
        session_id="s1",
        wall_secs=100_000,
    )


def test_what_was_stated_comes_back_and_not_what_was_asked_newer_before_older() -> None:
    assert order(CALL) == [NEWER.id, WISH.id]
    assert order(CALL, limit=1) == [NEWER.id]


def test_an_acknowledgement_never_comes_back() -> None:
    assert order([THANKS]) == []


def test_a_wish_that_matches_nothing_is_in_the_block_while_there_is_room() -> None:
    block = plan([WEATHER], [WISH]).block_text
    assert "ground floor" in block
    assert block.index("ground floor") < block.index("weather"), "in the order of the call"


def test_filling_neither_shortens_nor_displaces_what_is_relevant() -> None:
    relevant = [page(number, f"Offer {number} has a garden and a pond.", "It has.") for number in range(5, 9)]
    alone = plan(relevant, [], config=RecallConfig(budget_tokens=130))
    filled = plan(relevant, CALL, config=RecallConfig(budget_tokens=130))
    kept = {item.page_id: item.fidelity for item in filled.pages}
    assert alone.pages
    assert all(kept[item.page_id] == item.fidelity for item in alone.pages)


def test_what_does_not_fit_is_passed_over_for_what_does() -> None:
    pages = [item.page_id for item in plan([], [LONG, WISH]).pages]
    assert pages == [WISH.id]


def test_the_block_keeps_its_budget_and_the_count_is_bounded() -> None:
    many = [page(number, f"I also want item {number} in the cart.", "Done.") for number in range(40)]
    result = plan([], many)
    assert len(result.pages) == RecallConfig().fill_pages
    assert result.history.tokens <= RecallConfig().budget_tokens
    assert plan([], many, config=RecallConfig(fill_pages=0)).block_text == ""
    assert plan([], many, config=RecallConfig(budget_tokens=60)).history.tokens <= 30
