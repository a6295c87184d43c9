"""The layout's promises: import direction, purity of cores, and the public names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import pipecat_voicectx

PACKAGE = Path(pipecat_voicectx.__file__).parent

# A package may import from packages of a lower rank and from itself. Same rank, other name: not.
RANKS = {
    "errors": 0,
    "private_reads": 0,
    "signals": 1,
    "states": 2,
    "playback": 2,
    "orchestrator": 3,
    "projection": 3,
    "memory": 3,
    "sources": 4,
    "stores": 4,
    "runtimes": 4,
    "processors": 5,
    "voice_settings": 6,
    "voice_context": 6,
    "observers": 7,
    "testing": 7,  # stands on everything a bot uses
    "demo": 8,
    "inspector": 8,
    "bench": 9,
    "commands": 10,
    "cli": 11,
    "__init__": 12,
    "__main__": 12,
}
# Neighbours of one rank that are meant to know each other, and why.
ALLOWED_PEERS = {
    ("voice_context", "voice_settings"),
    ("orchestrator", "states"),
    ("runtimes", "sources"),  # what a client said is read in sources and acted on in runtimes
    ("projection", "memory"),  # the projector fits pages, which are memory's value type
}
CORES = ("signals", "states", "playback", "orchestrator", "projection", "memory")
# What a core may import from outside: the language's value tools, numpy for arithmetic, pydantic for data from outside.
PURE_IMPORTS = {
    "__future__", "abc", "array", "base64", "bisect", "collections", "dataclasses", "enum", "functools",
    "hashlib", "heapq", "html", "itertools", "json", "math", "numpy", "operator", "pydantic", "re",
    "statistics", "string", "struct", "types", "typing", "unicodedata", "uuid", "zlib",
}  # fmt: skip


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE)
        if relative.parts[0] == "demo" and "recordings" in relative.parts:
            continue
        yield relative.parts[0].removesuffix(".py"), path


def imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import; name the package"
            yield node.lineno, node.module or ""


@pytest.mark.parametrize(
    ("stage", "path"), list(modules()), ids=lambda value: str(value).replace(str(PACKAGE), "")
)
def test_imports_point_down_the_stages(stage: str, path: Path) -> None:
    for line, name in imports(path):
        parts = name.split(".")
        if parts[0] != "pipecat_voicectx" or len(parts) < 2:
            continue
        other = parts[1]
        if other == stage or (stage, other) in ALLOWED_PEERS:
            continue
        assert RANKS[other] < RANKS[stage], f"{path.name}:{line}: {stage} must not import {other}"


@pytest.mark.parametrize("core", CORES)
def test_cores_import_nothing_that_does_io_or_reads_a_clock(core: str) -> None:
    for path in sorted((PACKAGE / core).rglob("*.py")):
        for line, name in imports(path):
            top = name.split(".")[0]
            assert top in PURE_IMPORTS or top == "pipecat_voicectx", (
                f"{path.name}:{line}: a core imports {name}"
            )


@pytest.mark.parametrize("core", CORES)
def test_cores_open_no_files_and_have_no_coroutines(core: str) -> None:
    for path in sorted((PACKAGE / core).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not isinstance(node, ast.AsyncFunctionDef), (
                f"{path.name}:{node.lineno}: coroutine in a core"
            )
            if isinstance(node, ast.Attribute | ast.Name | ast.alias):
                name = getattr(node, "attr", None) or getattr(node, "id", None) or getattr(node, "name", None)
                assert name not in {"uuid1", "uuid4"}, f"{path.name}:{node.lineno}: a random id in a core"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"open", "print", "input", "exec", "eval"}, (
                    f"{path.name}:{node.lineno}"
                )


def test_every_stage_is_ranked() -> None:
    assert {stage for stage, _ in modules()} <= set(RANKS)


def test_public_names_are_the_list() -> None:
    assert pipecat_voicectx.__all__ == sorted(pipecat_voicectx.__all__)
    for name in pipecat_voicectx.__all__:
        assert getattr(pipecat_voicectx, name, None) is not None, name


def test_stage_packages_have_empty_inits() -> None:
    for path in PACKAGE.glob("*/__init__.py"):
        if path.parent.name in {"observers"}:
            continue
        assert path.read_text().strip() == "", f"{path.parent.name}/__init__.py is not empty"
