"""What is where in the folder of a memory: the page store in it, facts, brains and clips in folders of their names."""

from __future__ import annotations

from pathlib import Path

__all__ = ["brains_path", "clips_path", "facts_path", "is_memory"]


def facts_path(root: Path) -> Path:
    """Where the engine of a memory folder is."""
    return root / "facts"


def brains_path(root: Path) -> Path:
    """Where the brains' files of a memory folder are."""
    return root / "brains"


def clips_path(root: Path) -> Path:
    """Where the audio clips of a memory folder are."""
    return root / "clips"


def is_memory(root: Path) -> bool:
    """Whether a bot has kept anything there. Looking makes nothing. Blocks."""
    return (root / "qdrant").is_dir() or (root / "journal.jsonl").is_file()
