"""Where embedding models are kept between starts.

fastembed's own default is a folder of temporary files, which many systems empty at a reboot: the bot would fetch its
model again, and match by words until it has it. Ours lasts; `FASTEMBED_CACHE_PATH` means what it means to fastembed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

__all__ = ["CACHE_ENV", "MINILM", "holds_model", "model_cache"]

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
CACHE_ENV = "FASTEMBED_CACHE_PATH"


def model_cache(environ: Mapping[str, str] = os.environ) -> Path:
    """`FASTEMBED_CACHE_PATH`; else `fastembed` below `XDG_CACHE_HOME` or `~/.cache`; where no home can be written,
    fastembed's own folder of temporary files."""
    named = environ.get(CACHE_ENV)
    if named:
        return Path(named)
    base = environ.get("XDG_CACHE_HOME") or (f"{home}/.cache" if (home := environ.get("HOME")) else "")
    # A relative path is to be ignored, says the XDG specification.
    if os.path.isabs(base) and _can_be_made(Path(base)):
        return Path(base) / "fastembed"
    return Path(tempfile.gettempdir()) / "fastembed_cache"


def holds_model(folder: Path, model: str) -> bool:
    """Whether a whole model of this name is in a cache, in either of fastembed's layouts; half a fetch is none."""
    name = model.rpartition("/")[2]
    for tokenizer in folder.glob(f"*{name}*/**/tokenizer.json"):
        if tokenizer.is_file() and any(each.is_file() for each in tokenizer.parent.glob("*.onnx")):
            return True
    return False


def _can_be_made(folder: Path) -> bool:
    existing = next((each for each in (folder, *folder.parents) if each.exists()), None)
    return existing is not None and existing.is_dir() and os.access(existing, os.W_OK)
