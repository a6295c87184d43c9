"""One process at a time in a store's folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import portalocker

from pipecat_voicectx.errors import StoreLockedError, UnavailableError

__all__ = ["lock_folder", "unlock"]


def lock_folder(folder: Path) -> Any:
    """Takes the folder for this process. The lock ends with the process, however it ends.

    Raises:
        StoreLockedError: Another process has it.
        UnavailableError: It cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "voicectx.lock").open("a")
    except OSError as error:
        raise UnavailableError(f"page store {folder} cannot be written: {error.strerror or error}") from error
    try:
        portalocker.lock(file, portalocker.LOCK_EX | portalocker.LOCK_NB)
    except portalocker.LockException as error:
        file.close()
        raise StoreLockedError(
            f"page store {folder} is in use by another process (this one is {os.getpid()}). Use another path, or "
            "a Qdrant server (url=...) for more than one process"
        ) from error
    return file


def unlock(file: Any) -> None:
    """Gives the folder back. Harmless when repeated."""
    if file is not None and not file.closed:
        file.close()
