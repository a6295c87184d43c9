from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pipecat.frames.frames import (
    Frame,
    InterimTranscriptionFrame,
    TranscriptionFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.tests.utils import SleepFrame, run_test

from pipecat_voicectx.processors.frames import SpeakingRateFrame
from pipecat_voicectx.processors.speaking_rate_tracker import SpeakingRateTracker
from pipecat_voicectx.states.speaking_rate import SpeakingRateState
from pipecat_voicectx.testing import virtual_time


def final(text: str, result: Any = None, user: str = "u") -> TranscriptionFrame:
    return TranscriptionFrame(text=text, user_id=user, timestamp="t", result=result)


def play(frames: list[Frame]) -> tuple[list[Frame], list[SpeakingRateState], SpeakingRateTracker]:
    async def main() -> tuple[list[Frame], list[SpeakingRateState], SpeakingRateTracker]:
        tracker = SpeakingRateTracker()
        states: list[SpeakingRateState] = []

        @tracker.event_handler("on_speaking_rate")
        async def on_speaking_rate(_tracker: SpeakingRateTracker, state: SpeakingRateState) -> None:
            states.append(state)

        down, _up = await run_test(tracker, frames_to_send=frames)
        await asyncio.sleep(0)
        return list(down), states, tracker

    return virtual_time.run(main())


def test_rate_is_words_over_speech_without_the_endpointing_silence() -> None:
    down, states, _ = play(
        [
            VADUserStartedSpeakingFrame(start_secs=0.2),
            SleepFrame(sleep=2.0),
            VADUserStoppedSpeakingFrame(stop_secs=0.2),
            final("one two three four five"),
            SleepFrame(sleep=0.1),
        ]
    )
    # Two seconds between the detector's decisions, both late by 0.2 s.
    assert [state.rate for state in states] == [pytest.approx(150.0, rel=0.02)]
    assert [frame.state for frame in down if isinstance(frame, SpeakingRateFrame)] == states


def test_interim_transcripts_are_passed_on_and_never_counted() -> None:
    down, states, _ = play(
        [
            VADUserStartedSpeakingFrame(start_secs=0.2),
            InterimTranscriptionFrame(text="one two three four", user_id="u", timestamp="t"),
            SleepFrame(sleep=2.0),
            VADUserStoppedSpeakingFrame(stop_secs=0.2),
            SleepFrame(sleep=0.1),
        ]
    )
    assert states == []
    assert any(isinstance(frame, InterimTranscriptionFrame) for frame in down)


def test_word_times_of_the_result_are_used() -> None:
    words = [{"word": "w", "start": i * 0.3, "end": i * 0.3 + 0.3} for i in range(10)]
    _, states, tracker = play([final(" ".join(["w"] * 10), result=words), SleepFrame(sleep=0.1)])
    assert [state.rate for state in states] == [pytest.approx(200.0)]
    assert tracker.state == states[0]


def test_a_result_that_raises_is_forwarded_and_counted() -> None:
    class Hostile:
        @property
        def __class__(self) -> Any:
            raise RuntimeError("no class")

    down, states, tracker = play([final("one two three", result=Hostile()), SleepFrame(sleep=0.1)])
    assert states == []
    assert tracker.failures == 1
    assert any(isinstance(frame, TranscriptionFrame) for frame in down)


def test_another_speaker_starts_over() -> None:
    words = [{"word": "w", "start": i * 0.3, "end": i * 0.3 + 0.3} for i in range(10)]
    slow = [{"word": "w", "start": i * 0.5, "end": i * 0.5 + 0.5} for i in range(10)]
    text = " ".join(["w"] * 10)
    _, states, _ = play(
        [
            final(text, result=words, user="a"),
            SleepFrame(sleep=0.1),
            final(text, result=slow, user="b"),
            SleepFrame(sleep=0.1),
        ]
    )
    assert [round(state.rate or 0) for state in states] == [200, 120]


def test_audio_that_the_line_lost_counts_as_spoken() -> None:
    from pipecat_voicectx.processors.network_tracker import NetworkTracker
    from pipecat_voicectx.states.network import NetworkSource, NetworkState

    async def main() -> float | None:
        tracker, network = SpeakingRateTracker(), NetworkTracker()
        tracker.listen_to(network)
        start = VADUserStartedSpeakingFrame(start_secs=0.0)
        tracker._evaluate(start)
        await asyncio.sleep(1.5)
        tracker._evaluate(VADUserStoppedSpeakingFrame(stop_secs=0.0))
        lossy = NetworkState(concealed_total_secs=0.8, sources=(NetworkSource.RECEIVER_STATS,))
        await network._call_event_handler("on_network_state", lossy)
        await asyncio.sleep(0.8)
        tracker._evaluate(start)
        await asyncio.sleep(1.7)
        tracker._evaluate(VADUserStoppedSpeakingFrame(stop_secs=0.0))
        text = "one two three four five six seven eight nine ten eleven twelve"
        tracker._evaluate(TranscriptionFrame(text=text, user_id="", timestamp=""))
        return tracker.state.rate

    assert virtual_time.run(main()) == pytest.approx(12 * 60 / 4.0, rel=0.01)
