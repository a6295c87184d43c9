"""What is seen at a model's two ends."""

from __future__ import annotations

import pytest
from pipecat.frames.frames import Frame, InterruptionFrame, LLMContextFrame, LLMFullResponseEndFrame
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameProcessor

from pipecat_voicectx.runtimes.llm_tap import AnswerWatch

REQUEST, END, STOP = LLMContextFrame(LLMContext()), LLMFullResponseEndFrame(), InterruptionFrame()


@pytest.mark.parametrize(
    ("arriving", "stopped"),
    [
        ([REQUEST, STOP], True),
        # A service that is stopped ends its response on the way out, and a second interruption finds it so.
        ([REQUEST, STOP, END, STOP], True),
        ([REQUEST, END, STOP], False),
        ([STOP], False),
        ([REQUEST, STOP, REQUEST], False),
        ([REQUEST, STOP, REQUEST, END, STOP], False),
    ],
)
def test_a_model_is_stopped_only_while_it_works(arriving: list[Frame], stopped: bool) -> None:
    llm = FrameProcessor()
    watch = AnswerWatch(llm)
    for frame in arriving:
        if isinstance(frame, LLMFullResponseEndFrame):
            watch._leaving(llm, frame)
        else:
            watch._arriving(llm, frame)
    assert watch.was_stopped is stopped
