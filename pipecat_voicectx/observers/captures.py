"""Copies of what changes in place: the conversation, the threads, what is known of the caller. Bounded, plain JSON.

Taken on the event loop, at the moment they are true, and small enough for it: no text is longer than `LONGEST_TEXT`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.processors.aggregators.llm_context import LLMContext

from pipecat_voicectx.memory.facts import Fact
from pipecat_voicectx.memory.right_brain import RightBrain
from pipecat_voicectx.observers.codec import Json
from pipecat_voicectx.projection.block import RECALLED_TAG, STATE_TAG, is_our_block
from pipecat_voicectx.projection.costs import estimate_message_tokens, estimate_tokens
from pipecat_voicectx.stores.page_memory import PageMemory

__all__ = ["KnowsFacts", "capture_context", "capture_facts", "capture_threads"]

# Chosen: a page that is looked at shows no longer ones.
LONGEST_TEXT = 4_000
MOST_MESSAGES = 160
MOST_PAGES = 80
MOST_THREADS = 40
MOST_FACTS = 120
MOST_PERSONA_NODES = 40


class KnowsFacts(Protocol):
    """What is asked of a fact memory."""

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All facts, ended ones included."""
        ...

    @property
    def right_brain(self) -> RightBrain:
        """The persona graph."""
        ...


def capture_context(context: LLMContext, *, system_instruction: str = "") -> dict[str, Json]:
    """The request as it goes to the model: every message with its part and its estimated tokens."""
    messages: list[dict[str, Json]] = []
    if system_instruction:
        tokens = estimate_message_tokens({"role": "system", "content": system_instruction})
        messages.append(_entry("system", "system", tokens, system_instruction))
    tools_tokens = _tools_tokens(context)
    if tools_tokens:
        messages.append(_entry("tools", "tools", tools_tokens, ", ".join(_tool_names(context))))
    said = context.messages
    skipped = max(0, len(said) - MOST_MESSAGES)
    # The start of a context is the application's, the end is the call's: what is left out is between.
    head = MOST_MESSAGES // 8
    for number, message in enumerate(said):
        if not skipped or number < head or number >= head + skipped:
            messages.append(_message(message))
    totals: Counter[str] = Counter()
    for entry in messages:
        totals[str(entry["part"])] += int(str(entry["tokens"]))
    return {"messages": list[Json](messages), "tokens": dict[str, Json](totals), "left_out": skipped}


def _message(message: object) -> dict[str, Json]:
    tokens = estimate_message_tokens(message)
    if not isinstance(message, Mapping):
        return _entry("provider", "history", tokens, f"<{type(message).__name__}>")
    role = str(message.get("role", ""))
    if is_our_block(message, tag=RECALLED_TAG):
        part = "recalled"
    elif is_our_block(message, tag=STATE_TAG):
        part = "state"
    else:
        part = "system" if role in ("system", "developer") else "history"
    return _entry(role, part, tokens, _text(message))


def _entry(role: str, part: str, tokens: int, text: str) -> dict[str, Json]:
    shown = text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
    return {"role": role, "part": part, "tokens": tokens, "text": shown}


def _text(message: Mapping[str, object]) -> str:
    content = message.get("content")
    parts: list[str] = []
    if isinstance(content, str):
        parts.append(content)
    elif isinstance(content, Sequence):
        for item in content:
            if isinstance(item, Mapping):
                text = item.get("text")
                parts.append(text if isinstance(text, str) else f"[{item.get('type', 'part')}]")
    calls = message.get("tool_calls")
    if isinstance(calls, Sequence):
        for call in calls:
            function = call.get("function") if isinstance(call, Mapping) else None
            if isinstance(function, Mapping):
                parts.append(f"{function.get('name')}({function.get('arguments')})")
    return "\n".join(parts)


def _tools_tokens(context: LLMContext) -> int:
    tools = context.tools
    if not isinstance(tools, ToolsSchema):
        return 0
    definitions = [
        tool.to_default_dict() for tool in tools.standard_tools if hasattr(tool, "to_default_dict")
    ]
    return estimate_tokens(json.dumps(definitions, default=str)) if definitions else 0


def _tool_names(context: LLMContext) -> list[str]:
    tools = context.tools
    if not isinstance(tools, ToolsSchema):
        return []
    return [str(getattr(tool, "name", "?")) for tool in tools.standard_tools]


def capture_threads(memory: PageMemory, *, session_id: str) -> dict[str, Json]:
    """Threads and the pages they hold: the newest of both, pages in the order they were said."""
    newest = list(reversed(memory.latest(MOST_PAGES)))
    known = {page.id for page in newest}
    pages: list[Json] = [
        {
            "id": page.id,
            "index": page.index,
            "this_call": page.session_id == session_id,
            "session": page.session_id,
            "wall": page.started_wall_secs,
            "summary": page.summary[:300],
            "user": page.user_text[:200],
            "bot": page.bot_text[:200],
            "interrupted": page.interrupted,
        }
        for page in newest
    ]
    threads = [t for t in memory.threads() if any(page in known for page in t.page_ids)][-MOST_THREADS:]
    rows: list[Json] = [
        {
            "id": thread.id,
            "summary": thread.summary[:200],
            "pages": [page for page in thread.page_ids if page in known],
            "size": len(thread.page_ids),
        }
        for thread in threads
    ]
    return {"pages": pages, "threads": rows, "all_pages": len(memory.pages), "all_threads": len(rows)}


def capture_facts(memory: KnowsFacts) -> dict[str, Json]:
    """Facts and persona, each with the turns it rests on. Newest facts first."""
    newest = sorted(memory.facts, key=lambda fact: fact.valid_from_wall_secs, reverse=True)
    facts: list[Json] = [
        {
            "id": fact.id,
            "subject": fact.subject,
            "attribute": fact.attribute,
            "statement": fact.statement[:300],
            "confidence": fact.confidence,
            "from_wall": fact.valid_from_wall_secs,
            "to_wall": fact.valid_to_wall_secs,
            "ended": fact.ended_because.value if fact.ended_because is not None else None,
            "sources": list(fact.source_turns),
        }
        for fact in newest[:MOST_FACTS]
    ]
    nodes = memory.right_brain.nodes.values()
    persona: list[Json] = [
        {
            "id": node.id,
            "kind": node.kind.value,
            "entity": node.entity,
            "label": node.label,
            "valence": node.valence,
            "description": node.description[:300],
            "total": node.total,
            "sources": list(node.turns),
        }
        for node in list(nodes)[-MOST_PERSONA_NODES:]
    ]
    return {"facts": facts, "persona": persona, "all_facts": len(newest)}
