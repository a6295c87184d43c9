"""Runs a bot file as `python FILE` would, on the loopback interface only; ends with the demo that started it."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from pipecat_voicectx.demo.children import end_with_parent
from pipecat_voicectx.demo.loopback import use_loopback_only

__all__ = ["main"]


def main() -> None:
    """`python -m pipecat_voicectx.demo.bot_host FILE [the runner's arguments]`."""
    end_with_parent()
    use_loopback_only()
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
