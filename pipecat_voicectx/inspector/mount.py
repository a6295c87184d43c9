"""Puts the inspector on an application: any FastAPI one, or that of Pipecat's development runner."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.inspector.service import Inspector, InspectorConfig

if TYPE_CHECKING:
    from fastapi import FastAPI
    from pipecat.pipeline.worker import PipelineWorker

__all__ = ["SWITCH_ENV", "mount", "mount_on_runner", "show"]

SWITCH_ENV = "VOICECTX_INSPECTOR"
"""`0`: no inspector."""
_RUNNER = "pipecat.runner.run"


def mount(app: FastAPI, *, path: str = "/voicectx", config: InspectorConfig | None = None) -> Inspector:
    """Adds the page to an application, once; later calls return the same inspector.

    Raises:
        UsageError: FastAPI is not installed, or the token is too short.
    """
    known = getattr(app.state, "voicectx_inspector", None)
    if isinstance(known, Inspector):
        return known
    inspector = Inspector(config)
    app.include_router(inspector.router(path))
    app.state.voicectx_inspector = inspector
    return inspector


def mount_on_runner(config: InspectorConfig | None = None) -> Inspector | None:
    """Adds the page to Pipecat's development runner, if this process has it and `VOICECTX_INSPECTOR` is not 0.

    Raises:
        UsageError: `VOICECTX_INSPECTOR` is neither 0 nor 1, or as `mount`.
    """
    switch = os.environ.get(SWITCH_ENV, "1")
    if switch not in ("0", "1"):
        raise UsageError(f"{SWITCH_ENV} is {switch!r}; set it to 0 (no inspector) or 1")
    # `python -m pipecat.runner.run` has it under another name.
    candidates: tuple[Any, ...] = (sys.modules.get(_RUNNER), sys.modules.get("__main__"))
    app = next((a for m in candidates if (a := getattr(m, "app", None)) is not None and _is_app(a)), None)
    return mount(app, config=config) if app is not None and switch == "1" else None


def show(worker: PipelineWorker, *, title: str = "") -> None:
    """Lists a session at `/voicectx` of Pipecat's development runner; elsewhere, for instance in tests, does nothing.

    Call it before the worker runs. Nothing is subscribed before somebody looks.

    Args:
        worker: The session.
        title: What the page calls it. Empty: the worker's name.

    Raises:
        UsageError: As `mount_on_runner`.
    """
    inspector = mount_on_runner()
    if inspector is not None:
        inspector.add(worker, title=title)


def _is_app(candidate: object) -> bool:
    fastapi = sys.modules.get("fastapi")
    return fastapi is not None and isinstance(candidate, fastapi.FastAPI)
