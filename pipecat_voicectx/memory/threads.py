"""VoiceThreads: pages of one topic, across calls.

A thread is led by its first page, whose vector never changes: a new page joins every thread whose leader is near enough
(at most a few), so one exchange can belong to two tasks. A page that joins none spawns a thread, together with the
earlier pages that are near it, or alone. (The LOV paper compares with a representation of the whole thread; with
all-MiniLM-L6-v2 that pulls 83 to 99% of all pages into one thread. Leaders with a cap on size and joins give 1.8 to 3.3
threads a page. Measured on LoCoMo's first half.)

Threads never cut anything off from the ranking. They are used in two ways: pages that share a thread with the best hits
get a small bonus, and a thread's summary can stand for those of its pages that do not fit the budget.

A page is searchable before it is in any thread; joining needs its vector and happens when that arrives. Summaries are
made in the background.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.memory.pages import VoicePage
from pipecat_voicectx.memory.tokens import tokenize

__all__ = ["ThreadBook", "ThreadConfig", "VoiceThread", "calibrate", "page_vector", "summarize_thread"]

_ID_NAMESPACE = uuid.UUID("3f0a6a58-7a3e-4be3-8a51-29f6c1f0b7d4")

# Cosine of page vectors (mean of the two turns' unit vectors) at which a page joins. MiniLM: measured, 0.50 to 0.60 all
# serve. bge-small: its unrelated sentences already have 0.4 to 0.6; chosen from that, untested. Lexical: chosen.
THRESHOLDS: Mapping[str, float] = {
    "sentence-transformers/all-MiniLM-L6-v2": 0.55,
    "BAAI/bge-small-en-v1.5": 0.75,
    "voicectx-lexical-256": 0.35,
}
_DEFAULT_THRESHOLD = 0.55


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadConfig:
    """How pages are grouped."""

    threshold: float = _DEFAULT_THRESHOLD
    """Least cosine between a page and a thread's leader; see `THRESHOLDS` and `calibrate`."""
    max_pages: int = 40
    """Most pages of a thread; a full one takes no more, and the next page of its topic spawns another. Chosen."""
    max_joins: int = 4
    """Most threads one page joins, the nearest ones. Chosen."""
    max_seed_pages: int = 3
    """Most earlier pages a spawned thread begins with. Chosen."""

    def __post_init__(self) -> None:
        if (
            not -1 <= self.threshold <= 1
            or min(self.max_pages, self.max_joins) < 1
            or self.max_seed_pages < 0
        ):
            raise UsageError("threads need a threshold of -1..1, and at least one page and one join")

    @classmethod
    def for_embedder(cls, name: str) -> ThreadConfig:
        """The configuration for an embedder's name."""
        return cls(threshold=THRESHOLDS.get(name, _DEFAULT_THRESHOLD))


@dataclass(slots=True)
class VoiceThread:
    """Pages around one topic. Holds references, no text but its summary."""

    id: str
    leader: FloatArray
    page_ids: list[str]
    """In the order they joined, which is the order of the conversation."""
    summary: str = ""
    """Of the pages it had when it was last summarized; "" before that."""
    summarized_pages: int = 0


@dataclass(slots=True)
class ThreadBook:
    """All threads of one owner."""

    config: ThreadConfig = field(default_factory=ThreadConfig)
    _threads: dict[str, VoiceThread] = field(default_factory=dict)
    _of_page: dict[str, list[str]] = field(default_factory=dict)
    _ids: list[str] = field(default_factory=list)
    _leaders: FloatArray = field(default_factory=lambda: np.zeros((0, 0), np.float32))

    def __len__(self) -> int:
        return len(self._threads)

    def __contains__(self, page_id: object) -> bool:
        return page_id in self._of_page

    def threads(self) -> list[VoiceThread]:
        """All threads, oldest first."""
        return list(self._threads.values())

    def threads_of(self, page_id: str) -> list[VoiceThread]:
        """The threads a page belongs to; none before its vector came."""
        return [self._threads[thread_id] for thread_id in self._of_page.get(page_id, ())]

    def restore(self, threads: Sequence[VoiceThread]) -> None:
        """Adds threads that were stored."""
        for thread in threads:
            self._insert(thread)

    def add(self, page_id: str, vector: FloatArray, *, similar: Sequence[str] = ()) -> list[VoiceThread]:
        """Puts a page into its threads; returns those that changed. A page that is in one already changes nothing.

        Args:
            page_id: The page.
            vector: Its `page_vector`.
            similar: Earlier pages near it, nearest first: they start a new thread with it when none matches.
        """
        if page_id in self._of_page:
            return []
        joined = self._matching(vector)
        if not joined:
            seeds = [other for other in similar if other != page_id][: self.config.max_seed_pages]
            thread = VoiceThread(str(uuid.uuid5(_ID_NAMESPACE, page_id)), _unit(vector), [*reversed(seeds)])
            self._insert(thread)
            joined = [thread]
        for thread in joined:
            thread.page_ids.append(page_id)
            self._of_page.setdefault(page_id, []).append(thread.id)
        return joined

    def bonus(self, best: Sequence[str], *, weight: float) -> dict[str, float]:
        """`weight` for every page that shares a thread with one of the best hits."""
        related = (page for hit in best for thread in self.threads_of(hit) for page in thread.page_ids)
        return dict.fromkeys(related, weight)

    def forget(self, page_ids: Collection[str]) -> None:
        """Removes pages; threads without pages go."""
        gone = set(page_ids)
        for thread in self.threads():
            thread.page_ids[:] = [page for page in thread.page_ids if page not in gone]
            if not thread.page_ids:
                del self._threads[thread.id]
        for page in gone:
            self._of_page.pop(page, None)
        self._ids = [thread_id for thread_id in self._ids if thread_id in self._threads]
        leaders = [self._threads[thread_id].leader for thread_id in self._ids]
        self._leaders = np.stack(leaders) if leaders else np.zeros((0, 0), np.float32)

    def _matching(self, vector: FloatArray) -> list[VoiceThread]:
        count = len(self._ids)
        if not count:
            return []
        cosines = self._leaders[:count] @ _unit(vector)
        near = [int(i) for i in np.argsort(-cosines, kind="stable") if cosines[i] >= self.config.threshold]
        open_threads = (self._threads[self._ids[i]] for i in near)
        return [t for t in open_threads if len(t.page_ids) < self.config.max_pages][: self.config.max_joins]

    def _insert(self, thread: VoiceThread) -> None:
        if thread.id in self._threads:
            return
        self._threads[thread.id] = thread
        for page in thread.page_ids:
            self._of_page.setdefault(page, []).append(thread.id)
        position = len(self._ids)
        self._ids.append(thread.id)
        if position >= len(self._leaders):
            grown = np.zeros((max(64, 2 * position), len(thread.leader)), np.float32)
            if position:
                grown[:position] = self._leaders[:position]
            self._leaders = grown
        self._leaders[position] = thread.leader


def page_vector(vectors: Sequence[FloatArray | None]) -> FloatArray | None:
    """One unit vector for a page: the mean of its turns'. None without any."""
    known = [_unit(vector) for vector in vectors if vector is not None]
    return _unit(np.asarray(np.mean(known, axis=0), np.float32)) if known else None


def calibrate(vectors: Sequence[FloatArray], *, joins_per_page: float = 2.0, sample: int = 400) -> float:
    """The threshold at which pages like these join about `joins_per_page` threads, for an embedder not listed.

    Tries thresholds on (at most `sample` of) the page vectors, in their order, and returns the lowest one that keeps
    to the number.

    Raises:
        UsageError: Fewer than 20 vectors.
    """
    if len(vectors) < 20:
        raise UsageError("calibration needs the vectors of at least 20 pages")
    pages = list(vectors)[:sample]
    for step in range(4, 20):
        threshold = step / 20
        book = ThreadBook(config=ThreadConfig(threshold=threshold, max_joins=10, max_pages=len(pages)))
        joins = sum(len(book.add(str(n), vector)) for n, vector in enumerate(pages)) / len(pages)
        largest = max(len(thread.page_ids) for thread in book.threads())
        if joins <= joins_per_page and largest <= len(pages) / 4:
            return threshold
    return 0.95


def summarize_thread(pages: Sequence[VoicePage], *, max_words: int = 30) -> str:
    """A thread in a few words, rule-based: what its pages have in common, and the latest page's summary."""
    if not pages:
        return ""
    count: Counter[str] = Counter()
    spelled: dict[str, str] = {}
    for page in pages:
        words = f"{page.user_text} {page.bot_text}".split()
        stems = {token: word.strip(".,;:!?\"'()").lower() for word in words for token in tokenize(word)[:1]}
        count.update(stems.keys())
        spelled |= {token: word for token, word in stems.items() if token not in spelled}
    shared = [spelled[token] for token, n in count.most_common(6) if n > 1 and len(spelled[token]) > 2]
    topic = f"{len(pages)} exchanges about {', '.join(shared)}" if shared else f"{len(pages)} exchanges"
    words = f"{topic}; last: {pages[-1].summary}".split()
    return " ".join(words) if len(words) <= max_words else " ".join(words[:max_words]) + " …"


def _unit(vector: FloatArray) -> FloatArray:
    norm = float(np.linalg.norm(vector))
    return np.asarray(vector / norm if norm > 0 else vector, np.float32)
