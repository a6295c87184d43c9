"""One ranking of pages for one query. Every route to a page is a feature here; none of them cuts anything off.

    turn  = cosine * cos + bm25 * BM25/max + window * BM25(window)/max + window_share * BM25(window)/ceiling
          + neighbours * mean(cos and BM25 part of the turns before and after)
          + speaker * [the query names who spoke] + after_question * [the turn before asked something]
          - asks * [the turn asks something itself]
          + time, name, place, number * [the query wants one, and the turn has one]
    page  = best turn + other_turn * the other turn

The weights are round numbers found on LoCoMo's first half (760 questions of categories 1-4, all-MiniLM-L6-v2, pages of
two turns, no LLM): recall@5 is 76 there, against 61 for the cosine alone and 66 for BM25 alone; with the last word of
the query missing it is 72. They are those that serve whole and unfinished queries best together. Weights fitted on four
of its conversations and measured on the fifth (with nearly these features) gave 76 and 70. A restriction of the search
to matching topics costs a ranking this good 4 to 13 points, which is why other routes (threads, the last session's
pages) only add to a score or to the list.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.memory.answer_types import AnswerType, wanted_answers
from pipecat_voicectx.memory.index import ROWS_PER_PAGE, FloatArray, PageIndex
from pipecat_voicectx.memory.tokens import tokenize

__all__ = ["PageQuery", "RankedPage", "RankingWeights", "named_speakers", "rank_pages"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingWeights:
    """Weights of the features. All measured together (see the module's docstring) unless the field says otherwise."""

    cosine: float = 1.4
    """Cosine of query and turn."""
    bm25: float = 0.1
    """BM25 of the turn over the best turn's."""
    window: float = 0.5
    """BM25 of the turn and the two before and after it, over the best window's."""
    window_share: float = 0.2
    """BM25 of that window over what the query's words could give at most: weak when only some of them were met."""
    neighbours: float = 0.05
    """Mean of the cosine and BM25 parts of the turn before and the turn after. 0 to 0.1 are equally good."""
    speaker: float = 0.7
    """The query names exactly one speaker, and it is this turn's."""
    after_question: float = 0.1
    """The turn before asked something, so this one may be the answer. 0.4 costs 2 points."""
    asks: float = 0.2
    """Taken off when the turn itself asks: it is seldom the answer."""
    time: float = 0.5
    """The query asks when, and the turn names a time."""
    name: float = 0.6
    """The query asks who, where or which, and the turn names somebody or something."""
    place: float = 0.2
    """The query asks where, and the turn names a place."""
    number: float = 0.2
    """The query asks how many, and the turn has a number."""
    other_turn: float = 0.3
    """Share of the page's weaker turn in the page's score."""

    def __post_init__(self) -> None:
        if any(getattr(self, name) < 0 for name in self.__slots__):
            raise UsageError("ranking weights must not be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageQuery:
    """What is looked for."""

    text: str
    """The user's words, raw."""
    cosines: FloatArray | None = None
    """`PageIndex.cosines` of the query's vector. None: the embedding is not there (yet); words alone decide.
    May be shorter than the index: pages added since then have no cosine."""


@dataclass(frozen=True, slots=True)
class RankedPage:
    """One page and why it is where it is."""

    key: str
    score: float
    cosine: float
    """Best cosine of the page's turns; 0 without vectors."""
    lexical: float
    """Best turn BM25 over the best of all pages, 0..1."""
    window: float
    """Best window BM25 over the best of all pages, 0..1: how well what was said around the page matches."""


# A user who asks "what did I say" means the user's turns; who asks "what did you say" means the bot's.
_USER_NAMED = re.compile(
    r"\b(?:did|had|have)\s+i\b|\bi\s+(?:said|told|mentioned|asked|gave)\b", re.IGNORECASE
)
_BOT_NAMED = re.compile(
    r"\b(?:did|had|have)\s+you\b|\byou\s+(?:said|told|mentioned|suggested|offered|recommended|listed)\b",
    re.IGNORECASE,
)


def named_speakers(text: str, speakers: Collection[str]) -> frozenset[str]:
    """The speakers a query names, by name or by "did I" and "you said" (the latter untested on data)."""
    named = {
        name
        for name in speakers
        if name not in ("user", "bot") and re.search(rf"\b{re.escape(name)}\b", text, re.IGNORECASE)
    }
    if "user" in speakers and _USER_NAMED.search(text):
        named.add("user")
    if "bot" in speakers and _BOT_NAMED.search(text):
        named.add("bot")
    return frozenset(named)


def rank_pages(
    index: PageIndex,
    query: PageQuery,
    *,
    weights: RankingWeights | None = None,
    exclude: Collection[str] = (),
    limit: int = 50,
) -> list[RankedPage]:
    """The best `limit` pages for the query, best first; fewer when fewer exist.

    Args:
        index: The owner's pages.
        query: Words, and cosines where the embedding is ready.
        weights: Feature weights; the measured ones by default.
        exclude: Pages that are in the window anyway.
        limit: Most pages to return.
    """
    weights = weights or RankingWeights()
    rows = index.rows
    if not rows or limit < 1:
        return []
    speakers = index.speakers()
    named = named_speakers(query.text, speakers)
    name_tokens = {token for name in named for token in tokenize(name)}
    tokens = [token for token in tokenize(query.text) if token not in name_tokens]
    # The open exchange is in the index already and holds the query itself, a match that no other page can reach; what
    # is excluded must neither be the measure of the others nor lend its neighbours its score.
    places = [place for key in exclude if (place := index.position_of(key)) is not None]
    ignored = [place * ROWS_PER_PAGE + side for place in places for side in range(ROWS_PER_PAGE)]
    lexical = index.lexical_scores(tokens, ignored=ignored)
    cosines = np.zeros(rows, np.float32)
    if query.cosines is not None:
        known = min(rows, len(query.cosines))
        cosines[:known] = query.cosines[:known]
    cosines[ignored] = 0
    turn_bm25, window_bm25 = _over_best(lexical.turn), _over_best(lexical.window)

    base = weights.cosine * cosines + weights.bm25 * turn_bm25
    scores = base + weights.window * window_bm25 + weights.after_question * index.after_question()
    if lexical.ceiling:
        scores += (weights.window_share / lexical.ceiling) * lexical.window
    scores[:-1] -= weights.asks * index.after_question()[1:]
    scores[1:] += 0.5 * weights.neighbours * base[:-1]
    scores[:-1] += 0.5 * weights.neighbours * base[1:]
    wanted = wanted_answers(query.text)
    for kind, weight in (
        (AnswerType.TIME, weights.time),
        (AnswerType.NAME, weights.name),
        (AnswerType.PLACE, weights.place),
        (AnswerType.NUMBER, weights.number),
    ):
        if kind in wanted and weight:
            scores += weight * index.answers(kind)
    if len(named) == 1:
        scores += weights.speaker * index.speaker_mask(named)
    has_text = index.has_text()
    scores *= has_text

    first, second = scores[0::ROWS_PER_PAGE], scores[1::ROWS_PER_PAGE]
    page_scores = np.maximum(first, second) + weights.other_turn * np.minimum(first, second)
    page_scores[(has_text[0::ROWS_PER_PAGE] + has_text[1::ROWS_PER_PAGE]) == 0] = -np.inf
    depth = min(len(page_scores), limit + len(exclude))
    best = np.argpartition(-page_scores, depth - 1)[:depth]
    best = best[np.argsort(-page_scores[best], kind="stable")]
    best = best[page_scores[best] > -np.inf]
    row = best * ROWS_PER_PAGE
    evidence = [np.maximum(of[row], of[row + 1]).tolist() for of in (cosines, turn_bm25, window_bm25)]
    found = zip(best.tolist(), page_scores[best].tolist(), *evidence, strict=True)
    ranked = [
        RankedPage(key, score, cosine, turn, window)
        for position, score, cosine, turn, window in found
        if (key := index.key_at(position)) is not None and key not in exclude
    ]
    return ranked[:limit]


def _over_best(scores: FloatArray) -> FloatArray:
    best = float(scores.max())
    return scores / np.float32(best) if best > 0 else scores
