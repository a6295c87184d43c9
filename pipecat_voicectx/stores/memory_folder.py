"""What is where in the folder of a memory: the page store in it, facts, brains and clips in folders of their names."""

from __future__ import annotations

from pathlib import Path

__all__ = ["brains_path", "clips_path", "facts_path"]


def facts_path(root: Path) -> Path:
    """Where the engine of a memory folder is."""
    return root / "facts"


def brains_path(root: Path) -> Path:
    """Where the brains' files of a memory folder are."""
    return root / "brains"


def clips_path(root: Path) -> Path:
    """Where the audio clips of a memory folder are."""
    return root / "clips"
