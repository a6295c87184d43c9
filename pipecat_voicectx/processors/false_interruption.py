"""`FalseInterruptionRecovery`: a cough does not end an answer.

An interruption after which the user says no word within 0.8 s of falling silent was none. The rest of the answer is
then spoken from where it was cut, without another model call, and the note that it was cut off comes off again.
Place it right after the `PlaybackLedger`.

Pipecat has a recovery of its own for such turns: it prompts the model to go on (`empty_user_turn` of the user
aggregator's parameters, on by default). Use one of the two: set `empty_user_turn=None` with this processor.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from pipecat.frames.frames import (
    CancelFrame,
    EndFrame,
    Frame,
    LLMFullResponseStartFrame,
    TTSSpeakFrame,
    UserStoppedSpeakingFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.playback.heard import HeardTurn
from pipecat_voicectx.processors.frames import HeardTurnFrame
from pipecat_voicectx.processors.playback_ledger import PlaybackLedger

__all__ = ["FalseInterruptionConfig", "FalseInterruptionRecovery"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseInterruptionConfig:
    """When an interruption was none."""

    wordless_secs: float = 0.8
    """No word for this long after the user fell silent. Transcripts of short answers come within about half of it."""
    silent_secs: float = 2.0
    """Without any report that the user fell silent, this long after the interruption. Chosen."""

    def __post_init__(self) -> None:
        if not 0 < self.wordless_secs <= 10 or not 0 < self.silent_secs <= 30:
            raise UsageError("wordless_secs must lie in 0..10 and silent_secs in 0..30 (both above 0)")


class FalseInterruptionRecovery(FrameProcessor):
    """Resumes answers that nobody meant to stop.

    Event handlers:
        on_resumed: Called with the `HeardTurn` whose rest is being spoken.
    """

    def __init__(
        self, *, ledger: PlaybackLedger, context: LLMContext, config: FalseInterruptionConfig | None = None
    ) -> None:
        """Initialize the recovery.

        Args:
            ledger: Knows what was not heard.
            context: The shared context: a user message in it means that there were words.
            config: Times.
        """
        super().__init__(name="FalseInterruptionRecovery")
        self._ledger = ledger
        self._context = context
        self._config = config or FalseInterruptionConfig()
        self._cut: HeardTurn | None = None
        self._users_before = 0
        self._due_secs: float | None = None
        self._timer: asyncio.Task[None] | None = None
        self.resumed = 0
        self._register_event_handler("on_resumed")

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Watch for an interruption without words; forward everything.

        Args:
            frame: The frame.
            direction: Where it goes.
        """
        await super().process_frame(frame, direction)
        await self.push_frame(frame, direction)
        now_secs = time.monotonic()
        match frame:
            case HeardTurnFrame() if frame.turn.interrupted and direction is FrameDirection.DOWNSTREAM:
                self._on_cut(frame.turn, now_secs)
            case VADUserStartedSpeakingFrame():
                self._due_secs = None
            case VADUserStoppedSpeakingFrame() | UserStoppedSpeakingFrame() if self._cut is not None:
                self._arm(now_secs + self._config.wordless_secs)
            case LLMFullResponseStartFrame() | EndFrame() | CancelFrame():
                self._forget()
            case _:
                pass

    async def cleanup(self) -> None:
        """Release the timer. Idempotent."""
        await super().cleanup()  # type: ignore[no-untyped-call]
        self._forget()
        if self._timer is not None:
            await self.cancel_task(self._timer)
            self._timer = None

    def _on_cut(self, turn: HeardTurn, now_secs: float) -> None:
        if not turn.unheard_text:
            return
        if self._cut is None or self._cut.turn_id != turn.turn_id:
            self._users_before = self._users()
            self._arm(now_secs + self._config.silent_secs)
        self._cut = turn

    def _forget(self) -> None:
        self._cut = None
        self._due_secs = None

    def _users(self) -> int:
        messages = self._context.messages
        return sum(1 for message in messages if isinstance(message, dict) and message.get("role") == "user")

    def _arm(self, due_secs: float) -> None:
        self._due_secs = due_secs
        if self._timer is None:
            self._timer = self.create_task(self._wait(), "wordless")

    async def _wait(self) -> None:
        while self._due_secs is not None and time.monotonic() < self._due_secs:  # noqa: ASYNC110 - a time, no event
            await asyncio.sleep(max(0.001, self._due_secs - time.monotonic()))
        self._timer = None
        cut, due = self._cut, self._due_secs
        self._forget()
        if cut is not None and due is not None and self._users() == self._users_before:
            await self._resume(cut)

    async def _resume(self, cut: HeardTurn) -> None:
        self.resumed += 1
        self._ledger.was_not_cut(cut.turn_id)
        await self.push_frame(TTSSpeakFrame(cut.unheard_text), FrameDirection.UPSTREAM)
        await self._call_event_handler("on_resumed", cut)
