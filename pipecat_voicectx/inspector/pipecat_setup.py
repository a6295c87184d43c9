"""A Pipecat setup file: records and shows the sessions of any bot, without a line changed in it.

    export PIPECAT_SETUP_FILES="$(voicectx inspect --setup-file)"      # after Whisker's own, joined with `:`
    export VOICECTX_RECORD_DIR=recordings                              # records every session; optional
    python bot.py                                                      # and open /voicectx on the bot's host

Pipecat calls `setup_pipeline_worker` for every session. Nothing here can keep one from starting: what fails is logged.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from pathlib import Path

from loguru import logger
from pipecat.pipeline.worker import PipelineWorker
from pipecat.workers.runner import WorkerRunner

from pipecat_voicectx.errors import VoiceContextError
from pipecat_voicectx.inspector.mount import mount_on_runner
from pipecat_voicectx.observers.recorder import RecorderConfig, SessionRecorder, TextPolicy

RECORD_DIR_ENV = "VOICECTX_RECORD_DIR"
RECORD_TEXTS_ENV = "VOICECTX_RECORD_TEXTS"


async def setup_worker_runner(_runner: WorkerRunner) -> None:
    """Pipecat's other hook; it warns when a setup file has none."""


async def setup_pipeline_worker(worker: PipelineWorker) -> None:
    """Pipecat's hook, once for each session."""
    try:
        record(worker)
    except (OSError, ValueError, VoiceContextError) as error:
        logger.warning("session not recorded: {}", error)
    try:
        inspector = mount_on_runner()
        if inspector is not None:
            inspector.add(worker, title=_bot_name())
    except VoiceContextError as error:
        logger.warning("session not shown: {}", error)


def record(worker: PipelineWorker) -> SessionRecorder | None:
    """A recorder into a new file of `VOICECTX_RECORD_DIR`; None when that is not set."""
    folder = os.environ.get(RECORD_DIR_ENV)
    if not folder:
        return None
    Path(folder).mkdir(parents=True, exist_ok=True)
    name = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{uuid.uuid4().hex[:8]}.jsonl"
    texts = TextPolicy(os.environ.get(RECORD_TEXTS_ENV, TextPolicy.FULL.value))
    recorder = SessionRecorder(Path(folder) / name, title=_bot_name(), config=RecorderConfig(texts=texts))
    return recorder.attach(worker)


def _bot_name() -> str:
    """The file that was started."""
    return Path(sys.argv[0]).stem
