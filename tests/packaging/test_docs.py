"""README and docs: links that lead somewhere, commands that exist, code that imports."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pipecat_voicectx
from pipecat_voicectx.voice_context import VoiceContext

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("bots/*.md")),
    *sorted(ROOT.glob("examples/*.md")),
    ROOT / "SECURITY.md",
    ROOT / "pipecat_voicectx" / "client" / "README.md",
]
# Further than the next page nothing is looked up; these are what the pages name on the network.
OUTSIDE = ("https://github.com/pipecat-ai/", "https://semver.org", "http://localhost:7860")


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_and_pictures_are_there(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("http://", "https://")):
            assert target.startswith(OUTSIDE), target
            continue
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(there), target


def anchors(page: Path) -> set[str]:
    """Of headings, as hosts of Markdown make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_that_are_named_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for name in re.findall(r"`make ([a-z-]+)|^make ([a-z-]+)", page.read_text(), re.MULTILINE):
        assert (name[0] or name[1]) in targets, name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_voicectx_commands_that_are_named_exist(page: Path) -> None:
    named = set(re.findall(r"voicectx (demo|bench [a-z]+|memory|doctor|inspect)\b", page.read_text()))
    for words in sorted(named):
        done = subprocess.run(
            [sys.executable, "-m", "pipecat_voicectx.cli", *words.split(), "--help"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"voicectx {words}: {done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_parse_and_import_names_that_exist(page: Path) -> None:
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pipecat_voicectx"):
                module = __import__(str(node.module), fromlist=["*"])
                for alias in node.names:
                    assert hasattr(module, alias.name), f"{node.module}.{alias.name}"
                    if node.module == "pipecat_voicectx":
                        assert alias.name in pipecat_voicectx.__all__


def test_the_readme_lists_every_event() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [name for name in VoiceContext.EVENTS if f"`{name}`" not in readme] == []


def test_the_readme_s_two_commands_come_first() -> None:
    first = blocks(ROOT / "README.md", "sh")[0]
    assert [line.split("#")[0].strip() for line in first.strip().splitlines()] == ["make demo", "make test"]


def test_the_generated_pages_say_what_the_docstrings_say() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "make_reference.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-500:]
