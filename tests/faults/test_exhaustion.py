"""The process runs out of file descriptors, and the time of day is set during a call."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pipecat_voicectx.errors import VoiceContextError
from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.stores.page_store import open_page_store
from pipecat_voicectx.testing.scripted_session import Session
from pipecat_voicectx.testing.virtual_time import jump_wall_clock
from tests.faults.calls import call, exchange

ANN = Owner(user_id="ann")


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    """Nothing can be opened, accepted or connected: every number below the limit is taken."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
    try:
        while True:
            try:
                taken.append(os.dup(0))
            except OSError:
                break
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for number in taken:
            os.close(number)


def pages(folder: Path) -> list[str]:
    store = open_page_store(folder, embedder=LexicalEmbedder())
    try:
        return [each.page.user_text for each in store.load(ANN)]
    finally:
        store.close()


def test_a_store_without_descriptors_is_a_clear_error_and_opens_once_there_are_some(tmp_path: Path) -> None:
    assert pages(tmp_path / "m") == []
    with no_descriptors_left(), pytest.raises(VoiceContextError, match=str(tmp_path)):
        pages(tmp_path / "m")
    assert pages(tmp_path / "m") == []


def test_a_call_that_runs_out_of_descriptors_goes_on_once_there_are_some(tmp_path: Path) -> None:
    written: list[str] = []

    async def script(session: Session) -> None:
        async def on_written(_source: object, page: Any) -> None:
            written.append(page.user_text)

        assert session.voice is not None
        session.voice.add_event_handler("on_memory_written", on_written)
        await exchange(session, "before there are none")
        await session.listen(2)
        # The connection to the model is gone, and another one cannot be made.
        before = session.llm._client
        session.llm._client = session.llm.create_client(  # type: ignore[no-untyped-call]
            api_key="none", base_url=session.server.base_url
        )
        await before.close()
        await session.listen(2)
        with no_descriptors_left():
            await session.say("while there are none")
            await session.listen(15)
        session.bot_speaking.clear()
        await exchange(session, "and now there are some")
        await session.listen(2)

    outcome = call(script, user_id="ann", store_path=tmp_path / "m")
    assert outcome.log.errors, "it is told"
    # What nobody answered belongs to the same exchange as what was said next, whose page takes the place of the first.
    kept = pages(tmp_path / "m")
    assert kept == ["before there are none", "while there are none and now there are some"]
    assert all(any(text in page for page in kept) for text in written), "what was acknowledged is there"
    assert kept[-1] in written


def set_time_of_day(session: Session, secs: float) -> None:
    """Pipecat's audio track paces itself by the time of day; what that costs is not ours, so it is told."""
    jump_wall_clock(secs)
    assert session.output.track is not None
    session.output.track._start += secs


@pytest.mark.parametrize("jump_secs", [-86_400.0, -5.0, 5.0, 86_400.0 * 365])
def test_a_time_of_day_that_is_set_in_mid_call_turns_neither_answers_nor_memories_around(
    jump_secs: float, tmp_path: Path
) -> None:
    async def first(session: Session) -> None:
        await exchange(session, "i live in leeds")
        await session.say("tell me everything about it")
        await session.speaking()
        await session.listen(0.6)
        set_time_of_day(session, jump_secs)
        session.bot_speaking.clear()
        await exchange(session, "wait i moved to york", within_secs=10)
        set_time_of_day(session, -jump_secs / 2)
        await exchange(session, "thank you", within_secs=10)

    outcome = call(first, user_id="ann", store_path=tmp_path / "m")
    assert outcome.log.errors == []
    answered = [event for event in outcome.log.kinds("assistant") if "number" in event]
    assert len(answered) >= 3
    assert pages(tmp_path / "m") != []

    async def second(session: Session) -> None:
        await exchange(session, "where do i live")

    recalled = str(call(second, user_id="ann", store_path=tmp_path / "m").requests[-1].messages)
    assert "lives in york" in recalled
    assert "lives in leeds" not in recalled, (
        "the statement that came last holds, whatever the time of day was"
    )
