"""The garbage collector is held off for bulk work, and back afterwards as it was."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from pipecat_voicectx.stores.collector import no_collections


@pytest.fixture(autouse=True)
def collector_on() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_it_is_off_until_the_last_of_several_loads_is_done() -> None:
    first_runs, first_may_end = threading.Event(), threading.Event()

    def first() -> None:
        with no_collections():
            first_runs.set()
            first_may_end.wait(5)

    thread = threading.Thread(target=first)
    with no_collections():
        thread.start()
        assert first_runs.wait(5)
        assert not gc.isenabled()
    assert not gc.isenabled()
    first_may_end.set()
    thread.join(5)
    assert gc.isenabled()


def test_an_application_that_has_switched_it_off_keeps_it_off() -> None:
    gc.disable()
    with no_collections():
        pass
    assert not gc.isenabled()


def test_it_comes_back_when_the_work_fails() -> None:
    with pytest.raises(ValueError, match="damaged"), no_collections():
        raise ValueError("damaged")
    assert gc.isenabled()
