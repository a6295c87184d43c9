"""The frames with which the ledger makes the assistant aggregator write a message, and those it acts ahead of.

All are system frames that pass for the ordinary ones: an interruption can neither overtake nor drop them.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipecat.frames.frames import (
    BotStoppedSpeakingFrame,
    EndFrame,
    FunctionCallInProgressFrame,
    LLMAssistantPushAggregationFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMMessagesAppendFrame,
    LLMMessagesTransformFrame,
    LLMMessagesUpdateFrame,
    LLMRunFrame,
    SystemFrame,
    TextFrame,
    TTSStartedFrame,
    TTSStoppedFrame,
)

__all__ = ["RELEASING", "CloseTurnFrame", "HeardTextFrame", "OpenTurnFrame"]


@dataclass
class HeardTextFrame(SystemFrame, TextFrame):
    """Text for the assistant aggregator. A system frame: an interruption cannot overtake or drop it."""


@dataclass
class OpenTurnFrame(SystemFrame, TTSStartedFrame):
    """Makes the aggregator open a turn if none is open, or it would drop the text that follows."""


@dataclass
class CloseTurnFrame(SystemFrame, LLMAssistantPushAggregationFrame):
    """Makes the aggregator close its turn at once, ahead of the system frame that follows."""


# What reads or writes the conversation, or ends the wait for the audio: an answer's end goes ahead of it.
RELEASING = (
    BotStoppedSpeakingFrame,
    TTSStoppedFrame,
    LLMFullResponseStartFrame,
    LLMFullResponseEndFrame,
    LLMAssistantPushAggregationFrame,
    FunctionCallInProgressFrame,
    LLMRunFrame,
    LLMMessagesAppendFrame,
    LLMMessagesUpdateFrame,
    LLMMessagesTransformFrame,
    EndFrame,
)
