"""The check for what a test leaves behind finds each kind, and lets go what ends in time."""

from __future__ import annotations

import asyncio
import os
import socket
import threading

import pytest

from tests.leaks import Leftovers


def test_a_task_that_outlives_its_loop_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    left = Leftovers()
    cancel_all = vars(asyncio.runners)["_cancel_all_tasks"]
    monkeypatch.setattr("asyncio.runners._cancel_all_tasks", left.watching(cancel_all))

    async def main() -> None:
        tasks.append(asyncio.create_task(asyncio.sleep(60), name="forgotten"))

    tasks: list[asyncio.Task[None]] = []
    asyncio.run(main())
    monkeypatch.undo()
    assert [each[:14] for each in left.found()] == ["task forgotten"]
    assert left.found(only="thread voicectx") == []


def test_a_thread_a_file_and_a_socket_are_found_until_they_end() -> None:
    left = Leftovers()
    ends = threading.Event()
    thread = threading.Thread(target=ends.wait, name="voicectx-forgotten")
    thread.start()
    descriptor = os.open(__file__, os.O_RDONLY)
    with socket.socket():
        kinds = [each.split(":")[0] for each in left.found()]
    ends.set()
    os.close(descriptor)
    assert sorted(kinds) == ["open", "open", "thread voicectx-forgotten"]
    thread.join()
    assert left.found() == []
