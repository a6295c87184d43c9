"""Bad input and faults of the page store: a clear error or a clean recovery, and no lost page."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from qdrant_client import models

from pipecat_voicectx.errors import EmbedderMismatchError, UnavailableError
from pipecat_voicectx.memory.index import FloatArray
from pipecat_voicectx.memory.pages import PAGE_SCHEMA_VERSION, VoicePage
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.page_memory import PageMemory, PageStoreConfig
from pipecat_voicectx.stores.page_store import PageStore, open_page_store
from pipecat_voicectx.stores.qdrant_pages import QdrantPages
from pipecat_voicectx.stores.stored_pages import StoredPage
from tests.memory.builders import ANN, page

_META = "voicectx_meta"
_META_POINT = "00000000-0000-4000-8000-0000000ec0de"


class Wider(LexicalEmbedder):
    """The same name with another dimension, as a model that was replaced in place."""

    @property
    def dimension(self) -> int:
        return 512

    def embed(self, texts: Sequence[str]) -> list[FloatArray]:
        return [np.tile(vector, 2) for vector in super().embed(texts)]


def opened(folder: Path) -> PageStore:
    return open_page_store(folder, embedder=LexicalEmbedder())


def write(folder: Path, *pages: VoicePage) -> None:
    store = opened(folder)
    for item in pages:
        store.submit_write(item).stored.result(30)
    store.close()


def stamp(folder: Path, schema: object) -> None:
    """Writes another schema into the store's stamp."""
    store = opened(folder)

    def change(pages: QdrantPages) -> None:
        known = pages._client.retrieve(_META, [_META_POINT])[0].payload or {}
        point = models.PointStruct(id=_META_POINT, vector=[0.0], payload=known | {"schema": schema})
        pages._client.upsert(_META, [point])

    store.submit(change).result()
    store.close()


def stamped_schema(folder: Path) -> object:
    store = opened(folder)
    found = store.submit(lambda pages: pages._client.retrieve(_META, [_META_POINT])[0].payload).result()
    store.close()
    return (found or {})["schema"]


def test_another_dimension_is_refused_with_both_numbers_and_the_way_out(tmp_path: Path) -> None:
    write(tmp_path, page(0))
    with pytest.raises(EmbedderMismatchError, match=r"256.*512.*reembed"):
        open_page_store(tmp_path, embedder=Wider())
    assert [item.page for item in _load(tmp_path)] == [page(0)]


def test_an_older_store_is_upgraded_and_keeps_its_pages(tmp_path: Path) -> None:
    write(tmp_path, page(0))
    stamp(tmp_path, 1)
    assert [item.page for item in _load(tmp_path)] == [page(0)]
    assert stamped_schema(tmp_path) == PAGE_SCHEMA_VERSION


def test_a_store_of_a_newer_version_is_not_touched(tmp_path: Path) -> None:
    write(tmp_path, page(0))
    stamp(tmp_path, PAGE_SCHEMA_VERSION + 1)
    # That version has a copy of its own schema, which to this one is none.
    (tmp_path / "pages.sqlite").unlink()
    with pytest.raises(UnavailableError, match="newer version"):
        opened(tmp_path)


def test_a_megabyte_of_transcript_and_none_at_all_are_pages_like_others(tmp_path: Path) -> None:
    # A hundred thousand words; the last ones are beyond what is indexed, the first ones are found.
    long = page(1, "zeppelin " + "we talked about the weather and the food " * 25_000, "Fine.")
    empty = page(2, "", "")

    async def main() -> list[str]:
        mine = PageMemory(
            owner=ANN, session_id="s1", embedder=LexicalEmbedder(), store=PageStoreConfig(path=tmp_path)
        )
        await mine.open()
        for item in (page(0), long, empty):
            saved = mine.add(item)
            assert await saved.journaled()
            await saved.settled()
        started = time.thread_time()
        found = [hit.key for hit in mine.rank("What about the zeppelin?", limit=1)]
        assert time.thread_time() - started < 0.1
        assert mine.status().failed_writes == 0
        await mine.close()
        return found

    assert asyncio.run(main()) == [long.id]
    assert [len(item.page.user_text) for item in _load(tmp_path)] == [
        len(each.user_text) for each in (page(0), long, empty)
    ]


def test_a_clock_that_went_back_loses_nothing_and_keeps_the_order_of_a_session(tmp_path: Path) -> None:
    write(tmp_path, page(0, wall=5_000), page(1, wall=1_000), page(2, wall=1_020))
    assert {item.page.index for item in _load(tmp_path)} == {0, 1, 2}

    async def main() -> list[int]:
        mine = PageMemory(
            owner=ANN, session_id="s2", embedder=LexicalEmbedder(), store=PageStoreConfig(path=tmp_path)
        )
        await mine.open()
        last = mine.previous_session
        await mine.close()
        assert last is not None
        return [each.index for each in last.pages]

    assert asyncio.run(main()) == [0, 1, 2]


def _load(folder: Path) -> list[StoredPage]:
    store = opened(folder)
    try:
        return list(store.load(ANN))
    finally:
        store.close()
