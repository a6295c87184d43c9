"""The ledger in a real pipeline, on virtual time. The audio itself says which words were heard."""

import asyncio
import time
from typing import Any

import pytest
from pipecat.frames.frames import (
    CancelFrame,
    Frame,
    FunctionCallInProgressFrame,
    InputTransportMessageFrame,
    LLMContextAssistantTurnFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMMessagesAppendFrame,
    LLMTextFrame,
    TTSSpeakFrame,
)
from pipecat.processors.frame_processor import FrameDirection
from pipecat.processors.frameworks.rtvi.frames import RTVIClientMessageFrame, RTVIServerMessageFrame

from pipecat_voicectx.playback.clock import PlayoutClockConfig
from pipecat_voicectx.playback.heard import CUT_OFF_NOTE, BoundaryEvidence
from pipecat_voicectx.playback.ledger import TurnState
from pipecat_voicectx.processors.frames import HeardTurnFrame, NetworkStateFrame
from pipecat_voicectx.processors.playback_ledger import PlaybackLedgerConfig
from pipecat_voicectx.runtimes.client_link import Announcements
from pipecat_voicectx.states.network import NetworkState
from pipecat_voicectx.testing import virtual_time
from pipecat_voicectx.testing.playback_harness import (
    Client,
    Outcome,
    Scene,
    Script,
    Shape,
    run_barge_in,
    run_scene,
)

SHORT = Script(sentences=("First is the Alder desk.", "Second is the Birch lamp."))


def barge_in(shape: Shape, at_secs: float, *, uplink_secs: float | None = None, **kwargs: Any) -> Outcome:
    config = None
    if uplink_secs is not None:
        config = PlaybackLedgerConfig(clock=PlayoutClockConfig(uplink_delay_secs=uplink_secs))
    return virtual_time.run(run_barge_in(shape, at_secs, config=config, **kwargs))


def scene(play: Any, shape: Shape = Shape.WORD, **kwargs: Any) -> Any:
    return virtual_time.run(run_scene(shape, play, **kwargs))


# What is heard is what is committed


@pytest.mark.parametrize("shape", list(Shape))
@pytest.mark.parametrize("at_secs", [0.45, 3.9])
def test_the_message_holds_what_was_heard_to_a_word(shape: Shape, at_secs: float) -> None:
    outcome = barge_in(shape, at_secs, uplink_secs=0.05)
    assert not outcome.dirty
    assert abs(outcome.error) <= 1 or outcome.fallbacks


@pytest.mark.parametrize("shape", [Shape.WORD, Shape.WORD_STALL, Shape.SENTENCE, Shape.SLOW_TTS])
@pytest.mark.parametrize(("delay_secs", "ack_secs"), [(0.0, 0.0), (0.15, 0.3), (0.25, 0.05), (0.4, 0.4)])
def test_neither_a_slow_client_nor_late_acknowledgements_cost_more_than_a_word(
    shape: Shape, delay_secs: float, ack_secs: float
) -> None:
    client = Client(delay_secs=delay_secs, ack_delay_secs=ack_secs)
    outcome = barge_in(shape, 3.3, client=client, uplink_secs=ack_secs)
    assert not outcome.dirty
    assert abs(outcome.error) <= 1


@pytest.mark.parametrize("shape", [Shape.WORD, Shape.WORD_STALL, Shape.SENTENCE, Shape.SLOW_TTS])
@pytest.mark.parametrize("delay_secs", [0.0, 0.4])
def test_without_acknowledgements_at_most_two_words_are_wrong_and_the_turn_says_it_is_an_estimate(
    shape: Shape, delay_secs: float
) -> None:
    outcome = barge_in(shape, 4.4, client=Client(delay_secs=delay_secs, ack_delay_secs=None))
    assert not outcome.dirty
    assert abs(outcome.error) <= 2
    assert outcome.turns[-1].estimated


def test_jittered_acknowledgements_of_unknown_delay_cost_at_most_two_words() -> None:
    client = Client(delay_secs=0.25, ack_delay_secs=0.3, ack_jitter_secs=0.1)
    outcome = barge_in(Shape.WORD, 5.2, client=client)
    assert abs(outcome.error) <= 2


def test_acknowledgements_that_stop_in_the_middle_of_a_turn_cost_at_most_a_word() -> None:
    client = Client(delay_secs=0.25, ack_delay_secs=0.05, stops_after_secs=2.0)
    outcome = barge_in(Shape.WORD, 7.0, client=client, uplink_secs=0.05)
    assert abs(outcome.error) <= 1
    assert outcome.turns[-1].estimated


def test_the_boundary_lies_at_the_onset_of_speech_however_late_it_is_detected() -> None:
    for detection_secs in (0.2, 1.1):
        outcome = barge_in(Shape.WORD, 5.0, detection_secs=detection_secs, uplink_secs=0.05)
        assert outcome.error == 0


def test_a_measured_round_trip_replaces_the_configured_uplink_delay() -> None:
    async def play(scene: Scene) -> Outcome:
        await scene.answer()
        await scene.top.push_frame(NetworkStateFrame(state=NetworkState(rtt_secs=0.8)))
        await asyncio.sleep(5.0)
        onset = await scene.interrupt()
        await asyncio.sleep(1.4)
        return scene.outcome(onset)

    outcome = scene(play, client=Client(delay_secs=0.25, ack_delay_secs=0.4))
    assert abs(outcome.error) <= 1


# The message and the record


def test_an_interrupted_message_carries_the_note_and_the_turn_its_unheard_rest() -> None:
    outcome = barge_in(Shape.WORD, 3.0)
    content = outcome.messages[-1]["content"]
    assert content.endswith(CUT_OFF_NOTE)
    turn = outcome.turns[-1]
    assert turn.interrupted
    assert content == f"{turn.heard_text} {CUT_OFF_NOTE}"
    assert f"{turn.heard_text} {turn.unheard_text}".split() == Script().words
    assert turn.evidence is BoundaryEvidence.WORD


def test_without_a_note_the_message_is_the_heard_text_alone() -> None:
    outcome = virtual_time.run(run_barge_in(Shape.WORD, 3.0, config=PlaybackLedgerConfig(cut_off_note="")))
    assert outcome.messages[-1]["content"] == outcome.turns[-1].heard_text


def test_the_unheard_rest_stays_available_and_out_of_the_conversation() -> None:
    async def play(scene: Scene) -> tuple[str, str]:
        assert scene.ledger is not None
        assert scene.ledger.last_unheard is None
        await scene.answer()
        await asyncio.sleep(3.0)
        await scene.interrupt()
        await asyncio.sleep(0.5)
        assert scene.ledger.last_unheard is not None
        return scene.ledger.last_unheard.unheard_text, str(scene.context.get_messages())

    unheard, conversation = scene(play)
    assert unheard.endswith("bed with storage.")
    assert "storage" not in conversation


@pytest.mark.parametrize("shape", [Shape.WORD, Shape.SENTENCE, Shape.TOKEN, Shape.SPEAK_FRAME])
def test_an_answer_that_is_heard_to_its_end_is_committed_whole_without_a_note(shape: Shape) -> None:
    outcome = barge_in(shape, SHORT.secs + 2.5, script=SHORT)
    assert outcome.text.split() == SHORT.words
    assert CUT_OFF_NOTE not in str(outcome.messages)
    assert outcome.turns
    assert all(not turn.interrupted and not turn.unheard_text for turn in outcome.turns)


@pytest.mark.parametrize("shape", [Shape.WORD, Shape.SENTENCE])
def test_an_interruption_in_the_tail_shortens_a_message_that_was_committed_whole(shape: Shape) -> None:
    client = Client(delay_secs=0.4)
    outcome = barge_in(shape, SHORT.secs - 0.15, script=SHORT, client=client, uplink_secs=0.05)
    assert outcome.heard < len(SHORT.words)
    assert abs(outcome.error) <= 1
    assert outcome.turns[-1].interrupted


@pytest.mark.parametrize("at_secs", [0.0, 0.01, 0.1])
def test_an_interruption_at_the_first_sample_hears_nothing(at_secs: float) -> None:
    outcome = barge_in(Shape.WORD, at_secs)
    assert outcome.heard == 0
    assert outcome.text == ""
    assert outcome.turns[-1].heard_text == ""


def test_the_aggregators_event_and_frame_carry_the_heard_text() -> None:
    async def play(scene: Scene) -> tuple[list[str], str]:
        stopped: list[str] = []

        async def on_stopped(_aggregator: Any, message: Any) -> None:
            stopped.append(message.content)

        scene.pair.assistant().add_event_handler("on_assistant_turn_stopped", on_stopped)
        await scene.answer()
        await asyncio.sleep(4.0)
        await scene.interrupt()
        await asyncio.sleep(0.5)
        return stopped, scene.turns[0].heard_text

    stopped, heard = scene(play)
    assert stopped == [heard]


# Sequences


def test_two_interruptions_shortly_after_one_another_are_one() -> None:
    async def play(scene: Scene) -> Outcome:
        await scene.answer()
        await asyncio.sleep(4.0)
        onset = await scene.interrupt()
        await asyncio.sleep(0.05)
        await scene.pair.user().broadcast_interruption()
        await asyncio.sleep(1.0)
        return scene.outcome(onset)

    outcome = scene(play, config=PlaybackLedgerConfig(clock=PlayoutClockConfig(uplink_delay_secs=0.05)))
    assert abs(outcome.error) <= 1
    assert len([message for message in outcome.messages if message["role"] == "assistant"]) == 1


def test_nothing_of_one_turn_leaks_into_the_next() -> None:
    async def play(scene: Scene) -> list[tuple[int, str]]:
        heard = []
        for at_secs in (3.1, 4.4):
            scene.output.words_sent.clear()
            scene.tts.rewind()
            await scene.answer()
            await asyncio.sleep(at_secs)
            onset = time.monotonic()
            await scene.pair.user().broadcast_interruption()
            await asyncio.sleep(0.8)
            scene.context.add_message({"role": "user", "content": "go on"})
            heard.append((scene.heard_words(onset), scene.turns[-1].heard_text))
        roles = [message["role"] for message in scene.context.get_messages()]
        assert roles == ["assistant", "user", "assistant", "user"]
        return heard

    for shape in (Shape.WORD, Shape.SENTENCE):
        for words, text in scene(play, shape):
            assert abs(words - len(text.split())) <= 1


def test_audio_that_comes_late_for_an_answer_that_was_stopped_is_not_played() -> None:
    async def play(scene: Scene) -> tuple[int, int]:
        async def goes_on(_context_id: str) -> None:
            """A provider that does not hear of the interruption."""

        scene.tts.on_audio_context_interrupted = goes_on  # type: ignore[method-assign]
        await scene.answer()
        await asyncio.sleep(2.0)
        await scene.interrupt()
        await asyncio.sleep(0.1)
        before = len(scene.output.words_sent)
        await asyncio.sleep(3.0)
        return before, len(scene.output.words_sent)

    before, after = scene(play, Shape.WS_AHEAD)
    assert before == after


def test_a_turn_interrupted_after_its_end_was_heard_stays_whole() -> None:
    async def play(scene: Scene) -> Outcome:
        await scene.answer()
        await asyncio.sleep(SHORT.secs + 1.0)
        onset = await scene.interrupt()
        await asyncio.sleep(1.0)
        return scene.outcome(onset)

    outcome = scene(play, script=SHORT)
    assert outcome.error == 0
    assert not outcome.turns[-1].interrupted


def tool_call() -> FunctionCallInProgressFrame:
    return FunctionCallInProgressFrame(
        function_name="look_up", tool_call_id="1", arguments={}, cancel_on_interruption=True
    )


@pytest.mark.parametrize("shape", [Shape.WORD, Shape.SENTENCE, Shape.MULTI_CONTEXT])
def test_text_before_a_tool_call_stands_before_it_in_the_history(shape: Shape) -> None:
    async def play(scene: Scene) -> list[Any]:
        await scene.tts.queue_frame(LLMFullResponseStartFrame())
        await scene.tts.queue_frame(LLMTextFrame("First is the Alder desk. "))
        await scene.tts.queue_frame(LLMTextFrame("Second is the Birch lamp."))
        await asyncio.sleep(0.1)
        await scene.tts.queue_frame(tool_call())
        await scene.tts.queue_frame(LLMFullResponseEndFrame())
        await asyncio.sleep(SHORT.secs + 2)
        return list(scene.context.get_messages())

    messages = scene(play, shape, script=SHORT)
    said = [message.get("content", "call") for message in messages if message["role"] == "assistant"]
    assert said[0].startswith("First is the Alder desk.")
    assert "call" in said[1:]
    assert " ".join(text for text in said if text != "call").split() == SHORT.words


def test_text_after_a_tool_call_is_not_lost() -> None:
    async def play(scene: Scene) -> list[Any]:
        await scene.tts.queue_frame(LLMFullResponseStartFrame())
        await scene.tts.queue_frame(LLMTextFrame("First is the Alder desk."))
        await scene.tts.queue_frame(tool_call())
        await scene.tts.queue_frame(LLMFullResponseEndFrame())
        await asyncio.sleep(SHORT.secs + 2)
        return list(scene.context.get_messages())

    messages = scene(play, script=SHORT)
    assert [message["role"] for message in messages] == ["assistant", "tool", "assistant"]
    assert messages[2]["content"] == "First is the Alder desk."


def test_speech_outside_the_conversation_is_not_committed() -> None:
    async def play(scene: Scene) -> tuple[str, str]:
        await scene.tts.queue_frame(TTSSpeakFrame("First is the Alder desk.", append_to_context=False))
        await asyncio.sleep(SHORT.secs)
        between = scene.assistant_text()
        scene.tts.rewind()
        await scene.answer()
        await asyncio.sleep(SHORT.secs + 2)
        return between, scene.assistant_text()

    between, after = scene(play, script=SHORT)
    assert between == ""
    assert after.split() == SHORT.words


def test_speech_the_user_cannot_stop_is_committed_whole() -> None:
    async def play(scene: Scene) -> str:
        frame = TTSSpeakFrame("First is the Alder desk.")
        frame.interruptible = False
        await scene.tts.queue_frame(frame)
        await scene.bot_started.wait()
        await asyncio.sleep(0.3)
        await scene.interrupt()
        await asyncio.sleep(3.0)
        return scene.assistant_text()

    assert scene(play, script=SHORT) == "First is the Alder desk."


def test_the_end_of_the_call_commits_what_was_heard() -> None:
    async def play(scene: Scene) -> Outcome:
        await scene.answer()
        await asyncio.sleep(4.0)
        onset = time.monotonic()
        await scene.top.push_frame(CancelFrame())
        await asyncio.sleep(0.5)
        return scene.outcome(onset)

    outcome = scene(play)
    assert abs(outcome.error) <= 1
    assert outcome.committed > 5


def test_turns_are_complete_and_bounded_after_many_answers() -> None:
    async def play(scene: Scene) -> list[TurnState]:
        for _ in range(10):
            scene.tts.rewind()
            await scene.answer()
            await asyncio.sleep(SHORT.secs + 1.5)
        assert scene.ledger is not None
        return [entry.state for entry in scene.ledger.turns]

    states = scene(play, script=SHORT)
    assert states == [TurnState.COMPLETE] * 8


# The client


def acknowledge(**fields: Any) -> dict[str, Any]:
    return {"v": 1, "t": "ack", "epoch": 0, "r": None, "samples": None, "turn": None, "live": True, **fields}


def test_a_client_is_told_of_turns_and_revocations_in_the_form_it_uses() -> None:
    outcome = barge_in(Shape.WORD, 3.0)
    kinds = [(message["t"], message["turn"]) for message in outcome.to_client]
    assert kinds == [("turn", 1), ("revoke", 1)] or kinds == [("revoke", 1)]
    revoke = outcome.to_client[-1]
    assert revoke["after_sample"] > 24_000
    assert (revoke["epoch"], revoke["reason"], revoke["after_r"]) == (0, "interruption", None)


def test_a_client_that_never_spoke_to_us_hears_nothing() -> None:
    outcome = barge_in(Shape.WORD, 3.0, client=Client(ack_delay_secs=None))
    assert outcome.to_client == []


def test_announcements_can_be_plain_rtvi_or_off_from_the_start() -> None:
    for form, count in ((Announcements.PLAIN, 2), (Announcements.OFF, 0), (Announcements.RTVI, 0)):
        config = PlaybackLedgerConfig(announcements=form)
        client = Client(ack_delay_secs=None)
        outcome = virtual_time.run(run_barge_in(Shape.WORD, 3.0, client=client, config=config))
        assert len(outcome.to_client) == count


def test_rtvi_clients_are_understood_and_answered_as_such() -> None:
    async def play(scene: Scene) -> list[Any]:
        sent: list[Any] = []

        async def on_push(_ledger: Any, frame: Any) -> None:
            if isinstance(frame, RTVIServerMessageFrame):
                sent.append(frame.data)

        assert scene.ledger is not None
        scene.ledger.add_event_handler("on_before_push_frame", on_push)
        await scene.answer()
        await asyncio.sleep(1.0)
        await scene.top.push_frame(
            RTVIClientMessageFrame(msg_id="1", type="voicectx", data=acknowledge(samples=20_000))
        )
        await asyncio.sleep(0.1)
        assert scene.ledger.client.taken == 1
        await scene.interrupt()
        await asyncio.sleep(0.3)
        return sent

    sent = scene(play, client=Client(ack_delay_secs=None))
    assert [(item["type"], item["data"]["t"]) for item in sent] == [("voicectx", "revoke")]


@pytest.mark.parametrize(
    "message",
    [
        acknowledge(samples=-5),
        acknowledge(samples="many"),
        acknowledge(samples=float("nan")),
        acknowledge(samples=10**12),
        acknowledge(samples=1, turn=99),
        acknowledge(samples=1, epoch=7),
        acknowledge(r=2**40),
        acknowledge(),
        {"v": 1, "t": "ack", "epoch": "x" * 5000},
    ],
)
def test_garbage_from_a_client_changes_nothing(message: dict[str, Any]) -> None:
    async def play(scene: Scene) -> Outcome:
        await scene.answer()
        await asyncio.sleep(2.0)
        for _ in range(100):
            await scene.top.push_frame(InputTransportMessageFrame(message=message))
        await asyncio.sleep(2.0)
        onset = await scene.interrupt()
        await asyncio.sleep(1.0)
        assert scene.ledger is not None
        assert scene.ledger.client.over_budget > 0
        assert scene.ledger.failures == 0
        return scene.outcome(onset)

    config = PlaybackLedgerConfig(clock=PlayoutClockConfig(uplink_delay_secs=0.05))
    outcome = scene(play, config=config)
    assert abs(outcome.error) <= 1


def test_samples_of_a_turn_are_as_good_as_a_track_position() -> None:
    async def play(scene: Scene) -> Outcome:
        await scene.answer()
        await asyncio.sleep(4.0)
        onset = await scene.interrupt()
        await scene.top.push_frame(
            InputTransportMessageFrame(message=acknowledge(samples=24_000 * 3, turn=1))
        )
        await asyncio.sleep(0.5)
        assert scene.ledger is not None
        boundary = scene.ledger.physical_boundary(1)
        assert boundary is not None
        assert boundary.played_samples == pytest.approx(24_000 * 3, abs=24_000 * 0.05)
        return scene.outcome(onset)

    outcome = scene(play, client=Client(ack_delay_secs=None))
    assert not outcome.turns[-1].estimated


def test_heard_turns_travel_both_ways() -> None:
    async def play(scene: Scene) -> set[FrameDirection]:
        seen: set[FrameDirection] = set()
        original = scene.ledger.push_frame  # type: ignore[union-attr]

        async def spy(frame: Any, direction: FrameDirection = FrameDirection.DOWNSTREAM) -> None:
            if isinstance(frame, HeardTurnFrame):
                seen.add(direction)
            await original(frame, direction)

        scene.ledger.push_frame = spy  # type: ignore[union-attr, method-assign]
        await scene.answer()
        await asyncio.sleep(2.0)
        await scene.interrupt()
        await asyncio.sleep(0.3)
        return seen

    assert scene(play) == {FrameDirection.UPSTREAM, FrameDirection.DOWNSTREAM}


def test_a_failure_inside_is_reported_and_stops_nothing() -> None:
    async def play(scene: Scene) -> Outcome:
        assert scene.ledger is not None

        def broken(*_args: Any, **_kwargs: Any) -> Any:
            raise RuntimeError("broken")

        await scene.answer()
        await asyncio.sleep(2.0)
        arrived: list[str] = []

        async def on_frame(_aggregator: object, frame: Frame) -> None:
            arrived.append(type(frame).__name__)

        scene.pair.assistant().add_event_handler("on_before_process_frame", on_frame)
        scene.ledger._carry_out = broken  # type: ignore[method-assign]
        onset = await scene.interrupt()
        await scene.top.push_frame(LLMContextAssistantTurnFrame(text="x", timestamp="t"))
        await asyncio.sleep(0.5)
        assert scene.ledger.failures >= 1
        assert {"InterruptionFrame", "LLMContextAssistantTurnFrame"} <= set(arrived)
        return scene.outcome(onset)

    assert scene(play).heard > 0


def test_an_answer_that_is_not_spoken_is_committed_as_it_is() -> None:
    async def play(scene: Scene) -> list[Any]:
        for frame in (
            LLMFullResponseStartFrame(),
            LLMTextFrame("First is the Alder desk. "),
            LLMTextFrame("Second is the Birch lamp."),
            LLMFullResponseEndFrame(),
        ):
            frame.skip_tts = True
            await scene.tts.queue_frame(frame)
        await asyncio.sleep(0.5)
        await scene.interrupt()
        await asyncio.sleep(0.5)
        return list(scene.context.get_messages())

    (message,) = scene(play, script=SHORT)
    assert message["content"].split() == SHORT.words


def test_a_failing_timer_is_reported_once_and_armed_again() -> None:
    async def play(scene: Scene) -> tuple[int, list[TurnState]]:
        ledger = scene.ledger
        assert ledger is not None
        original, calls = ledger._update, []

        async def broken(now_secs: float) -> None:
            calls.append(now_secs)
            if len(calls) == 1:
                raise RuntimeError("broken")
            await original(now_secs)

        ledger._update = broken  # type: ignore[method-assign]
        for _ in range(2):
            scene.tts.rewind()
            await scene.answer()
            await asyncio.sleep(SHORT.secs + 1.5)
        return ledger.failures, [entry.state for entry in ledger.turns]

    failures, states = scene(play, script=SHORT, client=Client(ack_delay_secs=None))
    assert failures == 1
    assert states == [TurnState.COMPLETE, TurnState.COMPLETE]


def test_runtimes_with_checkpoints_are_told_both_boundaries() -> None:
    async def play(scene: Scene) -> list[Any]:
        told: list[Any] = []

        async def on_boundary(_ledger: Any, physical: Any, semantic: Any) -> None:
            told.append((physical, semantic))

        assert scene.ledger is not None
        scene.ledger.add_event_handler("on_boundary", on_boundary)
        await scene.answer()
        await asyncio.sleep(3.4)
        await scene.interrupt()
        await asyncio.sleep(0.5)
        return told

    ((physical, semantic),) = scene(play)
    assert physical.played_samples == pytest.approx(3.2 * 24_000, abs=0.15 * 24_000)
    assert semantic.span.text == "First is the Alder desk with drawers."


def test_an_end_that_comes_before_its_audio_waits_so_that_events_carry_the_heard_text() -> None:
    script = Script(sentences=(*SHORT.sentences, "Third is the Cedar chair."))

    async def play(scene: Scene) -> tuple[list[str], str, int]:
        stopped: list[str] = []

        async def on_stopped(_aggregator: Any, message: Any) -> None:
            stopped.append(message.content)

        scene.pair.assistant().add_event_handler("on_assistant_turn_stopped", on_stopped)
        await scene.answer()
        # Word times say that it is over; the starved output is not.
        await asyncio.sleep(script.secs + 0.7)
        onset = await scene.interrupt()
        await asyncio.sleep(1.0)
        return stopped, scene.turns[0].heard_text, scene.heard_words(onset)

    stopped, heard, words = scene(play, Shape.WORD_STALL, script=script)
    assert words < len(script.words)
    assert abs(len(heard.split()) - words) <= 1
    assert stopped == [heard]


def test_a_waiting_end_is_released_before_anything_that_reads_the_conversation() -> None:
    async def play(scene: Scene) -> list[Any]:
        await scene.answer()
        await asyncio.sleep(SHORT.secs + 1.5)
        await scene.output.push_frame(LLMMessagesAppendFrame([{"role": "user", "content": "and?"}]))
        await asyncio.sleep(0.2)
        return list(scene.context.get_messages())

    messages = scene(play, Shape.WORD_STALL, script=SHORT)
    assert [message["role"] for message in messages] == ["assistant", "user"]
    assert messages[0]["content"].split() == SHORT.words
