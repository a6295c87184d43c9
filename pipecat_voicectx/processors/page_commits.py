"""Pages on their way from the conversation to the store: in memory at once, on the disk in the background."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipecat_voicectx.errors import VoiceContextError
from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.processors.window_planner import WindowPlanner
from pipecat_voicectx.stores.fact_session import FactSession
from pipecat_voicectx.stores.page_memory import PageMemory, PageWrite

__all__ = ["PageCommits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCommits:
    """Writes the pages of one session."""

    memory: PageMemory
    planner: WindowPlanner
    facts: FactSession | None
    """Reads each page once it is safe. None: nobody does."""
    spawn: Callable[[Coroutine[Any, Any, None], str], None]
    """Runs work in the background, under a name."""
    written: Callable[[VoicePage], Awaitable[None]]
    """Told of every page that is safe on the disk."""
    fail: Callable[[str, Exception], Awaitable[None]]
    """Told what could not be done."""

    def commit(self, pages: Sequence[VoicePage]) -> None:
        """Takes pages that are new or have changed."""
        for page in pages:
            known = self.memory.pages.get(page.id)
            says_more = known is None or (known.user_text, known.bot_text) != (page.user_text, page.bot_text)
            if known is not None and not says_more:
                page = replace(page, summary=known.summary, summarizer=known.summarizer)
            self.write(page, says_more=says_more)
            self.planner.note_page(page)

    def write(self, page: VoicePage, *, says_more: bool = True) -> None:
        """Adds a page to memory, and starts to write it."""
        self.spawn(self._write(page, self.memory.add(page), says_more=says_more), "write")

    async def _write(self, page: VoicePage, write: PageWrite, *, says_more: bool) -> None:
        try:
            if await write.journaled():
                await self.written(page)
        except VoiceContextError as error:
            await self.fail("a page could not be written", error)
            return
        finally:
            if self.facts is not None and says_more and not self.memory.is_forgotten(page.id):
                self.facts.add_page(page)
        await write.settled()
