"""The check for what a session leaves behind finds each kind of it."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path

import pytest

from tests.leaks import Leftovers


@pytest.mark.parametrize("daemon", [False, True])
def test_a_thread_that_goes_on_is_found(daemon: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.leaks._GRACE_SECS", 0.05)
    left, may_end = Leftovers(), threading.Event()
    thread = threading.Thread(target=may_end.wait, name="voicectx-writer", daemon=daemon)
    thread.start()
    assert left.found() == ["thread voicectx-writer"]
    may_end.set()
    thread.join()
    assert left.found() == []


def test_files_and_sockets_that_stay_open_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.leaks._GRACE_SECS", 0.05)
    left = Leftovers()
    with (tmp_path / "kept").open("w"), socket.socket():
        found = left.found()
    assert len(found) == 2
    assert any("kept" in each for each in found)
    assert any("socket" in each for each in found)
    assert left.found() == []


def test_a_task_that_its_loop_would_have_hidden_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    left = Leftovers()
    cancel_all = vars(asyncio.runners)["_cancel_all_tasks"]
    monkeypatch.setattr("asyncio.runners._cancel_all_tasks", left.watching(cancel_all))

    async def main() -> asyncio.Task[None]:
        return asyncio.create_task(asyncio.sleep(50), name="left over")

    asyncio.run(main())
    assert [each.partition(":")[0] for each in left.tasks] == ["left over"]
