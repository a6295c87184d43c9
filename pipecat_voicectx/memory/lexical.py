"""BM25 over rows of turns, of each turn and of the window around it, with what a word gives kept until it is asked for.

A query's score is the sum of what its words give, and the words of a turn are known one by one while they are said. So
what a word gives is worked out once, when it is first heard (`prepare`), and the turn's end only adds up. Two things
change in between: rows are written (the exchange that is going on), and other rows are ignored (what the window shows
anyway). Both concern a handful of rows: their neighbourhood is worked out anew for the whole query, everything else is
as it was. How rare a word is, is counted anew each time; the mean length of a turn may be some writes old.

Known limit: in a small index every write changes the means, so nothing is kept there; it is fast anyway.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from itertools import count as counting

import numpy as np
from numpy.typing import NDArray

from pipecat_voicectx.errors import UsageError

__all__ = ["FloatArray", "LexicalIndex", "LexicalScores", "grown"]

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int32]

# BM25's usual constants (Robertson and Zaragoza 2009); not tuned.
_K1 = 1.2
_B = 0.75
# Rows on either side that count as a turn's window. Measured on LoCoMo's first half: with it 75, without it 69.
WINDOW_ROWS = 2
_OFFSETS = np.arange(-WINDOW_ROWS, WINDOW_ROWS + 1, dtype=np.int32)
# Measured with 20,000 rows: for a word of more than every eightieth turn, going through all rows is faster than through
# the rows near its hits.
_SPARSE_BELOW = 80
# Chosen: in a large index a word of every fifth turn weighs next to nothing (BM25 gives it 1.6 of up to 10) and costs
# most of the time; it is left out while the query has rarer words.
_MAX_SHARE = 0.2
_LARGE_ROWS = 2_000
# Chosen: the words of a long turn. A word of every turn takes 80 kB with 20,000 rows.
_KEPT_WORDS = 96
# Chosen: rows of a few exchanges; beyond, a word is worked out anew.
_KEPT_CHANGES = 64


@dataclass(frozen=True, slots=True)
class LexicalScores:
    """BM25 of one query for every row, of the turn itself and of the window around it; not normalised."""

    turn: FloatArray
    window: FloatArray
    ceiling: float
    """What a turn with all of the query's words, many times over, would have; 0 when the index has none of them."""


class _Postings:
    __slots__ = ("counts", "rows")

    def __init__(self, rows: bytes = b"", counts: bytes = b"") -> None:
        self.rows = array("i", rows)
        self.counts = array("f", counts)

    def remove(self, row: int) -> None:
        for position in range(len(self.rows) - 1, -1, -1):
            if self.rows[position] == row:
                del self.rows[position]
                del self.counts[position]
                return


@dataclass(frozen=True, slots=True)
class _Word:
    """What a word gives each row, before it is weighed by how rare it is."""

    rows: int
    """Rows of the index when it was worked out."""
    changes: int
    """Changes of the index until then."""
    hits: IntArray
    in_turn: FloatArray
    near: IntArray | None
    """Rows with a hit in their window, ascending. None: `in_window` has a value for every row."""
    in_window: FloatArray
    windows: int
    """Rows with a hit in their window."""


@dataclass(frozen=True, slots=True)
class _LoadedRows:
    """Words of many rows, as numbers."""

    vocabulary: list[str]
    row_of: IntArray
    """Of each word of each row, repetitions merged; ascending."""
    number_of: IntArray
    """Its place in the vocabulary."""
    counts: IntArray
    starts: IntArray
    """Where each row begins in these; one more than there are rows."""

    @classmethod
    def of(cls, rows: Sequence[Sequence[str]]) -> _LoadedRows:
        known: defaultdict[str, int] = defaultdict(counting().__next__)
        numbers = np.fromiter(map(known.__getitem__, chain.from_iterable(rows)), np.int64)
        row_of = np.repeat(np.arange(len(rows), dtype=np.int64), [len(words) for words in rows])
        pairs, counts = np.unique(row_of * max(1, len(known)) + numbers, return_counts=True)
        row_of, numbers = np.divmod(pairs, max(1, len(known)))
        return cls(
            list(known),
            row_of.astype(np.int32),
            numbers.astype(np.int32),
            counts.astype(np.int32),
            np.searchsorted(row_of, np.arange(len(rows) + 1)).astype(np.int32),
        )

    def words(self, row: int) -> Counter[str]:
        first, last = self.starts[row : row + 2].tolist()
        found = zip(self.number_of[first:last].tolist(), self.counts[first:last].tolist(), strict=True)
        return Counter({self.vocabulary[number]: count for number, count in found})

    def lengths(self) -> FloatArray:
        sums = np.bincount(self.row_of, weights=self.counts, minlength=len(self.starts) - 1)
        return np.asarray(sums, np.float32)

    def postings(self) -> dict[str, _Postings]:
        order = np.argsort(self.number_of, kind="stable")
        rows, counts = self.row_of[order], self.counts[order].astype(np.float32)
        starts = np.searchsorted(self.number_of[order], np.arange(len(self.vocabulary) + 1)).tolist()
        return {
            word: _Postings(rows[first:last].tobytes(), counts[first:last].tobytes())
            for word, first, last in zip(self.vocabulary, starts, starts[1:], strict=False)
        }


class LexicalIndex:
    """Words of rows. One thread writes and asks."""

    def __init__(self) -> None:
        self.rows = 0
        self._tokens: list[Counter[str] | None] = []
        """Words of a row and how often. None: as it was loaded."""
        self._loaded: _LoadedRows | None = None
        self._postings: dict[str, _Postings] = {}
        self._lengths = np.zeros(64, np.float32)
        self._window_lengths = np.zeros(64, np.float32)
        self._total_length = 0.0
        self._words: OrderedDict[str, _Word] = OrderedDict()
        self.changes = 0
        """Rows written so far."""
        self._changed: deque[int] = deque(maxlen=_KEPT_CHANGES)

    def extend(self, rows: int) -> None:
        """Adds empty rows at the end."""
        self._tokens.extend(Counter() for _ in range(rows))
        self._make_room(rows)

    def _make_room(self, rows: int) -> None:
        self.rows += rows
        # The rows behind the last are in its window already.
        if self.rows + WINDOW_ROWS > len(self._lengths):
            self._lengths = grown(self._lengths, 2 * (self.rows + WINDOW_ROWS))
            self._window_lengths = grown(self._window_lengths, len(self._lengths))

    def load(self, rows: Sequence[Sequence[str]]) -> None:
        """Fills an empty index with the words of many rows at once: a hundred times as fast as one by one."""
        if self.rows:
            raise UsageError("only an empty index can be loaded")
        if not rows:
            return
        self._make_room(len(rows))
        loaded = self._loaded = _LoadedRows.of(rows)
        self._tokens = [None] * len(rows)
        self._postings = loaded.postings()
        lengths = loaded.lengths()
        self._lengths[: self.rows] = lengths
        padded = np.pad(lengths, WINDOW_ROWS)
        windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * WINDOW_ROWS + 1).sum(axis=1)
        self._window_lengths[: self.rows] = windows
        # Rows that come later have the last ones in their window.
        for offset in range(1, WINDOW_ROWS + 1):
            self._window_lengths[self.rows + offset - 1] = lengths[-(WINDOW_ROWS + 1 - offset) :].sum()
        self._total_length = float(lengths.sum())
        self.changes += len(rows)

    def fill(self, row: int, tokens: Counter[str]) -> None:
        """Replaces the words of a row."""
        for token in self._said(row):
            self._postings[token].remove(row)
        self._tokens[row] = tokens
        for token, count in tokens.items():
            postings = self._postings.get(token)
            if postings is None:
                postings = self._postings[token] = _Postings()
            postings.rows.append(row)
            postings.counts.append(count)
        longer = sum(tokens.values()) - float(self._lengths[row])
        self._lengths[row] += longer
        self._window_lengths[max(0, row - WINDOW_ROWS) : row + WINDOW_ROWS + 1] += longer
        self._total_length += longer
        self.changes += 1
        self._changed.append(row)

    def _said(self, row: int) -> Counter[str]:
        said = self._tokens[row]
        if said is None:
            said = self._tokens[row] = self._loaded.words(row) if self._loaded is not None else Counter()
        return said

    def prepare(self, tokens: Sequence[str]) -> None:
        """Works out what these words give, for a query that will come."""
        for token in self._selective(tokens):
            self._word(token)

    def scores(self, tokens: Sequence[str], *, ignored: Sequence[int] = ()) -> LexicalScores:
        """BM25 of the query's tokens for each row and for the window of two rows around it.

        Args:
            tokens: Of the query.
            ignored: Rows that count as saying nothing.
        """
        rows = self.rows
        turn, window = np.zeros(rows, np.float32), np.zeros(rows, np.float32)
        chosen = self._selective(tokens)
        if not rows or not chosen:
            return LexicalScores(turn, window, 0.0)
        words = [self._word(token) for token in chosen]
        oldest = min(word.changes for word in words)
        changed = list(self._changed)[len(self._changed) - (self.changes - oldest) :]
        silent = sorted(set(ignored))
        near, counts, places = self._around(chosen, sorted({*silent, *changed}), frozenset(silent))
        lost = self._lost(chosen, silent)
        window_counts = counts[:, places].sum(axis=2)
        gains, window_gains = np.empty(len(words), np.float32), np.empty(len(words), np.float32)
        for place, (token, word) in enumerate(zip(chosen, words, strict=True)):
            matching = len(self._postings[token].rows) - lost[place]
            gains[place] = gain = _idf(rows, matching) * (_K1 + 1)
            matching = word.windows + int(np.count_nonzero(window_counts[place])) - _windows_in(word, near)
            window_gains[place] = window_gain = _idf(rows, matching) * (_K1 + 1)
            turn[word.hits] += gain * word.in_turn
            if word.near is None:
                window[: word.rows] += window_gain * word.in_window
            else:
                window[word.near] += window_gain * word.in_window
        if len(near):
            own = counts[:, places[:, WINDOW_ROWS]]
            turn[near] = gains @ (own / (own + self._norms(near)))
            window[near] = window_gains @ (window_counts / (window_counts + self._window_norms(near)))
        return LexicalScores(turn, window, float(gains.sum()))

    def _selective(self, tokens: Sequence[str]) -> list[str]:
        """The query's words that the index has, without those of nearly every turn while there are better ones."""
        found = [
            token
            for token in dict.fromkeys(tokens)
            if (postings := self._postings.get(token)) is not None and postings.rows
        ]
        if self.rows < _LARGE_ROWS:
            return found
        most = _MAX_SHARE * self.rows
        return [token for token in found if len(self._postings[token].rows) <= most] or found

    def _word(self, token: str) -> _Word:
        word = self._words.get(token)
        age = self.changes - word.changes if word is not None else 0
        if word is None or age > (_KEPT_CHANGES if self.rows >= _LARGE_ROWS else 0):
            word = self._words[token] = self._worked_out(token)
            if len(self._words) > _KEPT_WORDS:
                self._words.popitem(last=False)
        self._words.move_to_end(token)
        return word

    def _worked_out(self, token: str) -> _Word:
        postings = self._postings[token]
        # Copies: the arrays grow with the next write.
        hits = np.array(postings.rows, np.int32)
        in_turn = np.array(postings.counts, np.float32)
        rows = self.rows
        counts = np.zeros(rows + 2 * WINDOW_ROWS, np.float32)
        counts[WINDOW_ROWS + hits] = in_turn
        near: IntArray | None = None
        if len(hits) * _SPARSE_BELOW > rows:
            found = counts[:rows].copy()
            for offset in range(1, 2 * WINDOW_ROWS + 1):
                found += counts[offset : offset + rows]
            windows = int(np.count_nonzero(found))
            in_window = found / (found + self._window_norms(slice(0, rows)))
        else:
            near = np.unique(np.add.outer(_OFFSETS, hits))
            near = near[(near >= 0) & (near < rows)]
            found = counts[near[:, None] + np.arange(2 * WINDOW_ROWS + 1, dtype=np.int32)].sum(axis=1)
            windows = len(near)
            in_window = found / (found + self._window_norms(near))
        saturated = in_turn / (in_turn + self._norms(hits))
        return _Word(rows, self.changes, hits, saturated, near, in_window, windows)

    def _around(
        self, tokens: Sequence[str], rows: Sequence[int], silent: frozenset[int]
    ) -> tuple[IntArray, FloatArray, IntArray]:
        """The rows whose windows hold one of `rows`, how often each token stands in and around them, and where.

        Returns:
            Those rows; counts by token and place; the places of each row's window, its own in the middle.
        """
        near = sorted({row + offset for row in rows for offset in _RANGE if 0 <= row + offset < self.rows})
        span = sorted({row + offset for row in near for offset in _RANGE})
        counts = np.zeros((len(tokens), len(span)), np.float32)
        for place, row in enumerate(span):
            if 0 <= row < self.rows and row not in silent:
                said = self._said(row)
                for number, token in enumerate(tokens):
                    if token in said:
                        counts[number, place] = said[token]
        near_rows = np.array(near, np.int32)
        places = np.searchsorted(np.array(span, np.int32), near_rows[:, None] + _OFFSETS)
        return near_rows, counts, np.asarray(places, np.int32)

    def _lost(self, tokens: Sequence[str], silent: Sequence[int]) -> list[int]:
        """In how many of the silent rows each token stands."""
        said = [self._said(row) for row in silent]
        return [sum(token in words for words in said) for token in tokens]

    def _norms(self, rows: IntArray) -> FloatArray:
        mean = max(self._total_length / self.rows, 1e-6)
        return np.asarray(_K1 * (1 - _B) + (_K1 * _B / mean) * self._lengths[rows], np.float32)

    def _window_norms(self, rows: IntArray | slice) -> FloatArray:
        mean = max(float(self._window_lengths[: self.rows].mean()), 1e-6)
        return np.asarray(_K1 * (1 - _B) + (_K1 * _B / mean) * self._window_lengths[rows], np.float32)


_RANGE = range(-WINDOW_ROWS, WINDOW_ROWS + 1)


def _windows_in(word: _Word, rows: IntArray) -> int:
    """How many of `rows` had the word in their window when it was worked out."""
    if not len(rows):
        return 0
    if word.near is None:
        return int(np.count_nonzero(word.in_window[rows[rows < word.rows]]))
    places = np.minimum(np.searchsorted(word.near, rows), len(word.near) - 1)
    return int(np.count_nonzero(word.near[places] == rows))


def _idf(rows: int, matching: int) -> float:
    return math.log(1 + (rows - matching + 0.5) / (matching + 0.5))


def grown(values: FloatArray, rows: int) -> FloatArray:
    """A longer array with the same beginning and zeros behind it."""
    out = np.zeros((rows, *values.shape[1:]), np.float32)
    out[: len(values)] = values
    return out
