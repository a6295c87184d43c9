"""What became of the function calls of one response, and whether the model must be asked again because of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pipecat_voicectx.orchestrator.directives import DeferResponse, Directive, SetResponseSpeed
from pipecat_voicectx.orchestrator.functions import RejectedCall
from pipecat_voicectx.runtimes.llm_tap import LLMTap

__all__ = ["CallResults", "accepted"]


class CallResults:
    """Results by call id and name, so that a repeated call gets the first answer and is not carried out again."""

    def __init__(self) -> None:
        self._results: dict[tuple[str, str], dict[str, Any]] = {}
        self._done = 0

    def restart(self) -> None:
        """A new response begins: ids may be used again."""
        self._results.clear()
        self._done = 0

    def get(self, call_id: str, function: str) -> dict[str, Any] | None:
        """The result of a call that was carried out before."""
        return self._results.get((call_id, function))

    def add(self, call_id: str, function: str, result: dict[str, Any]) -> None:
        """A call was carried out, or refused."""
        self._results[call_id, function] = result

    def contradictory(self, tap: LLMTap, ours: Collection[str]) -> bool:
        """Whether the response calls one of `ours` more than once: which call it means cannot be known."""
        called = [name for name in tap.called if name in ours]
        return len(set(called)) < len(called)

    def answered(self) -> None:
        """One more of the response's calls has its result."""
        self._done += 1

    def run_after(self, tap: LLMTap, ours: Collection[str]) -> bool | None:
        """Whether the model runs again for the latest result; None leaves it to Pipecat."""
        called = tap.called
        if not called or not set(called) <= set(ours):
            # With tools of the application in the same response, what follows is their decision.
            return None
        if self._done < len(called):
            # The last one decides: a later call of the same response may defer it.
            return False
        # An answer that was given along with calls that worked is not asked for twice.
        return not (tap.spoken and all(item.get("status") == "ok" for item in self._results.values()))


def accepted(directive: Directive | RejectedCall, delivered_wpm: int | None) -> dict[str, Any]:
    """What the model is told of a call that was carried out."""
    match directive:
        case SetResponseSpeed(words_per_minute=wpm):
            return {"status": "ok", "words_per_minute": delivered_wpm or wpm}
        case DeferResponse():
            return {"status": "deferred"}
        case _:
            return {"status": "ok"}
