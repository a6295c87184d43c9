"""The `remember` and `forget` functions for the serving LLM: the caller's own say in what is kept of them.

Add them to the context's tools:

    context = LLMContext(tools=[remember_function(projector), forget_function(projector)])

`forget` asks back before it erases. Its first call only says what would go; it erases when it is called again for the
same topic with `confirmed`, in a later turn of the caller. A model that confirms by itself in the same turn is told to
ask first, so a single misheard sentence never erases anything. What is erased goes from facts, brains, engine, pages
and journal.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.services.llm_service import FunctionCallParams

from pipecat_voicectx.errors import UsageError, VoiceContextError
from pipecat_voicectx.memory.facts import content_words
from pipecat_voicectx.memory.forgotten import means_everything
from pipecat_voicectx.memory.reconcile import Add, Delete, Update
from pipecat_voicectx.memory.text import readable
from pipecat_voicectx.processors.memory_projector import MemoryProjector
from pipecat_voicectx.projection.block import escape_recalled
from pipecat_voicectx.stores.fact_session import FactSession

__all__ = ["ForgetRequest", "forget_function", "remember_function"]

# Chosen: a sentence of a caller; longer ones are dictation or an attempt at something else.
_MAX_CHARS = 500
# Chosen: what is read out before the caller confirms.
_MAX_LISTED = 5


def remember_function(projector: MemoryProjector) -> FunctionSchema:
    """The `remember` function with its handler.

    Raises:
        UsageError: The projector keeps no facts.
    """
    facts = _facts(projector)

    async def remember(params: FunctionCallParams) -> None:
        await params.result_callback(await answer_remember(projector, facts, params.arguments))

    return FunctionSchema(
        name="remember",
        description="Keep something about the caller for later calls. Only when the caller asks for it.",
        properties={"text": {"type": "string", "description": "What to keep, in the caller's words."}},
        required=["text"],
        handler=remember,
    )


def forget_function(projector: MemoryProjector) -> FunctionSchema:
    """The `forget` function with its handler.

    Raises:
        UsageError: The projector keeps no facts.
    """
    request = ForgetRequest(projector)

    async def forget(params: FunctionCallParams) -> None:
        await params.result_callback(await request.answer(params.arguments))

    return FunctionSchema(
        name="forget",
        description=(
            "Erase what is remembered about a topic, when the caller asks for it. Call it without `confirmed` first: "
            "it says what would be erased. Ask the caller, and call it again with `confirmed` once they have agreed."
        ),
        properties={
            "topic": {"type": "string", "description": "What to forget, in the caller's words."},
            "confirmed": {"type": "boolean", "description": "The caller has agreed after being asked."},
        },
        required=["topic"],
        handler=forget,
    )


async def answer_remember(
    projector: MemoryProjector, facts: FactSession, arguments: object
) -> dict[str, object]:
    """What one call of `remember` returns."""
    text = _text(arguments, "text")
    if text is None:
        return {"error": f"text must be 1 to {_MAX_CHARS} characters"}
    turn_id = next(iter(projector.open_page_ids), "")
    operations = await facts.memory.remember(text, turn_id=turn_id, wall_secs=time.time())
    kept = [
        escape_recalled(each.fact.statement)
        for each in operations
        if isinstance(each, Add | Update) and each.fact.current
    ]
    return {"kept": kept} if kept else {"kept": [], "note": "nothing new, or not allowed to be kept"}


class ForgetRequest:
    """One session's `forget`: what was asked back about, and in which turn."""

    def __init__(self, projector: MemoryProjector) -> None:
        self._projector = projector
        self._facts = _facts(projector)
        self._asked: tuple[frozenset[str], frozenset[str]] | None = None

    async def answer(self, arguments: object) -> dict[str, object]:
        """What one call of `forget` returns."""
        topic = _text(arguments, "topic")
        if topic is None:
            return {"error": f"topic must be 1 to {_MAX_CHARS} characters"}
        everything = means_everything(topic)
        memory = self._facts.memory
        doomed = memory.facts if everything else memory.would_forget(topic)
        if not doomed and not everything:
            return {"erased": 0, "note": "nothing is remembered about that"}
        turn, words = self._projector.open_page_ids, content_words(topic)
        asked_before = self._asked is not None and self._asked[0] == words and self._asked[1] != turn
        confirmed = isinstance(arguments, Mapping) and arguments.get("confirmed") is True
        if not confirmed or not asked_before:
            self._asked = (words, turn)
            return {
                "erased": 0,
                "would_erase": "everything, earlier calls included" if everything else len(doomed),
                "about": [escape_recalled(fact.statement) for fact in doomed if fact.current][:_MAX_LISTED],
                "next": "Ask the caller whether to erase this. Call again with confirmed after they say yes.",
            }
        self._asked = None
        if everything:
            return await self._erase_everything(len(doomed))
        operations = await self._facts.memory.forget(
            topic, turn_id=next(iter(turn), ""), wall_secs=time.time()
        )
        self._facts.tell_forgotten()
        return {"erased": sum(isinstance(each, Delete) for each in operations)}

    async def _erase_everything(self, facts: int) -> dict[str, object]:
        try:
            await self._projector.forget_everything()
        except VoiceContextError as error:
            return {"erased": 0, "error": f"not everything could be erased, try again: {error}"}
        return {"erased": facts, "note": "everything, and what was said in earlier calls"}


def _facts(projector: MemoryProjector) -> FactSession:
    if projector.facts is None:
        raise UsageError("this MemoryProjector keeps no facts; give it `facts`")
    return projector.facts


def _text(arguments: object, name: str) -> str | None:
    """An argument, from a model: anything may be anything."""
    value = arguments.get(name) if isinstance(arguments, Mapping) else None
    text = readable(value.strip()) if isinstance(value, str) else ""
    return text if 0 < len(text) <= _MAX_CHARS else None
