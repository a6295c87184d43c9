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

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.answer_types import AnswerType, given_answers
from pipecat_voicectx.memory.text import is_question
from pipecat_voicectx.memory.tokens import tokenize

__all__ = ["FloatArray", "IndexedTurn", "LexicalScores", "PageIndex"]

FloatArray = NDArray[np.float32]

ROWS_PER_PAGE = 2
# BM25's usual constants (Robertson and Zaragoza 2009); not tuned.
_K1 = 1.2
_B = 0.75
# Rows on either side that count as a turn's window. Measured on LoCoMo's first half: with it 75, without it 69.
_WINDOW_ROWS = 2
_WINDOW_OFFSETS = np.arange(-_WINDOW_ROWS, _WINDOW_ROWS + 1, dtype=np.int32)
# Measured with 20,000 rows: for a word of more than every eightieth turn, going through all rows is faster than through
# the rows near its hits.
_SPARSE_BELOW = 80
# Chosen: in a large index a word of every fifth turn weighs next to nothing (BM25 gives it 1.6 of up to 10) and costs
# most of the time; it is left out while the query has rarer words.
_MAX_SHARE = 0.2
_PRUNE_FROM_ROWS = 2_000
# Chosen: 20,000 pages are some hundred hours of talk; the oldest tenth is dropped from the index (not the store).
DEFAULT_MAX_PAGES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedTurn:
    """One side of an exchange."""

    speaker: str
    """Who spoke: `user`, `bot`, or a name. Compared with the speakers a query names."""
    text: str


@dataclass(frozen=True, slots=True)
class LexicalScores:
    """BM25 of one query for every row, of the turn itself and of the window around it; not normalised."""

    turn: FloatArray
    window: FloatArray
    ceiling: float
    """What a turn with all of the query's words, many times over, would have; 0 when the index has none of them."""


class _Postings:
    __slots__ = ("counts", "rows")

    def __init__(self) -> None:
        self.rows = array("i")
        self.counts = array("f")

    def remove(self, row: int) -> None:
        for position in range(len(self.rows) - 1, -1, -1):
            if self.rows[position] == row:
                del self.rows[position]
                del self.counts[position]
                return


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
        self._row_tokens: list[Counter[str]] = []
        self._postings: dict[str, _Postings] = {}
        self._speakers: dict[str, int] = {}
        self._vectors: FloatArray = np.zeros((64, self._dimension), np.float32)
        self._lengths = np.zeros(64, np.float32)
        self._speaker_codes = np.full(64, -1, np.int16)
        self._after_question = np.zeros(64, np.float32)
        self._answers = np.zeros(64, np.uint8)
        self._window_lengths: FloatArray | None = None

    def __len__(self) -> int:
        return len(self._positions)

    def __contains__(self, key: object) -> bool:
        return key in self._positions

    @property
    def rows(self) -> int:
        """Rows in use, the empty ones between sessions included."""
        return len(self._keys) * ROWS_PER_PAGE

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
        self._window_lengths = None

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

    def lexical_scores(self, tokens: Sequence[str], *, ignored: Sequence[int] = ()) -> LexicalScores:
        """BM25 of the query's tokens for each row and for the window of two rows around it.

        Args:
            tokens: Of the query.
            ignored: Rows that count as saying nothing.
        """
        rows = self.rows
        turn = np.zeros(rows, np.float32)
        window = np.zeros(rows, np.float32)
        if not rows:
            return LexicalScores(turn, window, 0.0)
        lengths = self._lengths[:rows]
        window_lengths = self._current_window_lengths()
        turn_slope = _K1 * _B / max(float(lengths.mean()), 1e-6)
        window_norms = _K1 * (1 - _B) + (_K1 * _B / max(float(window_lengths.mean()), 1e-6)) * window_lengths
        counts = np.zeros(rows + 2 * _WINDOW_ROWS, np.float32)
        own = counts[_WINDOW_ROWS : _WINDOW_ROWS + rows]
        marked = np.zeros(rows, np.bool_)
        counted = np.ones(rows, np.bool_)
        counted[list(ignored)] = False
        ceiling = 0.0
        for postings in self._selective_postings(tokens, rows):
            hits = np.frombuffer(postings.rows, np.int32)
            in_turn = np.frombuffer(postings.counts, np.float32)
            if ignored:
                kept = counted[hits]
                hits, in_turn = hits[kept], in_turn[kept]
            turn_norms = _K1 * (1 - _B) + turn_slope * lengths[hits]
            best = _idf(rows, len(hits)) * (_K1 + 1)
            ceiling += best
            turn[hits] += best * in_turn / (in_turn + turn_norms)
            own[hits] = in_turn
            if len(hits) * _SPARSE_BELOW > rows:
                found = counts[:rows].copy()
                for offset in range(1, 2 * _WINDOW_ROWS + 1):
                    found += counts[offset : offset + rows]
                gain = _idf(rows, int(np.count_nonzero(found))) * (_K1 + 1)
                saturated = found + window_norms
                np.divide(found, saturated, out=found)
                found *= gain
                window += found
            else:
                # Rows near a hit; one near two of them comes twice, which an indexed assignment does not mind.
                near = np.add.outer(_WINDOW_OFFSETS, hits).ravel()
                near = near[(near >= 0) & (near < rows)]
                found = np.zeros(len(near), np.float32)
                for offset in range(2 * _WINDOW_ROWS + 1):
                    found += counts[near + offset]
                marked[near] = True
                matching = int(np.count_nonzero(marked))
                marked[near] = False
                window[near] += (_idf(rows, matching) * (_K1 + 1)) * found / (found + window_norms[near])
            own[hits] = 0
        # A gap between sessions is nobody's turn.
        window[self._speaker_codes[:rows] < 0] = 0
        return LexicalScores(turn, window, ceiling)

    def _selective_postings(self, tokens: Sequence[str], rows: int) -> list[_Postings]:
        """Postings of the query's tokens, without words of nearly every turn while there are better ones."""
        found = [
            p for token in dict.fromkeys(tokens) if (p := self._postings.get(token)) is not None and p.rows
        ]
        selective = [postings for postings in found if len(postings.rows) <= _MAX_SHARE * rows]
        return selective if selective and rows >= _PRUNE_FROM_ROWS else found

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
        position = len(self._keys)
        self._keys.append(key)
        self._sessions.append(session)
        self._turns.append(())
        if key is not None:
            self._positions[key] = position
        self._row_tokens.extend(Counter() for _ in range(ROWS_PER_PAGE))
        needed = self.rows
        if needed > len(self._lengths):
            grown = max(needed, len(self._lengths) * 2)
            self._vectors = _grown(self._vectors, grown)
            self._lengths = _grown(self._lengths, grown)
            self._after_question = _grown(self._after_question, grown)
            self._answers = np.pad(self._answers, (0, grown - len(self._answers)))
            added = (0, grown - len(self._speaker_codes))
            self._speaker_codes = np.pad(self._speaker_codes, added, constant_values=-1)
        return position

    def _fill(self, row: int, turn: IndexedTurn | None) -> None:
        for token in self._row_tokens[row]:
            self._postings[token].remove(row)
        tokens = Counter(tokenize(turn.text)) if turn is not None else Counter[str]()
        self._row_tokens[row] = tokens
        for token, count in tokens.items():
            postings = self._postings.get(token)
            if postings is None:
                postings = self._postings[token] = _Postings()
            postings.rows.append(row)
            postings.counts.append(count)
        self._lengths[row] = sum(tokens.values())
        self._vectors[row] = 0
        self._answers[row] = given_answers(turn.text, tokens) if turn is not None else AnswerType.NONE
        if turn is None or not turn.text.strip():
            self._speaker_codes[row] = -1
        else:
            name = turn.speaker.casefold()
            self._speaker_codes[row] = self._speakers.setdefault(name, len(self._speakers))
        if row + 1 < len(self._after_question):
            asked = turn is not None and is_question(turn.text)
            self._after_question[row + 1] = float(asked)

    def _current_window_lengths(self) -> FloatArray:
        if self._window_lengths is None or len(self._window_lengths) != self.rows:
            padded = np.pad(self._lengths[: self.rows], _WINDOW_ROWS)
            self._window_lengths = np.asarray(
                sum(padded[offset : offset + self.rows] for offset in range(2 * _WINDOW_ROWS + 1)), np.float32
            )
        return self._window_lengths

    def _drop_oldest(self) -> None:
        """Rebuilds without the oldest tenth. Tens of milliseconds per thousand pages; no usual call comes here."""
        keep = [(p, k) for p, k in enumerate(self._keys) if k is not None][self._max_pages // 10 :]
        sessions, turns, vectors = self._sessions, self._turns, self._vectors
        self.dropped += 1
        self._reset()
        for position, key in keep:
            self.upsert(key, session=sessions[position] or "", turns=turns[position])
            first = position * ROWS_PER_PAGE
            self.set_vectors(key, list(vectors[first : first + ROWS_PER_PAGE]))


def _idf(rows: int, matching: int) -> float:
    return math.log(1 + (rows - matching + 0.5) / (matching + 0.5))


def _grown(values: FloatArray, rows: int) -> FloatArray:
    out = np.zeros((rows, *values.shape[1:]), np.float32)
    out[: len(values)] = values
    return out
