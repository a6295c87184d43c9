from __future__ import annotations

from pipecat_voicectx.memory.exchanges import ExchangeTracker
from pipecat_voicectx.memory.pages import BotTextSource, PageStates, VoicePage
from pipecat_voicectx.playback.heard import BoundaryEvidence, HeardTurn
from tests.memory.builders import ANN

STATES = PageStates(speaking_rate_wpm=180.0, network_band="good")


def heard(turn_id: int, text: str, *, at: float, unheard: str = "", interrupted: bool = False) -> HeardTurn:
    return HeardTurn(
        turn_id=turn_id,
        heard_text=text,
        unheard_text=unheard,
        interrupted=interrupted,
        evidence=BoundaryEvidence.WORD,
        estimated=False,
        played_samples=48_000,
        sample_rate_hz=24_000,
        started_secs=at,
        ended_secs=at + 2,
    )


def begin(tracker: ExchangeTracker, text: str, at: float) -> list[VoicePage]:
    tracker.finish(context_text="", open_calls=(), wall_secs=1_000 + at)
    return tracker.begin(text, now_secs=at, wall_secs=1_000 + at, states=STATES)


def settle(tracker: ExchangeTracker, turn: HeardTurn, now: float) -> list[VoicePage]:
    return tracker.add_heard(turn, now_secs=now, wall_secs=1_000 + now, states=STATES)


def tracker_of() -> ExchangeTracker:
    return ExchangeTracker(owner=ANN, session_id="s")


def test_the_users_words_are_a_page_before_the_bot_answers() -> None:
    (page,) = begin(tracker_of(), "A room, please.", 10)
    assert (page.user_text, page.bot_text, page.bot_text_source) == (
        "A room, please.",
        "",
        BotTextSource.NONE,
    )
    assert page.states == STATES
    assert page.started_wall_secs == 1_010


def test_the_heard_answer_completes_the_same_page() -> None:
    tracker = tracker_of()
    (asked,) = begin(tracker, "A room, please.", 10)
    (answered,) = settle(tracker, heard(1, "Which night?", at=11), 13)
    assert answered.id == asked.id
    assert answered.bot_text == "Which night?"
    assert answered.bot_text_source is BotTextSource.HEARD
    assert answered.ended_wall_secs == 1_013
    assert answered.bot_audio_secs == 2.0


def test_two_bot_turns_around_a_tool_call_are_one_answer_in_their_order() -> None:
    tracker = tracker_of()
    begin(tracker, "Weather?", 10)
    settle(tracker, heard(1, "One moment.", at=11), 12)
    (page,) = settle(tracker, heard(2, "It is sunny.", at=14), 16)
    assert page.bot_text == "One moment. It is sunny."


def test_a_turn_settled_after_the_next_exchange_opened_goes_to_the_exchange_it_answered() -> None:
    tracker = tracker_of()
    (first,) = begin(tracker, "List them.", 10)
    begin(tracker, "The second.", 20)
    (page,) = settle(tracker, heard(1, "One is red. Two", at=12, unheard="is blue.", interrupted=True), 21)
    assert page.id == first.id
    assert (page.bot_text, page.unheard_text, page.interrupted) == ("One is red. Two", "is blue.", True)


def test_an_amended_turn_replaces_what_it_amends_and_the_same_news_twice_writes_once() -> None:
    tracker = tracker_of()
    begin(tracker, "List them.", 10)
    settle(tracker, heard(1, "One", at=11), 13)
    (page,) = settle(tracker, heard(1, "One is", at=11), 14)
    assert page.bot_text == "One is"
    assert settle(tracker, heard(1, "One is", at=11), 14) == []


def test_a_greeting_opens_an_exchange_of_its_own() -> None:
    tracker = tracker_of()
    (greeting,) = settle(tracker, heard(1, "Hello, how can I help?", at=5), 8)
    assert greeting.user_text == ""
    (page,) = begin(tracker, "A room.", 10)
    assert (greeting.index, page.index) == (0, 1)
    assert tracker.user_turns == 2


def test_context_text_is_taken_only_without_a_heard_turn() -> None:
    tracker = tracker_of()
    begin(tracker, "Far?", 10)
    (page,) = tracker.finish(context_text="Two miles.", open_calls=("look_up",), wall_secs=1_015)
    assert (page.bot_text, page.bot_text_source, page.open_calls) == (
        "Two miles.",
        BotTextSource.CONTEXT,
        ("look_up",),
    )
    (page,) = settle(tracker, heard(1, "Two", at=11), 16)
    assert (page.bot_text, page.bot_text_source) == ("Two", BotTextSource.HEARD)
    assert tracker.finish(context_text="again", open_calls=(), wall_secs=1_016) == []


def test_an_answer_of_which_nothing_was_heard_leaves_the_users_words_and_the_unheard_part() -> None:
    tracker = tracker_of()
    begin(tracker, "Far?", 10)
    (page,) = settle(tracker, heard(1, "", at=11, unheard="Two miles.", interrupted=True), 12)
    assert (page.user_text, page.bot_text, page.unheard_text) == ("Far?", "", "Two miles.")
    assert page.bot_text_source is BotTextSource.NONE


def test_a_turn_that_goes_on_extends_its_page_and_a_closed_one_does_not() -> None:
    tracker = tracker_of()
    assert tracker.extend("nobody spoke", wall_secs=1_000) == []
    (first,) = begin(tracker, "I want", 10)
    (page,) = tracker.extend("I want a room", wall_secs=1_012)
    assert (page.id, page.user_text) == (first.id, "I want a room")
    assert tracker.open_page_id == first.id


def test_a_turn_far_too_late_is_counted_and_dropped() -> None:
    tracker = tracker_of()
    for number in range(20):
        begin(tracker, f"turn {number}", 100 + number)
    assert settle(tracker, heard(1, "late", at=50), 200) == []
    assert tracker.unassigned_turns == 1


def test_what_is_running_and_where_the_audio_is_stays_on_the_page_through_later_changes() -> None:
    tracker = ExchangeTracker(owner=ANN, session_id="s")
    assert tracker.note_open_calls(("book",)) == []
    (first,) = tracker.begin("a", now_secs=0, wall_secs=0, states=STATES)
    (page,) = tracker.note_open_calls(("book",))
    assert page.open_calls == ("book",)
    assert tracker.note_open_calls(("book",)) == []
    (page,) = tracker.attach_user_audio(first.id, "u", secs=2.0004)
    assert (page.user_audio_ref, page.user_audio_secs, page.open_calls) == ("u", 2.0, ("book",))
    (page,) = tracker.attach_bot_audio(first.id, "b")
    tracker.finish(context_text="A", open_calls=(), wall_secs=1)
    (page,) = tracker.attach_bot_audio(first.id, "b2")
    assert (page.bot_text, page.user_audio_ref, page.bot_audio_ref, page.open_calls) == ("A", "u", "b2", ())
    assert tracker.attach_user_audio("unknown", "x", secs=1) == []
    assert tracker.attach_bot_audio("unknown", "x") == []


def test_states_that_come_late_belong_to_the_open_user_turn_only() -> None:
    tracker = ExchangeTracker(owner=ANN, session_id="s")
    late = PageStates(affect="joy")
    assert tracker.note_states(late) == []
    tracker.begin("a", now_secs=0, wall_secs=0, states=STATES)
    (page,) = tracker.note_states(late)
    assert page.states == late
    assert tracker.note_states(late) == []
