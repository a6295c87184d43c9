"""Every error this package raises, in one tree.

Three families, because only the class tells a caller what to do next: fix the call (`UsageError`), drop the
data (`BadInputError`), or retry later (`UnavailableError`). Messages name what is wrong, where, and the fix;
they never hold transcript text, since messages end in logs.
"""

from __future__ import annotations

__all__ = [
    "BadInputError",
    "EmbedderMismatchError",
    "InvalidTransitionError",
    "StoreLockedError",
    "UnavailableError",
    "UsageError",
    "VoiceContextError",
]


class VoiceContextError(Exception):
    """Base of everything raised by this package."""


class UsageError(VoiceContextError):
    """The caller's mistake: a wrong argument, configuration or order of calls. Fix the code; retrying cannot help."""


class InvalidTransitionError(UsageError):
    """An event that is illegal in the lifecycle's present state. The state is left as it was."""


class EmbedderMismatchError(UsageError):
    """A store made with one embedder was opened with another; the message names both and the way to re-embed."""


class BadInputError(VoiceContextError):
    """Data from outside (client message, stats, tool arguments, file) that does not fit. Drop it and count it."""


class UnavailableError(VoiceContextError):
    """A store, engine or service that does not answer now. Degrade, say so, retry later."""


class StoreLockedError(UnavailableError):
    """Another process holds the embedded store. Embedded Qdrant serves one process per path; use a server for more."""
