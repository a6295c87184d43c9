"""LLM-backed extraction, and judging of emergence, over any endpoint that speaks OpenAI's chat completions.

Runs off the response path, from the journal's writer. It asks for structured outputs and does without where the server
refuses them; a reply that cannot be read is asked for once more. What happens then is stated: when the server cannot be
reached, `UnavailableError` says so and the caller tries again later; when it answers nothing usable, the rules
extract, and the result says which of the two it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import openai
from loguru import logger
from openai import AsyncOpenAI

from pipecat_voicectx.errors import BadInputError, UnavailableError
from pipecat_voicectx.memory.emergence import Candidate, Verdict
from pipecat_voicectx.memory.extraction import ConversationFocus, Extraction, extract
from pipecat_voicectx.memory.facts import Fact
from pipecat_voicectx.memory.llm_facts import (
    REPLY_SCHEMA,
    LlmReply,
    extraction_messages,
    parse_reply,
    repair_message,
)
from pipecat_voicectx.memory.llm_judge import VERDICT_SCHEMA, judge_messages, parse_verdict

__all__ = [
    "ExtractionSource",
    "LlmExtractorCounters",
    "OpenAIEmergenceJudge",
    "OpenAIFactExtractor",
    "SourcedExtraction",
    "StructuredChat",
]

# Chosen: off the response path; a small model answers in one to three seconds.
DEFAULT_TIMEOUT_SECS = 20.0
_MAX_ATTEMPTS = 2
_MAX_TOKENS = 1_500


class ExtractionSource(Enum):
    """Who read the turn."""

    LLM = "llm"
    RULES = "rules"
    """The rules, because the model's answers could not be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedExtraction:
    """What a turn said, and who says so."""

    extraction: Extraction
    source: ExtractionSource


@dataclass(slots=True, kw_only=True)
class LlmExtractorCounters:
    """Totals since the extractor was made."""

    requests: int = 0
    unreadable: int = 0
    """Replies without a readable list of changes."""
    repaired: int = 0
    invalid: int = 0
    ungrounded: int = 0
    over_limit: int = 0
    by_rules: int = 0
    """Turns that the rules read instead."""


class StructuredChat:
    """Asks an endpoint for one JSON object, by the strictest `response_format` it knows.

    Args:
        model: The model's name.
        base_url: The endpoint with `/v1`; OpenAI's own by default.
        api_key: For the endpoint; `OPENAI_API_KEY` by default.
        timeout_secs: For each request.
        schema: The object, as OpenAI's structured outputs want it.
    """

    def __init__(
        self,
        *,
        model: str,
        base_url: str | None,
        api_key: str | None,
        timeout_secs: float,
        schema: Mapping[str, object],
    ) -> None:
        self._client = AsyncOpenAI(base_url=base_url, api_key=api_key, timeout=timeout_secs, max_retries=0)
        self._model = model
        self._formats: list[dict[str, Any] | None] = [
            {"type": "json_schema", "json_schema": schema},
            {"type": "json_object"},
            None,
        ]
        self.requests = 0
        """Requests sent."""

    async def ask(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The reply's text; "" when there is none.

        Raises:
            UnavailableError: The endpoint cannot be reached, refuses the key or has no capacity; try again later.
        """
        while True:
            self.requests += 1
            wanted = self._formats[0]
            more: dict[str, Any] = {} if wanted is None else {"response_format": wanted}
            request: dict[str, Any] = {
                "model": self._model,
                "messages": list(messages),
                "max_tokens": _MAX_TOKENS,
            }
            try:
                completion = await self._client.chat.completions.create(**request, **more)
            except openai.BadRequestError as error:
                if len(self._formats) == 1:
                    raise UnavailableError(
                        f"the model's endpoint refuses the request: {error.code}"
                    ) from error
                self._formats.pop(0)  # the server does not know this response_format; the next is simpler
            except openai.OpenAIError as error:
                raise UnavailableError(f"the model's endpoint: {type(error).__name__}") from error
            else:
                choices = getattr(completion, "choices", None) or []
                return (choices[0].message.content or "") if choices else ""

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.close()


class OpenAIFactExtractor:
    """Extracts facts with a language model.

    Args:
        model: The model's name.
        base_url: The endpoint with `/v1`; OpenAI's own by default.
        api_key: For the endpoint; `OPENAI_API_KEY` by default.
        attributes: What may be remembered, when a `FactSchema` limits it.
        timeout_secs: For each request.
    """

    def __init__(
        self,
        *,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        attributes: Iterable[str] = (),
        timeout_secs: float = DEFAULT_TIMEOUT_SECS,
    ) -> None:
        self._chat = StructuredChat(
            model=model, base_url=base_url, api_key=api_key, timeout_secs=timeout_secs, schema=REPLY_SCHEMA
        )
        self._attributes = tuple(attributes)
        self.counters = LlmExtractorCounters()

    async def extract(
        self, text: str, focus: ConversationFocus, *, question: str = "", known: Iterable[Fact] = ()
    ) -> SourcedExtraction:
        """What a confirmed user turn says. Idempotent in effect: reconciling its result twice changes nothing more.

        Raises:
            UnavailableError: The endpoint cannot be reached, refuses the key or has no capacity; try again later.
        """
        by_rules = extract(text, focus, question=question)
        messages = extraction_messages(text, question=question, known=known, attributes=self._attributes)
        for _ in range(_MAX_ATTEMPTS):
            answer = await self._chat.ask(messages)
            self.counters.requests = self._chat.requests
            try:
                reply = parse_reply(answer, text=text, question=question)
            except BadInputError as error:
                self.counters.unreadable += 1
                messages = [*messages, {"role": "assistant", "content": answer}, repair_message(str(error))]
                continue
            self._count(reply)
            extraction = Extraction(changes=reply.changes, focus=by_rules.focus)
            return SourcedExtraction(extraction=extraction, source=ExtractionSource.LLM)
        self.counters.by_rules += 1
        logger.warning(
            "fact extraction: the model's replies could not be read; the rules read the turn instead"
        )
        return SourcedExtraction(extraction=by_rules, source=ExtractionSource.RULES)

    async def extract_turn(
        self, text: str, focus: ConversationFocus, *, question: str, known: Iterable[Fact]
    ) -> Extraction:
        """As `FactMemory` asks for it: `extract` without the source.

        Raises:
            UnavailableError: As `extract`.
        """
        return (await self.extract(text, focus, question=question, known=known)).extraction

    async def close(self) -> None:
        """Closes the connections."""
        await self._chat.close()

    def _count(self, reply: LlmReply) -> None:
        self.counters.repaired += reply.repaired
        self.counters.invalid += reply.invalid
        self.counters.ungrounded += reply.ungrounded
        self.counters.over_limit += reply.over_limit


class OpenAIEmergenceJudge:
    """Judges emergence candidates with a language model; what cannot be read or asked is left for another time.

    Args:
        model: The model's name.
        base_url: The endpoint with `/v1`; OpenAI's own by default.
        api_key: For the endpoint; `OPENAI_API_KEY` by default.
        timeout_secs: For each request.
    """

    def __init__(
        self,
        *,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_secs: float = DEFAULT_TIMEOUT_SECS,
    ) -> None:
        self._chat = StructuredChat(
            model=model, base_url=base_url, api_key=api_key, timeout_secs=timeout_secs, schema=VERDICT_SCHEMA
        )

    async def judge(self, candidate: Candidate) -> Verdict:
        """The model's verdict.

        Raises:
            UnavailableError: The endpoint does not answer.
            BadInputError: It answered something else.
        """
        return parse_verdict(await self._chat.ask(judge_messages(candidate)))

    async def close(self) -> None:
        """Closes the connections."""
        await self._chat.close()
