"""What was learned about the tempo of voices, kept between calls in one small JSON file.

Nothing in it is about a caller. Two calls that end at once: the later one wins for its voice; the file is replaced as a
whole, so it is never half written. A file that cannot be read counts as empty.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from loguru import logger

from pipecat_voicectx.orchestrator.speed_calibration import LearnedSpeed

__all__ = ["VoiceSpeeds"]

# A bot has a handful of voices; the oldest are dropped beyond this.
MOST_VOICES = 200


class VoiceSpeeds:
    """Reads and writes block for a file of a few kilobytes: call them off the event loop."""

    def __init__(self, path: str | Path) -> None:
        """Args:
        path: The file; its folder is made when something is saved.
        """
        self._path = Path(path)

    def load(self, voice: str) -> LearnedSpeed | None:
        """What is known of `voice`; None: nothing."""
        row = self._read().get(voice)
        if not isinstance(row, dict):
            return None
        try:
            return LearnedSpeed(ratio=float(row["ratio"]), words=float(row["words"]))
        except (KeyError, TypeError, ValueError):
            return None

    def save(self, voice: str, learned: LearnedSpeed) -> None:
        """Keeps what was learned of `voice`.

        Raises:
            OSError: The file cannot be written.
        """
        rows = self._read()
        rows.pop(voice, None)
        rows[voice] = {"ratio": round(learned.ratio, 4), "words": round(learned.words, 1)}
        kept = dict(list(rows.items())[-MOST_VOICES:])
        self._path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=self._path.name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(kept, file)
        Path(name).replace(self._path)

    def _read(self) -> dict[str, object]:
        try:
            rows = json.loads(self._path.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            logger.warning("learned voice speeds in {} cannot be read ({})", self._path, type(error).__name__)
            return {}
        return rows if isinstance(rows, dict) else {}
