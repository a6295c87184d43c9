"""Markers, the leaked-task check and the hypothesis profiles. No fixture here has logic of a test in it."""

from __future__ import annotations

import ast
import functools
import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from loguru import logger

# Telemetry of dependencies is off in every test, before any of them is imported.
os.environ.setdefault("MEM0_TELEMETRY", "False")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

settings.register_profile(
    "default", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("soak", parent=settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

logger.remove()


def _parsing_without_collections(parse: Any) -> Any:
    """Python 3.11 loses count of its own depth when a collection runs finalizers in the middle of a parse."""

    @functools.wraps(parse)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return parse(*args, **kwargs)
        finally:
            if was_enabled:
                gc.enable()

    return wrapped


ast.parse = _parsing_without_collections(ast.parse)


@pytest.fixture(scope="session")
def test_data() -> Path:
    """The folder of models and evaluation data named by VOICECTX_TEST_DATA."""
    value = os.environ.get("VOICECTX_TEST_DATA")
    if not value:
        pytest.skip("set VOICECTX_TEST_DATA to a folder with models/ and data/ to run this test")
    return Path(value)


@pytest.fixture(autouse=True)
def no_leaked_threads() -> Iterator[None]:
    """Fails a test that leaves a non-daemon thread of ours running: it would outlive its call."""
    before = set(threading.enumerate())
    yield
    leaked = [
        thread
        for thread in threading.enumerate()
        if thread not in before and thread.is_alive() and thread.name.startswith("voicectx")
    ]
    for thread in leaked:
        thread.join(timeout=2)
    still = [thread.name for thread in leaked if thread.is_alive()]
    assert not still, f"threads left running: {still}"
