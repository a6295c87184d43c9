"""Coughs and backchannels, in a real pipeline on virtual time."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from pipecat.frames.frames import VADUserStartedSpeakingFrame, VADUserStoppedSpeakingFrame
from pipecat.processors.aggregators.llm_response_universal import LLMUserAggregatorParams
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.turns.user_turn_strategies import ExternalUserTurnStrategies

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.playback.heard import CUT_OFF_NOTE
from pipecat_voicectx.processors.false_interruption import FalseInterruptionConfig, FalseInterruptionRecovery
from pipecat_voicectx.processors.playback_ledger import PlaybackLedger
from pipecat_voicectx.testing import virtual_time
from pipecat_voicectx.testing.playback_harness import Scene, Script, Shape, run_scene

SCRIPT = Script(
    sentences=("First is the Alder desk.", "Second is the Birch lamp.", "Third is the Cedar chair.")
)


class Call:
    def __init__(self, config: FalseInterruptionConfig | None = None) -> None:
        self._config = config
        self.recovery: FalseInterruptionRecovery | None = None
        self.scene: Scene | None = None

    def after(self, ledger: PlaybackLedger, context: Any) -> Sequence[FrameProcessor]:
        self.recovery = FalseInterruptionRecovery(ledger, context=context, config=self._config)
        return []

    def run(self, play: Any, shape: Shape = Shape.WORD) -> Any:
        # Pipecat's own recovery would answer such a turn too.
        params = LLMUserAggregatorParams(
            user_turn_strategies=ExternalUserTurnStrategies(), empty_user_turn=None
        )
        return virtual_time.run(
            run_scene(shape, play, script=SCRIPT, after_ledger=self.after, user_params=params)
        )


async def cough(scene: Scene) -> None:
    await scene.interrupt()
    await scene.top.push_frame(VADUserStartedSpeakingFrame(start_secs=0.0))
    await asyncio.sleep(0.2)
    await scene.top.push_frame(VADUserStoppedSpeakingFrame(stop_secs=0.2))
    # The scripted voice reads on where the text says.
    scene.tts.read_from(scene.turns[-1].unheard_text)


@pytest.mark.parametrize("shape", [Shape.WORD, Shape.SENTENCE])
def test_after_a_cough_the_rest_is_spoken_and_nothing_says_it_was_cut(shape: Shape) -> None:
    call = Call()

    async def play(scene: Scene) -> str:
        await scene.answer()
        await asyncio.sleep(2.6)
        await cough(scene)
        await asyncio.sleep(6.0)
        return str([message["content"] for message in scene.context.get_messages()])  # type: ignore[index]

    messages = call.run(play, shape)
    assert CUT_OFF_NOTE not in messages
    assert "".join(messages).count("Cedar") == 1
    assert call.recovery is not None
    assert call.recovery.resumed == 1


def test_words_of_the_user_make_it_an_interruption() -> None:
    call = Call()

    async def play(scene: Scene) -> str:
        await scene.answer()
        await asyncio.sleep(2.6)
        await cough(scene)
        scene.context.add_message({"role": "user", "content": "wait"})
        await asyncio.sleep(6.0)
        return str(scene.context.get_messages())

    messages = call.run(play)
    assert CUT_OFF_NOTE in messages
    assert call.recovery is not None
    assert call.recovery.resumed == 0


def test_a_user_who_goes_on_speaking_is_waited_for() -> None:
    call = Call()

    async def play(scene: Scene) -> int:
        await scene.answer()
        await asyncio.sleep(2.6)
        await cough(scene)
        await asyncio.sleep(0.5)
        await scene.top.push_frame(VADUserStartedSpeakingFrame(start_secs=0.0))
        await asyncio.sleep(3.0)
        assert call.recovery is not None
        return call.recovery.resumed

    assert call.run(play) == 0


def test_without_any_report_of_silence_the_answer_goes_on_after_a_while() -> None:
    call = Call(FalseInterruptionConfig(silent_secs=1.5))

    async def play(scene: Scene) -> list[int]:
        await scene.answer()
        await asyncio.sleep(2.6)
        await scene.interrupt()
        counts = []
        for _ in range(2):
            await asyncio.sleep(1.0)
            assert call.recovery is not None
            counts.append(call.recovery.resumed)
        return counts

    assert call.run(play) == [0, 1]


def test_a_backchannel_moves_and_cancels_nothing() -> None:
    call = Call()

    async def play(scene: Scene) -> str:
        await scene.answer()
        await asyncio.sleep(2.0)
        await scene.top.push_frame(VADUserStartedSpeakingFrame(start_secs=0.2))
        await asyncio.sleep(0.3)
        await scene.top.push_frame(VADUserStoppedSpeakingFrame(stop_secs=0.2))
        await asyncio.sleep(SCRIPT.secs)
        assert [turn.interrupted for turn in scene.turns] == [False]
        return scene.assistant_text()

    assert call.run(play).split() == SCRIPT.words
    assert call.recovery is not None
    assert call.recovery.resumed == 0


def test_a_new_answer_ends_the_wait() -> None:
    call = Call()

    async def play(scene: Scene) -> int:
        await scene.answer()
        await asyncio.sleep(2.6)
        await cough(scene)
        scene.tts.rewind()
        await scene.answer()
        await asyncio.sleep(3.0)
        assert call.recovery is not None
        return call.recovery.resumed

    assert call.run(play) == 0


@pytest.mark.parametrize("settings", [{"wordless_secs": 0.0}, {"silent_secs": 31.0}])
def test_times_out_of_range_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        FalseInterruptionConfig(**settings)
