"""`SpeakingRateTracker` alone: transcripts and voice activity in, the caller's rate out."""

from __future__ import annotations

import asyncio

from loguru import logger
from pipecat.frames.frames import (
    Frame,
    TranscriptionFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.tests.utils import SleepFrame, run_test

from pipecat_voicectx import SpeakingRateState, SpeakingRateTracker
from pipecat_voicectx.testing import virtual_time


def utterance(text: str, secs: float) -> list[Frame]:
    """One utterance as a pipeline sees it: voice activity around it, then the final transcript."""
    return [
        VADUserStartedSpeakingFrame(start_secs=0.2),
        SleepFrame(sleep=secs),
        VADUserStoppedSpeakingFrame(stop_secs=0.2),
        SleepFrame(sleep=0.3),
        TranscriptionFrame(text=text, user_id="ann", timestamp="", finalized=True),
        SleepFrame(sleep=0.2),
    ]


async def main() -> None:
    tracker = SpeakingRateTracker()

    @tracker.event_handler("on_speaking_rate")
    async def on_speaking_rate(_tracker: SpeakingRateTracker, state: SpeakingRateState) -> None:
        print(f"latest {state.latest_rate:.0f}, estimate {state.rate:.0f} words a minute")

    frames = [
        *utterance("could you tell me when the next train to Ghent leaves please", 3.0),
        *utterance("and is there one that goes a little later in the evening", 2.4),
        *utterance("mhm", 0.3),  # too short to say anything about a rate
        *utterance("I have to be there before ten", 2.5),
    ]
    await run_test(tracker, frames_to_send=frames)


if __name__ == "__main__":
    logger.remove()  # only what this example prints
    virtual_time.run(asyncio.wait_for(main(), 60))
