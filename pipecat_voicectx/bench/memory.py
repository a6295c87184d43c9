"""How well memory finds what was said, on LoCoMo-format data, and what that costs on the response path.

No LLM is involved: a question is answered by the turns its evidence names, and recall is the share of them among the
items found. Items are pages of at most two turns (single turns for flat and mem0_raw).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from loguru import logger

from pipecat_voicectx.bench.locomo import (
    Conversation,
    EmbeddingCache,
    Question,
    Ranking,
    load_conversations,
    score_rankings,
)
from pipecat_voicectx.bench.memory_latency import measure_engine, measure_path
from pipecat_voicectx.bench.memory_methods import METHODS, Method, texts_to_embed
from pipecat_voicectx.bench.memory_startup import measure_startup
from pipecat_voicectx.errors import UsageError, VoiceContextError
from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.memory.records import MemoryRecord, record_id
from pipecat_voicectx.stores.embedders import MINILM, FastEmbedder
from pipecat_voicectx.stores.engine import Answered
from pipecat_voicectx.stores.mem0_engine import Mem0Engine

__all__ = ["add_arguments", "be_quiet", "load_embeddings", "quick_part", "run", "write_json"]

_QUICK_QUESTIONS = 40
# Mem0's own search takes 40 to 200 ms; with all questions it alone would take the default size's ten minutes.
_MEM0_QUESTIONS = 40
_SIZES = (500, 2_000, 10_000)
_INDEX_ONLY = 50_000
_STARTUP = 10_000
_QUICK_STARTUP = 1_000
_ROWS = ("recall_at_1", "recall_at_3", "recall_at_5", "recall_at_10", "tokens_at_5", "recall_430_tokens")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `voicectx bench memory`."""
    add_common_arguments(parser)


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """Options shared with `bench longcontext`."""
    parser.add_argument(
        "--data", type=Path, required=True, metavar="FILE", help="conversations in LoCoMo's format"
    )
    parser.add_argument(
        "--embeddings", type=Path, metavar="DIR", help="folder with all-MiniLM-L6-v2 for fastembed"
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a part of the data; at most a minute")
    size.add_argument("--full", action="store_true", help="everything, at every size")
    parser.add_argument("--seed", type=int, default=1, help="for synthetic pages (default 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")


def be_quiet() -> None:
    """Figures only: no log of Pipecat's pipelines, and none of Mem0 about parts that this bench does not use."""
    logger.remove()
    logging.getLogger("mem0").setLevel(logging.CRITICAL)


def quick_part(conversations: list[Conversation]) -> list[Conversation]:
    """The shortest conversation, which `--quick` makes do with."""
    return sorted(conversations, key=lambda conversation: len(conversation.turns))[:1]


def run(arguments: argparse.Namespace) -> int:
    """Measures, prints, and writes the JSON file."""
    be_quiet()
    try:
        conversations = load_conversations(arguments.data)
        embeddings = load_embeddings(arguments.embeddings)
    except VoiceContextError as error:
        print(error, file=sys.stderr)
        return 2
    if arguments.quick:
        conversations = quick_part(conversations)
    limit = _QUICK_QUESTIONS if arguments.quick else None
    mem0_limit = None if arguments.full else _MEM0_QUESTIONS
    methods = _measure_methods(conversations, embeddings, limit, mem0_limit)
    latency = _measure_latency(arguments)
    slow_engine = _measure_slow_engine(arguments)
    startup = _measure_startup(arguments)
    settings = {
        "data": arguments.data.name,
        "conversations": len(conversations),
        "embedder": MINILM,
        "partial": "the query without its last word (400 ms at 150 words a minute)",
        "latency_embedder": "random vectors, ready when the turn ends",
        "engine": "mem0 on embedded Qdrant",
        "mem0_raw_questions_per_conversation": "all" if arguments.full else _MEM0_QUESTIONS,
        "size": "quick" if arguments.quick else "full" if arguments.full else "default",
    }
    write_json(
        arguments,
        {
            "settings": settings,
            "methods": methods,
            "latency": latency,
            "slow_engine": slow_engine,
            "startup": startup,
        },
    )
    return 0


def load_embeddings(folder: Path | None) -> EmbeddingCache:
    """The default embedder with a cache, loaded.

    Raises:
        UnavailableError: It cannot be had.
        UsageError: The folder holds no model.
    """
    embedder = FastEmbedder(MINILM, path=folder, download=folder is None)
    embedder.load()
    return EmbeddingCache(embedder, _progress)


def write_json(arguments: argparse.Namespace, figures: dict[str, object]) -> None:
    """Writes the result with version and seed where `--json` says."""
    if arguments.json is None:
        return
    try:
        number = version("pipecat-voicectx")
    except PackageNotFoundError:
        number = "unknown"
    try:
        arguments.json.write_text(
            json.dumps({"version": number, "seed": arguments.seed} | figures, indent=1) + "\n"
        )
    except OSError as error:
        raise UsageError(f"{arguments.json} cannot be written: {error.strerror or error}") from error


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        print(f"\rembedding {done}/{of}", end="\n" if done == of else "", file=sys.stderr, flush=True)


def _measure_methods(
    conversations: Sequence[Conversation],
    embeddings: EmbeddingCache,
    limit: int | None,
    mem0_limit: int | None,
) -> dict[str, object]:
    for conversation in conversations:
        questions = [question for question in conversation.questions if question.evidence]
        step = max(1, len(questions) // limit) if limit else 1
        embeddings.prepare(texts_to_embed(conversation, questions[::step]))
    print(f"{'method':<17}" + "".join(f"{name.replace('recall_', ''):>11}" for name in _ROWS))
    results: dict[str, object] = {}
    for name, build in METHODS.items():
        built: dict[str, Method] = {c.id: build(c, embeddings) for c in conversations}

        def retrieve(c: Conversation, q: Question, built: dict[str, Method] = built) -> Ranking:
            return built[c.id](c, q)

        results[name] = _print_row(name, score_rankings(conversations, retrieve, limit=limit))
    results["mem0_raw"] = _print_row("mem0_raw", _mem0(conversations, embeddings, mem0_limit))
    return results


def _print_row(name: str, scores: dict[str, object]) -> dict[str, object]:
    print(f"{name:<17}" + "".join(f"{scores[row]:>11.3f}" for row in _ROWS), flush=True)
    return scores


class _Cached:
    """The cache in the form of an embedder."""

    name = MINILM

    def __init__(self, embeddings: EmbeddingCache) -> None:
        self._embeddings = embeddings
        self.dimension = embeddings.dimension

    def embed(self, texts: Sequence[str]) -> list[FloatArray]:
        return [self._embeddings[text] for text in texts]


def _mem0(
    conversations: Sequence[Conversation], embeddings: EmbeddingCache, limit: int | None
) -> dict[str, object]:
    """Mem0 as a store of turns, without its LLM: added as they are, searched by its own search."""
    with tempfile.TemporaryDirectory(prefix="voicectx-bench-") as folder:
        engine = Mem0Engine(embedder=_Cached(embeddings), path=Path(folder), timeout_secs=600)
        with asyncio.Runner() as runner:
            for conversation in conversations:
                runner.run(_add_turns(engine, conversation))

            def retrieve(conversation: Conversation, question: Question) -> Ranking:
                owner = Owner(user_id=conversation.id)
                answer = runner.run(engine.search(owner, question.text, limit=60))
                if not isinstance(answer, Answered):
                    raise UsageError(f"mem0 does not answer: {answer}")
                return [[hit.record.source_turns[0]] for hit in answer.value]

            scores = score_rankings(conversations, retrieve, limit=limit)
            runner.run(engine.close())
    return scores


async def _add_turns(engine: Mem0Engine, conversation: Conversation) -> None:
    owner = Owner(user_id=conversation.id)
    records = [
        MemoryRecord(
            id=record_id(owner, turn.id),
            owner=owner,
            text=turn.line,
            created_wall_secs=float(number),
            valid_from_wall_secs=float(number),
            source_turns=(turn.id,),
        )
        for number, turn in enumerate(conversation.turns)
    ]
    for start in range(0, len(records), 200):
        await engine.add(records[start : start + 200])


def _measure_latency(arguments: argparse.Namespace) -> dict[str, object]:
    sizes = _SIZES[:2] if arguments.quick else _SIZES
    turns = 30 if arguments.quick else 100
    print(
        f"\n{'pages':>7}{'path p50 ms':>13}{'path p95 ms':>13}{'own p50 ms':>12}{'own p95 ms':>12}{'engine p50 ms':>15}"
    )
    rows: dict[str, object] = {}
    for size in (*sizes, *(() if arguments.quick else (_INDEX_ONLY,))):
        started = time.perf_counter()
        path, own = measure_path(size, turns=turns, seed=arguments.seed, facts=size != _INDEX_ONLY)
        engine = None
        if size != _INDEX_ONLY and (not arguments.quick or size == sizes[0]):
            engine = float(np.median(measure_engine(size, seed=arguments.seed)))
        row = {
            "path_p50_ms": _ms(np.percentile(path, 50)),
            "path_p95_ms": _ms(np.percentile(path, 95)),
            "memory_p50_ms": _ms(np.percentile(own, 50)),
            "memory_p95_ms": _ms(np.percentile(own, 95)),
            "engine_p50_ms": None if engine is None else _ms(engine),
        }
        rows[str(size)] = row
        shown = [f"{value:.2f}" if isinstance(value, float) else "-" for value in row.values()]
        print(f"{size:>7}{shown[0]:>13}{shown[1]:>13}{shown[2]:>12}{shown[3]:>12}{shown[4]:>15}", flush=True)
        if sys.stderr.isatty():
            print(f"({size} pages took {time.perf_counter() - started:.0f} s)", file=sys.stderr)
    return rows


# An engine that takes this long for every search and write; at this many facts it is asked on every turn.
_SLOW_SECS = 3.0
_SLOW_FACTS = 1_000


def _measure_slow_engine(arguments: argparse.Namespace) -> dict[str, object]:
    turns = 30 if arguments.quick else 100
    (fast, _), (slow, _) = (
        measure_path(_SLOW_FACTS, turns=turns, seed=arguments.seed, engine_secs=secs)
        for secs in (0.0, _SLOW_SECS)
    )
    row: dict[str, object] = {
        "engine_secs": _SLOW_SECS,
        "facts": _SLOW_FACTS,
        "path_p95_ms": _ms(np.percentile(slow, 95)),
        "path_p95_without_ms": _ms(np.percentile(fast, 95)),
    }
    print(
        f"\nengine that takes {_SLOW_SECS:.0f} s for every search and write: path p95 {row['path_p95_ms']} ms, "
        f"with one that does not {row['path_p95_without_ms']} ms ({_SLOW_FACTS} facts)"
    )
    return row


def _measure_startup(arguments: argparse.Namespace) -> dict[str, object]:
    pages = _QUICK_STARTUP if arguments.quick else _STARTUP
    first, usual = measure_startup(pages, seed=arguments.seed)
    print(
        f"\nstart with {pages} pages: searchable after {usual.searchable_secs:.2f} s "
        f"(CPU {usual.searchable_cpu_secs:.2f} s), database open after {usual.open_secs:.2f} s; "
        f"the first start without a copy: {first.searchable_secs:.2f} s"
    )
    return {"pages": pages, "usual": asdict(usual), "first": asdict(first)}


def _ms(secs: float) -> float:
    return round(float(secs) * 1e3, 3)
