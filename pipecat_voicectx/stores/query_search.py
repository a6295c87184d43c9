"""What the user is saying, as a vector: made in a worker thread from partial transcripts, used when the turn ends.

Nobody waits for it. A turn whose vector is not ready is ranked by its words; what its vector finds when it comes is
staged for the next turn, unless that one is about something else: far from it in meaning, or without a word in common.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

import numpy as np
from loguru import logger

from pipecat_voicectx.errors import VoiceContextError
from pipecat_voicectx.memory.cleaning import is_low_signal
from pipecat_voicectx.memory.index import FloatArray, PageIndex
from pipecat_voicectx.memory.ranking import PageQuery, RankedPage, RankingWeights, rank_pages
from pipecat_voicectx.memory.text import strip_for_embedding
from pipecat_voicectx.memory.tokens import tokenize
from pipecat_voicectx.memory.topic_shift import TopicShiftConfig
from pipecat_voicectx.stores.embedders import Embedder

__all__ = ["QuerySearch", "QueryVector"]

# Chosen: a partial transcript with this share of the final words points the same way.
_MIN_PARTIAL_SHARE = 0.6
# Chosen: what was found for the turn before weighs less than what is found for this one.
_STAGED_WEIGHT = 0.7
# Chosen: as many late pages as a block holds.
_STAGED_HITS = 6
_SHIFT_BELOW = TopicShiftConfig().floor


@dataclass(slots=True)
class QueryVector:
    """The embedding of something the user said."""

    text: str
    tokens: frozenset[str]
    vector: FloatArray
    cosines: FloatArray
    index: PageIndex
    """Whose rows the cosines are of."""
    dropped: int
    """That index's `dropped` then: rows move when pages are dropped."""


@dataclass(slots=True)
class _Staged:
    text: str
    tokens: frozenset[str]
    vector: FloatArray
    hits: list[RankedPage]
    used_for: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class _Ready:
    """A ranking that was made while the user spoke."""

    text: str
    query: QueryVector | None
    exclude: frozenset[str]
    limit: int
    index: PageIndex
    changes: int
    hits: list[RankedPage]

    def serves(
        self, text: str, query: QueryVector | None, exclude: Collection[str], limit: int, index: PageIndex
    ) -> bool:
        """Whether a ranking now would give the same. A page that is excluded since must not be in the index."""
        return (
            self.text == text
            and self.query is query
            and self.limit == limit
            and self.index is index
            and self.changes == index.changes
            and all(key in exclude for key in self.exclude)
            and all(key in self.exclude or key not in index for key in exclude)
        )


class QuerySearch:
    """The query of one session. All methods are for the event loop's thread.

    Args:
        embedder: Makes the vectors.
        worker: Gives the thread in which it does.
        index: Gives the index that is searched now.
        extend: Awaited with each new vector: takes pages into the index that only the database has.
        weights: Of the ranking.
    """

    def __init__(
        self,
        *,
        embedder: Embedder,
        worker: Callable[[], Executor],
        index: Callable[[], PageIndex],
        extend: Callable[[FloatArray], Awaitable[bool]],
        weights: RankingWeights | None,
    ) -> None:
        self._embedder = embedder
        self._worker = worker
        self._index = index
        self._extend = extend
        self._weights = weights
        self._wanted: str | None = None
        self._query: QueryVector | None = None
        self._embedding = False
        self._embedder_failed = False
        self._missed: tuple[str, Collection[str]] | None = None
        self._staged: _Staged | None = None
        self._ready: _Ready | None = None
        self.latest = ""
        """What the user was last heard to say."""

    def want(self, text: str) -> bool:
        """The user is saying this. True: await `run`; False: it is under way already, or there is nothing to embed."""
        self._wanted = self.latest = text
        if self._embedding or not text.strip():
            return False
        self._embedding = True
        return True

    async def run(self) -> None:
        """Embeds the latest wanted text, and again while a newer one has come in."""
        try:
            while (text := self._wanted) is not None:
                self._wanted = None
                if self._query is None or self._query.text != text:
                    await self._embed(text)
        except VoiceContextError as error:
            self.note_failure(error)
        finally:
            self._embedding = False

    def usable(self, text: str) -> QueryVector | None:
        """The vector of `text` or of nearly all its words. None: not ready."""
        query = self._query
        if query is None or (query.text != text and not _alike(query.tokens, frozenset(tokenize(text)))):
            return None
        index = self._index()
        if query.index is not index or query.dropped != index.dropped:
            self._query = query = self._against(index, query.text, query.vector)
        return query

    def rank(
        self, text: str, *, exclude: Collection[str], limit: int, provisional: bool = False
    ) -> list[RankedPage]:
        """The best pages for `text` with what is ready now, and what was found too late for the turn before.

        A `provisional` one, for words that may not be all, leaves no trace.
        """
        query = self.usable(text)
        if not provisional:
            self._missed = None if query is not None else (text, frozenset(exclude))
        ready = self._ready
        if ready is not None and ready.serves(text, query, exclude, limit, self._index()):
            hits = ready.hits
        else:
            hits = self._ranked(text, query, exclude, limit)
        return self._with_staged(hits, text, query, exclude, provisional=provisional)

    def prepare(self, *, exclude: Collection[str], limit: int) -> None:
        """Ranks for what was heard last. If that was all, and the window is then as foreseen, `rank` gives this."""
        text, index = self.latest, self._index()
        query = self.usable(text)
        hits = self._ranked(text, query, exclude, limit)
        self._ready = _Ready(text, query, frozenset(exclude), limit, index, index.changes, hits)

    def _ranked(
        self, text: str, query: QueryVector | None, exclude: Collection[str], limit: int
    ) -> list[RankedPage]:
        page_query = PageQuery(text=text, cosines=query.cosines if query is not None else None)
        return rank_pages(self._index(), page_query, weights=self._weights, exclude=exclude, limit=limit)

    def note_failure(self, error: VoiceContextError) -> None:
        """Says once that memory goes on without meaning."""
        if not self._embedder_failed:
            self._embedder_failed = True
            logger.warning("memory searches by words only: {}", error)

    async def _embed(self, text: str) -> None:
        index = self._index()
        loop = asyncio.get_running_loop()
        query = await loop.run_in_executor(self._worker(), self._made, index, text)
        self._query = query
        if await self._extend(query.vector):
            self._query = query = self._against(self._index(), text, query.vector)
        if self._missed is not None and _alike(query.tokens, frozenset(tokenize(self._missed[0]))):
            self._stage(query, self._missed[1])

    def _stage(self, query: QueryVector, exclude: Collection[str]) -> None:
        self._missed = None
        page_query = PageQuery(text=query.text, cosines=query.cosines)
        hits = rank_pages(
            self._index(), page_query, weights=self._weights, exclude=exclude, limit=_STAGED_HITS
        )
        self._staged = _Staged(query.text, query.tokens, query.vector, hits)

    def _with_staged(
        self,
        hits: list[RankedPage],
        text: str,
        query: QueryVector | None,
        exclude: Collection[str],
        *,
        provisional: bool,
    ) -> list[RankedPage]:
        staged = self._staged
        if staged is None or staged.text == text:
            return hits
        tokens = frozenset(tokenize(text))
        # One turn may be ranked more than once (speculation); the next one no longer gets what was staged.
        used_for = tokens if staged.used_for is None else staged.used_for
        vector = query.vector if query is not None else None
        serves = _alike(used_for, tokens) and not _is_shift(staged, text, tokens, vector)
        if not provisional:
            staged.used_for = used_for
            self._staged = staged if serves else None
        if not serves:
            return hits
        return _merged(hits, [hit for hit in staged.hits if hit.key not in exclude])

    def _made(self, index: PageIndex, text: str) -> QueryVector:
        return self._against(index, text, self._embedder.embed([strip_for_embedding(text)])[0])

    def _against(self, index: PageIndex, text: str, vector: FloatArray) -> QueryVector:
        dropped = index.dropped
        return QueryVector(text, frozenset(tokenize(text)), vector, index.cosines(vector), index, dropped)


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= _MIN_PARTIAL_SHARE * max(1, len(one | other)) or one == other


def _is_shift(staged: _Staged, text: str, tokens: frozenset[str], vector: FloatArray | None) -> bool:
    if vector is not None:
        norms = float(np.linalg.norm(vector) * np.linalg.norm(staged.vector))
        return not norms or float(vector @ staged.vector) / norms < _SHIFT_BELOW
    return not is_low_signal(text) and not tokens & staged.tokens


def _merged(hits: Sequence[RankedPage], staged: Sequence[RankedPage]) -> list[RankedPage]:
    best = {hit.key: hit for hit in hits}
    for hit in staged:
        weighed = replace(hit, score=_STAGED_WEIGHT * hit.score)
        if hit.key not in best or best[hit.key].score < weighed.score:
            best[hit.key] = weighed
    return sorted(best.values(), key=lambda hit: -hit.score)
