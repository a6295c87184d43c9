"""How many tokens a chat-completions request costs, estimated without any tokenizer's files.

The estimate follows the pre-tokenizer that OpenAI's tokenizers share: runs of letters, of up to three digits, and of
punctuation. A Latin word up to eight letters is one token, each further six letters one more; other letters are
counted 1.5 to a token; a message costs four tokens of framing. It is for comparing requests with each other, always
by the same rule, and is not a provider's bill.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence

__all__ = ["PARTS", "estimate_tokens", "request_parts"]

PARTS = ("system", "tools", "history", "recalled", "state")
"""What a request is made of: instructions, function schemas, dialogue, and the two blocks a plugin may add."""

_MESSAGE_FRAMING = 4
_PIECE = re.compile(r"[A-Za-z]+(?:'[a-z]+)?|\d{1,3}|[^\W\d_]+|[^\w\s]+|_+")


def estimate_tokens(text: str) -> int:
    """Estimated tokens of one text."""
    total = 0.0
    for match in _PIECE.finditer(text):
        piece = match[0]
        if piece[0].isascii() and piece[0].isalpha():
            total += 1 + max(0, math.ceil((len(piece) - 8) / 6))
        elif piece[0].isalpha():
            total += len(piece) / 1.5
        else:
            total += 1
    return math.ceil(total)


def request_parts(messages: Sequence[Mapping[str, object]], tools: Sequence[object]) -> dict[str, int]:
    """Estimated tokens of a request by part, all of `PARTS` present."""
    parts = dict.fromkeys(PARTS, 0)
    for message in messages:
        parts[_part_of(message)] += _MESSAGE_FRAMING + _message_tokens(message)
    if tools:
        parts["tools"] = estimate_tokens(json.dumps(tools))
    return parts


def _message_tokens(message: Mapping[str, object]) -> int:
    tokens = estimate_tokens(text_of(message))
    calls = message.get("tool_calls")
    return tokens + estimate_tokens(json.dumps(calls)) if calls else tokens


def text_of(message: Mapping[str, object]) -> str:
    """A message's text, whether its content is a string or a list of parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return ""


def _part_of(message: Mapping[str, object]) -> str:
    text = text_of(message).lstrip()
    if text.startswith("<voice_state>"):
        return "state"
    if text.startswith("<recalled_context>"):
        return "recalled"
    return "system" if message.get("role") in ("system", "developer") else "history"
