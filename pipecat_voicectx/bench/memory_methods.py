"""The ways to find pages that `voicectx bench memory` compares. None uses an LLM; all use the same embedder.

flat        cosine over turns with their speakers' names, what a vector store of messages gives
page_rag    cosine over pages of two turns, names in, as in the LOV paper's baseline
bm25        BM25 over pages
hard_pool   cosine over pages, but only those that share an entity with the query, and their neighbours: the dual-brain
            paper's restriction of the search, with a rule in place of its LLM (entities are words of few pages)
voicectx    the ranking of `memory/ranking.py`
voicectx_partial  the same, with the query cut before its last 400 ms (one word at 150 words a minute), words and all
voicectx_late     the same, with only the embedding made from the cut query: what the path has when the embedding of the
                  last words is not ready, since words are looked up when the turn ends
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pipecat_voicectx.bench.locomo import Conversation, EmbeddingCache, Page, Question, Ranking
from pipecat_voicectx.memory.index import IndexedTurn, PageIndex
from pipecat_voicectx.memory.ranking import PageQuery, rank_pages
from pipecat_voicectx.memory.text import strip_for_embedding
from pipecat_voicectx.memory.tokens import tokenize

__all__ = ["METHODS", "Method", "page_index", "page_text", "stripped_query", "texts_to_embed"]

Method = Callable[[Conversation, Question], Ranking]

# How many items a ranking goes deep: more than fit any budget measured here.
_DEPTH = 60
# Chosen: a word of more than every tenth page names no entity.
_ENTITY_SHARE = 0.1
# 400 ms at 150 words a minute.
_UNHEARD_WORDS = 1


def stripped_query(conversation: Conversation, text: str) -> str:
    """The query as it is embedded."""
    return strip_for_embedding(text, names=conversation.speakers)


def texts_to_embed(conversation: Conversation, questions: Sequence[Question]) -> list[str]:
    """Everything the methods embed, for one batched pass."""
    texts = [turn.line for turn in conversation.turns]
    texts += [strip_for_embedding(turn.content, names=conversation.speakers) for turn in conversation.turns]
    texts += [page_text(page) for page in conversation.pages]
    texts += [_stripped_page(conversation, page) for page in conversation.pages]
    for question in questions:
        texts += [question.text, stripped_query(conversation, question.text)]
        texts.append(stripped_query(conversation, _partial(question.text)))
    return texts


def page_index(conversation: Conversation, pages: Sequence[Page], embeddings: EmbeddingCache) -> PageIndex:
    """Pages in the in-process index."""
    index = PageIndex(dimension=embeddings.dimension)
    for page in pages:
        turns = [IndexedTurn(speaker=turn.speaker, text=turn.content) for turn in page.turns]
        index.upsert(page.key, session=page.session, turns=turns)
        stripped = [strip_for_embedding(turn.content, names=conversation.speakers) for turn in page.turns]
        index.set_vectors(page.key, [embeddings[text] for text in stripped])
    return index


def flat(conversation: Conversation, embeddings: EmbeddingCache) -> Method:
    matrix = np.stack([embeddings[turn.line] for turn in conversation.turns])
    ids = [turn.id for turn in conversation.turns]

    def retrieve(_conversation: Conversation, question: Question) -> Ranking:
        best = np.argsort(-(matrix @ embeddings[question.text]), kind="stable")[: 2 * _DEPTH]
        return [[ids[i]] for i in best]

    return retrieve


def page_rag(conversation: Conversation, embeddings: EmbeddingCache) -> Method:
    pages = conversation.pages
    matrix = np.stack([embeddings[page_text(page)] for page in pages])

    def retrieve(_conversation: Conversation, question: Question) -> Ranking:
        best = np.argsort(-(matrix @ embeddings[question.text]), kind="stable")[:_DEPTH]
        return [_ids(pages[i]) for i in best]

    return retrieve


def bm25(conversation: Conversation, embeddings: EmbeddingCache) -> Method:
    pages = conversation.pages
    index = PageIndex(dimension=1)
    for page in pages:
        index.upsert(page.key, session=page.key, turns=[IndexedTurn(speaker="page", text=page_text(page))])

    def retrieve(_conversation: Conversation, question: Question) -> Ranking:
        scores = index.lexical_scores(tokenize(question.text)).turn
        places = [index.position_of(page.key) or 0 for page in pages]
        best = np.argsort(-scores[[2 * place for place in places]], kind="stable")[:_DEPTH]
        return [_ids(pages[i]) for i in best]

    return retrieve


def hard_pool(conversation: Conversation, embeddings: EmbeddingCache) -> Method:
    pages = conversation.pages
    matrix = np.stack([embeddings[_stripped_page(conversation, page)] for page in pages])
    words = [frozenset(tokenize(page_text(page))) for page in pages]
    share: dict[str, int] = {}
    for page_words in words:
        for word in page_words:
            share[word] = share.get(word, 0) + 1

    def retrieve(_conversation: Conversation, question: Question) -> Ranking:
        entities = {w for w in tokenize(question.text) if 0 < share.get(w, 0) <= _ENTITY_SHARE * len(pages)}
        hits = {i for i, page_words in enumerate(words) if page_words & entities}
        pool = hits | {i + 1 for i in hits if i + 1 < len(pages)} | {i - 1 for i in hits if i > 0}
        cosines = matrix @ embeddings[stripped_query(conversation, question.text)]
        ranked = sorted(pool or range(len(pages)), key=lambda i: -cosines[i])
        return [_ids(pages[i]) for i in ranked[:_DEPTH]]

    return retrieve


def voicectx(conversation: Conversation, embeddings: EmbeddingCache) -> Method:
    return _ours(conversation, embeddings, words=_whole, meaning=_whole)


def voicectx_partial(conversation: Conversation, embeddings: EmbeddingCache) -> Method:
    return _ours(conversation, embeddings, words=_partial, meaning=_partial)


def voicectx_late(conversation: Conversation, embeddings: EmbeddingCache) -> Method:
    return _ours(conversation, embeddings, words=_whole, meaning=_partial)


def _ours(
    conversation: Conversation,
    embeddings: EmbeddingCache,
    *,
    words: Callable[[str], str],
    meaning: Callable[[str], str],
) -> Method:
    pages = {page.key: page for page in conversation.pages}
    index = page_index(conversation, conversation.pages, embeddings)

    def retrieve(_conversation: Conversation, question: Question) -> Ranking:
        cosines = index.cosines(embeddings[stripped_query(conversation, meaning(question.text))])
        hits = rank_pages(index, PageQuery(text=words(question.text), cosines=cosines), limit=_DEPTH)
        return [_ids(pages[hit.key]) for hit in hits]

    return retrieve


METHODS: dict[str, Callable[[Conversation, EmbeddingCache], Method]] = {
    "flat": flat,
    "page_rag": page_rag,
    "bm25": bm25,
    "hard_pool": hard_pool,
    "voicectx": voicectx,
    "voicectx_partial": voicectx_partial,
    "voicectx_late": voicectx_late,
}


def _ids(page: Page) -> list[str]:
    return [turn.id for turn in page.turns]


def page_text(page: Page) -> str:
    """A page with its speakers' names."""
    return "\n".join(turn.line for turn in page.turns)


def _stripped_page(conversation: Conversation, page: Page) -> str:
    return " ".join(strip_for_embedding(turn.content, names=conversation.speakers) for turn in page.turns)


def _whole(text: str) -> str:
    return text


def _partial(text: str) -> str:
    words = text.split()
    return " ".join(words[: max(1, len(words) - _UNHEARD_WORDS)])
