"""The embedded store: one client per folder, another embedder refused, deleted text gone from the files."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pipecat_voicectx.errors import EmbedderMismatchError, StoreLockedError, UsageError
from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.engine import erase_owner
from pipecat_voicectx.stores.mem0_engine import Mem0Engine
from pipecat_voicectx.stores.qdrant_engine import QdrantEngine, collection_name
from pipecat_voicectx.testing.engine_conformance import answered, make_record, new_owner


class OtherEmbedder(LexicalEmbedder):
    name = "other-model"


class LyingEmbedder(LexicalEmbedder):
    """States 1,536 dimensions and makes 256."""

    dimension = 1_536


class LongNamedEmbedder(LexicalEmbedder):
    name = "sentence-transformers/some-very-long-model-name-that-goes-on-and-on"


class FixedEmbedder(LexicalEmbedder):
    def embed(self, texts: Sequence[str]) -> list[FloatArray]:
        return [np.ones(self.dimension, np.float32) for _ in texts]


@pytest.mark.parametrize("engine_class", [QdrantEngine, Mem0Engine])
def test_F15_a_store_of_another_embedder_is_refused_with_the_way_out(
    engine_class: type[QdrantEngine] | type[Mem0Engine], tmp_path: Path
) -> None:
    async def fill() -> None:
        engine = engine_class(embedder=LexicalEmbedder(), path=tmp_path)
        answered(await engine.add([make_record(new_owner(), "tea")]))
        await engine.close()

    asyncio.run(fill())
    with pytest.raises(EmbedderMismatchError, match="open it with that embedder"):
        engine_class(embedder=OtherEmbedder(), path=tmp_path)
    asyncio.run(fill())  # the refusal released the folder


def test_F15_an_embedder_that_lies_about_its_dimension_is_found_out_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(EmbedderMismatchError, match="states 1536 dimensions and makes 256"):
        QdrantEngine(embedder=LyingEmbedder(), path=tmp_path)


def test_F16_another_process_gets_a_clear_message(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from pipecat_voicectx.stores.qdrant_engine import *\n"
        "shared = open_embedded_qdrant(Path(sys.argv[1])); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(StoreLockedError, match="one process per folder"):
            QdrantEngine(embedder=LexicalEmbedder(), path=tmp_path)
        other.communicate("")


def test_F16_an_unclosed_first_session_does_not_shut_out_the_second(tmp_path: Path) -> None:
    async def body() -> None:
        owner = new_owner()
        unclosed = QdrantEngine(embedder=LexicalEmbedder(), path=tmp_path)
        second = QdrantEngine(embedder=LexicalEmbedder(), path=tmp_path / ".." / tmp_path.name)
        answered(await second.add([make_record(owner, "tea")]))
        await second.close()
        assert len(answered(await unclosed.search(owner, "tea"))) == 1
        await unclosed.close()

    asyncio.run(body())


@pytest.mark.parametrize("engine_class", [QdrantEngine, Mem0Engine])
def test_F12_erased_text_is_gone_from_the_files(
    engine_class: type[QdrantEngine] | type[Mem0Engine], tmp_path: Path
) -> None:
    async def body() -> None:
        owner, other = new_owner(), new_owner()
        engine = engine_class(embedder=LexicalEmbedder(), path=tmp_path)
        answered(
            await engine.add([make_record(owner, f"the secret word is xylophone {n}") for n in range(40)])
        )
        answered(await engine.add([make_record(other, "the kept word is marimba")]))
        assert found("xylophone")
        answered(await erase_owner(engine, owner))
        assert not found("xylophone")
        assert not found(owner.user_id)
        assert found("marimba")
        await engine.close()

    def found(word: str) -> bool:
        return any(word.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

    asyncio.run(body())


def test_names_of_collections_fit_every_back_end() -> None:
    names = {collection_name("mem0_voicectx", each) for each in (LexicalEmbedder(), LongNamedEmbedder())}
    assert len(names) == 2
    assert all(len(name) <= 43 and name.startswith("mem0_voicectx_") for name in names)


def test_either_a_path_or_a_url() -> None:
    with pytest.raises(UsageError):
        QdrantEngine(embedder=LexicalEmbedder())


def test_items_that_are_not_ours_are_skipped_and_counted(tmp_path: Path) -> None:
    async def body() -> None:
        owner = new_owner()
        engine = QdrantEngine(embedder=FixedEmbedder(), path=tmp_path)
        record = make_record(owner, "tea")
        answered(await engine.add([record]))
        engine._client.set_payload(
            engine._collection, payload={"voicectx": {"schema": 99}}, points=[record.id], wait=True
        )
        assert answered(await engine.search(owner, "tea")) == ()
        assert engine.counters.unreadable == 1
        await engine.close()

    asyncio.run(body())
