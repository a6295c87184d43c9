from __future__ import annotations

import pytest

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.memory.ranking import RankedPage
from pipecat_voicectx.projection.costs import estimate_tokens
from pipecat_voicectx.projection.recall import RecallConfig, RecallPlan, plan_recall
from pipecat_voicectx.projection.topics import TopicSummary, best_topic
from pipecat_voicectx.projection.wording import page_transcript
from tests.memory.builders import page

LONG = "The hotel has a large garden with old trees and a pond where the ducks live all year round. "


def hit(
    item: VoicePage, score: float, *, cosine: float = 0.5, lexical: float = 0.5, window: float = 0.5
) -> RankedPage:
    return RankedPage(item.id, score, cosine, lexical, window)


def plan(
    pages: list[VoicePage],
    scores: list[float],
    *,
    config: RecallConfig | None = None,
    wanted: int = 0,
    note: str = "",
    topics: tuple[TopicSummary, ...] = (),
) -> RecallPlan:
    hits = sorted((hit(p, s) for p, s in zip(pages, scores, strict=True)), key=lambda h: -h.score)
    return plan_recall(
        hits,
        {p.id: p for p in pages},
        config=config or RecallConfig(),
        note=note,
        wanted={p.id for p in pages[:wanted]},
        topics=topics,
        session_id="s1",
        wall_secs=100_000,
    )


def test_relevant_pages_stand_in_conversational_order_under_when_they_were_said() -> None:
    old = page(3, "I have a dog.", "Nice.", session="s0", wall=10_000)
    new = page(1, "No stairs please.", "Fine.")
    result = plan([new, old], [2.0, 1.5])
    lines = result.block_text.splitlines()
    assert lines[2:-1] == [
        "[earlier in this call]",
        "- User: No stairs please. You: Fine.",
        "[call yesterday]",
        "- User: I have a dog. You: Nice.",
    ]
    assert [p.fidelity for p in result.pages] == ["transcript", "transcript"]


def test_a_page_far_less_relevant_than_the_best_is_not_recalled() -> None:
    assert len(plan([page(1), page(2)], [2.0, 0.5]).pages) == 1


def test_a_page_with_neither_words_nor_meaning_in_common_is_not_recalled() -> None:
    item = page(1)
    weak = RankedPage(item.id, 1.0, 0.1, 0.1, 0.1)
    result = plan_recall([weak], {item.id: item}, config=RecallConfig(), session_id="s1", wall_secs=0)
    assert result.block_text == ""
    result = plan_recall(
        [weak], {item.id: item}, config=RecallConfig(), wanted={item.id}, session_id="s1", wall_secs=0
    )
    assert len(result.pages) == 1


def test_wanted_pages_do_not_push_the_others_out() -> None:
    assert len(plan([page(1), page(2)], [16.0, 1.0], wanted=1).pages) == 2


def test_the_whole_block_stays_within_the_budget() -> None:
    pages = [page(n, LONG * 3, LONG * 3) for n in range(12)]
    for budget in (0, 40, 80, 200, 350, 1_000):
        result = plan(
            pages, [2.0 - n / 100 for n in range(12)], config=RecallConfig(budget_tokens=budget), note=""
        )
        assert estimate_tokens(result.block_text) <= budget
    assert result.candidates == RecallConfig().max_pages


def test_pages_are_shortened_to_summaries_before_they_are_left_out() -> None:
    pages = [page(n, LONG * 2, LONG * 2) for n in range(6)]
    result = plan(pages, [2.0 - n / 100 for n in range(6)])
    assert {p.fidelity for p in result.pages} == {"transcript", "summary"}
    assert [p.fidelity for p in result.pages if p.index < 2] == ["transcript", "transcript"]


def test_a_megabyte_page_does_not_break_the_budget() -> None:
    result = plan([page(1, "word " * 200_000)], [1.0])
    assert estimate_tokens(result.block_text) <= 350
    assert result.pages[0].fidelity == "summary"


def test_a_cut_off_answer_says_so_and_the_unheard_part_is_not_there() -> None:
    item = VoicePage.from_json(page(1, "List.", "One is", unheard="red.").to_json() | {"interrupted": True})
    assert page_transcript(item) == "User: List. You (cut off): One is"


def test_an_empty_history_gives_a_block_only_for_the_note() -> None:
    assert plan([], []).block_text == ""
    assert "Returning" in plan([], [], note="Returning caller.").block_text


def test_bad_settings_are_refused() -> None:
    with pytest.raises(UsageError):
        RecallConfig(budget_tokens=-1)
    with pytest.raises(UsageError):
        RecallConfig(min_score_ratio=1.5)


def with_audio(budget: int) -> RecallPlan:
    items = [page(1, "We take the dog along.", "Noted."), page(2, "No stairs please.", "Fine.")]
    return plan_recall(
        [hit(items[1], 2.0), hit(items[0], 1.5)],
        {item.id: item for item in items},
        config=RecallConfig(budget_tokens=budget, safety_tokens=0),
        audio_secs={items[0].id: 10.0, items[1].id: 5.0},
        session_id="s1",
        wall_secs=100_000,
    )


def test_pages_with_a_recording_start_as_audio_and_the_least_relevant_is_lowered_first() -> None:
    assert [p.fidelity for p in with_audio(300).pages] == ["audio", "audio"]
    plan = with_audio(160)
    assert [p.fidelity for p in plan.pages] == ["transcript", "audio"]
    assert [p.text for p in plan.pages] == [
        "User: We take the dog along. You: Noted.",
        "User: [recording 1] You: Fine.",
    ]
    assert plan.recordings == (plan.pages[1].page_id,)
    assert [p.fidelity for p in with_audio(80).pages] == ["transcript", "transcript"]


def test_a_recording_costs_its_seconds_and_the_text_beside_it() -> None:
    history = with_audio(300).history
    costs = [item.tokens for item in history.items]
    assert costs[0] - costs[1] == pytest.approx(9.98 * 5, abs=2)
    assert 50 < costs[1] < 50 + 30


def test_how_a_page_sounded_stands_in_front_of_its_line() -> None:
    item = page(1, "My gate is nine.", "Noted.")
    result = plan_recall(
        [hit(item, 1.0)],
        {item.id: item},
        config=RecallConfig(),
        sounding={item.id: "noisy"},
        session_id="s1",
        wall_secs=0,
    )
    assert "- (noisy) User: My gate is nine. You: Noted." in result.block_text


def test_a_threads_summary_stands_for_its_pages_that_do_not_fit() -> None:
    pages = [page(n, f"Question {n} about dogs. {LONG}", LONG) for n in range(12)]
    topic = TopicSummary(page_ids=frozenset(p.id for p in pages), text="12 exchanges about dogs, gardens")
    config = RecallConfig(budget_tokens=200, safety_tokens=20, max_pages=8, full_pages=1)
    result = plan(pages, [3.0 - n / 10 for n in range(12)], config=config, topics=(topic,))
    assert "[more on this]\n- 12 exchanges about dogs, gardens" in result.block_text
    assert estimate_tokens(result.block_text) <= 200
    assert result.pages


def test_a_threads_summary_is_not_given_when_its_pages_are_there_or_others_would_leave_for_it() -> None:
    few = [page(1, "I have a dog.", "Nice."), page(2, "The dog is small.", "Good.")]
    own = TopicSummary(page_ids=frozenset(p.id for p in few), text="2 exchanges about dogs")
    assert "more on this" not in plan(few, [2.0, 1.9], topics=(own,)).block_text

    pages = [page(n, f"Question {n} about dogs. {LONG}", LONG) for n in range(8)]
    last = frozenset(p.id for p in pages[-2:])
    foreign = TopicSummary(page_ids=last, text="2 exchanges about " + "very long walks " * 20)
    config = RecallConfig(budget_tokens=240, safety_tokens=20, full_pages=1)
    scores = [3.0 - n / 10 for n in range(8)]
    without = plan(pages, scores, config=config)
    assert set(without.history.omitted) >= last
    assert plan(pages, scores, config=config, topics=(foreign,)).block_text == without.block_text


def test_the_topic_that_covers_most_is_chosen_and_one_page_is_not_enough() -> None:
    small = TopicSummary(page_ids={"a", "b"}, text="small")
    big = TopicSummary(page_ids={"a", "b", "c"}, text="big")
    assert best_topic([small, big], ["a", "b", "c"]) is big
    assert best_topic([small, big], ["a", "x"]) is None
    assert best_topic([TopicSummary(page_ids={"a", "b"}, text="")], ["a", "b"]) is None
    assert best_topic([], ["a", "b"]) is None
