"""Memory in a pipeline against every way in which memory plugins fail, at the socket of the LLM."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipecat_voicectx.memory.records import MemoryRecord
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.mem0_engine import Mem0Engine
from pipecat_voicectx.testing.memory_conformance import MEMORY_CHECKS, MemoryCheck, MemoryUnderTest
from pipecat_voicectx.testing.memory_engines import InMemoryEngine

by_name = pytest.mark.parametrize("check", MEMORY_CHECKS, ids=lambda check: str(check.__name__))


@by_name
def test_with_an_engine_in_memory(check: MemoryCheck, tmp_path: Path) -> None:
    shared: dict[str, tuple[MemoryRecord, list[float]]] = {}
    check(MemoryUnderTest(folder=tmp_path, make_engine=lambda: InMemoryEngine(shared=shared)))


@by_name
def test_with_the_default_engine(check: MemoryCheck, tmp_path: Path) -> None:
    embedder = LexicalEmbedder()
    check(
        MemoryUnderTest(
            folder=tmp_path,
            embedder=embedder,
            make_engine=lambda: Mem0Engine(path=tmp_path / "facts", embedder=embedder),
        )
    )
