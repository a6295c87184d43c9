from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

import numpy as np
import pytest
from pipecat.frames.frames import (
    Frame,
    InputAudioRawFrame,
    TranscriptionFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.services.settings import STTSettings
from pipecat.services.stt_service import STTService
from pipecat.tests.utils import SleepFrame, run_test

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.processors.network_tracker import NetworkTracker
from pipecat_voicectx.processors.speaking_rate_tracker import SpeakingRateTracker
from pipecat_voicectx.processors.stt_concealment import CONCEALED
from pipecat_voicectx.signals.audio_gaps import AudioGap
from pipecat_voicectx.signals.timed_words import TimedWord
from pipecat_voicectx.states.network import NetworkConfig
from pipecat_voicectx.states.speaking_rate import RateBasis
from pipecat_voicectx.testing import virtual_time

RATE = 16_000


class Recogniser(STTService):
    """Writes down what it hears, in order."""

    def __init__(self) -> None:
        super().__init__(settings=STTSettings(model=None, language=None))
        self.heard: list[bytes] = []

    async def run_stt(self, audio: bytes) -> AsyncGenerator[Frame | None, None]:
        self.heard.append(audio)
        yield None


def packet(number: int, *, rate_hz: int = RATE, cut: int = 0) -> InputAudioRawFrame:
    samples = np.random.default_rng(number).normal(0, 500, rate_hz // 50).astype("<i2")
    frame = InputAudioRawFrame(
        audio=samples.tobytes()[: 2 * len(samples) - cut], sample_rate=rate_hz, num_channels=1
    )
    frame.pts = number * 960
    return frame


def play(
    packets: Sequence[InputAudioRawFrame], *, secs: float = 0.06
) -> tuple[Recogniser, NetworkTracker, list[InputAudioRawFrame], list[AudioGap]]:
    async def main() -> tuple[Recogniser, NetworkTracker, list[InputAudioRawFrame], list[AudioGap]]:
        stt = Recogniser()
        tracker = NetworkTracker(stt=stt, config=NetworkConfig(conceal_for_stt_secs=secs))
        gaps: list[AudioGap] = []

        @tracker.event_handler("on_audio_gap")
        async def on_gap(_tracker: NetworkTracker, gap: AudioGap) -> None:
            gaps.append(gap)

        frames: list[Frame] = []
        for frame in packets:
            frames += [SleepFrame(sleep=0.02), frame]
        down, _ = await run_test(Pipeline([stt, tracker]), frames_to_send=frames)
        await asyncio.sleep(0)
        return stt, tracker, [frame for frame in down if isinstance(frame, InputAudioRawFrame)], gaps

    return virtual_time.run(main())


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_short_hole_is_filled_for_the_recogniser_alone_and_in_order(lost: int) -> None:
    sent = [packet(number) for number in [*range(20), *range(20 + lost, 40)]]
    stt, tracker, down, gaps = play(sent)
    assert [frame.audio for frame in down] == [frame.audio for frame in sent]
    assert not any(CONCEALED in frame.metadata for frame in down)
    assert [len(audio) for audio in stt.heard[19:22]] == [640, 640 * lost, 640]
    assert [*stt.heard[:20], *stt.heard[21:]] == [frame.audio for frame in sent]
    # It is a loss all the same for whoever decides about turns.
    assert [round(gap.missing_secs, 3) for gap in gaps] == [0.02 * lost]
    assert tracker.concealed_for_stt_secs == pytest.approx(0.02 * lost)


@pytest.mark.parametrize(("lost", "secs"), [(4, 0.06), (2, 0.03), (2, 0.0)])
def test_longer_holes_stay_and_so_does_everything_when_it_is_off(lost: int, secs: float) -> None:
    sent = [packet(number) for number in [*range(20), *range(20 + lost, 40)]]
    stt, tracker, _, gaps = play(sent, secs=secs)
    assert stt.heard == [frame.audio for frame in sent]
    assert tracker.concealed_for_stt_secs == 0.0
    assert len(gaps) == 1


def test_nothing_is_filled_across_a_change_of_the_sample_rate() -> None:
    sent = [*map(packet, range(20)), *(packet(number, rate_hz=8_000) for number in range(22, 40))]
    stt, _, down, _ = play(sent)
    assert stt.heard == [frame.audio for frame in sent] == [frame.audio for frame in down]


def test_after_a_change_of_the_sample_rate_holes_are_filled_in_the_new_one() -> None:
    later = (packet(number, rate_hz=8_000) for number in [*range(20, 30), *range(32, 40)])
    stt, _, _, _ = play([*map(packet, range(20)), *later])
    assert [len(audio) for audio in stt.heard[29:32]] == [320, 640, 320]


def test_frames_of_odd_length_do_no_harm() -> None:
    sent = [packet(number, cut=number % 2) for number in [*range(20), *range(21, 40)]]
    stt, tracker, down, _ = play(sent)
    assert len(down) == len(sent)
    assert all(len(audio) in (640, 639) for audio in stt.heard)
    assert len(stt.heard) == len(sent) + 1
    assert tracker.failures == 0


def test_presentation_times_that_go_back_fill_nothing() -> None:
    sent = [packet(number) for number in [*range(20), *range(5, 25)]]
    stt, _, _, _ = play(sent)
    assert stt.heard == [frame.audio for frame in sent]


@pytest.mark.parametrize("secs", [-0.01, 0.07, float("nan")])
def test_a_length_that_cannot_be_guessed_is_refused(secs: float) -> None:
    with pytest.raises(UsageError, match="conceal_for_stt_secs"):
        NetworkConfig(conceal_for_stt_secs=secs)


def test_a_filled_hole_is_on_the_recognisers_clock_already() -> None:
    async def main() -> list[tuple[float, bool]]:
        stt = Recogniser()
        network = NetworkTracker(stt=stt, config=NetworkConfig(conceal_for_stt_secs=0.06))
        rate = SpeakingRateTracker()
        rate.listen_to(network)
        words = [
            TimedWord(text="word", start_secs=number * 0.3, end_secs=(number + 1) * 0.3)
            for number in range(10)
        ]
        frames: list[Frame] = [VADUserStartedSpeakingFrame(start_secs=0.0)]
        for number in range(150):
            # Three holes of 60 ms.
            if number % 50 not in (20, 21, 22):
                frames += [SleepFrame(sleep=0.02), packet(number)]
        frames += [
            SleepFrame(sleep=0.1),
            VADUserStoppedSpeakingFrame(stop_secs=0.0),
            TranscriptionFrame(
                text=" ".join(word.text for word in words), user_id="", timestamp="", result=words
            ),
            SleepFrame(sleep=0.1),
        ]
        await run_test(Pipeline([stt, rate, network]), frames_to_send=frames)
        assert network.state.concealed_total_secs == pytest.approx(0.18)
        return [(rate.state.rate or 0.0, rate.state.basis is RateBasis.WORD_TIMES)]

    assert virtual_time.run(main()) == [(pytest.approx(200.0), True)]
