"""Private attributes of other libraries, all read through here, and one switch that turns every such read off.

Pipecat, aiortc, Mem0 and Qdrant keep some things to themselves that this package needs. Each read expects that an
upgrade may have moved the attribute, and the part that needs it then does less and says so. `VOICECTX_PRIVATE_READS=0`
makes every one of them look moved: for an upgrade that went wrong, and for those who allow no such reads.
"""

from __future__ import annotations

import os
from typing import Any

__all__ = ["SWITCH_ENV", "has_private", "private"]

SWITCH_ENV = "VOICECTX_PRIVATE_READS"
"""`0`: no private attribute is read, and what needs one is off."""


def private(of: object, name: str, default: Any = None) -> Any:
    """`of`'s attribute; the default where it is not, or may not be read."""
    return getattr(of, name, default) if _may_read() else default


def has_private(of: object, *names: str) -> bool:
    """Whether all of them are there and may be read."""
    return _may_read() and all(hasattr(of, name) for name in names)


def _may_read() -> bool:
    return os.environ.get(SWITCH_ENV) != "0"
