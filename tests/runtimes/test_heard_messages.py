from pipecat.processors.aggregators.llm_context import LLMContext

from pipecat_voicectx.runtimes.heard_messages import HeardMessages

NOTE = "[cut]"


def keeper(*messages: dict[str, str]) -> tuple[LLMContext, HeardMessages]:
    context = LLMContext(list(messages))  # type: ignore[arg-type]
    return context, HeardMessages(context, note=NOTE)


def said(context: LLMContext) -> list[tuple[str, str]]:
    return [(message["role"], str(message["content"])) for message in context.messages]  # type: ignore[index, typeddict-item]


def test_a_message_the_aggregator_made_gets_the_note_and_is_amended_in_place() -> None:
    context, messages = keeper({"role": "user", "content": "hi"})
    messages.committed(1, "one two", interrupted=True, now_secs=0.0)
    assert messages.pending
    context.add_message({"role": "assistant", "content": "one two"})
    made = context.messages[-1]
    messages.sync(0.1)
    assert not messages.pending
    assert said(context)[-1] == ("assistant", "one two [cut]")
    messages.amend(1, "one", interrupted=True, now_secs=0.2)
    assert said(context)[-1] == ("assistant", "one [cut]")
    assert context.messages[-1] is made


def test_an_earlier_message_with_the_same_words_is_not_taken_for_it() -> None:
    context, messages = keeper({"role": "assistant", "content": "yes"}, {"role": "user", "content": "sure?"})
    messages.committed(1, "yes", interrupted=True, now_secs=0.0)
    messages.sync(0.1)
    context.add_message({"role": "assistant", "content": "yes"})
    messages.sync(0.2)
    assert said(context) == [("assistant", "yes"), ("user", "sure?"), ("assistant", "yes [cut]")]


def test_two_commits_of_the_same_words_find_two_messages() -> None:
    context, messages = keeper()
    for number in (1, 2):
        messages.committed(number, "yes", interrupted=False, now_secs=0.0)
    for _ in range(2):
        context.add_message({"role": "assistant", "content": "yes"})
    messages.sync(0.1)
    messages.amend(1, "", interrupted=True, now_secs=0.2)
    assert said(context) == [("assistant", "yes")]
    messages.amend(2, "", interrupted=True, now_secs=0.2)
    assert said(context) == []


def test_a_message_nobody_made_is_put_in_at_its_place_after_a_grace() -> None:
    context, messages = keeper({"role": "user", "content": "hi"})
    messages.committed(1, "one two", interrupted=True, now_secs=0.0)
    context.add_message({"role": "user", "content": "wait"})
    messages.sync(0.4)
    assert len(context.messages) == 2
    messages.sync(0.6)
    assert said(context) == [("user", "hi"), ("assistant", "one two [cut]"), ("user", "wait")]
    messages.sync(0.7)
    assert messages.inserted == 1
    assert len(context.messages) == 3


def test_words_that_are_already_there_are_not_put_in_again() -> None:
    context, messages = keeper()
    messages.committed(1, "one", interrupted=False, now_secs=0.0)
    context.add_message({"role": "assistant", "content": "one"})
    messages.sync(9.0)
    assert said(context) == [("assistant", "one")]
    assert messages.inserted == 0


def test_a_message_that_becomes_empty_goes_and_may_come_back() -> None:
    context, messages = keeper({"role": "user", "content": "hi"})
    messages.committed(1, "one", interrupted=True, now_secs=0.0)
    context.add_message({"role": "assistant", "content": "one"})
    messages.amend(1, "", interrupted=True, now_secs=0.1)
    assert said(context) == [("user", "hi")]
    messages.amend(1, "one two", interrupted=True, now_secs=0.2)
    messages.sync(0.8)
    assert said(context) == [("user", "hi"), ("assistant", "one two [cut]")]


def test_a_boundary_that_moves_before_the_message_was_made_is_applied_once_it_is() -> None:
    context, messages = keeper()
    messages.committed(1, "one two", interrupted=True, now_secs=0.0)
    messages.amend(1, "one", interrupted=True, now_secs=0.01)
    context.add_message({"role": "assistant", "content": "one two"})
    messages.sync(0.1)
    assert said(context) == [("assistant", "one [cut]")]


def test_words_heard_although_nothing_was_committed_are_put_in() -> None:
    context, messages = keeper({"role": "user", "content": "hi"})
    messages.amend(7, "one", interrupted=True, now_secs=3.0)
    assert said(context) == [("user", "hi"), ("assistant", "one [cut]")]
    messages.amend(8, "", interrupted=True, now_secs=3.0)
    assert len(context.messages) == 2


def test_a_completion_marker_in_front_stays() -> None:
    context, messages = keeper()
    messages.committed(1, "one two", interrupted=True, now_secs=0.0)
    context.add_message({"role": "assistant", "content": "● one two"})
    messages.amend(1, "one", interrupted=True, now_secs=0.1)
    assert said(context) == [("assistant", "● one [cut]")]


def test_a_message_somebody_else_took_out_is_left_out() -> None:
    context, messages = keeper()
    messages.committed(1, "one two", interrupted=False, now_secs=0.0)
    context.add_message({"role": "assistant", "content": "one two"})
    messages.sync(0.1)
    context.set_messages([{"role": "developer", "content": "summary"}])
    messages.amend(1, "one", interrupted=True, now_secs=0.2)
    messages.sync(5.0)
    assert said(context) == [("developer", "summary")]


def test_only_the_last_messages_are_remembered() -> None:
    _, messages = keeper()
    for number in range(20):
        messages.committed(number, f"text {number}", interrupted=False, now_secs=0.0)
    assert len(messages._held) == 8


def test_messages_that_are_not_plain_text_are_never_touched() -> None:
    parts = {"role": "assistant", "content": [{"type": "text", "text": "one"}]}
    context, messages = keeper()
    messages.committed(1, "one", interrupted=False, now_secs=0.0)
    context.add_message(parts)  # type: ignore[arg-type]
    messages.sync(0.1)
    assert messages.pending
