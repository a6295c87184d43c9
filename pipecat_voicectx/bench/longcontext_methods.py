"""The ways to fill a context window that `voicectx bench longcontext` compares, after the LOV paper's section 5.1.

full_history          every page; no budget
page_rag              pages by cosine, names in, until the budget is spent
compaction            the last two pages word for word, everything older as summaries, newest first, until it is spent
hybrid_rag            the last two pages, then the union of the ten most relevant and the ten most recent pages, ranked
                      by 0.7 relevance + 0.3 recency
hierarchical_summary  the last two pages, then summaries of chunks of ten turns, nearest first, the nearest expanded
voicectx              the last two pages as transcripts, then our ranking and our projector: transcripts and summaries,
                      a tenth of the budget kept free

Each baseline holds pages as audio, as in the paper, and again as transcripts (`_text`). Summaries are the rule-based
ones of this package for all methods. A chunk's summary contains those of its pages whose sentences it is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pipecat_voicectx.bench.locomo import Conversation, EmbeddingCache, Page
from pipecat_voicectx.bench.memory_methods import page_index, page_text, stripped_query
from pipecat_voicectx.memory.pages import BotTextSource, Owner, VoicePage
from pipecat_voicectx.memory.ranking import PageQuery, rank_pages
from pipecat_voicectx.memory.summary import summarize_exchange
from pipecat_voicectx.projection.costs import AUDIO_TOKENS_PER_SEC, estimate_tokens
from pipecat_voicectx.projection.projector import Fidelity
from pipecat_voicectx.projection.recall import RecallConfig, plan_recall
from pipecat_voicectx.projection.wording import page_transcript

__all__ = ["METHODS", "SECS_PER_WORD", "History", "Window"]

# 150 words a minute, both sides.
SECS_PER_WORD = 60 / 150
_LAST_PAGES = 2
_CHUNK_PAGES = 5
_CHUNK_WORDS = 40
_HYBRID_CANDIDATES = 10
# A page is about 75 tokens as transcript and 40 as summary: so many summaries fill the budget.
_TOKENS_PER_CANDIDATE = 38
# B_safe as a share of B: kept free, as the paper's projector does; the baselines spend all.
_SAFETY_SHARE = 0.1
# Of the budget, the share that the most relevant pages may take word for word.
_FULL_PAGES_PER_1000 = 6


@dataclass(frozen=True, slots=True)
class Window:
    """What a method put into the window."""

    pages: dict[str, Fidelity]
    audio_tokens: int
    text_tokens: int


class History:
    """A conversation up to some page, with everything that can be prepared before the question."""

    def __init__(self, conversation: Conversation, pages: list[Page], embeddings: EmbeddingCache) -> None:
        self.conversation = conversation
        self.pages = pages
        self.embeddings = embeddings
        self.keys = [page.key for page in self.pages]
        self.matrix = np.stack([self.embeddings[page_text(page)] for page in self.pages])
        self.index = page_index(self.conversation, self.pages, self.embeddings)
        self.records = {page.key: _record(number, page) for number, page in enumerate(self.pages)}
        self.audio_cost = [round(page.words * SECS_PER_WORD * AUDIO_TOKENS_PER_SEC) for page in self.pages]
        self.text_cost = [estimate_tokens(page_transcript(self.records[key])) for key in self.keys]
        self.summary_cost = [estimate_tokens(self.records[key].summary) for key in self.keys]

    def cost(self, fidelity: Fidelity) -> Sequence[int]:
        """Tokens of each page at a fidelity."""
        if fidelity is Fidelity.AUDIO:
            return self.audio_cost
        return self.text_cost if fidelity is Fidelity.TRANSCRIPT else self.summary_cost


Method = Callable[[History, str, int, Fidelity], Window]


def full_history(history: History, query: str, budget: int, form: Fidelity) -> Window:
    return _window(history, dict.fromkeys(range(len(history.pages)), form))


def page_rag(history: History, query: str, budget: int, form: Fidelity) -> Window:
    order = np.argsort(-(history.matrix @ history.embeddings[query]), kind="stable")
    return _window(history, _fill(history, {}, [int(i) for i in order], budget, form))


def compaction(history: History, query: str, budget: int, form: Fidelity) -> Window:
    total = len(history.pages)
    if sum(history.cost(form)) <= budget:
        return full_history(history, query, budget, form)
    chosen = _last_pages(history, budget, form)
    return _window(history, _fill(history, chosen, list(range(total - 1, -1, -1)), budget, Fidelity.SUMMARY))


def hybrid_rag(history: History, query: str, budget: int, form: Fidelity) -> Window:
    total = len(history.pages)
    cosines = history.matrix @ history.embeddings[query]
    relevant = np.argsort(-cosines, kind="stable")[:_HYBRID_CANDIDATES]
    union = {int(i) for i in relevant} | set(range(max(0, total - _HYBRID_CANDIDATES), total))
    order = sorted(union, key=lambda i: -(0.7 * float(cosines[i]) + 0.3 * (i + 1) / total))
    return _window(history, _fill(history, _last_pages(history, budget, form), order, budget, form))


def hierarchical_summary(history: History, query: str, budget: int, form: Fidelity) -> Window:
    chosen = _last_pages(history, budget, form)
    left = budget - sum(history.cost(form)[i] for i in chosen)
    chunks = [
        range(i, min(i + _CHUNK_PAGES, len(history.pages)))
        for i in range(0, len(history.pages), _CHUNK_PAGES)
    ]
    cosines = history.matrix @ history.embeddings[query]
    chunks.sort(key=lambda chunk: -max(float(cosines[i]) for i in chunk))
    extra = 0
    for number, chunk in enumerate(chunks):
        if number == 0:
            for i in sorted(chunk, key=lambda i: -float(cosines[i])):
                if i not in chosen and history.cost(form)[i] <= left:
                    chosen[i] = form
                    left -= history.cost(form)[i]
            continue
        members, cost = _chunk_summary(history, chunk)
        if cost > left:
            break
        left -= cost
        extra += cost
        for i in members:
            chosen.setdefault(i, Fidelity.OMITTED)
    window = _window(history, {i: f for i, f in chosen.items() if f is not Fidelity.OMITTED})
    in_summaries = {history.keys[i]: Fidelity.SUMMARY for i, f in chosen.items() if f is Fidelity.OMITTED}
    return Window(in_summaries | window.pages, window.audio_tokens, window.text_tokens + extra)


def voicectx(history: History, query: str, budget: int, form: Fidelity) -> Window:
    chosen = _last_pages(history, budget, Fidelity.TRANSCRIPT)
    spent = sum(history.text_cost[i] for i in chosen)
    cosines = history.index.cosines(history.embeddings[stripped_query(history.conversation, query)])
    ranked = rank_pages(
        history.index,
        PageQuery(text=query, cosines=cosines),
        exclude={history.keys[i] for i in chosen},
        limit=budget // 10,
    )
    config = RecallConfig(
        budget_tokens=budget - spent,
        safety_tokens=round(budget * _SAFETY_SHARE),
        max_pages=max(4, budget // _TOKENS_PER_CANDIDATE),
        full_pages=max(2, budget * _FULL_PAGES_PER_1000 // 1000),
        min_score_ratio=0.0,
        min_cosine=-1.0,
    )
    plan = plan_recall(ranked, history.records, config=config, session_id="", wall_secs=0.0)
    window = _window(history, chosen)
    pages = {recalled.page_id: Fidelity[recalled.fidelity.upper()] for recalled in plan.pages}
    return Window(window.pages | pages, 0, window.text_tokens + estimate_tokens(plan.block_text))


METHODS: dict[str, Method] = {
    "full_history": full_history,
    "page_rag": page_rag,
    "compaction": compaction,
    "hybrid_rag": hybrid_rag,
    "hierarchical_summary": hierarchical_summary,
    "voicectx": voicectx,
}


def _last_pages(history: History, budget: int, form: Fidelity) -> dict[int, Fidelity]:
    """The last two pages, as far as the budget takes them."""
    total = len(history.pages)
    return _fill(history, {}, list(range(total - 1, max(-1, total - 1 - _LAST_PAGES), -1)), budget, form)


def _fill(
    history: History, chosen: dict[int, Fidelity], order: Sequence[int], budget: int, form: Fidelity
) -> dict[int, Fidelity]:
    """Adds pages in their order, up to the first that does not fit."""
    filled = dict(chosen)
    left = budget - sum(history.cost(f)[i] for i, f in chosen.items())
    for i in order:
        if i in filled:
            continue
        cost = history.cost(form)[i]
        if cost > left:
            break
        filled[i] = form
        left -= cost
    return filled


def _window(history: History, chosen: dict[int, Fidelity]) -> Window:
    audio = sum(history.audio_cost[i] for i, form in chosen.items() if form is Fidelity.AUDIO)
    text = sum(history.cost(form)[i] for i, form in chosen.items() if form is not Fidelity.AUDIO)
    return Window({history.keys[i]: form for i, form in chosen.items()}, audio, text)


def _chunk_summary(history: History, chunk: Sequence[int]) -> tuple[list[int], int]:
    """Which pages of a chunk its 40 words hold, the weightiest summaries first, and their tokens."""
    members: list[int] = []
    words = 0
    for i in sorted(chunk, key=lambda i: -history.summary_cost[i]):
        length = len(history.records[history.keys[i]].summary.split())
        if words + length <= _CHUNK_WORDS:
            members.append(i)
            words += length
    return members, sum(history.summary_cost[i] for i in members)


def _record(number: int, page: Page) -> VoicePage:
    texts = [turn.content for turn in page.turns] + [""]
    return VoicePage(
        id=page.key,
        owner=Owner(user_id="bench"),
        session_id=page.session,
        index=number,
        started_wall_secs=-1.0,
        ended_wall_secs=-1.0,
        user_text=texts[0],
        bot_text=texts[1],
        bot_text_source=BotTextSource.HEARD,
        summary=summarize_exchange(texts[0], texts[1]),
    )
