"""Bounding what one tool result may cost: a request that no model takes is worse than a result that ends early.

Nothing of ours can shorten a result well; the tool can. So the limit is far above what a voice bot's tools return, the
beginning is kept, and the model is told in place that there was more.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipecat_voicectx.projection.block import is_mapping
from pipecat_voicectx.projection.costs import estimate_tokens

__all__ = ["cut_results"]

# Fewer characters than any text has to a token, so that most results need not be counted.
_LEAST_CHARS_PER_TOKEN = 1


def cut_results(messages: Sequence[object], *, max_tokens: int) -> tuple[list[object], int]:
    """The messages, with copies in the place of tool results that are longer than `max_tokens`.

    Returns:
        The messages, and how many of them were cut.
    """
    out: list[object] = []
    cut = 0
    for message in messages:
        if is_mapping(message) and message.get("role") == "tool":
            content = message.get("content")
            if isinstance(content, str) and len(content) > _LEAST_CHARS_PER_TOKEN * max_tokens:
                tokens = estimate_tokens(content)
                if tokens > max_tokens:
                    message = {**message, "content": _beginning(content, tokens, max_tokens)}
                    cut += 1
        out.append(message)
    return out, cut


def _beginning(content: str, tokens: int, max_tokens: int) -> str:
    shown = len(content) * max_tokens // tokens
    return (
        f"{content[:shown]}\n[Cut off: the beginning of a result of about {tokens} tokens. "
        "Ask for less at a time, or narrow the request.]"
    )
