"""While the caller speaks: the request so far is embedded, ranked and planned, so that the turn's end finds it done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from pipecat_voicectx.memory.text import readable
from pipecat_voicectx.processors.audio_pages import AudioPages
from pipecat_voicectx.processors.window_planner import WindowPlanner
from pipecat_voicectx.stores.fact_session import FactSession
from pipecat_voicectx.stores.page_memory import PageMemory

__all__ = ["QueryPreparation"]

# Chosen: pages whose recordings are decoded while the caller still speaks; the budget seldom takes more.
_LIKELY_RECORDINGS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPreparation:
    """Prepares the requests of one session."""

    memory: PageMemory
    planner: WindowPlanner
    facts: FactSession | None
    audio: AudioPages | None
    spawn: Callable[[Coroutine[Any, Any, None], str], None]
    """Runs work in the background, under a name."""
    guarded: Callable[[Callable[[], None]], Awaitable[None]]
    """Runs a step that may fail."""
    record: Callable[[Coroutine[Any, Any, None] | None], None]
    """Runs work on recordings, where there is any."""

    def hear(self, text: str) -> None:
        """The caller has said this so far."""
        text = readable(text)
        self.embed(text)
        if self.facts is not None:
            self.facts.hear(text)

    def embed(self, text: str) -> None:
        """Embeds a request and prepares for it, unless that is under way."""
        embed = self.memory.prepare_query(text)
        if embed is not None:
            self.spawn(self._prepare(text, embed()), "embed")

    async def _prepare(self, text: str, embed: Coroutine[Any, Any, None]) -> None:
        await embed
        await self.guarded(self.planner.prepare)
        audio = self.audio
        if audio is not None and audio.prompts:
            hidden = self.planner.open_page_ids
            hits = self.memory.rank(text, exclude=hidden, limit=_LIKELY_RECORDINGS, provisional=True)
            self.record(audio.relevant([self.memory.pages[hit.key] for hit in hits]))
