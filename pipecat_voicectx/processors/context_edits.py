"""Edits of an LLM context's messages that the orchestrator makes, and nothing more.

Only messages that are ours are touched: our state block, and completed calls of our functions. A tool call leaves
together with its result or not at all. Everything else, and everything we do not recognise, stays where it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from pipecat.processors.aggregators.llm_context import LLMContextMessage

from pipecat_voicectx.projection.block import STATE_TAG, is_our_block

__all__ = ["make_state_block", "merge_trailing_users", "without_completed_calls", "without_state_block"]

Messages: TypeAlias = list[LLMContextMessage]

# What Pipecat's assistant aggregator writes until a call has its result.
_IN_PROGRESS = "IN_PROGRESS"


def make_state_block(text: str) -> dict[str, str]:
    """The message that shows states to the model."""
    return {"role": "developer", "content": f"<{STATE_TAG}>\n{text}\n</{STATE_TAG}>"}


def without_state_block(messages: Sequence[LLMContextMessage], block: object) -> Messages:
    """The messages without `block` (by identity) and without any other message of its form."""
    return [
        message for message in messages if message is not block and not is_our_block(message, tag=STATE_TAG)
    ]


def without_completed_calls(messages: Sequence[LLMContextMessage], functions: Collection[str]) -> Messages:
    """The messages without calls of `functions` that have their result, and without those results."""
    unfinished = {
        message.get("tool_call_id")
        for message in messages
        if isinstance(message, Mapping)
        and message.get("role") == "tool"
        and message.get("content") == _IN_PROGRESS
    }
    answered = {
        message.get("tool_call_id")
        for message in messages
        if isinstance(message, Mapping) and message.get("role") == "tool"
    }
    gone: set[Any] = set()
    kept: Messages = []
    for message in messages:
        calls = _calls_of(message)
        ids = [call.get("id") for call in calls]
        if (
            calls
            and not _text_of(message)
            and all(_name_of(call) in functions for call in calls)
            and all(call_id in answered and call_id not in unfinished for call_id in ids)
        ):
            gone.update(ids)
            continue
        if (
            gone
            and isinstance(message, Mapping)
            and message.get("role") == "tool"
            and message.get("tool_call_id") in gone
        ):
            continue
        # A provider that numbers its calls anew in each response uses an id again.
        gone.difference_update(ids)
        kept.append(message)
    return kept


def merge_trailing_users(messages: Sequence[LLMContextMessage]) -> Messages:
    """The messages with the user messages at the end, if there are several in a row, made one."""
    kept = list(messages)
    while len(kept) >= 2:
        last, before = kept[-1], kept[-2]
        if not (_is_plain_user(last) and _is_plain_user(before)):
            break
        text = f"{_text_of(before).rstrip()} {_text_of(last).lstrip()}".strip()
        merged: Any = {**last, "content": text}  # type: ignore[dict-item]
        kept[-2:] = [merged]
    return kept


def _is_plain_user(message: LLMContextMessage) -> bool:
    return (
        isinstance(message, Mapping)
        and message.get("role") == "user"
        and isinstance(message.get("content"), str)
    )


def _text_of(message: LLMContextMessage) -> str:
    content = message.get("content") if isinstance(message, Mapping) else None
    return content if isinstance(content, str) else ""


def _calls_of(message: LLMContextMessage) -> list[Mapping[str, Any]]:
    if not isinstance(message, Mapping) or message.get("role") != "assistant":
        return []
    calls: Any = message.get("tool_calls")
    return [call for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []


def _name_of(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    return str(function.get("name", "")) if isinstance(function, Mapping) else ""
