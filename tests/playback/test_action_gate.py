import itertools

import pytest

from pipecat_voicectx.errors import InvalidTransitionError, UsageError
from pipecat_voicectx.playback.action_gate import (
    CallBook,
    CallEvent,
    CallState,
    GateVerdict,
    OnInterruption,
    ToolClass,
    ToolPolicy,
    call_key,
    judge,
)
from pipecat_voicectx.playback.boundary import PhysicalBoundary, SemanticBoundary
from pipecat_voicectx.playback.ledger import TurnState
from pipecat_voicectx.playback.proposal import Proposal
from pipecat_voicectx.playback.spans import Span, SpanRole


def span(text: str, end: int = 1000, role: SpanRole = SpanRole.STATEMENT) -> Span:
    return Span(text=text, role=role, start_samples=0, end_samples=end, finalized=True)


def physical(*, estimated: bool = False, complete: bool = False) -> PhysicalBoundary:
    return PhysicalBoundary(
        turn_id=1, played_samples=1, sample_rate_hz=1000, estimated=estimated, complete=complete
    )


PROPOSAL = Proposal(turn_id=1, span=span("Shall I book it?", 1000, SpanRole.CONFIRMATION_REQUEST))


def test_only_irreversible_tools_are_gated_unless_told_otherwise() -> None:
    assert not ToolPolicy().must_be_heard
    assert not ToolPolicy(tool_class=ToolClass.REVERSIBLE).must_be_heard
    assert ToolPolicy(tool_class=ToolClass.IRREVERSIBLE).must_be_heard
    assert ToolPolicy(consequential=True).must_be_heard
    assert not ToolPolicy(tool_class=ToolClass.IRREVERSIBLE, consequential=False).must_be_heard


def test_what_changes_something_finishes_once_begun_unless_told_otherwise() -> None:
    assert not ToolPolicy().finishes
    assert ToolPolicy(tool_class=ToolClass.REVERSIBLE).finishes
    assert ToolPolicy(on_interruption=OnInterruption.FINISH).finishes
    assert not ToolPolicy(tool_class=ToolClass.IRREVERSIBLE, on_interruption=OnInterruption.CANCEL).finishes


@pytest.mark.parametrize("secs", [0.0, 301.0])
def test_a_wait_out_of_range_is_refused(secs: float) -> None:
    with pytest.raises(UsageError):
        ToolPolicy(max_wait_secs=secs)


def test_a_proposal_that_was_played_whole_opens_the_gate_even_if_the_turn_was_cut_after_it() -> None:
    semantic = SemanticBoundary(turn_id=1, span=span("Shall I book it?", 1000))
    assert judge(PROPOSAL, TurnState.REVOKED, physical=physical(), semantic=semantic) is GateVerdict.OPEN


def test_a_proposal_that_was_cut_closes_it_and_one_being_played_waits() -> None:
    earlier = SemanticBoundary(turn_id=1, span=span("There is one.", 500))
    for semantic in (None, earlier):
        verdict = judge(PROPOSAL, TurnState.REVOKED, physical=physical(), semantic=semantic)
        assert verdict is GateVerdict.CLOSED
        for state in (TurnState.GENERATING, TurnState.SENT, TurnState.PLAYING):
            assert judge(PROPOSAL, state, physical=physical(), semantic=semantic) is GateVerdict.WAIT


def test_without_word_times_only_an_acknowledged_end_opens_it() -> None:
    whole = physical(complete=True)
    assert judge(PROPOSAL, TurnState.COMPLETE, physical=whole, semantic=None) is GateVerdict.OPEN
    estimated = physical(estimated=True, complete=True)
    assert judge(PROPOSAL, TurnState.COMPLETE, physical=estimated, semantic=None) is GateVerdict.CLOSED


def test_a_turn_that_is_over_but_may_yet_turn_out_to_have_been_cut_waits() -> None:
    assert judge(PROPOSAL, TurnState.COMPLETE, physical=physical(), semantic=None) is GateVerdict.WAIT


def test_calls_are_the_same_by_function_and_normalised_arguments() -> None:
    first = call_key(
        "book", {"train": "ICE 9", "seats": 2.0, "note": None, "who": ["Ann", {"b": 1, "a": 0.5}]}
    )
    second = call_key("book", {"who": ("ann", {"a": 0.5, "b": 1}), "seats": 2, "train": " ice  9 "})
    assert first == second
    assert first != call_key("book", {"train": "ICE 8", "seats": 2})
    assert first != call_key("cancel", {"train": "ICE 9"})


@pytest.mark.parametrize(("state", "event"), list(itertools.product(CallState, CallEvent)))
def test_each_call_reaches_exactly_one_terminal_state(state: CallState, event: CallEvent) -> None:
    legal = {
        (CallState.WAITING, CallEvent.STARTED): CallState.RUNNING,
        (CallState.WAITING, CallEvent.REFUSED): CallState.REFUSED,
        (CallState.WAITING, CallEvent.CANCELLED): CallState.CANCELLED,
        (CallState.RUNNING, CallEvent.RETURNED): CallState.DONE,
        (CallState.RUNNING, CallEvent.CANCELLED): CallState.CANCELLED,
        (CallState.RUNNING, CallEvent.RAISED): CallState.FAILED,
    }
    book = CallBook()
    book.open("1")
    book._calls["1"] = state
    if (state, event) in legal:
        assert book.apply("1", event) is legal[state, event]
        assert book.state("1") is legal[state, event]
    else:
        with pytest.raises(InvalidTransitionError):
            book.apply("1", event)
        assert book.state("1") is state


def test_an_unknown_call_cannot_move_and_a_known_one_keeps_its_state() -> None:
    book = CallBook()
    with pytest.raises(InvalidTransitionError, match="unknown"):
        book.apply("9", CallEvent.STARTED)
    book.open("1")
    book.apply("1", CallEvent.STARTED)
    book.open("1")
    assert book.state("1") is CallState.RUNNING


def test_results_are_kept_per_proposal_and_both_records_are_bounded() -> None:
    book = CallBook(max_results=2, max_calls=2)
    for number in range(3):
        book.open(str(number))
        book.remember("key", number, f"result {number}", now_secs=0.0)
    assert book.state("0") is None
    assert not book.has_result("key", 0, now_secs=0.0, repeat_secs=30.0)
    assert book.has_result("key", 2, now_secs=9000.0, repeat_secs=30.0)
    assert book.result("key", 2) == "result 2"


def test_a_call_without_a_proposal_is_the_same_again_only_for_a_while() -> None:
    book = CallBook()
    book.remember("key", 0, "result", now_secs=10.0)
    assert book.has_result("key", 0, now_secs=40.0, repeat_secs=30.0)
    assert not book.has_result("key", 0, now_secs=40.1, repeat_secs=30.0)
