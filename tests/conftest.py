"""Markers, the check for leaks and the hypothesis profiles. No fixture here has logic of a test in it."""

from __future__ import annotations

import ast
import asyncio
import functools
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from loguru import logger

from pipecat_voicectx.stores.collector import no_collections
from tests.leaks import Leftovers

# Telemetry of dependencies is off in every test, before any of them is imported.
os.environ.setdefault("MEM0_TELEMETRY", "False")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

settings.register_profile(
    "default", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("quick", parent=settings.get_profile("default"), max_examples=5)
settings.register_profile("soak", parent=settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

logger.remove()


def _without_collections(function: Any) -> Any:
    """The function with the garbage collector off while it runs, and with it every finalizer."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with no_collections():
            return function(*args, **kwargs)

    return wrapped


# Two places of Python 3.11 fail when a collection runs finalizers in the middle of them: a parse loses count of its own
# depth, and an import loses its lock (KeyError) when a finalizer imports something itself.
ast.parse = _without_collections(ast.parse)
if sys.version_info < (3, 13):
    module_lock = vars(importlib)["_bootstrap"]._ModuleLock
    module_lock.acquire = _without_collections(module_lock.acquire)


@pytest.fixture(scope="session")
def test_data() -> Path:
    """The folder of models and evaluation data named by VOICECTX_TEST_DATA."""
    value = os.environ.get("VOICECTX_TEST_DATA")
    if not value:
        pytest.skip("set VOICECTX_TEST_DATA to a folder with models/ and data/ to run this test")
    return Path(value)


_outcome = pytest.StashKey[pytest.CallInfo[None]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    if call.when == "call":
        item.stash[_outcome] = call
    return (yield)


# Where whole sessions run. Elsewhere (real browsers, servers, other libraries' pools) only threads of ours are watched.
SESSIONS = (
    "faults",
    "host",
    "processors",
    "properties",
    "runtimes",
    "stores",
    "observers",
    "soak",
    "test_voice_context.py",
)


@pytest.fixture(autouse=True)
def nothing_is_left_behind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails a test after which a task, a thread, a file or a socket outlives its session."""
    left = Leftovers()
    cancel_all = vars(asyncio.runners)["_cancel_all_tasks"]
    monkeypatch.setattr("asyncio.runners._cancel_all_tasks", left.watching(cancel_all))
    yield
    call = request.node.stash.get(_outcome, None)
    if call is not None and call.excinfo is None:
        whole = request.path.relative_to(Path(__file__).parent).parts[0] in SESSIONS
        found = left.found() if whole else left.found(only="thread voicectx")
        assert not found, "left behind:\n" + "\n".join(found)
