"""The in-process index of one user's pages: what the response path reads instead of a database.

Layout: two rows per page, the first and the second turn of the exchange, in conversational order; an empty page's
worth of rows lies between two sessions, so that a window over neighbouring rows never crosses from one call into
another. Rows hold a vector (zeros until the embedder has delivered it) and their token counts in an inverted index.
A page is found lexically from the moment it is added, and by meaning once `set_vectors` was called.

Cost, measured with 10,000 pages (20,000 rows, 384 dimensions) on one core: see `voicectx bench memory`. Memory: about
3.2 kB a page for the vectors, and the postings.

Not thread-safe for writing: one thread (the event loop's) adds. `cosines` may run in a worker thread beside it,
because rows are only appended and the matrix is replaced, never shrunk, when it grows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.answer_types import AnswerType
from pipecat_voicectx.memory.lexical import FloatArray, LexicalIndex, LexicalScores, grown
from pipecat_voicectx.memory.turn_terms import TurnTerms

__all__ = ["FloatArray", "IndexedPage", "IndexedTurn", "LexicalScores", "PageIndex"]

ROWS_PER_PAGE = 2
_NOTHING = TurnTerms((), 0, False)
# Chosen: 20,000 pages are some hundred hours of talk; the oldest tenth is dropped from the index (not the store).
DEFAULT_MAX_PAGES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedTurn:
    """One side of an exchange."""

    speaker: str
    """Who spoke: `user`, `bot`, or a name. Compared with the speakers a query names."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedPage:
    """One page for `PageIndex.load`."""

    key: str
    session: str
    turns: tuple[IndexedTurn, ...]
    terms: tuple[TurnTerms, ...] | None
    """Of the turns. None: nobody has kept them."""
    vectors: tuple[FloatArray | None, ...]


class PageIndex:
    """Pages of one owner, searchable by words and by meaning."""

    def __init__(self, *, dimension: int, max_pages: int = DEFAULT_MAX_PAGES) -> None:
        if dimension < 1 or max_pages < 10:
            raise UsageError("PageIndex needs dimension >= 1 and max_pages >= 10")
        self._dimension = dimension
        self._max_pages = max_pages
        self.dropped = 0
        """How often the oldest pages were dropped: each time, all rows move."""
        self._reset()

    def _reset(self) -> None:
        self._positions: dict[str, int] = {}
        self._keys: list[str | None] = []
        self._sessions: list[str | None] = []
        self._turns: list[tuple[IndexedTurn, ...]] = []
        self._words = LexicalIndex()
        self._speakers: dict[str, int] = {}
        self._vectors: FloatArray = np.zeros((64, self._dimension), np.float32)
        self._speaker_codes = np.full(64, -1, np.int16)
        self._after_question = np.zeros(64, np.float32)
        self._answers = np.zeros(64, np.uint8)

    def __len__(self) -> int:
        return len(self._positions)

    def __contains__(self, key: object) -> bool:
        return key in self._positions

    @property
    def rows(self) -> int:
        """Rows in use, the empty ones between sessions included."""
        return len(self._keys) * ROWS_PER_PAGE

    @property
    def changes(self) -> int:
        """Rows written so far: two rankings with the same number between them saw the same words."""
        return self._words.changes

    @property
    def dimension(self) -> int:
        return self._dimension

    def key_at(self, position: int) -> str | None:
        """The page at a position; None for the gap between two sessions."""
        return self._keys[position]

    def position_of(self, key: str) -> int | None:
        """Where a page stands in conversational order. None: not in the index."""
        return self._positions.get(key)

    def turns_of(self, key: str) -> tuple[IndexedTurn, ...]:
        """The turns of a page as they were added."""
        return self._turns[self._positions[key]]

    def upsert(self, key: str, *, session: str, turns: Sequence[IndexedTurn]) -> None:
        """Adds a page at the end, or replaces the text of one. A changed turn loses its vector until it is set anew.

        Raises:
            UsageError: More than two turns.
        """
        if len(turns) > ROWS_PER_PAGE:
            raise UsageError(f"a page has at most {ROWS_PER_PAGE} turns, got {len(turns)}")
        position = self._positions.get(key)
        if position is None:
            if len(self._positions) >= self._max_pages:
                self._drop_oldest()
            if self._sessions and self._sessions[-1] != session:
                self._append(None, None)
            position = self._append(key, session)
        old = self._turns[position]
        self._turns[position] = tuple(turns)
        for side in range(ROWS_PER_PAGE):
            turn = turns[side] if side < len(turns) else None
            if side >= len(old) or turn is None or old[side] != turn:
                self._fill(position * ROWS_PER_PAGE + side, turn)

    def load(self, pages: Iterable[IndexedPage]) -> None:
        """Fills an empty index with many pages, in conversational order; the same as adding them one by one.

        Raises:
            UsageError: The index is not empty, or a vector has another dimension.
        """
        if self._keys:
            raise UsageError("only an empty index can be loaded")
        given = list(pages)[-self._max_pages :]
        rows: list[TurnTerms] = []
        vectors: list[FloatArray] = []
        at: list[int] = []
        for page in given:
            if self._sessions and self._sessions[-1] != page.session:
                self._place(None, None, ())
                rows += [_NOTHING] * ROWS_PER_PAGE
            self._place(page.key, page.session, page.turns)
            for side in range(ROWS_PER_PAGE):
                vector = page.vectors[side] if side < len(page.vectors) else None
                if vector is not None:
                    at.append(len(rows))
                    vectors.append(vector)
                if side >= len(page.turns):
                    rows.append(_NOTHING)
                elif page.terms is not None:
                    rows.append(page.terms[side])
                else:
                    rows.append(TurnTerms.of(page.turns[side].text))
        self._words.load([terms.words for terms in rows])
        self._reserve(len(rows) + 1)
        self._answers[: len(rows)] = [terms.answers for terms in rows]
        self._after_question[1 : len(rows) + 1] = [terms.asks for terms in rows]
        for position, turns in enumerate(self._turns):
            for side, turn in enumerate(turns):
                self._speaker_codes[position * ROWS_PER_PAGE + side] = self._code_of(turn)
        if vectors:
            matrix = np.asarray(vectors, np.float32)
            if matrix.ndim != 2 or matrix.shape[1] != self._dimension:
                raise UsageError(f"index has dimension {self._dimension}, vectors have {matrix.shape[1:]}")
            norms = np.linalg.norm(matrix, axis=1, keepdims=True)
            self._vectors[at] = matrix / np.where(norms > 0, norms, 1)

    def set_vectors(self, key: str, vectors: Sequence[FloatArray | None]) -> None:
        """Sets the vectors of a page's turns; unknown pages and None are ignored.

        Raises:
            UsageError: A vector of another dimension.
        """
        position = self._positions.get(key)
        if position is None:
            return
        for side, vector in enumerate(vectors[:ROWS_PER_PAGE]):
            if vector is None:
                continue
            if vector.shape != (self._dimension,):
                raise UsageError(f"index has dimension {self._dimension}, vector has {vector.shape}")
            norm = float(np.linalg.norm(vector))
            self._vectors[position * ROWS_PER_PAGE + side] = vector / norm if norm > 0 else vector

    def vectors_of(self, key: str) -> FloatArray | None:
        """A page's turn vectors as rows, zeros where one is missing. None: no such page."""
        position = self._positions.get(key)
        if position is None:
            return None
        first = position * ROWS_PER_PAGE
        return np.array(self._vectors[first : first + ROWS_PER_PAGE])

    def cosines(self, query: FloatArray) -> FloatArray:
        """Cosine of every row with the query; 0 for rows without a vector. Safe in a worker thread."""
        rows, vectors = self.rows, self._vectors
        norm = float(np.linalg.norm(query))
        if norm == 0 or query.shape != (self._dimension,):
            return np.zeros(rows, np.float32)
        return np.asarray(vectors[:rows] @ (query / norm).astype(np.float32), np.float32)

    def prepare_words(self, tokens: Sequence[str]) -> None:
        """The user is saying these words: what they give is worked out now, not when the turn is over."""
        self._words.prepare(tokens)

    def lexical_scores(self, tokens: Sequence[str], *, ignored: Sequence[int] = ()) -> LexicalScores:
        """BM25 of the query's tokens for each row and for the window of two rows around it.

        Args:
            tokens: Of the query.
            ignored: Rows that count as saying nothing.
        """
        scores = self._words.scores(tokens, ignored=ignored)
        # A gap between sessions is nobody's turn.
        scores.window[self._speaker_codes[: self.rows] < 0] = 0
        return scores

    def speaker_mask(self, speakers: frozenset[str]) -> FloatArray:
        """1 for rows spoken by one of `speakers` (compared case-folded), else 0."""
        mask = np.zeros(self.rows, np.bool_)
        for name in speakers & self._speakers.keys():
            mask |= self._speaker_codes[: self.rows] == self._speakers[name]
        return mask.astype(np.float32)

    def speakers(self) -> frozenset[str]:
        """Everybody who speaks in the index, case-folded."""
        return frozenset(self._speakers)

    def after_question(self) -> FloatArray:
        """1 for rows whose previous row, in the same session, asked something."""
        return self._after_question[: self.rows]

    def answers(self, wanted: AnswerType) -> FloatArray:
        """1 for rows whose turn could give an answer of one of the wanted types."""
        return np.asarray((self._answers[: self.rows] & int(wanted)) > 0, np.float32)

    def has_text(self) -> FloatArray:
        """1 for rows that hold a turn."""
        return np.asarray(self._speaker_codes[: self.rows] >= 0, np.float32)

    def _append(self, key: str | None, session: str | None) -> int:
        position = self._place(key, session, ())
        self._words.extend(ROWS_PER_PAGE)
        self._reserve(self.rows + 1)
        return position

    def _place(self, key: str | None, session: str | None, turns: tuple[IndexedTurn, ...]) -> int:
        position = len(self._keys)
        self._keys.append(key)
        self._sessions.append(session)
        self._turns.append(turns)
        if key is not None:
            self._positions[key] = position
        return position

    def _reserve(self, needed: int) -> None:
        if needed > len(self._answers):
            rows = max(needed, len(self._answers) * 2)
            self._vectors = grown(self._vectors, rows)
            self._after_question = grown(self._after_question, rows)
            self._answers = np.pad(self._answers, (0, rows - len(self._answers)))
            added = (0, rows - len(self._speaker_codes))
            self._speaker_codes = np.pad(self._speaker_codes, added, constant_values=-1)

    def _fill(self, row: int, turn: IndexedTurn | None) -> None:
        terms = TurnTerms.of(turn.text) if turn is not None else _NOTHING
        self._words.fill(row, Counter(terms.words))
        self._vectors[row] = 0
        self._answers[row] = terms.answers
        self._speaker_codes[row] = self._code_of(turn)
        self._after_question[row + 1] = float(terms.asks)

    def _code_of(self, turn: IndexedTurn | None) -> int:
        if turn is None or not turn.text.strip():
            return -1
        return self._speakers.setdefault(turn.speaker.casefold(), len(self._speakers))

    def _drop_oldest(self) -> None:
        """Rebuilds without the oldest tenth. Tens of milliseconds per thousand pages; no usual call comes here."""
        keep = [(p, k) for p, k in enumerate(self._keys) if k is not None][self._max_pages // 10 :]
        sessions, turns, vectors = self._sessions, self._turns, self._vectors
        self.dropped += 1
        self._reset()
        self.load(
            IndexedPage(
                key=key,
                session=sessions[position] or "",
                turns=turns[position],
                terms=None,
                vectors=tuple(vectors[position * ROWS_PER_PAGE : (position + 1) * ROWS_PER_PAGE]),
            )
            for position, key in keep
        )
