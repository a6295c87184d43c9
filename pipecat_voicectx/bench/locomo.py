"""LoCoMo-format conversations for the memory benches: loading, pages of two turns, evidence scores.

The format and the repairs of its few malformed evidence strings are those of the data's own README; scores are averaged
over the questions that have evidence. Headline categories are 1-4; 5 (no answer in the conversation) is apart.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from pipecat_voicectx.errors import BadInputError
from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.stores.embedders import Embedder

__all__ = [
    "Conversation",
    "EmbeddingCache",
    "Page",
    "Question",
    "Turn",
    "load_conversations",
    "score_rankings",
]

TOKENS_PER_WORD = 1.33
_DATE_WORDS = 3
HEADLINE = (1, 2, 3, 4)
_KS = (1, 3, 5, 10)
_BUDGET_TOKENS = 430


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance."""

    id: str
    session: int
    speaker: str
    text: str
    caption: str

    @property
    def content(self) -> str:
        """The words, and those of a shared picture's caption."""
        return f"{self.text} {self.caption}".strip()

    @property
    def line(self) -> str:
        """`Speaker: text [shared an image: caption]`."""
        extra = f" [shared an image: {self.caption}]" if self.caption else ""
        return f"{self.speaker}: {self.text}{extra}"

    @property
    def tokens(self) -> float:
        """Estimated tokens of the line."""
        return TOKENS_PER_WORD * len(self.line.split())


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the turns that answer it."""

    text: str
    category: int
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """Up to two consecutive turns of one session."""

    key: str
    turns: tuple[Turn, ...]

    @property
    def session(self) -> str:
        return str(self.turns[0].session)

    @property
    def words(self) -> int:
        """Spoken words, both sides."""
        return sum(len(turn.text.split()) for turn in self.turns)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A long conversation of two people."""

    id: str
    speakers: tuple[str, str]
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]

    @property
    def pages(self) -> list[Page]:
        """Its turns by twos, never across a session."""
        pages: list[Page] = []
        position = 0
        while position < len(self.turns):
            pair = self.turns[position : position + 2]
            if len(pair) == 2 and pair[1].session != pair[0].session:
                pair = pair[:1]
            pages.append(Page(f"{self.id}/{pair[0].id}", tuple(pair)))
            position += len(pair)
        return pages


def load_conversations(path: Path) -> list[Conversation]:
    """Reads a file.

    Raises:
        BadInputError: Not there, or not in the format.
    """
    try:
        samples = json.loads(path.read_text(encoding="utf-8"))
        return [_conversation(sample) for sample in samples]
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise BadInputError(f"{path} is not in LoCoMo's format: {type(error).__name__} {error}") from error


def _conversation(sample: dict[str, object]) -> Conversation:
    talk = sample["conversation"]
    assert isinstance(talk, dict)
    numbers = sorted(int(key.split("_")[1]) for key in talk if re.fullmatch(r"session_\d+", key))
    turns: list[Turn] = []
    for number in numbers:
        stamp = re.sub(r"\s+", " ", talk[f"session_{number}_date_time"].strip())
        datetime.strptime(stamp, "%I:%M %p on %d %B, %Y")
        for turn in talk[f"session_{number}"]:
            caption = (turn.get("blip_caption") or "").strip()
            turns.append(Turn(turn["dia_id"], number, turn["speaker"], turn["text"].strip(), caption))
    known = {turn.id for turn in turns}
    questions = sample["qa"]
    assert isinstance(questions, list)
    return Conversation(
        str(sample["sample_id"]),
        (talk["speaker_a"], talk["speaker_b"]),
        tuple(turns),
        tuple(Question(q["question"], q["category"], _evidence(q.get("evidence"), known)) for q in questions),
    )


def _evidence(raw: Sequence[str] | None, known: Collection[str]) -> tuple[str, ...]:
    found: list[str] = []
    for text in raw or ():
        for part in re.split(r"[;,\s]+", text):
            match = re.fullmatch(r"D:?(\d+):(\d+)", part)
            turn = f"D{int(match[1])}:{int(match[2])}" if match else ""
            if turn in known and turn not in found:
                found.append(turn)
    return tuple(found)


class EmbeddingCache:
    """Each text is embedded once for all methods. Reports progress through `on_progress(done, of)`."""

    def __init__(self, embedder: Embedder, on_progress: Callable[[int, int], None] | None = None) -> None:
        self._embedder = embedder
        self._on_progress = on_progress
        self._known: dict[str, FloatArray] = {}

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def prepare(self, texts: Sequence[str]) -> None:
        """Embeds what is not known yet, in batches."""
        missing = sorted({text for text in texts if text not in self._known}, key=len)
        for start in range(0, len(missing), 64):
            batch = missing[start : start + 64]
            for text, vector in zip(batch, self._embedder.embed(batch), strict=True):
                self._known[text] = vector / max(float(np.linalg.norm(vector)), 1e-9)
            if self._on_progress is not None:
                self._on_progress(min(start + 64, len(missing)), len(missing))

    def __getitem__(self, text: str) -> FloatArray:
        if text not in self._known:
            self.prepare([text])
        return self._known[text]


Ranking = list[list[str]]
"""Items best first, each the ids of its turns."""


def score_rankings(
    conversations: Sequence[Conversation],
    retrieve: Callable[[Conversation, Question], Ranking],
    *,
    limit: int | None = None,
) -> dict[str, object]:
    """Recall of the evidence turns, the evidence's definitions.

    Args:
        conversations: What is asked about.
        retrieve: Ranks the conversation's items for one question.
        limit: Questions per conversation, evenly spread; all by default.
    """
    rows: list[tuple[int, dict[str, float]]] = []
    for conversation in conversations:
        questions = [question for question in conversation.questions if question.evidence]
        step = max(1, len(questions) // limit) if limit else 1
        for question in questions[::step]:
            ranking = retrieve(conversation, question)
            rows.append((question.category, _row(conversation, question, ranking)))
    headline = [row for category, row in rows if category in HEADLINE]
    out: dict[str, object] = _means(headline)
    out["by_category"] = {
        str(category): _means([row for c, row in rows if c == category]) for category in (*HEADLINE, 5)
    }
    return out


def _row(conversation: Conversation, question: Question, ranking: Ranking) -> dict[str, float]:
    by_id = {turn.id: turn for turn in conversation.turns}
    want = set(question.evidence)
    row = {
        f"recall_at_{k}": len(want & {turn for item in ranking[:k] for turn in item}) / len(want) for k in _KS
    }
    row[f"recall_{_BUDGET_TOKENS}_tokens"] = len(want & set(_within_budget(by_id, ranking))) / len(want)
    row["tokens_at_5"] = sum(by_id[turn].tokens for turn in {turn for item in ranking[:5] for turn in item})
    return row


def _within_budget(by_id: dict[str, Turn], ranking: Ranking) -> list[str]:
    """Turns in the order of the ranking, with a date per session, up to the first that does not fit."""
    used, seen, sessions = 0.0, dict[str, None](), set[int]()
    for turn_id in (turn for item in ranking for turn in item):
        turn = by_id[turn_id]
        if turn_id in seen:
            continue
        used += turn.tokens + (0 if turn.session in sessions else TOKENS_PER_WORD * _DATE_WORDS)
        if used > _BUDGET_TOKENS:
            break
        seen[turn_id] = None
        sessions.add(turn.session)
    return list(seen)


def _means(rows: Sequence[dict[str, float]]) -> dict[str, object]:
    if not rows:
        return {"questions": 0}
    means: dict[str, object] = {key: round(statistics.fmean(row[key] for row in rows), 4) for key in rows[0]}
    return means | {"questions": len(rows)}
