"""The `recall` function for the serving LLM: more of a page than the window shows, or a search of its own.

`VoiceContext` offers it by itself, from when there is more in memory than the window shows. Alone:

    projector.add_tool(recall_function(projector))

The handler waits for the query's embedding for a moment, since the model waits anyway; then words decide.
"""

from __future__ import annotations

import asyncio
import time

from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.services.llm_service import FunctionCallParams

from pipecat_voicectx.errors import BadInputError
from pipecat_voicectx.processors.memory_projector import MemoryProjector
from pipecat_voicectx.projection.projector import Fidelity
from pipecat_voicectx.projection.recall_request import (
    RecallToolConfig,
    find_handle,
    read_request,
    recall_result,
)

__all__ = ["recall_function"]

# Chosen: an embedding takes 5 to 20 ms; a model that still loads is not waited for.
_EMBEDDING_WAIT_SECS = 0.3

# Short on purpose: it is part of every request from when it is offered.
_DESCRIPTION = "Look up earlier talk with this caller that is not in front of you"


def recall_function(projector: MemoryProjector, *, config: RecallToolConfig | None = None) -> FunctionSchema:
    """The function with its handler.

    Args:
        projector: Whose memory it looks into.
        config: Limits of one call.
    """
    limits = config or RecallToolConfig()

    async def recall(params: FunctionCallParams) -> None:
        await params.result_callback(await answer(projector, params.arguments, limits))

    fidelities = ["transcript", "summary", *(["audio"] if projector.plays_recordings else [])]
    return FunctionSchema(
        name="recall",
        description=_DESCRIPTION,
        properties={
            "query": {"type": "string", "description": "What to look for"},
            "page": {"type": "string", "description": "Or an entry's handle (#3fa9)"},
            "fidelity": {"type": "string", "enum": fidelities},
        },
        required=[],
        handler=recall,
    )


async def answer(
    projector: MemoryProjector, arguments: object, config: RecallToolConfig
) -> dict[str, object]:
    """What one call of the function returns; an `error` for arguments that do not fit."""
    memory = projector.memory
    try:
        request = read_request(arguments)
    except BadInputError as error:
        return {"error": str(error)}
    if request.handle is not None:
        page = find_handle(request.handle, memory.pages.values())
        pages = [page] if page is not None else []
    else:
        query = request.query or ""
        embed = memory.prepare_query(query)
        if embed is not None:
            await asyncio.wait([asyncio.ensure_future(embed())], timeout=_EMBEDDING_WAIT_SECS)
        hits = memory.rank(query, exclude=projector.open_page_ids, limit=config.max_pages)
        pages = [memory.pages[hit.key] for hit in hits if hit.lexical > 0 or hit.cosine > 0]
    recordings: dict[str, str] = {}
    if request.fidelity is Fidelity.AUDIO:
        recordings = await projector.attach_recordings(pages[: config.max_pages])
    return recall_result(
        pages, fidelity=request.fidelity, config=config, wall_secs=time.time(), recordings=recordings
    )
