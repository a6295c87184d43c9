"""Other ways to remember, as they come: plain full history, and Pipecat's own Mem0MemoryService on a local Mem0.

Mem0 wants a language model and an embedder; both are routes of a server on loopback. The model is scripted: asked for
memories, it gives the statements it finds in the messages it was shown. The embedder compares words.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiohttp import web
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.mem0.memory import Mem0MemoryService

from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.processors.memory_projector import MemoryProjector
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.mem0_engine import LocalKeywordEncoder
from pipecat_voicectx.stores.page_memory import PageStoreConfig
from pipecat_voicectx.testing.openai_server import ChatRequest, OpenAIServer, Reply
from pipecat_voicectx.testing.scripted_session import PassThrough

_STATED = re.compile(r"^(?:user: )?((?:i'm allergic to|my name is) [\w ]+)", re.MULTILINE)


class _Extraction:
    """What Mem0's language model is asked for."""

    def reply(self, request: ChatRequest) -> Reply:
        shown = str(request.messages[-1].get("content")).rpartition("## New Messages")[2]
        return Reply(text=json.dumps({"memory": [{"text": text} for text in _STATED.findall(shown)]}))


class Backend:
    """Language model and embedder of a local Mem0, in a thread of their own."""

    def __init__(self) -> None:
        self.delay_secs = 0.0
        self.loop = asyncio.new_event_loop()
        self._embedder = LexicalEmbedder()
        routes = [web.post("/v1/embeddings", self._embed)]
        self.server = OpenAIServer(_Extraction(), routes=routes)

    async def _embed(self, request: web.Request) -> web.Response:
        asked = (await request.json())["input"]
        await asyncio.sleep(self.delay_secs)
        vectors = self._embedder.embed([asked] if isinstance(asked, str) else asked)
        data = [{"object": "embedding", "index": i, "embedding": v.tolist()} for i, v in enumerate(vectors)]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return web.json_response({"object": "list", "data": data, "model": "m", "usage": usage})


@contextmanager
def backend() -> Iterator[Backend]:
    made = Backend()
    thread = threading.Thread(target=made.loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(made.server.__aenter__(), made.loop).result(10)
    try:
        yield made
    finally:
        asyncio.run_coroutine_threadsafe(made.server.__aexit__(None, None, None), made.loop).result(10)
        made.loop.call_soon_threadsafe(made.loop.stop)
        thread.join(5)
        made.loop.close()


def mem0_service(folder: Path, served: Backend) -> Mem0MemoryService:
    """Pipecat's service, as its documentation configures a local Mem0."""
    openai = {"model": "m", "api_key": "none", "openai_base_url": served.server.base_url}
    store = {
        "path": str(folder / "qdrant"),
        "collection_name": "c",
        "embedding_model_dims": 256,
        "on_disk": True,
    }
    service = Mem0MemoryService(
        local_config={
            "llm": {"provider": "openai", "config": openai},
            "embedder": {"provider": "openai", "config": {**openai, "embedding_dims": 256}},
            "vector_store": {"provider": "qdrant", "config": store},
            "history_db_path": str(folder / "history.db"),
        },
        user_id="ann",
    )
    # Its keyword model would be fetched; this one needs no network.
    service.memory_client.vector_store._bm25_encoder = LocalKeywordEncoder()
    return service


def stored_by_mem0(service: Mem0MemoryService, *, within_secs: float = 10.0) -> str:
    """All its memories, once two looks agree."""
    deadline_secs, before = time.monotonic() + within_secs, ""
    while time.monotonic() < deadline_secs:
        found = service.memory_client.get_all(filters={"user_id": "ann"})["results"]
        text = "\n".join(sorted(str(each["memory"]) for each in found))
        if text and text == before:
            break
        before = text
        time.sleep(0.5)
    return before


def full_history() -> FrameProcessor:
    """No memory: Pipecat's context as it grows."""
    return PassThrough()


def ours(folder: Path, session_id: str) -> MemoryProjector:
    """As a bot has it."""
    return MemoryProjector(
        owner=Owner(user_id="ann"),
        store=PageStoreConfig(path=folder),
        embedder=LexicalEmbedder(),
        session_id=session_id,
    )
