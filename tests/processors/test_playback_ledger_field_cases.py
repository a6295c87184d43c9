"""Field cases of barge-in and context, each with what stock Pipecat does, so that a fix there is noticed."""

import asyncio
import time
from typing import Any

import pytest
from pipecat.frames.frames import (
    Frame,
    InputTransportMessageFrame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    ManuallySwitchServiceFrame,
    OutputAudioRawFrame,
    TextFrame,
)
from pipecat.pipeline.service_switcher import ServiceSwitcher, ServiceSwitcherStrategyManual
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor

from pipecat_voicectx.orchestrator.directives import SetResponseSpeed
from pipecat_voicectx.playback.clock import AckVerdict, PlayoutClockConfig
from pipecat_voicectx.processors.frames import DirectiveFrame
from pipecat_voicectx.processors.playback_ledger import PlaybackLedgerConfig
from pipecat_voicectx.testing import virtual_time
from pipecat_voicectx.testing.playback_harness import (
    Client,
    Outcome,
    Scene,
    Script,
    ScriptedTTS,
    Shape,
    run_barge_in,
    run_scene,
)

CONFIG = PlaybackLedgerConfig(clock=PlayoutClockConfig(uplink_delay_secs=0.05))
FOUR = Script(sentences=Script().sentences[:4])


def barge_in(shape: Shape, at_secs: float, **kwargs: Any) -> Outcome:
    return virtual_time.run(run_barge_in(shape, at_secs, config=CONFIG, **kwargs))


def test_f01_a_token_fed_reply_cut_in_its_first_sentence_keeps_only_what_was_played() -> None:
    ours = barge_in(Shape.TOKEN, 1.4, script=FOUR)
    assert abs(ours.error) <= 1
    assert ours.turns[-1].unheard_text.endswith("books.")
    assert "books" not in str(ours.messages)


def test_f01_stock_keeps_far_more() -> None:
    stock = barge_in(Shape.TOKEN, 3.0, script=FOUR, stock=True)
    assert stock.error >= 7


class _Loses(FrameProcessor):
    """Between ledger and aggregator: loses the frames that an interruption may lose."""

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        lost = isinstance(frame, LLMFullResponseStartFrame)
        if not (lost and direction is FrameDirection.DOWNSTREAM):
            await self.push_frame(frame, direction)


class _LosesText(_Loses):
    """Loses even what the ledger pushes."""

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        if isinstance(frame, TextFrame):
            await FrameProcessor.process_frame(self, frame, direction)
            return
        await super().process_frame(frame, direction)


def cut(scene_cut: type[FrameProcessor], shape: Shape, at_secs: float) -> Outcome:
    async def play(scene: Scene) -> Outcome:
        await scene.answer()
        await asyncio.sleep(at_secs)
        onset = await scene.interrupt()
        await asyncio.sleep(0.3)
        scene.context.add_message({"role": "user", "content": "go on"})
        await asyncio.sleep(1.0)
        return scene.outcome(onset)

    return virtual_time.run(run_scene(shape, play, config=CONFIG, before_aggregator=[scene_cut()]))


def test_f02_a_turn_is_settled_from_the_ledger_whichever_frames_survive() -> None:
    for loser in (_Loses, _LosesText):
        outcome = cut(loser, Shape.WORD, 2.0)
        assert abs(outcome.error) <= 1
        assert not outcome.dirty
        assert [message["role"] for message in outcome.messages] == ["assistant", "user"]


def test_f02_words_that_are_already_there_are_not_said_twice() -> None:
    outcome = cut(_Loses, Shape.SENTENCE, 2.0)
    assert outcome.text.count("First") == 1


def test_f02_stock_closes_the_turn_without_what_was_heard() -> None:
    outcome = barge_in(Shape.SENTENCE, 1.6, stock=True)
    assert outcome.heard >= 5
    assert outcome.committed == 0


@pytest.mark.parametrize("stall_secs", [0.06, 0.5])
@pytest.mark.parametrize("shape", [Shape.WORD, Shape.SENTENCE])
def test_a_loop_that_stalls_costs_at_most_a_word(shape: Shape, stall_secs: float) -> None:
    async def play(scene: Scene) -> Outcome:
        async def stall() -> None:
            while True:
                await asyncio.sleep(0.7)
                virtual_time.advance(stall_secs)

        await scene.answer()
        stalling = asyncio.create_task(stall())
        await asyncio.sleep(4.9)
        stalling.cancel()
        onset = await scene.interrupt()
        await asyncio.sleep(1.0)
        return scene.outcome(onset)

    outcome = virtual_time.run(run_scene(shape, play, config=CONFIG))
    assert not outcome.dirty
    assert abs(outcome.error) <= 1


def test_a_track_that_is_replaced_during_playback_keeps_what_was_heard() -> None:
    async def play(scene: Scene) -> Outcome:
        await scene.answer()
        await asyncio.sleep(3.0)
        assert scene.output.track is not None
        scene.output.reconnect()
        await asyncio.sleep(2.0)
        onset = await scene.interrupt()
        await asyncio.sleep(1.0)
        assert scene.ledger is not None
        assert scene.ledger.client.verdicts[AckVerdict.FOREIGN] > 0
        assert [message["epoch"] for message in scene.output.messages if message["t"] == "turn"] == [1]
        assert not scene.turns[-1].estimated
        return scene.outcome(onset)

    outcome = virtual_time.run(run_scene(Shape.WORD, play, config=CONFIG))
    assert not outcome.dirty
    assert abs(outcome.error) <= 2


@pytest.mark.parametrize("ack_delay_secs", [0.05, 0.3, None])
@pytest.mark.parametrize("gap_secs", [0.05, 0.2, 0.45])
def test_what_a_short_reconnect_swallowed_was_not_heard(
    gap_secs: float, ack_delay_secs: float | None
) -> None:
    """Cut off right after the connection is back, before any of the new track can have arrived."""

    async def play(scene: Scene) -> Outcome:
        await scene.answer()
        await asyncio.sleep(3.0)
        await scene.reconnect(after_secs=gap_secs)
        await asyncio.sleep(0.1)
        onset = await scene.interrupt()
        await asyncio.sleep(1.0)
        return scene.outcome(onset)

    client = Client(delay_secs=0.15, ack_delay_secs=ack_delay_secs)
    config = PlaybackLedgerConfig(clock=PlayoutClockConfig(uplink_delay_secs=ack_delay_secs or 0.02))
    outcome = virtual_time.run(run_scene(Shape.WORD, play, client=client, config=config))
    assert not outcome.dirty
    assert abs(outcome.error) <= 1


def test_a_change_of_speed_carries_the_learned_pace_over() -> None:
    async def play(scene: Scene) -> list[float | None]:
        assert scene.ledger is not None
        paces = []
        for wpm in (150, 300):
            directive = SetResponseSpeed(words_per_minute=wpm)
            await scene.top.push_frame(DirectiveFrame(directive=directive))
            await scene.answer() if wpm == 150 else None
            await asyncio.sleep(4.0 if wpm == 150 else 0.1)
            paces.append(scene.ledger._ledger.pace.secs_per_weight)
        return paces

    before, after = virtual_time.run(run_scene(Shape.SENTENCE, play))
    assert before is not None
    assert after == pytest.approx(before / 2)


@pytest.mark.parametrize("shape", [Shape.WORD, Shape.SENTENCE])
def test_a_synthesizer_that_dies_in_the_middle_was_heard_up_to_there(shape: Shape) -> None:
    async def play(scene: Scene) -> Outcome:
        scene.tts.fail_at_word = 18
        await scene.answer()
        await asyncio.sleep(9.0)
        return scene.outcome(time.monotonic())

    outcome = virtual_time.run(run_scene(shape, play, script=FOUR, config=CONFIG))
    assert outcome.heard == 18
    assert -3 <= outcome.error <= 0
    assert "books" not in outcome.text


class _DyingLLM(FrameProcessor):
    """Says the beginning of the script, half a sentence among it, and fails; with or without ending its answer."""

    def __init__(self, *, ends: bool) -> None:
        super().__init__()
        self._ends = ends

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if not isinstance(frame, LLMContextFrame):
            await self.push_frame(frame, direction)
            return
        await self.push_frame(LLMFullResponseStartFrame())
        for word in Script().words[:10]:
            await self.push_frame(LLMTextFrame(f"{word} "))
        await self.push_error("the scripted model has failed")
        if self._ends:
            await self.push_frame(LLMFullResponseEndFrame())


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("at_secs", [1.2, 6.0])
def test_a_model_that_dies_in_the_middle_of_an_answer_was_heard_as_far_as_it_was_spoken(
    ends: bool, at_secs: float
) -> None:
    async def play(scene: Scene) -> Outcome:
        await scene.answer()
        await asyncio.sleep(at_secs)
        onset = await scene.interrupt()
        await asyncio.sleep(1.0)
        return scene.outcome(onset)

    outcome = virtual_time.run(run_scene(Shape.WORD, play, config=CONFIG, llm=_DyingLLM(ends=ends)))
    assert not outcome.dirty
    assert abs(outcome.error) <= 1
    assert outcome.heard > 0
    assert len([message for message in outcome.messages if message["role"] == "assistant"]) == 1


def test_a_client_that_sends_thousands_of_messages_a_second_is_read_twenty_times() -> None:
    async def play(scene: Scene) -> tuple[Outcome, int, int]:
        await scene.answer()
        await asyncio.sleep(2.0)
        for number in range(3000):
            message = {"v": 1, "t": "ack", "epoch": 0, "samples": number * 7, "live": True}
            await scene.top.push_frame(InputTransportMessageFrame(message=message))
            await asyncio.sleep(1 / 3000)
        onset = await scene.interrupt()
        await asyncio.sleep(1.0)
        assert scene.ledger is not None
        client = scene.ledger.client
        return scene.outcome(onset), client.over_budget, sum(client.verdicts.values())

    outcome, unread, read = virtual_time.run(
        run_scene(Shape.WORD, play, config=CONFIG, client=Client(ack_delay_secs=None))
    )
    assert unread > 2900
    assert read < 60
    assert not outcome.dirty


def test_audio_for_another_destination_does_not_count() -> None:
    async def play(scene: Scene) -> Outcome:
        async def music() -> None:
            while True:
                frame = OutputAudioRawFrame(audio=bytes(1920), sample_rate=24_000, num_channels=1)
                frame.transport_destination = "music"
                await scene.output.push_frame(frame)
                await asyncio.sleep(0.04)

        playing = asyncio.create_task(music())
        await scene.answer()
        await asyncio.sleep(4.0)
        playing.cancel()
        onset = await scene.interrupt()
        await asyncio.sleep(1.0)
        return scene.outcome(onset)

    outcome = virtual_time.run(run_scene(Shape.WORD, play, config=CONFIG))
    assert abs(outcome.error) <= 1


def test_a_client_that_is_slow_to_connect_costs_only_its_estimate() -> None:
    outcome = barge_in(Shape.WORD, 4.0, client=Client(delay_secs=0.2, ack_delay_secs=None))
    assert outcome.turns[-1].estimated
    assert abs(outcome.error) <= 1


def switchable(tts: FrameProcessor) -> ServiceSwitcher[ServiceSwitcherStrategyManual]:
    spare = ScriptedTTS(Script(), Shape.WORD)
    return ServiceSwitcher([tts, spare], ServiceSwitcherStrategyManual)


@pytest.mark.parametrize("shape", [Shape.WORD, Shape.SENTENCE, Shape.TOKEN])
def test_a_voice_behind_a_service_switcher_is_followed_like_any_other(shape: Shape) -> None:
    async def play(scene: Scene) -> Outcome:
        await scene.answer()
        await asyncio.sleep(4.0)
        onset = await scene.interrupt()
        await asyncio.sleep(1.0)
        return scene.outcome(onset)

    outcome = virtual_time.run(run_scene(shape, play, config=CONFIG, around_tts=switchable))
    assert outcome.heard > 5
    assert not outcome.dirty
    assert abs(outcome.error) <= 1


def test_a_voice_behind_a_service_switcher_that_dies_was_heard_up_to_there() -> None:
    async def play(scene: Scene) -> Outcome:
        scene.tts.fail_at_word = 10
        await scene.answer()
        await asyncio.sleep(6.0)
        onset = await scene.interrupt()
        await asyncio.sleep(1.0)
        return scene.outcome(onset)

    outcome = virtual_time.run(run_scene(Shape.SENTENCE, play, config=CONFIG, around_tts=switchable))
    assert not outcome.dirty
    assert abs(outcome.error) <= 1


def test_another_voice_has_another_pace() -> None:
    async def play(scene: Scene) -> tuple[float | None, float | None]:
        assert scene.ledger is not None
        await scene.answer()
        await asyncio.sleep(5.0)
        pace = scene.ledger._ledger.pace
        before = pace.secs_per_weight
        (switcher,) = switchers
        await scene.worker.queue_frame(ManuallySwitchServiceFrame(service=switcher.services[1]))
        await asyncio.sleep(0.5)
        return before, pace.secs_per_weight

    switchers: list[ServiceSwitcher[ServiceSwitcherStrategyManual]] = []

    def around(tts: FrameProcessor) -> FrameProcessor:
        switchers.append(switchable(tts))
        return switchers[0]

    before, after = virtual_time.run(run_scene(Shape.SENTENCE, play, config=CONFIG, around_tts=around))
    assert before is not None
    assert after is None
