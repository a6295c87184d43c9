"""Editing the LLM's context as a window over the page store. Pure: a list of messages in, a list out.

A context is read as segments: an *exchange* starts at a user message and holds what follows up to the next one; all
else before the first exchange, and every system or developer message anywhere, is the application's. Then:

- the application's messages stay, where they are;
- our own blocks go, and the new one enters in front of the last exchange, so that what precedes it keeps its prefix and
  a tool call that follows is not separated from its result;
- exchanges that live in the page store leave, save the last few that say something, which stay word for word (an
  "okay, great" or "um, uh" that answers no question leaves before them);
- an exchange leaves whole. It stays if one of its tool calls is unanswered or answered in an exchange that stays, or if
  it holds anything we do not recognise (a service's own message, an image): what we do not understand is not ours.

The messages themselves are never changed, only which of them are in the list.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pipecat_voicectx.memory.cleaning import is_low_signal
from pipecat_voicectx.memory.text import is_acknowledgement, is_question
from pipecat_voicectx.projection.block import is_mapping, is_our_block
from pipecat_voicectx.projection.costs import estimate_message_tokens

__all__ = [
    "Exchange",
    "WindowEdit",
    "edit_window",
    "last_user_position",
    "leaving_exchanges",
    "message_text",
    "read_exchanges",
]

# Chosen: a list of five offers as an agency's interface returns it is about 1.5 times the default for two exchanges.
NEWEST_FACTOR = 3
_PENDING_RESULTS = frozenset({"IN_PROGRESS"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One user turn and the answer to it, as found in a context."""

    positions: tuple[int, ...]
    """Where its messages are in the list."""
    user_messages: tuple[object, ...]
    """The user's messages, the objects themselves; several when one turn was written in parts."""
    user_text: str
    bot_text: str
    """Assistant text only, joined."""
    called: tuple[str, ...]
    """Names of the functions called, in order; not those that steer the pipeline."""
    open_calls: tuple[str, ...]
    """Names of the functions, of whatever kind, without a result yet."""
    call_ids: frozenset[str]
    """Ids of tool calls made in, and of results delivered into, this exchange."""
    recognised: bool
    """False when it holds something we do not understand."""


@dataclass(frozen=True, slots=True)
class WindowEdit:
    """The edited list and what became of the exchanges."""

    messages: tuple[object, ...]
    kept: tuple[Exchange, ...]
    """Exchanges still in the window, the open one last. Positions refer to the list before the edit."""
    removed: tuple[Exchange, ...]
    block_position: int | None
    """Where our block stands in `messages`. None: there is none."""


def message_text(message: object) -> str:
    """The text of a standard message, its text parts joined; "" for anything else."""
    if not is_mapping(message):
        return ""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (part.get("text") for part in content if is_mapping(part) and part.get("type") == "text")
        return " ".join(part for part in parts if isinstance(part, str))
    return ""


def read_exchanges(
    messages: Sequence[object], *, steering: Collection[str] = (), foreign: Collection[int] = ()
) -> list[Exchange]:
    """The exchanges of a context, oldest first. User messages in a row belong to one exchange.

    Args:
        messages: The context's messages.
        steering: Functions that steer the pipeline. A call of one is no answer: a caller who goes on after the model
            has called `defer_response` goes on with the same turn.
        foreign: Positions of user messages that the caller did not say: the application's, like a system message.
    """
    groups: list[list[int]] = []
    answered = True
    quiet: set[str] = set()
    for position, message in enumerate(messages):
        role = _role(message)
        if role == "user":
            if position in foreign or is_our_block(message):
                continue
            if answered or not groups:
                groups.append([])
            groups[-1].append(position)
            answered = False
        elif groups and not _is_applications(message):
            groups[-1].append(position)
            answered = answered or not _steers(message, steering, quiet)
    return [_exchange(messages, group, steering) for group in groups]


def last_user_position(messages: Sequence[object]) -> int:
    """Where the last user message is that is no block of ours; behind all messages without one."""
    for position in range(len(messages) - 1, -1, -1):
        if _role(messages[position]) == "user" and not is_our_block(messages[position]):
            return position
    return len(messages)


def edit_window(
    messages: Sequence[object],
    *,
    block: object | None,
    may_leave: Callable[[Exchange], bool],
    keep_last: int,
    keep_tokens: int = 10_000_000,
    count: Callable[[object], int] = estimate_message_tokens,
    ours: Callable[[object], bool] = lambda message: False,
    exchanges: Sequence[Exchange] | None = None,
    leaving: Sequence[Exchange] | None = None,
) -> WindowEdit:
    """The context with committed exchanges taken out and our block put in.

    Args:
        messages: The context's messages; not modified.
        block: The new block message, or None for no block.
        may_leave: Whether an exchange lives in the page store and is thus recoverable.
        keep_last: Finished exchanges that stay word for word, beside the open one.
        keep_tokens: Most tokens of those together; an exchange with a huge tool result leaves at once.
        count: Token estimate of a message.
        ours: Recognises our earlier block by identity; its form is recognised anyway.
        exchanges: `read_exchanges(messages)`, where the caller has it already.
        leaving: `leaving_exchanges` of them, where the caller has it already.
    """
    exchanges = read_exchanges(messages) if exchanges is None else exchanges
    if leaving is None:
        leaving = leaving_exchanges(
            messages,
            exchanges,
            may_leave=may_leave,
            keep_last=keep_last,
            keep_tokens=keep_tokens,
            count=count,
        )
    last = exchanges[-1:]
    gone = {position for exchange in leaving for position in exchange.positions}
    anchor = last[0].positions[0] if last else None
    edited: list[object] = []
    block_position: int | None = None
    for position, message in enumerate(messages):
        if position == anchor and block is not None:
            block_position = len(edited)
            edited.append(block)
        if position in gone or ours(message) or is_our_block(message, tag="recalled_context"):
            continue
        edited.append(message)
    if block is not None and block_position is None:
        block_position = len(edited)
        edited.append(block)
    left = {id(e) for e in leaving}
    kept = tuple(e for e in exchanges if id(e) not in left)
    return WindowEdit(tuple(edited), kept, tuple(leaving), block_position)


def leaving_exchanges(
    messages: Sequence[object],
    exchanges: Sequence[Exchange],
    *,
    may_leave: Callable[[Exchange], bool],
    keep_last: int,
    keep_tokens: int = 10_000_000,
    count: Callable[[object], int] = estimate_message_tokens,
) -> list[Exchange]:
    """Which exchanges an edit of these messages takes out; see `edit_window`."""
    finished = exchanges[:-1]
    staying = _stay(messages, finished, keep_last, keep_tokens, count)
    oldest = [exchange for place, exchange in enumerate(finished) if place not in staying]
    leaving = [e for e in oldest if e.recognised and not e.open_calls and may_leave(e)]
    return _without_split_calls(exchanges, leaving, _ids_outside(messages, exchanges)) if leaving else []


def _stay(
    messages: Sequence[object],
    finished: Sequence[Exchange],
    keep_last: int,
    keep_tokens: int,
    count: Callable[[object], int],
) -> set[int]:
    """Positions in `finished` of those that stay: the newest `keep_last` that say something, as far as tokens go.

    The newest may take more: it is what "tell me more about this one" is about.
    """
    left = keep_tokens
    staying: set[int] = set()
    for place in range(len(finished) - 1, -1, -1):
        if len(staying) == keep_last:
            break
        if place < len(finished) - 1 and _says_nothing(finished, place):
            continue
        cost = sum(count(messages[position]) for position in finished[place].positions)
        if cost > (left if place < len(finished) - 1 else NEWEST_FACTOR * keep_tokens):
            break
        left -= cost
        staying.add(place)
    return staying


def _says_nothing(finished: Sequence[Exchange], place: int) -> bool:
    """Acknowledgement, greeting or filler that answers no question and calls no function: the first that can go."""
    exchange = finished[place]
    asked = place > 0 and is_question(finished[place - 1].bot_text)
    return not asked and not exchange.called and _carries_nothing(exchange.user_text)


@lru_cache(maxsize=128)
def _carries_nothing(text: str) -> bool:
    return is_low_signal(text) or is_acknowledgement(text)


def _ids_outside(messages: Sequence[object], exchanges: Sequence[Exchange]) -> frozenset[str]:
    """Ids of tool calls and results that stand before the first exchange."""
    first = exchanges[0].positions[0] if exchanges else len(messages)
    known = [p for p in range(first) if _role(messages[p]) is not None and not _is_applications(messages[p])]
    return _exchange(messages, known).call_ids


def _without_split_calls(
    exchanges: Sequence[Exchange], leaving: list[Exchange], outside: frozenset[str]
) -> list[Exchange]:
    """Drops from `leaving` whatever shares a tool call with what stays, until nothing does."""
    while True:
        going = {id(exchange) for exchange in leaving}
        staying_ids = outside.union(*(e.call_ids for e in exchanges if id(e) not in going))
        kept = [e for e in leaving if not e.call_ids & staying_ids]
        if len(kept) == len(leaving):
            return leaving
        leaving = kept


def _steers(message: object, steering: Collection[str], quiet: set[str]) -> bool:
    """Whether a message is a call of a steering function or its result; `quiet` collects the calls' ids."""
    if not steering or not is_mapping(message):
        return False
    if message.get("role") == "tool":
        return str(message.get("tool_call_id") or "") in quiet
    calls = _calls(message)
    if not calls or message_text(message).strip() or any(name not in steering for name, _ in calls):
        return False
    quiet.update(call_id for _, call_id in calls)
    return True


def _exchange(messages: Sequence[object], group: Sequence[int], steering: Collection[str] = ()) -> Exchange:
    users: list[object] = []
    bot: list[str] = []
    calls: dict[str, str] = {}
    call_ids: set[str] = set()
    pending: set[str] = set()
    recognised = True
    for position in group:
        message = messages[position]
        role = _role(message)
        if role is None or not is_mapping(message):
            recognised = False
            continue
        if not _is_plain(message):
            recognised = False
        if role == "user":
            users.append(message)
        elif role == "assistant":
            bot.append(message_text(message))
            for name, call_id in _calls(message):
                calls[call_id] = name
                pending.add(call_id)
        else:
            call_id = str(message.get("tool_call_id") or _async_call_id(message) or "")
            call_ids.add(call_id)
            if not _is_pending(message):
                pending.discard(call_id)
    return Exchange(
        positions=tuple(group),
        user_messages=tuple(users),
        user_text=" ".join(text for m in users if (text := message_text(m).strip())),
        bot_text=" ".join(text for text in (part.strip() for part in bot) if text),
        called=tuple(name for name in calls.values() if name not in steering),
        open_calls=tuple(name for call_id, name in calls.items() if call_id in pending),
        call_ids=frozenset(call_ids | set(calls)),
        recognised=recognised,
    )


def _role(message: object) -> str | None:
    """The role of a standard message. None: a message in a service's own format, or nothing we know."""
    if not is_mapping(message):
        return None
    role = message.get("role")
    return role if role in ("system", "developer", "user", "assistant", "tool") else None


def _is_applications(message: object) -> bool:
    """System and developer messages (our blocks among the latter), but not the late result of a tool call."""
    role = _role(message)
    return role == "system" or (role == "developer" and _async_call_id(message) is None)


def _is_plain(message: Mapping[str, object]) -> bool:
    """Text and tool calls only; images, audio and files are not stored in pages and must not leave."""
    content = message.get("content")
    if content is None or isinstance(content, str):
        return True
    return isinstance(content, list) and all(is_mapping(p) and p.get("type") == "text" for p in content)


def _calls(message: Mapping[str, object]) -> list[tuple[str, str]]:
    """(name, id) of each call in an assistant message."""
    calls = message.get("tool_calls")
    return [_call(call) for call in calls] if isinstance(calls, (list, tuple)) else []


def _call(call: object) -> tuple[str, str]:
    if not is_mapping(call):
        return "", ""
    function = call.get("function")
    name = function.get("name") if is_mapping(function) else ""
    return str(name or ""), str(call.get("id") or "")


def _payload(message: object) -> Mapping[str, object] | None:
    """The body of Pipecat's asynchronous tool messages, which travel as JSON text in tool and developer messages."""
    text = message.get("content") if is_mapping(message) else None
    if not isinstance(text, str) or not text.startswith('{"type": "async_tool"'):
        return None
    try:
        payload = json.loads(text)
    except ValueError:
        return None
    return payload if isinstance(payload, dict) else None


def _async_call_id(message: object) -> str | None:
    payload = _payload(message)
    return None if payload is None else str(payload.get("tool_call_id") or "") or None


def _is_pending(message: Mapping[str, object]) -> bool:
    payload = _payload(message)
    if payload is not None:
        return payload.get("status") != "finished"
    content = message.get("content")
    return isinstance(content, str) and content in _PENDING_RESULTS
