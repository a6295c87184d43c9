"""`ForwardGate`: holds the user's audio at an interruption until an audio-only model's context is repaired.

Place it between the user aggregator and the service: voice activity detection in front of it stays live. It closes
with the interruption, before anything is awaited, lets the interruption pass first, re-injects what the user heard of
the bot (`Reinjection`) when the ledger has settled the turn, and then releases what was held, in order.
"""

from __future__ import annotations

import asyncio
import time

from pipecat.frames.frames import (
    CancelFrame,
    EndFrame,
    Frame,
    InputAudioRawFrame,
    InterruptionFrame,
    UserStoppedSpeakingFrame,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor

from pipecat_voicectx.playback.forward_gate import ForwardGateConfig, ForwardQueue, GateState
from pipecat_voicectx.playback.heard import HeardTurn
from pipecat_voicectx.processors.frames import HeardTurnFrame
from pipecat_voicectx.processors.playback_ledger import PlaybackLedger
from pipecat_voicectx.runtimes.reinject import Reinjection, ReinjectionConfig

__all__ = ["ForwardGate"]


class ForwardGate(FrameProcessor):
    """See the module's text. Without an interruption it passes everything on and costs nothing."""

    def __init__(
        self,
        *,
        ledger: PlaybackLedger,
        config: ForwardGateConfig | None = None,
        reinjection: ReinjectionConfig | None = None,
    ) -> None:
        """Initialize the gate.

        Args:
            ledger: Knows what was played and keeps the audio.
            config: Bounds.
            reinjection: What is re-injected.
        """
        super().__init__(name="ForwardGate")
        self._ledger = ledger
        self._queue: ForwardQueue[Frame] = ForwardQueue(config=config or ForwardGateConfig())
        self._reinjection = Reinjection(reinjection)
        self._input_rate_hz = 16_000
        self._deadline: asyncio.Task[None] | None = None
        self._repairing = False
        self._repair_task: asyncio.Task[None] | None = None
        self.injections = 0
        self.expired = 0
        self.failures = 0
        ledger.add_event_handler("on_interruption_settled", self._on_settled)

    @property
    def waiting(self) -> int:
        """Frames held now."""
        return self._queue.waiting

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Hold, repair, release.

        Args:
            frame: The frame.
            direction: Where it goes.
        """
        down = direction is FrameDirection.DOWNSTREAM
        # Nothing is awaited before this. An interruption of nothing leaves the gate open.
        if isinstance(frame, InterruptionFrame) and self._ledger.would_cut():
            self._queue.close(time.monotonic())
        await super().process_frame(frame, direction)
        match frame:
            case InputAudioRawFrame() if down:
                self._input_rate_hz = frame.sample_rate
                await self._hold_or_pass(frame, frame.num_frames / frame.sample_rate)
            case UserStoppedSpeakingFrame() if down:
                await self._hold_or_pass(frame, 0.0)
            case InterruptionFrame():
                await self.push_frame(frame, direction)
                self._arm()
            case HeardTurnFrame():
                await self.push_frame(frame, direction)
                self._repair_soon(frame.turn)
            case EndFrame() | CancelFrame():
                await self._stop_repair()
                await self._release()
                await self.push_frame(frame, direction)
            case _:
                await self.push_frame(frame, direction)

    async def cleanup(self) -> None:
        """Release the deadline's task. Idempotent."""
        await super().cleanup()  # type: ignore[no-untyped-call]
        await self._stop_repair()
        if self._deadline is not None:
            await self.cancel_task(self._deadline)
            self._deadline = None

    async def _on_settled(self, _ledger: PlaybackLedger, changed: bool) -> None:
        if not changed and self._queue.state is GateState.CLOSED and not self._repairing:
            await self._release()

    async def _hold_or_pass(self, frame: Frame, secs: float) -> None:
        if not self._queue.offer(frame, secs):
            await self.push_frame(frame)
        elif self._queue.is_full:
            self.expired += 1
            await self._release()

    def _arm(self) -> None:
        if self._deadline is None and self._queue.state is GateState.CLOSED:
            self._deadline = self.create_task(self._wait(), "deadline")

    async def _wait(self) -> None:
        while (deadline := self._queue.next_deadline()) is not None and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(max(0.001, deadline - time.monotonic()))
        self._deadline = None
        if self._queue.state is GateState.CLOSED and not self._repairing:
            self.expired += 1
            await self._release()

    def _repair_soon(self, turn: HeardTurn) -> None:
        """The turn was settled; acknowledgements under way may still move where it was cut."""
        if self._queue.state is GateState.OPEN or self._repairing or not turn.interrupted:
            return
        self._repairing = True
        self._repair_task = self.create_task(self._repair(turn), "repair")

    async def _stop_repair(self) -> None:
        task, self._repair_task = self._repair_task, None
        if task is not None and not task.done():
            await self.cancel_task(task)

    async def _repair(self, turn: HeardTurn) -> None:
        """The model hears what the user heard of the turn, then the user."""
        try:
            deadline_secs = self._queue.next_deadline()
            if deadline_secs is not None:
                config = self._queue.config
                closed_secs = deadline_secs - config.max_closed_secs
                due_secs = closed_secs + min(config.settle_secs, config.max_closed_secs)
                await asyncio.sleep(max(0.0, due_secs - time.monotonic()))
            pcm, rate_hz = self._ledger.played_audio(turn.turn_id, secs=self._reinjection.secs)
            frames = await self._reinjection.frames(pcm, rate_hz, input_rate_hz=self._input_rate_hz)
            for frame in frames:
                await self.push_frame(frame)
            self.injections += bool(frames)
        except Exception as error:  # the gate reopens whatever happens
            self.failures += 1
            await self.push_error(f"forward gate: {type(error).__name__}", exception=error)
        finally:
            self._repairing = False
            await self._release()

    async def _release(self) -> None:
        while held := self._queue.take():
            for frame in held:
                await self.push_frame(frame)
        self._queue.open()
