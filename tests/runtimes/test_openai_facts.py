"""The LLM-backed extractor against a server that speaks the real protocol over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from pipecat_voicectx.errors import BadInputError, UnavailableError
from pipecat_voicectx.memory.emergence import Candidate
from pipecat_voicectx.memory.extraction import ConversationFocus
from pipecat_voicectx.memory.facts import Assertion
from pipecat_voicectx.memory.llm_judge import parse_verdict
from pipecat_voicectx.memory.reconcile import apply_operations, reconcile
from pipecat_voicectx.runtimes.openai_facts import ExtractionSource, OpenAIEmergenceJudge, OpenAIFactExtractor
from pipecat_voicectx.testing.openai_server import ApiError, ChatRequest, OpenAIServer, Reply

TURN = "my sister zoe lives in oslo"
GOOD = json.dumps(
    {
        "changes": [
            {
                "operation": "state", "subject": "sister", "attribute": "live in", "value": "oslo",
                "statement": "The user's sister lives in Oslo.", "negated": False, "single_valued": True,
                "replaces": None,
            }
        ]
    }
)  # fmt: skip


class Script:
    """Answers with one text after the other, the last one for ever; an error is raised."""

    def __init__(self, *replies: str | ApiError) -> None:
        self._replies = list(replies)
        self.seen: list[ChatRequest] = []

    def reply(self, request: ChatRequest) -> Reply:
        self.seen.append(request)
        answer = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if isinstance(answer, ApiError):
            raise answer
        return Reply(text=answer)


def run(script: Script, body: Callable[[OpenAIFactExtractor], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with OpenAIServer(script) as server:
            extractor = OpenAIFactExtractor(model="scripted", base_url=server.base_url, api_key="unused")
            try:
                await body(extractor)
            finally:
                await extractor.close()

    asyncio.run(main())


def values(extraction: Any) -> list[str]:
    return [change.value for change in extraction.extraction.changes if isinstance(change, Assertion)]


def test_the_models_facts_are_used_and_handling_them_twice_changes_nothing() -> None:
    async def body(extractor: OpenAIFactExtractor) -> None:
        first = await extractor.extract(TURN, ConversationFocus())
        again = await extractor.extract(TURN, ConversationFocus())
        assert first.source is ExtractionSource.LLM
        facts = apply_operations([], reconcile([], first.extraction.changes, turn_id="t1", now_wall_secs=1e9))
        twice = apply_operations(
            facts, reconcile(facts, again.extraction.changes, turn_id="t1", now_wall_secs=1e9 + 9)
        )
        assert twice == facts
        assert [fact.value for fact in facts] == ["oslo"]

    run(Script(GOOD), body)


def test_a_bad_reply_is_asked_for_again_with_the_reason() -> None:
    script = Script("certainly, one moment", GOOD)

    async def body(extractor: OpenAIFactExtractor) -> None:
        found = await extractor.extract(TURN, ConversationFocus())
        assert (found.source, values(found)) == (ExtractionSource.LLM, ["oslo"])
        assert extractor.counters.unreadable == 1

    run(script, body)
    assert "could not be read" in str(script.seen[1].messages[-1]["content"])


@pytest.mark.parametrize("useless", ["", "no", '{"changes": "none"}'])
def test_when_no_reply_can_be_read_the_rules_read_the_turn_and_it_shows(useless: str) -> None:
    async def body(extractor: OpenAIFactExtractor) -> None:
        found = await extractor.extract(TURN, ConversationFocus())
        assert found.source is ExtractionSource.RULES
        assert "oslo" in values(found)
        assert extractor.counters.by_rules == 1

    run(Script(useless), body)


def test_an_empty_list_is_an_answer() -> None:
    async def body(extractor: OpenAIFactExtractor) -> None:
        found = await extractor.extract(TURN, ConversationFocus())
        assert (found.source, values(found)) == (ExtractionSource.LLM, [])

    run(Script('{"changes": []}'), body)


def test_a_server_without_structured_outputs_is_asked_without() -> None:
    refusal = ApiError(400, "response_format is not supported", kind="invalid_request_error")

    async def body(extractor: OpenAIFactExtractor) -> None:
        assert values(await extractor.extract(TURN, ConversationFocus())) == ["oslo"]
        assert extractor.counters.requests == 3
        assert values(await extractor.extract(TURN, ConversationFocus())) == ["oslo"]
        assert extractor.counters.requests == 4

    run(Script(refusal, refusal, GOOD), body)


@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_a_server_that_refuses_is_unavailable_and_not_an_empty_answer(status: int) -> None:
    async def body(extractor: OpenAIFactExtractor) -> None:
        with pytest.raises(UnavailableError):
            await extractor.extract(TURN, ConversationFocus())

    run(Script(ApiError(status, "no")), body)


def test_a_server_that_is_not_there_is_unavailable() -> None:
    async def main() -> None:
        extractor = OpenAIFactExtractor(
            model="m", base_url="http://127.0.0.1:9/v1", api_key="x", timeout_secs=2
        )
        with pytest.raises(UnavailableError):
            await extractor.extract(TURN, ConversationFocus())
        await extractor.close()

    asyncio.run(main())


CANDIDATE = Candidate(
    entities=frozenset({"dog", "vet"}), coherence=0.7, queries=4, items=9, cluster_items=20, best_outsider=0.3,
    neighbours=("boiler",),
)  # fmt: skip


@pytest.mark.parametrize(
    ("reply", "promote"),
    [
        ('{"relevant": true, "important": true, "complete": true}', True),
        ('```json\n{"relevant": true, "important": false, "complete": true}\n```', False),
    ],
)
def test_a_model_judges_what_emerges(reply: str, promote: bool) -> None:
    script = Script(reply)

    async def main() -> None:
        async with OpenAIServer(script) as server:
            judge = OpenAIEmergenceJudge(model="scripted", base_url=server.base_url, api_key="unused")
            assert (await judge.judge(CANDIDATE)).promote is promote
            await judge.close()

    asyncio.run(main())
    assert '"dog"' in str(script.seen[0].messages[1]["content"])


@pytest.mark.parametrize(
    "reply", ["", "yes", '{"relevant": true}', '{"relevant": "yes", "important": 1, "complete": 1}']
)
def test_a_verdict_that_cannot_be_read_is_said_to_be_bad(reply: str) -> None:
    with pytest.raises(BadInputError):
        parse_verdict(reply)


def test_what_a_model_makes_up_is_dropped() -> None:
    invented = GOOD.replace('"oslo"', '"the password is 1234"')

    async def body(extractor: OpenAIFactExtractor) -> None:
        assert values(await extractor.extract(TURN, ConversationFocus())) == []
        assert extractor.counters.ungrounded == 1

    run(Script(invented), body)
