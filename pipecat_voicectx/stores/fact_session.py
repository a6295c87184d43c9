"""The facts of one call: opened while it connects, staged while the caller speaks, written after each turn, drained.

The response path calls `known` and nothing else: it reads what lies ready and never waits. The rest is background work:

- while the caller speaks, `hear` recalls from memory what bears on the words so far (the latest words win);
- when speech stops, `search` asks the engine for what is near in meaning, once at a time. An answer that comes too late
  for this turn is staged for the next one, unless the topic has shifted until then;
- after a turn is safe in the journal, `add_page` hands it on; pages are read in order, each when it is complete: when
  its answer was heard, or when the next one began;
- `close` drains all that within a deadline. What did not make it is read again from the pages at the next call.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipecat_voicectx.errors import UnavailableError, UsageError, VoiceContextError
from pipecat_voicectx.memory.cleaning import is_low_signal
from pipecat_voicectx.memory.dual_recall import DualRecall, DualRecallConfig
from pipecat_voicectx.memory.fact_schema import FactSchema
from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.memory.pages import Owner, VoicePage
from pipecat_voicectx.memory.resume import LastSession, call_summary, open_issues
from pipecat_voicectx.memory.tokens import tokenize
from pipecat_voicectx.memory.topic_shift import TopicShiftDetector
from pipecat_voicectx.projection.block import RecalledLine
from pipecat_voicectx.projection.known import KnownConfig, known_lines
from pipecat_voicectx.stores.embedders import Embedder
from pipecat_voicectx.stores.engine import MemoryEngine
from pipecat_voicectx.stores.fact_memory import FactMemory
from pipecat_voicectx.stores.fact_turns import AsyncEmergenceJudge, FactTurn, TurnExtractor
from pipecat_voicectx.stores.mem0_engine import Mem0Engine
from pipecat_voicectx.stores.memory_folder import brains_path, facts_path
from pipecat_voicectx.stores.waiting import opened_in_background

__all__ = ["FactSession", "FactsConfig", "MakeEngine", "mem0_in_folder"]

MakeEngine = Callable[[Path | None, Embedder], MemoryEngine | None]
"""Makes the engine from the memory's folder (None: there is none) and the embedder. Runs in a worker thread."""

# Chosen: a partial transcript with this share of the final words is about the same.
_SAME_UTTERANCE_SHARE = 0.6
# Chosen: by then a context frame has reached the model.
_NOT_URGENT_SECS = 0.05
# Chosen: turns that may wait for a slow engine or extractor; older ones are read again from their pages another time.
_MAX_QUEUE = 256
# Chosen: pages of this call whose answer the next turn's reading may need.
_ANSWERS_KEPT = 4
# Chosen: a call is summarized by what its last exchanges were about.
_SUMMARIZED_PAGES = 3


def mem0_in_folder(folder: Path | None, embedder: Embedder) -> MemoryEngine | None:
    """The default engine: Mem0 over embedded Qdrant in the folder; without a folder, none. Blocks about a second."""
    return Mem0Engine(path=facts_path(folder), embedder=embedder) if folder is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsConfig:
    """How facts are kept, read and shown."""

    engine: MakeEngine = mem0_in_folder
    """Where facts are kept."""
    extractor: TurnExtractor | None = None
    """Reads turns in place of the local rules, which remain its fallback."""
    schema: FactSchema | None = None
    """What may be remembered. None: anything."""
    judge: AsyncEmergenceJudge | None = None
    """Judges emergence in place of the local rules."""
    recall: DualRecallConfig = field(default_factory=DualRecallConfig)
    """What is recalled for a turn."""
    known: KnownConfig = field(default_factory=KnownConfig)
    """What of it enters the prompt."""
    max_searched_facts: int = 2_000
    """Callers with more facts are served by words and routes alone: an embedded engine's search then holds Python for
    more than 40 ms (measured: 183 ms at 10,000), which a call would notice."""

    def __post_init__(self) -> None:
        if self.max_searched_facts < 0:
            raise UsageError("FactsConfig.max_searched_facts must not be negative")


@dataclass(frozen=True, slots=True)
class _Staged:
    text: str
    words: frozenset[str]
    recalled: DualRecall


class FactSession:
    """See the module. All methods are for the event loop's thread; only `open`, `close` and `identify` wait.

    Args:
        owner: Whose facts they are.
        session_id: This session.
        folder: Folder of the caller's memory. None: nothing outlives the call, unless the engine is elsewhere.
        embedder: For the engine.
        config: Engine and limits.
        spawn: Runs a coroutine in a task that the caller owns.
    """

    def __init__(
        self,
        *,
        owner: Owner,
        session_id: str,
        folder: Path | None,
        embedder: Embedder,
        config: FactsConfig,
        spawn: Callable[[Coroutine[Any, Any, None], str], None],
    ) -> None:
        self._folder = folder
        self._embedder = embedder
        self._config = config
        self._session_id = session_id
        self._spawn = spawn
        self._engine: MemoryEngine | None = None
        self.memory = FactMemory(
            owner=owner,
            session_id=session_id,
            engine=None,
            extractor=config.extractor,
            schema=config.schema,
            judge=config.judge,
            recall=config.recall,
        )
        """Facts and brains."""
        self._staged: _Staged | None = None
        self._topic = TopicShiftDetector()
        self._heard: str | None = None
        self._staging = False
        self._latest = ""
        self._wanted_search: str | None = None
        self._searching = False
        self._silent = False
        self._is_open = False
        """Whether the engine has opened; without a folder there may be none."""
        self._pending: VoicePage | None = None
        self._answers: dict[int, str] = {}
        self._queue: deque[FactTurn] = deque()
        self._reading = False
        self._closed = False
        self._latest_pages: dict[str, VoicePage] = {}
        self.dropped_turns = 0
        """Turns that found the queue full; they are read from their pages at the next call."""
        self.stale = 0
        """Times what was staged was discarded because the topic had shifted."""
        self.failed_turns = 0
        """Turns whose handling failed; they are read from their pages at the next call."""
        self.on_error: Callable[[Exception], None] = lambda _error: None
        """Called with what made a turn fail."""
        self.on_forgotten: Callable[[frozenset[str]], None] = lambda _page_ids: None
        """Called with the pages that deleted facts came from, so that whoever keeps them can empty them."""

    # The path

    def known(
        self, text: str, *, turn: int, in_window: Collection[str], vector: FloatArray | None = None
    ) -> tuple[RecalledLine, ...]:
        """Lines for a confirmed turn, with what is ready; counts the turn for topics and emergence."""
        self._silent = False
        staged = self._staged
        if staged is None or self._is_about(staged, text):
            # What is ready is about these words; the topic is for later turns to know, when this one has gone on.
            asyncio.get_running_loop().call_later(_NOT_URGENT_SECS, self._topic.add_turn, text, vector)
        elif self._topic.add_turn(text, vector).shifted:
            self.stale += 1
            self._staged = staged = None
        if staged is not None:
            self.memory.note_query(staged.recalled)
        if staged is None or staged.text != text:
            self.hear(text)
        return self._lines(staged, turn, in_window)

    def known_provisionally(
        self, text: str, *, turn: int, in_window: Collection[str]
    ) -> tuple[RecalledLine, ...]:
        """Lines for a turn that may never be: reads only, and leaves no trace."""
        staged = self._staged
        return self._lines(
            staged if staged is not None and self._is_about(staged, text) else None, turn, in_window
        )

    def _lines(
        self, staged: _Staged | None, turn: int, in_window: Collection[str]
    ) -> tuple[RecalledLine, ...]:
        return known_lines(
            self.memory.hot_cache,
            self.memory.session.established,
            staged.recalled if staged is not None else None,
            turn=turn,
            in_window=in_window,
            config=self._config.known,
        )

    @staticmethod
    def _is_about(staged: _Staged, text: str) -> bool:
        words = set(tokenize(text))
        share = len(words & staged.words) / max(1, len(words | staged.words))
        return staged.text == text or share >= _SAME_UTTERANCE_SHARE

    # Staging

    def hear(self, text: str) -> None:
        """The caller has said this so far."""
        self._latest = text
        if self._closed:
            return
        self._heard = text
        if not self._staging:
            self._staging = True
            self._spawn(self._stage(), "recall facts")
        if self._silent:  # a transcript that came after the end of speech
            self.search()

    def search(self) -> None:
        """Speech has stopped: looks for what is near in meaning to what was said, also when that comes later."""
        self._silent = True
        searchable = 0 < self.memory.size <= self._config.max_searched_facts
        if self._engine is None or not searchable or is_low_signal(self._latest) or self._closed:
            return
        self._wanted_search = self._latest
        if not self._searching:
            self._searching = True
            self._spawn(self._search(), "search facts")

    async def _stage(self) -> None:
        try:
            while (text := self._heard) is not None:
                self._heard = None
                if not is_low_signal(text):
                    self._take(text, {})
                await asyncio.sleep(0)
        finally:
            self._staging = False

    async def _search(self) -> None:
        searched = ""
        try:
            while (text := self._wanted_search) is not None:
                self._wanted_search = None
                if text != searched:
                    searched = text
                    similar = await self.memory.similar(text)
                    # While the caller says something else already, this is for later at best: it must not win.
                    newer = self._staged is not None and not self._is_about(self._staged, text)
                    if similar and not newer:
                        self._take(text, similar)
        finally:
            self._searching = False

    def _take(self, text: str, similar: dict[str, float]) -> None:
        before = self._staged.recalled.routes if self._staged is not None else None
        recalled = self.memory.recall(
            text,
            now_wall_secs=time.time(),
            activation=before.activation if before is not None else None,
            similar=similar,
        )
        self._staged = _Staged(text, frozenset(tokenize(text)), recalled)

    # Background work

    async def open(self, pages: Sequence[VoicePage], last: LastSession | None) -> None:
        """Opens the engine in a worker thread, loads, and reads those pages that no call has read yet.

        Raises:
            VoiceContextError: The engine does not open or answer; the call goes on with its own facts.
        """
        if self._engine is None and await self._open_engine():
            await self.memory.attach(self._engine, state_dir=self._brains)
            await self._load(pages, last)

    async def _open_engine(self) -> bool:
        """Whether the session goes on, with an engine or without; what opens when it has ended is closed again."""
        make, self._is_open = self._config.engine, False
        engine = await opened_in_background(make, self._folder, self._embedder, undo=_close_from_thread)
        if self._closed and engine is not None:
            await engine.close()
        elif engine is not None:
            self._engine = engine
        self._is_open = not self._closed
        return self._is_open

    @property
    def _brains(self) -> Path | None:
        return brains_path(self._folder) if self._folder is not None else None

    async def _load(self, pages: Sequence[VoicePage], last: LastSession | None) -> None:
        try:
            await self.memory.open(
                sorted(pages, key=lambda page: (page.started_wall_secs, page.session_id, page.index)),
                last_call_summary=call_summary(last.pages) if last is not None else "",
                open_issues=open_issues(last) if last is not None else (),
            )
        finally:
            self.tell_forgotten()

    async def identify(
        self, owner: Owner, *, folder: Path | None, pages: Sequence[VoicePage], last: LastSession | None
    ) -> None:
        """The caller turned out to be `owner`: loads what is known of them under what this call has established.

        Raises:
            VoiceContextError: As `open`.
        """
        self._folder = folder or self._folder
        if self._engine is not None or await self._open_engine():
            await self.memory.attach(self._engine, owner=owner, state_dir=self._brains)
            await self._load(pages, last)

    def add_page(self, page: VoicePage) -> None:
        """A page was journaled, or written again. It is read as soon as it is complete."""
        if page.bot_text:
            self._answers[page.index] = page.bot_text
            while len(self._answers) > _ANSWERS_KEPT:
                del self._answers[min(self._answers)]
        waiting = self._pending
        if waiting is not None and waiting.id != page.id and waiting.index < page.index:
            self._flush()
        if self._pending is None or self._pending.index <= page.index:
            self._pending = page
        if page.bot_text:
            self._flush()

    def _flush(self) -> None:
        page, self._pending = self._pending, None
        if page is None or not page.user_text:
            return
        question = next(
            (self._answers[index] for index in sorted(self._answers, reverse=True) if index < page.index), ""
        )
        if len(self._queue) == _MAX_QUEUE:
            self._queue.popleft()
            self.dropped_turns += 1
        self._queue.append(FactTurn.from_page(page, question=question))
        self._latest_pages[page.id] = page
        while len(self._latest_pages) > _SUMMARIZED_PAGES:
            del self._latest_pages[next(iter(self._latest_pages))]
        if not self._reading:
            self._reading = True
            self._spawn(self._read(), "read facts")

    async def _read(self) -> None:
        try:
            while self._queue:
                turn = self._queue.popleft()
                try:
                    await self.memory.add_turn(turn)
                except Exception as error:  # one turn that cannot be handled must not hold up those behind it
                    self.failed_turns += 1
                    self.on_error(error)
                self.tell_forgotten()
        finally:
            self._reading = False

    def tell_forgotten(self) -> None:
        """Passes on the pages of what was deleted, so that they are emptied."""
        pages = self.memory.take_forgotten_turns()
        if pages:
            self._staged = None  # what was ready for a turn may be what is forgotten
            for page_id in pages:
                self._latest_pages.pop(page_id, None)
            self.on_forgotten(pages)

    async def erase(self) -> None:
        """Everything that is known of the caller goes, what waits to be read included.

        Raises:
            UnavailableError: The engine is not open, or does not answer; what is here is gone.
        """
        self._staged = self._pending = None
        for kept in (self._queue, self._answers, self._latest_pages):
            kept.clear()
        await self.memory.erase()
        if not self._is_open:
            raise UnavailableError("facts of earlier calls cannot be reached: their engine is not open")

    async def close(self, *, timeout_secs: float) -> None:
        """Reads what is left, runs the long horizon, writes and closes the engine, in `timeout_secs` at most."""
        if self._closed:
            return
        self._closed = True
        loop = asyncio.get_running_loop()
        deadline_secs = loop.time() + timeout_secs
        with contextlib.suppress(TimeoutError, VoiceContextError):
            await asyncio.wait_for(self._finish(), timeout_secs)
        engine, self._engine = self._engine, None
        if engine is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(engine.close(), max(0.1, deadline_secs - loop.time()))

    async def _finish(self) -> None:
        waiting = self._pending
        self._reading = True  # no task of its own any more
        if waiting is not None:
            self._flush()
        await self._read()
        summary = call_summary(list(self._latest_pages.values()))
        await self.memory.end_session(now_wall_secs=time.time(), call_summary=summary)


def _close_from_thread(engine: MemoryEngine | None) -> None:
    if engine is not None:
        asyncio.run(engine.close())
