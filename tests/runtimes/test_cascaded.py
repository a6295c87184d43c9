from __future__ import annotations

import asyncio

from pipecat.frames.frames import (
    AggregatedTextFrame,
    Frame,
    LLMFullResponseStartFrame,
    TTSAudioRawFrame,
    TTSStartedFrame,
    TTSTextFrame,
)
from pipecat.processors.frame_processor import FrameProcessor

from pipecat_voicectx.playback.clock import PlayoutClock
from pipecat_voicectx.playback.ledger import TurnLedger
from pipecat_voicectx.playback.utterance import Placement
from pipecat_voicectx.runtimes.cascaded import CascadedTaps
from pipecat_voicectx.runtimes.playout_position import find_position_source

RATE_HZ = 24_000


def word(text: str, pts_ns: int, *, of: Frame) -> TTSTextFrame:
    frame = TTSTextFrame(text, text_type="word", context_id="a", segment_id=of.id)
    frame.pts = pts_ns
    return frame


def test_a_word_at_the_very_start_of_the_clock_has_a_time() -> None:
    ledger, output = TurnLedger(), FrameProcessor()
    taps = CascadedTaps(
        ledger=ledger,
        clock=PlayoutClock(rate_hz=RATE_HZ),
        source=find_position_source(output),
        pipeline_clock_ns=lambda: 0,
        on_turn_started=lambda _entry, _position: None,
    )
    sentence = AggregatedTextFrame("One two.", text_type="sentence", context_id="a")
    sentence.will_be_spoken = True
    frames: list[Frame] = [
        LLMFullResponseStartFrame(),
        sentence,
        TTSStartedFrame(context_id="a"),
        TTSAudioRawFrame(audio=bytes(2 * RATE_HZ), sample_rate=RATE_HZ, num_channels=1, context_id="a"),
        word("One", 0, of=sentence),
    ]

    async def pushed() -> None:
        for frame in frames:
            await taps._on_tts_frame(output, frame)

    asyncio.run(pushed())
    (utterance,) = ledger.turns[-1].utterances.values()
    first = utterance.pieces(ledger.pace)[0]
    assert (first.text, first.placement, first.start_samples) == ("One", Placement.WORD_TIME, 0)
