"""Runs a bot file as `python FILE` would, on the loopback interface only; ends with the demo that started it."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

from loguru import logger

from pipecat_voicectx.demo.children import end_with_parent
from pipecat_voicectx.demo.loopback import use_loopback_only

__all__ = ["main"]


def main() -> None:
    """`python -m pipecat_voicectx.demo.bot_host FILE [the runner's arguments]`."""
    end_with_parent()
    use_loopback_only()
    _log_warnings_only()
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    runpy.run_path(sys.argv[0], run_name="__main__")


def _log_warnings_only() -> None:
    """The runner logs every frame's fate; on two cores that is time taken from the call."""
    add = logger.add

    def add_quietly(sink: Any, **options: Any) -> int:
        return add(sink, **{**options, "level": "WARNING"})

    logger.add = add_quietly  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
