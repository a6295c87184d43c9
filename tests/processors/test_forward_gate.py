"""The forward gate in a real pipeline: what the model hears, in which order."""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from pipecat.frames.frames import (
    CancelFrame,
    Frame,
    InputAudioRawFrame,
    InterruptionFrame,
    LLMRunFrame,
    UserStoppedSpeakingFrame,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor

from pipecat_voicectx.playback.forward_gate import ForwardGateConfig
from pipecat_voicectx.processors.forward_gate import ForwardGate
from pipecat_voicectx.processors.playback_ledger import PlaybackLedger
from pipecat_voicectx.runtimes.reinject import ReinjectionConfig
from pipecat_voicectx.testing import virtual_time
from pipecat_voicectx.testing.playback_harness import RATE_HZ, Client, Scene, Shape, run_scene, word_counts

USER = 77


class Model(FrameProcessor):
    """Stands where the audio-only model does and notes what it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[Frame] = []
        self.keeps_interruptions = False
        """Then the ledger behind it never learns of them, and nothing is settled."""

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        wanted = (InputAudioRawFrame, UserStoppedSpeakingFrame, InterruptionFrame)
        if direction is FrameDirection.DOWNSTREAM and isinstance(frame, wanted):
            self.heard.append(frame)
        if not (self.keeps_interruptions and isinstance(frame, InterruptionFrame)):
            await self.push_frame(frame, direction)

    @property
    def pcm(self) -> np.ndarray[Any, np.dtype[np.int16]]:
        data = b"".join(frame.audio for frame in self.heard if isinstance(frame, InputAudioRawFrame))
        return np.frombuffer(data, np.int16)


def user_audio(number: int, *, rate_hz: int = RATE_HZ) -> InputAudioRawFrame:
    pcm = np.full(rate_hz // 50, USER + number, np.int16)
    return InputAudioRawFrame(audio=pcm.tobytes(), sample_rate=rate_hz, num_channels=1)


class Call:
    def __init__(self, **gate: Any) -> None:
        self.model = Model()
        self._gate = gate
        self.gate: ForwardGate | None = None

    def ahead(self, ledger: PlaybackLedger) -> Sequence[FrameProcessor]:
        self.gate = ForwardGate(ledger=ledger, **self._gate)
        return [self.gate, self.model]

    def run(self, play: Any, **kwargs: Any) -> Any:
        return virtual_time.run(run_scene(Shape.WORD, play, before_llm=self.ahead, **kwargs))


async def interrupted(scene: Scene, at_secs: float, *, rate_hz: int = RATE_HZ) -> float:
    """The user speaks from a little before the interruption to a little after, 20 ms at a time."""
    await scene.answer()
    await asyncio.sleep(at_secs)
    await scene.top.push_frame(user_audio(0, rate_hz=rate_hz))
    await asyncio.sleep(0.01)
    onset = await scene.interrupt()
    await asyncio.sleep(0.005)
    for number in range(1, 10):
        await scene.top.push_frame(user_audio(number, rate_hz=rate_hz))
        await asyncio.sleep(0.02)
    await scene.top.push_frame(UserStoppedSpeakingFrame())
    await asyncio.sleep(1.0)
    return onset


def test_the_model_hears_what_the_user_heard_then_the_user() -> None:
    call = Call(reinjection=ReinjectionConfig(secs=5.0))

    async def play(scene: Scene) -> int:
        onset = await interrupted(scene, 6.0)
        return scene.heard_words(onset)

    heard = call.run(play)
    pcm = call.model.pcm
    spoken = word_counts(pcm[pcm > 1000])
    assert abs(max(spoken) + 1 - heard) <= 1
    assert 4.0 <= np.count_nonzero(pcm > 1000) / RATE_HZ <= 5.0
    firsts = [int(np.flatnonzero(pcm == USER + number)[0]) for number in range(10)]
    assert firsts == sorted(firsts)
    assert firsts[0] < np.flatnonzero(pcm > 1000)[0] < np.flatnonzero(pcm > 1000)[-1] < firsts[1]
    kinds = [type(frame) for frame in call.model.heard]
    assert kinds.index(InterruptionFrame) < len(kinds) - 200
    assert kinds[-1] is UserStoppedSpeakingFrame
    assert call.gate is not None
    assert (call.gate.injections, call.gate.expired) == (1, 0)


def test_the_delimiter_is_synthesized_once_and_comes_between() -> None:
    made = []

    async def delimiter() -> tuple[bytes, int]:
        made.append(1)
        return np.full(2400, 555, np.int16).tobytes(), RATE_HZ

    call = Call(reinjection=ReinjectionConfig(secs=2.5, delimiter=delimiter))

    async def play(scene: Scene) -> None:
        for _ in range(2):
            scene.tts.rewind()
            await interrupted(scene, 4.0)

    call.run(play)
    pcm = call.model.pcm
    assert made == [1]
    assert np.count_nonzero(pcm == 555) == 2 * 2400
    first_delimiter, first_bot = np.flatnonzero(pcm == 555)[0], np.flatnonzero(pcm > 1000)[0]
    assert first_bot < first_delimiter < np.flatnonzero(pcm == USER + 1)[0]


def test_audio_is_resampled_to_the_rate_of_the_input() -> None:
    call = Call()

    async def play(scene: Scene) -> None:
        await interrupted(scene, 6.0, rate_hz=16_000)

    call.run(play)
    rates = {frame.sample_rate for frame in call.model.heard if isinstance(frame, InputAudioRawFrame)}
    assert rates == {16_000}
    assert np.count_nonzero(call.model.pcm > 1000) / 16_000 == pytest.approx(4.5, abs=0.7)


async def speaking(scene: Scene, call: Call) -> None:
    """The bot is heard, and its ledger will not hear of an interruption."""
    await scene.answer()
    await asyncio.sleep(2.0)
    call.model.keeps_interruptions = True


def test_an_interruption_while_the_bot_is_silent_holds_nothing() -> None:
    call = Call(config=ForwardGateConfig(max_closed_secs=9.0))

    async def play(scene: Scene) -> list[int]:
        passed = []
        for answered in (False, True):
            if answered:
                await scene.answer()
                await asyncio.sleep(scene.script.secs + 2.0)
            await scene.pair.user().broadcast_interruption()
            await scene.top.push_frame(user_audio(1))
            await asyncio.sleep(0.01)
            passed.append(len(call.model.pcm))
        return passed

    assert call.run(play) == [RATE_HZ // 50, 2 * RATE_HZ // 50]
    assert call.gate is not None
    assert (call.gate.expired, call.gate.injections) == (0, 0)


def test_an_interruption_before_the_first_sound_opens_the_gate_once_that_is_known() -> None:
    call = Call(config=ForwardGateConfig(max_closed_secs=9.0))

    async def play(scene: Scene) -> None:
        await scene.worker.queue_frame(LLMRunFrame())
        await asyncio.sleep(0.02)
        await scene.pair.user().broadcast_interruption()
        await scene.top.push_frame(user_audio(1))
        await asyncio.sleep(0.1)

    call.run(play)
    assert len(call.model.pcm) == RATE_HZ // 50


def test_the_gate_reopens_by_its_deadline_when_nothing_is_settled() -> None:
    call = Call(config=ForwardGateConfig(max_closed_secs=0.3))

    async def play(scene: Scene) -> int:
        await speaking(scene, call)
        await scene.pair.user().broadcast_interruption()
        await scene.top.push_frame(user_audio(1))
        await asyncio.sleep(0.2)
        before = len(call.model.pcm)
        await asyncio.sleep(0.2)
        return before

    assert call.run(play) == 0
    assert len(call.model.pcm) == RATE_HZ // 50
    assert call.gate is not None
    assert call.gate.expired == 1


def test_a_gate_that_is_full_opens_early_and_drops_nothing() -> None:
    call = Call(config=ForwardGateConfig(max_closed_secs=9.0, max_held_secs=0.1))

    async def play(scene: Scene) -> None:
        await speaking(scene, call)
        await scene.pair.user().broadcast_interruption()
        for number in range(10):
            await scene.top.push_frame(user_audio(number))
        await asyncio.sleep(0.2)

    call.run(play)
    assert len(call.model.pcm) == 10 * RATE_HZ // 50


def test_a_failing_repair_still_reopens() -> None:
    async def broken() -> tuple[bytes, int]:
        raise RuntimeError("no voice")

    call = Call(reinjection=ReinjectionConfig(delimiter=broken))

    async def play(scene: Scene) -> None:
        await interrupted(scene, 4.0)

    call.run(play)
    assert call.gate is not None
    assert call.gate.failures == 1
    assert np.count_nonzero(call.model.pcm == USER + 9) == RATE_HZ // 50


def test_the_end_of_the_call_releases_what_is_held() -> None:
    call = Call(config=ForwardGateConfig(max_closed_secs=9.0))

    async def play(scene: Scene) -> None:
        await speaking(scene, call)
        await scene.pair.user().broadcast_interruption()
        await scene.top.push_frame(user_audio(1))
        await asyncio.sleep(0.1)
        await scene.top.push_frame(CancelFrame())
        await asyncio.sleep(0.1)

    call.run(play)
    assert len(call.model.pcm) == RATE_HZ // 50


def test_without_an_interruption_nothing_is_held_or_added() -> None:
    call = Call()

    async def play(scene: Scene) -> None:
        await scene.answer()
        for number in range(10):
            await scene.top.push_frame(user_audio(number))
        await asyncio.sleep(0.1)

    call.run(play, client=Client(ack_delay_secs=None))
    assert len(call.model.pcm) == 10 * RATE_HZ // 50
