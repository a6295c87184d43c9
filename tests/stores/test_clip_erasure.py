"""Erasing a person erases their voice."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from pipecat_voicectx.memory.exchanges import ExchangeTracker
from pipecat_voicectx.memory.pages import Owner, VoicePage
from pipecat_voicectx.processors.audio_pages import AudioPages, AudioPagesConfig
from pipecat_voicectx.stores.clips import ClipStore
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.memory_admin import Erasure, MemoryAdmin
from pipecat_voicectx.stores.memory_folder import clips_path
from pipecat_voicectx.stores.page_store import open_page_store
from tests.memory.builders import ANN, page
from tests.stores.test_clips import tone

pytest.importorskip("av", reason="audio clips need PyAV: pip install 'pipecat-voicectx[webrtc]'")

BEN = Owner(user_id="ben")


def clip(clips: ClipStore, owner: Owner, hertz: float) -> str:
    return clips.add(tone(1, hertz=hertz), sample_rate_hz=16_000, owner=owner)


def test_an_erasure_takes_the_clips_along_those_that_no_page_names_included(tmp_path: Path) -> None:
    clips = ClipStore(clips_path(tmp_path))
    store = open_page_store(tmp_path, embedder=LexicalEmbedder())
    for owner in (ANN, BEN):
        kept = replace(page(0, owner=owner), user_audio_ref=clip(clips, owner, 300))
        store.submit_write(kept).stored.result()
    clip(clips, ANN, 500)
    store.close()

    async def erase() -> Erasure:
        admin = await MemoryAdmin.open(tmp_path, embedder=LexicalEmbedder())
        try:
            return await admin.erase(ANN)
        finally:
            await admin.close()

    erasure = asyncio.run(erase())
    assert (erasure.clips, erasure.clips_left) == (2, 0)
    assert erasure.proven
    after = ClipStore(clips_path(tmp_path))
    assert (after.count(ANN), after.count(BEN)) == (0, 1)


def audio(folder: Path, tracker: ExchangeTracker) -> AudioPages:
    return AudioPages(
        owner=ANN, config=AudioPagesConfig(), folder=folder, tracker=tracker, commit=lambda pages: None
    )


def test_what_a_caller_wants_forgotten_goes_with_its_recording(tmp_path: Path) -> None:
    clips = ClipStore(tmp_path)
    forgotten = replace(page(0), user_audio_ref=clip(clips, ANN, 300), bot_audio_ref=clip(clips, ANN, 400))
    kept = clip(clips, ANN, 500)

    async def main() -> None:
        pages = audio(tmp_path, ExchangeTracker(owner=ANN, session_id="s1"))
        await pages.open()
        await pages.erase([forgotten])
        await pages.close()

    asyncio.run(main())
    after = ClipStore(tmp_path)
    assert after.count(ANN) == 1
    assert after.read(kept) is not None


def test_a_caller_who_is_identified_in_the_middle_takes_the_recordings_along(tmp_path: Path) -> None:
    clips = ClipStore(tmp_path)
    before = replace(page(0), user_audio_ref=clip(clips, ANN, 300), user_audio_secs=1.0)

    async def main() -> list[VoicePage]:
        pages = audio(tmp_path, ExchangeTracker(owner=ANN, session_id="s1"))
        await pages.open()
        moved = await pages.identify(BEN, [before, page(1)])
        await pages.close()
        return moved

    first, second = asyncio.run(main())
    after = ClipStore(tmp_path)
    assert (after.count(ANN), after.count(BEN)) == (0, 1)
    assert first.user_audio_ref is not None
    assert after.read(first.user_audio_ref) is not None
    assert second.user_audio_ref is None
