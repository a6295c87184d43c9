from __future__ import annotations

from typing import Any

from pipecat_voicectx.memory.exchanges import ExchangeTracker
from pipecat_voicectx.memory.pages import PageStates, VoicePage
from pipecat_voicectx.projection.follower import ContextFollower
from pipecat_voicectx.projection.window import read_exchanges
from tests.memory.builders import ANN
from tests.projection.test_window import SYSTEM, bot, call, result, user


class Talk:
    """A context, a follower, and the latest version of every page."""

    def __init__(self, *messages: Any) -> None:
        self.messages: list[Any] = list(messages)
        self.tracker = ExchangeTracker(owner=ANN, session_id="s")
        self.follower = ContextFollower(self.tracker)
        self.pages: dict[str, VoicePage] = {}
        self.now = 0.0

    def see(self, *messages: Any) -> list[VoicePage]:
        self.messages += messages
        self.now += 10
        changed = self.follower.observe(
            self.messages, now_secs=self.now, wall_secs=self.now, states=PageStates()
        )
        self.pages |= {page.id: page for page in changed}
        return changed

    def texts(self) -> list[tuple[str, str]]:
        return [(p.user_text, p.bot_text) for p in sorted(self.pages.values(), key=lambda p: p.index)]


def test_each_user_turn_becomes_a_page_that_gets_its_answer_when_the_next_begins() -> None:
    talk = Talk(SYSTEM)
    talk.see(user("a"))
    assert talk.texts() == [("a", "")]
    talk.see(bot("A"), user("b"))
    assert talk.texts() == [("a", "A"), ("b", "")]


def test_the_same_words_again_are_another_exchange() -> None:
    talk = Talk()
    talk.see(user("yes"))
    talk.see(bot("A"), user("yes"))
    talk.see(bot("B"), user("yes"))
    assert talk.texts() == [("yes", "A"), ("yes", "B"), ("yes", "")]


def test_a_context_that_did_not_change_changes_nothing() -> None:
    talk = Talk(SYSTEM)
    talk.see(user("a"))
    assert talk.see() == []
    assert talk.see(call("1"), result("1")) == []


def test_a_turn_written_in_two_parts_is_one_exchange() -> None:
    talk = Talk()
    talk.see(user("I want"))
    talk.see(user("a room"))
    assert talk.texts() == [("I want a room", "")]


def test_two_turns_at_once_are_two_pages() -> None:
    talk = Talk()
    talk.see(user("a"))
    talk.see(bot("A"), user("b"), bot("B"), user("c"))
    assert talk.texts() == [("a", "A"), ("b", "B"), ("c", "")]


def test_a_primed_conversation_is_the_applications() -> None:
    talk = Talk(SYSTEM, user("example"), bot("answer"))
    talk.see(user("a"))
    assert talk.texts() == [("a", "")]
    assert talk.follower.page_of(read_exchanges(talk.messages)[0]) is None


def test_messages_replaced_by_copies_are_recognised_by_their_words() -> None:
    talk = Talk()
    talk.see(user("a"))
    talk.messages[:] = [user("Summary so far."), *[dict(message) for message in talk.messages]]
    talk.see(bot("A"), user("b"))
    assert ("b", "") in talk.texts()
    assert len(talk.pages) <= 2


def test_an_exchange_that_somebody_removed_is_still_finished() -> None:
    talk = Talk()
    talk.see(user("a"))
    talk.messages.clear()
    talk.see(user("b"))
    assert talk.texts() == [("a", ""), ("b", "")]


def test_closing_takes_the_last_answer_from_the_context_once() -> None:
    talk = Talk()
    assert talk.follower.close([], wall_secs=1) == []
    talk.see(user("a"))
    exchanges = read_exchanges([*talk.messages, bot("A")])
    (page,) = talk.follower.close(exchanges, wall_secs=99)
    assert page.bot_text == "A"
    assert talk.follower.close(exchanges, wall_secs=99) == []


def test_an_empty_context_is_nothing_new() -> None:
    assert Talk(SYSTEM).see() == []


def test_a_summary_put_in_front_of_the_caller_s_words_is_the_application_s() -> None:
    talk = Talk(SYSTEM)
    talk.see(user("a"))
    talk.see(bot("A"), user("b"))
    summary = user("Conversation summary: the caller said a.")
    talk.messages[:] = [SYSTEM, summary, talk.messages[-1]]
    assert talk.see() == []
    assert [e.user_text for e in talk.follower.read(talk.messages)] == ["b"]
    talk.see(bot("B"), user("c"))
    assert talk.texts() == [("a", "A"), ("b", "B"), ("c", "")]


def test_a_summary_in_front_of_copies_is_the_application_s_as_well() -> None:
    talk = Talk(SYSTEM)
    talk.see(user("a"))
    talk.messages[:] = [SYSTEM, user("Conversation summary: nothing yet."), dict(talk.messages[-1])]
    assert talk.see() == []
    talk.see(bot("A"), user("b"))
    assert talk.texts() == [("a", "A"), ("b", "")]


def test_parts_of_a_turn_that_were_made_one_message_afterwards_are_still_that_turn() -> None:
    talk = Talk()
    talk.see(user("a"))
    talk.see(bot("A"), user("I want"))
    talk.see(user("a room"))
    talk.messages[-2:] = [user("I want a room")]
    talk.see(bot("B"), user("c"))
    assert talk.texts() == [("a", "A"), ("I want a room", "B"), ("c", "")]


def test_the_same_words_behind_a_turn_that_was_rewritten_are_another_exchange() -> None:
    talk = Talk()
    talk.see(user("a"))
    talk.see(bot("A"), user("yes"))
    talk.messages[-1] = user("yes")
    talk.see(bot("B"))
    talk.see(user("yes"))
    assert talk.texts() == [("a", "A"), ("yes", "B"), ("yes", "")]
