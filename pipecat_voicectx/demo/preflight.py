"""What must be in order before a demo starts; each finding is one line that says what to do."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pipecat_voicectx.errors import UsageError

__all__ = ["PORT_ENV", "check_disk", "check_output", "check_port", "check_python", "demo_port", "single_demo"]

PORT_ENV = "VOICECTX_DEMO_PORT"
_DEFAULT_PORT = 7869
# Measured: two passes leave 5 MB of events and store; Pipecat's and ONNX's caches may want some more.
_MIN_FREE_BYTES = 200 * 1024 * 1024
_PYTHON_MIN, _PYTHON_END = (3, 11), (3, 14)


def check_python(version: tuple[int, int] | None = None) -> None:
    """Raises `UsageError` for a Python this package is not made for; the running one by default."""
    found = version or sys.version_info[:2]
    if not _PYTHON_MIN <= found < _PYTHON_END:
        raise UsageError(f"Python {found[0]}.{found[1]} is not supported; use 3.11, 3.12 or 3.13")


def demo_port() -> int:
    """The port the demo's bot listens on.

    Raises:
        UsageError: VOICECTX_DEMO_PORT is not a port.
    """
    text = os.environ.get(PORT_ENV, str(_DEFAULT_PORT))
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise UsageError(f"{PORT_ENV} is {text!r}; set it to a port number, 1024 to 65535")
    return int(text)


def check_port(port: int) -> None:
    """Raises `UsageError` when something listens there already."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise UsageError(
                f"port {port} is not free ({error.strerror}); stop what uses it, or set {PORT_ENV} to another"
            ) from None


def check_disk(folder: Path, free_bytes: int | None = None) -> None:
    """Raises `UsageError` when `folder` has not enough room; `free_bytes` overrides the measurement."""
    free = shutil.disk_usage(folder).free if free_bytes is None else free_bytes
    if free < _MIN_FREE_BYTES:
        raise UsageError(
            f"{folder} has {free // 2**20} MB free and the demo needs {_MIN_FREE_BYTES // 2**20} MB; "
            "free some, or set TMPDIR to another disk"
        )


def check_output(path: Path, option: str) -> None:
    """Raises `UsageError` when a file cannot be written there. Leaves nothing behind."""
    if path.is_dir():
        raise UsageError(f"{option} {path} is a folder; name a file in it")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"{option} {path}: folder {folder} does not exist; create it or name another")
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise UsageError(
            f"{option} {path} cannot be written ({error.strerror}); name another place"
        ) from None


@contextlib.contextmanager
def single_demo() -> Iterator[None]:
    """Holds this user's demo lock.

    Raises:
        UsageError: Another demo of this user is running.
    """
    path = Path(tempfile.gettempdir()) / f"voicectx-demo-{os.getuid()}.lock"
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be opened ({error.strerror}); set TMPDIR to another folder"
        ) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                "another demo is running; wait for it to end (one at a time, they would disturb each other)"
            ) from None
        yield
    finally:
        os.close(descriptor)
