from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipecat_voicectx.projection.window import edit_window, message_text, read_exchanges

SYSTEM = {"role": "system", "content": "Be kind."}
BLOCK = {"role": "developer", "content": "<recalled_context>\nx\n</recalled_context>"}
STATE = {"role": "developer", "content": "<voice_state>fast</voice_state>"}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def bot(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def call(call_id: str, name: str = "book") -> dict[str, Any]:
    return {
        "role": "assistant",
        "tool_calls": [{"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}],
    }


def result(call_id: str, content: str = '"ok"') -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def late(call_id: str, status: str = "finished") -> dict[str, Any]:
    body = {"type": "async_tool", "status": status, "tool_call_id": call_id, "result": '"ok"'}
    return {"role": "developer", "content": json.dumps(body)}


def started(call_id: str) -> dict[str, Any]:
    body = {"type": "async_tool", "status": "running", "tool_call_id": call_id}
    return {"role": "tool", "tool_call_id": call_id, "content": json.dumps(body)}


def edited(messages: list[Any], *, keep: int = 0, block: Any = None) -> list[Any]:
    return list(edit_window(messages, block=block, may_leave=lambda e: True, keep_last=keep).messages)


def test_exchanges_start_at_user_messages_and_user_messages_in_a_row_are_one() -> None:
    one, two = read_exchanges([SYSTEM, bot("hi"), user("a"), user("b"), bot("c"), user("d")])
    assert (one.user_text, one.bot_text) == ("a b", "c")
    assert (two.user_text, two.bot_text) == ("d", "")


def test_committed_exchanges_leave_and_the_last_ones_stay_word_for_word() -> None:
    messages = [SYSTEM, user("a"), bot("A"), user("b"), bot("B"), user("c")]
    assert edited(messages) == [SYSTEM, user("c")]
    assert edited(messages, keep=1) == [SYSTEM, user("b"), bot("B"), user("c")]
    assert edited(messages, keep=9) == messages


def test_acknowledgements_leave_before_what_says_something_unless_they_answer_a_question() -> None:
    told = [user("My dog is old."), bot("Noted.")]
    nothing = [user("Okay, great."), bot("Fine.")]
    last = [user("And the room?"), bot("Two beds.")]
    assert edited([*told, *nothing, *last, user("c")], keep=2) == [*told, *last, user("c")]
    asked = [user("A seat."), bot("By the window?")]
    answer = [user("Yes, please."), bot("Booked.")]
    assert edited([*asked, *answer, *last, user("c")], keep=2) == [*answer, *last, user("c")]
    assert edited([*told, *nothing, user("c")], keep=1) == [*nothing, user("c")]


@pytest.mark.parametrize(
    "said", ["Um, uh...", "Mm-hmm.", "Oh, hello!", "Uh, okay, I see, got it, um, thanks, right, um."]
)
def test_fillers_and_greetings_leave_like_acknowledgements(said: str) -> None:
    told, last = [user("My dog is old."), bot("Noted.")], [user("And the room?"), bot("Two beds.")]
    nothing = [user(said), bot("Take your time.")]
    assert edited([*told, *nothing, *last, user("c")], keep=2) == [*told, *last, user("c")]


def test_a_hesitation_around_something_that_is_said_does_not_leave_first() -> None:
    told, last = [user("My dog is old."), bot("Noted.")], [user("And the room?"), bot("Two beds.")]
    said = [user("Um, you know, the blue one."), bot("The blue one.")]
    assert edited([*told, *said, *last, user("c")], keep=2) == [*said, *last, user("c")]


def test_the_last_exchanges_stay_only_as_far_as_their_tokens_go() -> None:
    messages = [user("a"), bot("A"), user("b"), bot("word " * 500), user("c")]
    edit = edit_window(messages, block=None, may_leave=lambda e: True, keep_last=2, keep_tokens=100)
    assert list(edit.messages) == [user("c")]
    messages = [user("b"), bot("word " * 500), user("a"), bot("A"), user("c")]
    edit = edit_window(messages, block=None, may_leave=lambda e: True, keep_last=2, keep_tokens=100)
    assert list(edit.messages) == messages[2:]


def test_the_newest_exchange_may_be_three_times_as_big_since_the_next_turn_is_about_it() -> None:
    listed = [user("Which ones?"), bot("word " * 150)]
    messages = [user("a"), bot("A"), *listed, user("Tell me more about this one.")]
    edit = edit_window(messages, block=None, may_leave=lambda e: True, keep_last=2, keep_tokens=100)
    assert list(edit.messages) == messages[2:]
    later = [*messages, bot("More."), user("And the weather?")]
    edit = edit_window(later, block=None, may_leave=lambda e: True, keep_last=2, keep_tokens=100)
    assert list(edit.messages) == later[4:]


def test_the_block_enters_in_front_of_the_open_exchange_and_replaces_the_old_one() -> None:
    messages = [SYSTEM, dict(BLOCK), user("a"), bot("A"), user("b"), call("1"), result("1")]
    assert edited(messages, block=BLOCK) == [SYSTEM, BLOCK, user("b"), call("1"), result("1")]
    assert edited([SYSTEM], block=BLOCK) == [SYSTEM, BLOCK]
    assert edited([SYSTEM, BLOCK, user("a")]) == [SYSTEM, user("a")]


def test_a_block_known_by_identity_goes_even_if_somebody_changed_it() -> None:
    old = {"role": "developer", "content": "rewritten"}
    edit = edit_window(
        [old, user("a")], block=None, may_leave=lambda e: True, keep_last=0, ours=lambda m: m is old
    )
    assert list(edit.messages) == [user("a")]


def test_system_and_developer_messages_and_the_state_block_stay_where_they_are() -> None:
    hint = {"role": "developer", "content": "The shop is closed."}
    assert edited([SYSTEM, user("a"), hint, bot("A"), STATE, user("b")]) == [SYSTEM, hint, STATE, user("b")]


def test_an_exchange_that_is_not_in_the_store_stays() -> None:
    messages = [user("a"), bot("A"), user("b")]
    edit = edit_window(messages, block=None, may_leave=lambda e: False, keep_last=0)
    assert list(edit.messages) == messages


def test_an_unanswered_tool_call_keeps_its_exchange() -> None:
    open_call = [user("a"), call("1", "look_up"), result("1", "IN_PROGRESS")]
    assert edited([*open_call, user("b")]) == [*open_call, user("b")]
    assert read_exchanges(open_call)[0].open_calls == ("look_up",)
    assert edited([user("a"), call("1"), started("1"), user("b")])[0] == user("a")
    assert edited([user("a"), call("1"), user("b")])[0] == user("a")


def test_a_result_that_came_later_leaves_only_together_with_its_call() -> None:
    first, second = [user("a"), call("1"), started("1")], [user("b"), late("1"), bot("B")]
    messages = [*first, *second, user("c")]
    assert edited(messages, keep=1) == messages
    exchanges = read_exchanges(messages)
    assert exchanges[1].call_ids == {"1"}


def test_what_is_not_understood_stays_with_its_exchange() -> None:
    foreign = object()
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
    for odd in (foreign, picture, {"role": "critic", "content": "x"}, {"role": "assistant", "content": 7}):
        messages = [user("a"), odd, bot("A"), user("b"), bot("B"), user("c")]
        assert edited(messages) == [*messages[:3], user("c")] if odd is not picture else True
        assert odd in edited(messages)


def test_text_is_read_from_strings_and_parts_and_nothing_else() -> None:
    assert (
        message_text(
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "a"},
                    {"type": "image_url"},
                    {"type": "text", "text": "b"},
                ],
            }
        )
        == "a b"
    )
    assert message_text(object()) == message_text({"role": "user", "content": None}) == ""


MESSAGES = st.lists(
    st.one_of(
        st.builds(user, st.sampled_from("abc")),
        st.builds(bot, st.sampled_from("ABC")),
        st.builds(call, st.sampled_from("1234")),
        st.builds(result, st.sampled_from("1234"), st.sampled_from(['"ok"', "IN_PROGRESS"])),
        st.builds(late, st.sampled_from("1234")),
        st.builds(started, st.sampled_from("1234")),
        st.just(SYSTEM),
        st.just(STATE),
        st.just(BLOCK),
        st.builds(object),
    ),
    max_size=25,
)


@given(MESSAGES, st.integers(0, 3), st.booleans())
def test_the_edit_is_idempotent_keeps_order_and_never_splits_a_tool_pair(
    messages: list[Any], keep: int, with_block: bool
) -> None:
    block = BLOCK if with_block else None
    once = edited(messages, keep=keep, block=block)
    assert edited(once, keep=keep, block=block) == once
    rest = iter(messages)
    assert all(any(m is other for other in rest) for m in once if m != BLOCK)
    for call_id in "1234":
        before = [m for m in messages if call_id in _ids(m)]
        after = [m for m in once if call_id in _ids(m)]
        assert len(after) in (0, len(before))
    for kept in (m for m in messages if m in (SYSTEM, STATE)):
        assert any(m is kept for m in once)


def _ids(message: Any) -> list[str]:
    if not isinstance(message, dict):
        return []
    if message.get("tool_calls"):
        return [c["id"] for c in message["tool_calls"]]
    if message["role"] == "tool":
        return [message["tool_call_id"]]
    if message["content"].startswith('{"type": "async_tool"'):
        return [json.loads(message["content"])["tool_call_id"]]
    return []


DEFER = {
    "role": "assistant",
    "tool_calls": [{"id": "d1", "type": "function", "function": {"name": "defer_response"}}],
}


def test_a_caller_who_goes_on_after_a_deferral_goes_on_with_the_same_turn() -> None:
    messages = [
        {"role": "user", "content": "My number is"},
        DEFER,
        {"role": "tool", "tool_call_id": "d1", "content": "waiting"},
        {"role": "user", "content": "four two."},
        {"role": "assistant", "content": "Thanks."},
    ]
    assert [e.user_text for e in read_exchanges(messages)] == ["My number is", "four two."]
    (exchange,) = read_exchanges(messages, steering={"defer_response"})
    assert (exchange.user_text, exchange.bot_text) == ("My number is four two.", "Thanks.")
    assert exchange.called == ()
    assert exchange.positions == (0, 1, 2, 3, 4)


def test_a_steering_call_that_comes_with_words_is_an_answer() -> None:
    spoken = {**DEFER, "content": "One moment."}
    messages = [{"role": "user", "content": "a"}, spoken, {"role": "user", "content": "b"}]
    assert len(read_exchanges(messages, steering={"defer_response"})) == 2


def test_our_block_with_recordings_in_it_is_no_turn_of_the_caller() -> None:
    block = {"role": "user", "content": [{"type": "text", "text": "<recalled_context>\n- a"}]}
    messages = [block, {"role": "user", "content": "hello"}]
    assert [e.user_text for e in read_exchanges(messages)] == ["hello"]
    edit = edit_window(messages, block=None, may_leave=lambda e: True, keep_last=2)
    assert edit.messages == ({"role": "user", "content": "hello"},)
