"""`ActionGate`: tools with consequences run once, and only on a proposal the user heard.

    gate = ActionGate(ledger)
    llm.register_function(
        "book_train", gate.guard(book_train, ToolPolicy(tool_class=ToolClass.IRREVERSIBLE)),
        cancel_on_interruption=True,
    )

The wait happens inside the function handler, so nothing else in the pipeline is held up, and an interruption ends it
as it ends any cancellable call.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pipecat.frames.frames import FunctionCallResultProperties
from pipecat.services.llm_service import FunctionCallParams

from pipecat_voicectx.playback.action_gate import (
    CallBook,
    CallEvent,
    CallState,
    GateVerdict,
    Proposal,
    ToolPolicy,
    call_key,
    judge,
)
from pipecat_voicectx.processors.playback_ledger import PlaybackLedger

__all__ = ["ActionGate", "GateRefusal"]

# Takes `FunctionCallParams` and, as one of Pipecat's direct functions, the call's arguments by name.
FunctionHandler: TypeAlias = Callable[..., Awaitable[None]]

# How often a waiting call looks again: an audio chunk is 40 ms. Chosen.
_LOOK_SECS = 0.04


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRefusal:
    """What the model is told instead of a result."""

    error: str = "not_run"
    reason: str = (
        "The user did not hear the sentence that proposed this. Nothing was done. Say it again and ask for a "
        "confirmation before calling this function again."
    )

    def as_result(self) -> dict[str, str]:
        """As a function result."""
        return {"error": self.error, "reason": self.reason}


@dataclass(slots=True)
class _Execution:
    """One run of a tool with consequences, shared by the calls that asked for it."""

    task: asyncio.Task[Any]
    proposal_turn: int


class ActionGate:
    """Guards function handlers. One per session."""

    def __init__(self, ledger: PlaybackLedger, *, refusal: GateRefusal | None = None) -> None:
        """Initialize the gate.

        Args:
            ledger: Knows what was played.
            refusal: What the model is told when a proposal was not heard.
        """
        self._ledger = ledger
        self._refusal = refusal or GateRefusal()
        self._running: dict[str, _Execution] = {}
        self.calls = CallBook()
        self.refused = 0
        self.deduplicated = 0

    def guard(self, handler: FunctionHandler, policy: ToolPolicy) -> FunctionHandler:
        """The handler to register instead of `handler`; also one of Pipecat's direct functions."""

        @functools.wraps(handler)
        async def guarded(params: FunctionCallParams, **arguments: Any) -> None:
            self.calls.open(params.tool_call_id)
            try:
                await self._run(functools.partial(handler, **arguments), policy, params)
            except asyncio.CancelledError:
                self._end(params.tool_call_id, CallEvent.CANCELLED)
                raise
            except Exception:
                self._end(params.tool_call_id, CallEvent.RAISED)
                raise

        return guarded

    async def _run(self, handler: FunctionHandler, policy: ToolPolicy, params: FunctionCallParams) -> None:
        proposal = None
        if policy.must_be_heard:
            proposal, verdict = await self._wait(params.tool_call_id, policy.max_wait_secs)
            if verdict is not GateVerdict.OPEN:
                self.refused += 1
                self.calls.apply(params.tool_call_id, CallEvent.REFUSED)
                await params.result_callback(self._refusal.as_result())
                return
        self.calls.apply(params.tool_call_id, CallEvent.STARTED)
        if policy.finishes:
            turn_id = proposal.turn_id if proposal else 0
            result, properties = await self._once(handler, policy, params, turn_id)
        else:
            result, properties = await _collect(handler, params)
        self.calls.apply(params.tool_call_id, CallEvent.RETURNED)
        await params.result_callback(result, properties=properties)

    async def _wait(self, call_id: str, max_wait_secs: float) -> tuple[Proposal | None, GateVerdict]:
        deadline = time.monotonic() + max_wait_secs
        while True:
            verdict = GateVerdict.WAIT
            proposal = self._ledger.proposal_of(call_id)
            if proposal is not None:
                verdict = self._judge(proposal)
            if verdict is not GateVerdict.WAIT or time.monotonic() >= deadline:
                return proposal, verdict
            await asyncio.sleep(_LOOK_SECS)

    def _judge(self, proposal: Proposal) -> GateVerdict:
        physical = self._ledger.physical_boundary(proposal.turn_id)
        entry = next((entry for entry in self._ledger.turns if entry.turn_id == proposal.turn_id), None)
        if physical is None or entry is None:
            return GateVerdict.CLOSED
        return judge(
            proposal,
            entry.state,
            physical=physical,
            semantic=self._ledger.semantic_boundary(proposal.turn_id),
        )

    async def _once(
        self, handler: FunctionHandler, policy: ToolPolicy, params: FunctionCallParams, proposal_turn: int
    ) -> tuple[Any, FunctionCallResultProperties | None]:
        """Runs the handler unless the same was asked for already; outlives a cancellation of the asking call."""
        key = call_key(params.function_name, params.arguments)
        now_secs = time.monotonic()
        if self.calls.has_result(key, proposal_turn, now_secs=now_secs, repeat_secs=policy.repeat_secs):
            self.deduplicated += 1
            return self.calls.result(key, proposal_turn), None
        execution = self._running.get(key)
        if execution is not None:
            self.deduplicated += 1
        else:
            execution = _Execution(asyncio.ensure_future(_collect(handler, params)), proposal_turn)
            self._running[key] = execution
            execution.task.add_done_callback(lambda task: self._finished(key, proposal_turn, task))
        result, properties = await asyncio.shield(execution.task)
        return result, properties

    def _finished(self, key: str, proposal_turn: int, task: asyncio.Task[Any]) -> None:
        self._running.pop(key, None)
        if not task.cancelled() and task.exception() is None:
            self.calls.remember(key, proposal_turn, task.result()[0], now_secs=time.monotonic())

    def _end(self, call_id: str, event: CallEvent) -> None:
        if self.calls.state(call_id) in (CallState.WAITING, CallState.RUNNING):
            if event is CallEvent.RAISED and self.calls.state(call_id) is CallState.WAITING:
                event = CallEvent.CANCELLED
            self.calls.apply(call_id, event)


async def _collect(
    handler: FunctionHandler, params: FunctionCallParams
) -> tuple[Any, FunctionCallResultProperties | None]:
    """Runs a handler and returns the result it reported, exactly one whatever it does.

    The first final result counts. A handler that reports none has failed; updates pass through.
    """
    results: list[tuple[Any, FunctionCallResultProperties | None]] = []

    async def take(result: Any, *, properties: FunctionCallResultProperties | None = None) -> None:
        if properties is not None and not properties.is_final:
            await params.result_callback(result, properties=properties)
        elif not results:
            results.append((result, properties))

    await handler(replace(params, result_callback=take))
    if not results:
        return {"error": "no_result", "reason": f"{params.function_name} returned without a result."}, None
    return results[0]
