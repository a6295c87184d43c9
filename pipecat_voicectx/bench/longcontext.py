"""Long calls on a bounded window: what a turn costs, and whether what was said is still in front of the model.

LoCoMo-format conversations stand for calls: a page is two consecutive turns of a session, spoken at 150 words a minute.
A hit is a question all of whose evidence pages are in the window, at any fidelity. All questions are asked at the end
of the conversation. Costs by minutes ask the user's own next turn when the call has reached that length.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pipecat_voicectx.bench.locomo import (
    HEADLINE,
    Conversation,
    EmbeddingCache,
    Page,
    Question,
    load_conversations,
)
from pipecat_voicectx.bench.longcontext_methods import METHODS, SECS_PER_WORD, History, Window
from pipecat_voicectx.bench.memory import (
    add_common_arguments,
    be_quiet,
    load_embeddings,
    quick_part,
    write_json,
)
from pipecat_voicectx.bench.memory_methods import texts_to_embed
from pipecat_voicectx.errors import VoiceContextError
from pipecat_voicectx.projection.costs import AUDIO_TOKENS_PER_SEC, estimate_tokens
from pipecat_voicectx.projection.projector import Fidelity
from pipecat_voicectx.stores.prices import ModelPrice, load_prices

__all__ = ["add_arguments", "run"]

_SYSTEM_TOKENS = 300
_MINUTES = (5, 10, 20, 40, 58)
# The LOV paper's responses came from this model.
_MODEL = "openai/gpt-realtime-mini"
_QUICK_QUESTIONS = 60


@dataclass(slots=True)
class _Row:
    """What one method did, question by question."""

    hits: list[float] = field(default_factory=list)
    transcript_hits: list[float] = field(default_factory=list)
    multi_hits: list[float] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)
    costs: dict[str, list[float]] = field(default_factory=lambda: {"0": [], "50": [], "100": []})
    by_minutes: dict[str, list[float]] = field(default_factory=dict)
    fidelities: dict[str, int] = field(default_factory=dict)
    secs: list[float] = field(default_factory=list)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `voicectx bench longcontext`."""
    add_common_arguments(parser)
    parser.add_argument(
        "--budget", type=int, default=1_000, metavar="N", help="tokens of history (default 1000)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Measures, prints, and writes the JSON file."""
    be_quiet()
    if arguments.budget < 100:
        print("--budget must be at least 100 tokens", file=sys.stderr)
        return 2
    try:
        conversations = load_conversations(arguments.data)
        embeddings = load_embeddings(arguments.embeddings)
        price = load_prices().price(_MODEL)
    except VoiceContextError as error:
        print(error, file=sys.stderr)
        return 2
    if arguments.quick:
        conversations = quick_part(conversations)
    rows = measure(conversations, embeddings, price, arguments.budget, quick=arguments.quick)
    figures = {name: _figures(row) for name, row in rows.items()}
    _print(figures, rows, price)
    ours = rows["voicectx"].secs
    overhead = {"p50_ms": _ms(np.percentile(ours, 50)), "p95_ms": _ms(np.percentile(ours, 95))}
    settings = {
        "data": arguments.data.name,
        "budget_tokens": arguments.budget,
        "system_tokens": _SYSTEM_TOKENS,
        "words_per_minute": 150,
        "price": f"{_MODEL}, uncached list price as of {load_prices().as_of} (litellm's price file)",
        "summaries": "rule-based",
        "chained": "no conversation needed chaining; those shorter than a bucket are left out of it",
        "size": "quick" if arguments.quick else "full" if arguments.full else "default",
    }
    write_json(arguments, {"settings": settings, "methods": figures, "overhead": overhead})
    return 0


def measure(
    conversations: Sequence[Conversation],
    embeddings: EmbeddingCache,
    price: ModelPrice,
    budget: int,
    *,
    quick: bool,
) -> dict[str, _Row]:
    """All methods over all questions of the headline categories."""
    rows: dict[str, _Row] = {}
    for conversation in conversations:
        questions = [q for q in conversation.questions if q.evidence and q.category in HEADLINE]
        step = max(1, len(questions) // _QUICK_QUESTIONS) if quick else 1
        embeddings.prepare(texts_to_embed(conversation, questions[::step]))
        history = History(conversation, conversation.pages, embeddings)
        for name, form in _variants():
            row = rows.setdefault(_label(name, form), _Row())
            for question in questions[::step]:
                _ask(row, name, form, history, question, price, budget)
        _measure_buckets(rows, conversation, embeddings, price, budget)
        print(f"{conversation.id}: {len(questions[::step])} questions", file=sys.stderr, flush=True)
    return rows


def _variants() -> list[tuple[str, Fidelity]]:
    baselines = [name for name in METHODS if name != "voicectx"]
    both = [(name, form) for name in baselines for form in (Fidelity.AUDIO, Fidelity.TRANSCRIPT)]
    return [*both, ("voicectx", Fidelity.TRANSCRIPT)]


def _label(name: str, form: Fidelity) -> str:
    return f"{name}_text" if form is Fidelity.TRANSCRIPT and name != "voicectx" else name


def _ask(
    row: _Row, name: str, form: Fidelity, history: History, question: Question, price: ModelPrice, budget: int
) -> None:
    started = time.perf_counter()
    window = METHODS[name](history, question.text, budget, form)
    row.secs.append(time.perf_counter() - started)
    evidence = {
        page.key for page in history.pages if any(turn.id in question.evidence for turn in page.turns)
    }
    hit = float(all(key in window.pages for key in evidence))
    row.hits.append(hit)
    row.transcript_hits.append(
        float(all(window.pages.get(key, Fidelity.OMITTED) >= Fidelity.TRANSCRIPT for key in evidence))
    )
    if len(evidence) > 1:
        row.multi_hits.append(hit)
    for fidelity in window.pages.values():
        row.fidelities[fidelity.name.lower()] = row.fidelities.get(fidelity.name.lower(), 0) + 1
    tokens, costs = _request_cost(window, question.text, form, price)
    row.tokens.append(tokens)
    for share, cost in costs.items():
        row.costs[share].append(cost)


def _request_cost(
    window: Window, query: str, form: Fidelity, price: ModelPrice
) -> tuple[float, dict[str, float]]:
    """Tokens of a request and its dollars with 0, 50 and 100% of it cached."""
    asked = len(query.split()) * SECS_PER_WORD * AUDIO_TOKENS_PER_SEC if form is Fidelity.AUDIO else 0.0
    text = _SYSTEM_TOKENS + window.text_tokens + (0 if asked else estimate_tokens(query))
    audio = window.audio_tokens + asked
    costs = {
        str(share): price.cost(text_tokens=text, audio_tokens=audio, cached_ratio=share / 100)
        for share in (0, 50, 100)
    }
    return text + audio, costs


def _measure_buckets(
    rows: dict[str, _Row],
    conversation: Conversation,
    embeddings: EmbeddingCache,
    price: ModelPrice,
    budget: int,
) -> None:
    """Costs when the call has each length: its pages up to then, asked with the caller's own next words."""
    pages = conversation.pages
    ends = np.cumsum([page.words * SECS_PER_WORD / 60 for page in pages])
    for minutes in _MINUTES:
        if ends[-1] < minutes:
            continue
        last = int(np.searchsorted(ends, minutes, side="right"))
        if not 2 <= last < len(pages):
            continue
        history = History(conversation, pages[:last], embeddings)
        query = _next_words(pages[last])
        for name, form in _variants():
            window = METHODS[name](history, query, budget, form)
            _, costs = _request_cost(window, query, form, price)
            rows[_label(name, form)].by_minutes.setdefault(str(minutes), []).append(costs["0"])


def _next_words(page: Page) -> str:
    return page.turns[0].content


def _figures(row: _Row) -> dict[str, object]:
    return {
        "hit_rate": round(statistics.fmean(row.hits), 4),
        "hit_rate_transcript": round(statistics.fmean(row.transcript_hits), 4),
        "hit_rate_multi": round(statistics.fmean(row.multi_hits), 4) if row.multi_hits else None,
        "tokens_per_turn": round(statistics.fmean(row.tokens), 1),
        "cost_per_turn": round(statistics.fmean(row.costs["0"]), 8),
        "cost_per_turn_50_cached": round(statistics.fmean(row.costs["50"]), 8),
        "cost_per_turn_100_cached": round(statistics.fmean(row.costs["100"]), 8),
        "cost_by_minutes": {m: round(statistics.fmean(costs), 8) for m, costs in row.by_minutes.items()},
        "pages_by_fidelity": {
            name: round(n / len(row.hits), 2) for name, n in sorted(row.fidelities.items())
        },
    }


def _print(figures: dict[str, dict[str, object]], rows: dict[str, _Row], price: ModelPrice) -> None:
    print(
        f"{'method':<26}{'hit':>7}{'as text':>9}{'multi':>7}{'tokens':>9}{'$/1k turns':>12}{'50% c.':>9}{'100% c.':>9}"
    )
    for name, row in figures.items():
        costs = [
            float(str(row[key])) * 1000
            for key in ("cost_per_turn", "cost_per_turn_50_cached", "cost_per_turn_100_cached")
        ]
        multi = row["hit_rate_multi"]
        print(
            f"{name:<26}{row['hit_rate']:>7.3f}{row['hit_rate_transcript']:>9.3f}"
            f"{multi if multi is not None else float('nan'):>7.3f}{row['tokens_per_turn']:>9.0f}"
            f"{costs[0]:>12.3f}{costs[1]:>9.3f}{costs[2]:>9.3f}"
        )
    print(f"\ndollars per 1000 turns by length of the call ({price.name}, uncached)")
    print(f"{'method':<26}" + "".join(f"{m:>7} min" for m in _MINUTES))
    for name, row in figures.items():
        minutes = row["cost_by_minutes"]
        assert isinstance(minutes, dict)
        cells = (f"{minutes[str(m)] * 1000:>11.3f}" if str(m) in minutes else f"{'-':>11}" for m in _MINUTES)
        print(f"{name:<26}" + "".join(cells))
    ours = rows["voicectx"]
    mix = ", ".join(f"{n / len(ours.hits):.1f} {name}" for name, n in sorted(ours.fidelities.items()))
    times = f"p50 {_ms(np.percentile(ours.secs, 50))} ms, p95 {_ms(np.percentile(ours.secs, 95))} ms"
    print(f"\nvoicectx window: {mix}; ranking and projection {times}")


def _ms(secs: float) -> float:
    return round(float(secs) * 1e3, 3)
