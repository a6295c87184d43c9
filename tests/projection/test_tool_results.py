from __future__ import annotations

import pytest

from pipecat_voicectx.projection.costs import estimate_tokens
from pipecat_voicectx.projection.tool_results import cut_results


def tool(content: object) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": "c1", "content": content}


@pytest.mark.parametrize("text", ["word " * 5_000, "x" * 20_000, "天气很好" * 4_000])
def test_a_long_result_keeps_its_beginning_and_says_how_long_it_was(text: str) -> None:
    ([message], cut) = cut_results([tool(text)], max_tokens=1_000)
    assert cut == 1
    assert isinstance(message, dict)
    assert message["tool_call_id"] == "c1"
    assert message["content"].startswith(text[:1_000])
    assert f"{estimate_tokens(text)} tokens" in message["content"]
    assert 900 <= estimate_tokens(message["content"]) <= 1_060
    assert cut_results([message], max_tokens=1_100) == ([message], 0)


@pytest.mark.parametrize(
    "message",
    [
        tool("word " * 500),
        tool("IN_PROGRESS"),
        tool([{"type": "text", "text": "x" * 20_000}]),
        {"role": "user", "content": "word " * 5_000},
        {"role": "tool"},
        object(),
    ],
)
def test_everything_else_stays_the_very_object(message: object) -> None:
    out, cut = cut_results([message], max_tokens=1_000)
    assert out[0] is message
    assert cut == 0
