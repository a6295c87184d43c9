"""Markers, the leaked-task check and the hypothesis profiles. No fixture here has logic of a test in it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

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
