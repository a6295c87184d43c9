"""Topic shift: whether this turn is about something else than the one before, so that what is staged is stale.

The sign is a drop of the cosine between consecutive turns of the user: below a floor, and well below this call's own
running mean, since some callers' turns are closer to each other than others'. Turns without content ("yes", "mm-hm")
say nothing about the topic and are passed over. Without vectors the overlap of words decides.

Stale context is worse than absent context, so a shift discards what is staged; what is found for the new topic lands a
turn later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.cleaning import is_low_signal
from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.memory.tokens import tokenize

__all__ = ["TopicShift", "TopicShiftConfig", "TopicShiftDetector"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShiftConfig:
    """When a turn counts as a shift."""

    floor: float = 0.2
    """Cosine below which two turns may be about different things. For all-MiniLM-L6-v2: of consecutive turns of one
    speaker in a LoCoMo conversation 8% are below, of turns of that speaker in different sessions (which often share
    topics) 30%. Other embedders need their own."""
    drop: float = 0.15
    """How far below the call's running mean it must be as well. Chosen."""
    smoothing: float = 0.3
    """Weight of the newest cosine in the running mean."""
    min_tokens: int = 3
    """Content words a turn needs to say anything about the topic."""

    def __post_init__(self) -> None:
        if not -1 <= self.floor <= 1 or self.drop < 0 or not 0 < self.smoothing <= 1 or self.min_tokens < 1:
            raise UsageError(
                "TopicShiftConfig: floor in -1..1, drop >= 0, smoothing in 0..1, min_tokens >= 1"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShift:
    """The verdict on one turn."""

    shifted: bool
    similarity: float | None
    """Cosine (or share of words) to the turn before. None: there was nothing to compare."""


class TopicShiftDetector:
    """Compares each turn of one call with the one before."""

    def __init__(self, *, config: TopicShiftConfig | None = None) -> None:
        self._config = config or TopicShiftConfig()
        self._vector: FloatArray | None = None
        self._tokens: frozenset[str] = frozenset()
        self._mean: float | None = None

    def add_turn(self, text: str, vector: FloatArray | None = None) -> TopicShift:
        """The verdict on a confirmed user turn, with its embedding where there is one."""
        tokens = tokenize(text)
        if is_low_signal(text) or len(tokens) < self._config.min_tokens:
            return TopicShift(shifted=False, similarity=None)
        similarity = self._similarity(tokens, vector)
        shifted = similarity is not None and self._is_shift(similarity)
        self._vector, self._tokens = vector, frozenset(tokens)
        if similarity is not None:
            # A new topic starts a new mean: its turns are not measured by the old one's closeness.
            rate = self._config.smoothing
            self._mean = None if shifted else self._blend(similarity, rate)
        return TopicShift(shifted=shifted, similarity=similarity)

    def _blend(self, similarity: float, rate: float) -> float:
        return similarity if self._mean is None else (1 - rate) * self._mean + rate * similarity

    def _is_shift(self, similarity: float) -> bool:
        if similarity >= self._config.floor:
            return False
        return self._mean is None or similarity <= self._mean - self._config.drop

    def _similarity(self, tokens: Sequence[str], vector: FloatArray | None) -> float | None:
        if vector is not None and self._vector is not None and len(vector) == len(self._vector):
            norm = float(np.linalg.norm(vector) * np.linalg.norm(self._vector))
            return float(np.dot(vector, self._vector)) / norm if norm else None
        if not self._tokens:
            return None
        words = frozenset(tokens)
        return len(words & self._tokens) / min(len(words), len(self._tokens))
