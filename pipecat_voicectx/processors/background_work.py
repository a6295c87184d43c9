"""A processor with work in the background: its tasks are its own, and its failures are errors, never stops."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from pipecat_voicectx.errors import VoiceContextError
from pipecat_voicectx.processors.audio_lane import AudioLane

__all__ = ["BackgroundWork"]

# Measured: a context frame needs 2 ms from here to the language model, ten under load.
_HOLD_SECS = 0.02


class BackgroundWork(AudioLane):
    """Base of processors that start tasks on frames."""

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._held: list[tuple[Coroutine[Any, Any, None], str]] = []
        self._holding: asyncio.TimerHandle | None = None
        self.errors = 0
        """Steps, writes and jobs in the background that failed; each was pushed as an error."""

    def _hold(self) -> None:
        """What is spawned from now on starts in a moment, when the frame at hand has passed the next processors."""
        if self._holding is None:
            self._holding = asyncio.get_running_loop().call_later(_HOLD_SECS, self._release)

    def _release(self) -> None:
        if self._holding is not None:
            self._holding.cancel()
            self._holding = None
        held, self._held = self._held, []
        for coroutine, purpose in held:
            self._spawn(coroutine, purpose)

    def _spawn(self, coroutine: Coroutine[Any, Any, None], purpose: str) -> None:
        if self._holding is not None:
            self._held.append((coroutine, purpose))
            return
        task = self.create_task(self._attempt(coroutine, f"{purpose} failed"), purpose)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drain(self, deadline_secs: float) -> None:
        """Waits for tasks, and for those that they start, until a monotonic time."""
        self._release()
        while self._tasks and (left_secs := deadline_secs - time.monotonic()) > 0:
            await asyncio.wait(list(self._tasks), timeout=left_secs)

    async def _cancel_tasks(self) -> None:
        self._release()
        for task in list(self._tasks):
            await self.cancel_task(task)

    async def _attempt(self, work: Coroutine[Any, Any, None], failing: str) -> None:
        """The shell's edge for work in the background: `failing` says what does not work when it fails, however."""
        try:
            await work
        except Exception as error:
            await self._fail(failing, error)

    async def _guarded(self, step: Callable[[], None]) -> None:
        """The shell's edge: whatever fails in a step of ours is reported, and the frame goes on."""
        try:
            step()
        except Exception as error:
            await self._fail("memory step failed", error)

    async def _fail(self, what: str, error: Exception) -> None:
        self.errors += 1
        # Ours say what to do and hold no transcript; of others only the kind is safe to show.
        shown = str(error) if isinstance(error, VoiceContextError) else type(error).__name__
        await self.push_error(f"{self}: {what}: {shown}", exception=error)
