"""`ActionGate`: tools with consequences run once, and only on a proposal the user heard.

    gate = ActionGate(ledger)
    llm.register_function(
        "book_train", gate.guard(book_train, ToolPolicy(tool_class=ToolClass.IRREVERSIBLE)),
        cancel_on_interruption=True,
    )

The wait happens inside the function handler, so nothing else in the pipeline is held up, and an interruption ends it
as it ends any cancellable call.

What has begun to run is carried out once, whoever gets to know the result. A run whose call was interrupted keeps its
result for the next equal call, whatever leads in to that one; until then the conversation says that it is still
running, or what came of it.
"""

from __future__ import annotations

import asyncio
import functools
import json
import time
from collections import OrderedDict
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
    ToolPolicy,
    call_key,
)
from pipecat_voicectx.playback.proposal import Proposal
from pipecat_voicectx.processors.late_calls import STILL_RUNNING
from pipecat_voicectx.processors.playback_ledger import PlaybackLedger

__all__ = ["ActionGate", "GateRefusal"]

# Takes `FunctionCallParams` and, as one of Pipecat's direct functions, the call's arguments by name.
FunctionHandler: TypeAlias = Callable[..., Awaitable[None]]

# How often a waiting call looks again: an audio chunk is 40 ms. Chosen.
_LOOK_SECS = 0.04
# How long a result that no call got is kept for one. Chosen: longer than anybody waits before asking again.
_UNDELIVERED_SECS = 600.0
# Chosen: far above what is asked for in ten minutes; the oldest leave first.
_MAX_EXECUTIONS = 64


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
    ended_secs: float | None = None

    def may_answer(self, now_secs: float) -> bool:
        """Whether it still runs, or ended not too long ago."""
        return self.ended_secs is None or now_secs - self.ended_secs <= _UNDELIVERED_SECS


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
        self._undelivered: OrderedDict[str, _Execution] = OrderedDict()
        self._answered: OrderedDict[str, tuple[str, object]] = OrderedDict()
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
        call_id = params.tool_call_id
        key = call_key(params.function_name, params.arguments)
        if policy.finishes and (execution := self._open_execution(key)) is not None:
            # Nothing new is done for this call, so there is nothing to have been heard.
            self.calls.apply(call_id, CallEvent.STARTED)
            self.deduplicated += 1
            await self._deliver(key, execution, policy, params)
            return
        proposals: tuple[Proposal, ...] = ()
        if policy.must_be_heard:
            proposals, verdict = await self._wait(call_id, policy.max_wait_secs)
            if verdict is not GateVerdict.OPEN:
                self.refused += 1
                self.calls.apply(call_id, CallEvent.REFUSED)
                await params.result_callback(self._refusal.as_result())
                return
        self.calls.apply(call_id, CallEvent.STARTED)
        if policy.finishes:
            await self._once(handler, policy, params, proposals[0].turn_id if proposals else 0)
        else:
            result, properties = await _collect(handler, params)
            self.calls.apply(call_id, CallEvent.RETURNED)
            await params.result_callback(result, properties=properties)

    async def _wait(self, call_id: str, max_wait_secs: float) -> tuple[tuple[Proposal, ...], GateVerdict]:
        deadline = time.monotonic() + max_wait_secs
        while True:
            proposals = self._ledger.proposals_of(call_id)
            verdict = GateVerdict.WAIT if proposals is None else self._judge_all(proposals)
            if verdict is not GateVerdict.WAIT or time.monotonic() >= deadline:
                return proposals or (), verdict
            await asyncio.sleep(_LOOK_SECS)

    def _judge_all(self, proposals: tuple[Proposal, ...]) -> GateVerdict:
        verdicts = {self._ledger.judge(proposal) for proposal in proposals}
        if not verdicts or GateVerdict.CLOSED in verdicts:
            return GateVerdict.CLOSED
        return GateVerdict.WAIT if GateVerdict.WAIT in verdicts else GateVerdict.OPEN

    async def _once(
        self, handler: FunctionHandler, policy: ToolPolicy, params: FunctionCallParams, proposal_turn: int
    ) -> None:
        """Runs the handler unless the same was asked for already."""
        key = call_key(params.function_name, params.arguments)
        now_secs = time.monotonic()
        self._file_answered()
        if self.calls.has_result(key, proposal_turn, now_secs=now_secs, repeat_secs=policy.repeat_secs):
            self.deduplicated += 1
            self.calls.apply(params.tool_call_id, CallEvent.RETURNED)
            await params.result_callback(self.calls.result(key, proposal_turn))
            return
        execution = self._open_execution(key)
        if execution is not None:
            self.deduplicated += 1
        else:
            execution = _Execution(asyncio.ensure_future(_collect(handler, params)))
            self._undelivered[key] = execution
            while len(self._undelivered) > _MAX_EXECUTIONS:
                self._undelivered.popitem(last=False)
            execution.task.add_done_callback(functools.partial(self._ended, key, execution, proposal_turn))
        await self._deliver(key, execution, policy, params)

    def _open_execution(self, key: str) -> _Execution | None:
        """The run of an equal call whose result no call has got so far."""
        execution = self._undelivered.get(key)
        return execution if execution is not None and execution.may_answer(time.monotonic()) else None

    async def _deliver(
        self, key: str, execution: _Execution, policy: ToolPolicy, params: FunctionCallParams
    ) -> None:
        """Waits for the run and answers the call; the run outlives a cancellation of the call."""
        call_id = params.tool_call_id

        async def told() -> None:
            _tell_result(params, execution.task)
            execution.task.add_done_callback(functools.partial(_tell_result, params))

        self._ledger.late_calls.lasts(call_id, told)
        result, properties = await asyncio.shield(execution.task)
        self.calls.apply(call_id, CallEvent.RETURNED)
        await params.result_callback(result, properties=properties)
        self._ledger.late_calls.is_over(call_id)
        if self._undelivered.get(key) is execution:
            del self._undelivered[key]
        if policy.must_be_heard:
            self._answered[call_id] = (key, result)
            while len(self._answered) > _MAX_EXECUTIONS:
                self._answered.popitem(last=False)
        else:
            self.calls.remember(key, 0, result, now_secs=time.monotonic())

    def _file_answered(self) -> None:
        """Keeps the results of answered calls under the proposals of those calls, which are known by now."""
        for call_id, (key, result) in list(self._answered.items()):
            if proposals := self._ledger.proposals_of(call_id):
                del self._answered[call_id]
                self.calls.remember(key, proposals[0].turn_id, result, now_secs=time.monotonic())

    def _ended(self, key: str, execution: _Execution, proposal_turn: int, task: asyncio.Task[Any]) -> None:
        execution.ended_secs = time.monotonic()
        if not task.cancelled() and task.exception() is None:
            self.calls.remember(key, proposal_turn, task.result()[0], now_secs=execution.ended_secs)
        elif self._undelivered.get(key) is execution:
            del self._undelivered[key]

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


def _tell_result(params: FunctionCallParams, task: asyncio.Task[Any]) -> None:
    """Puts what came of a run where the conversation says that it is still running."""
    if not task.done():
        return
    failed = {"error": "failed", "reason": f"{params.function_name} ended with an error."}
    result = failed if task.cancelled() or task.exception() is not None else task.result()[0]
    for message in params.context.get_messages():
        if not isinstance(message, dict) or message.get("tool_call_id") != params.tool_call_id:
            continue
        if message.get("content") == json.dumps(STILL_RUNNING, ensure_ascii=False):
            message["content"] = json.dumps(result, ensure_ascii=False) if result else "COMPLETED"
