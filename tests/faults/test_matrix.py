"""docs/faults.md and docs/hostile.md: every cell names a test that exists, or says why there is none."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = {
    "stt",
    "llm",
    "tts",
    "transport",
    "client",
    "engine",
    "store",
    "embedder",
    "disk",
    "clock",
    "process",
}
FAULTS = ["slow", "hangs", "raises", "returns garbage", "dies", "comes back"]


@functools.cache
def collected_in(file: str) -> frozenset[str]:
    """Tests of a file that always run: what is skipped or may fail shows nothing."""
    tree = ast.parse((ROOT / "tests" / file).read_text())
    found = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(
        node.name
        for node in found
        if node.name.startswith("test_")
        and not any("skip" in text or "xfail" in text for text in map(ast.unparse, node.decorator_list))
    )


def named(text: str) -> list[tuple[str, str]]:
    return re.findall(r"`([\w/]+\.py)::(\w+)`", text)


@pytest.mark.parametrize("page", ["faults.md", "hostile.md"])
def test_every_test_that_is_named_exists(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    found = named(text)
    assert found
    # What looks like a test's name and is written another way would be checked by nobody.
    assert len(found) == len(re.findall(r"\.py|test_", re.sub(r"`[\w/]+\.py::\w+`", "test_", text))), page
    missing = [f"{file}::{name}" for file, name in found if name not in collected_in(file)]
    assert missing == []


def test_the_matrix_has_every_part_every_fault_and_no_empty_cell() -> None:
    text = (ROOT / "docs" / "faults.md").read_text()
    sections = dict(re.findall(r"^## (\w[\w -]*)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert set(sections) >= PARTS
    for part in PARTS:
        cells = dict(re.findall(r"^\| ([^|]+?) \| (.+) \|$", sections[part], re.MULTILINE))
        assert [fault for fault in FAULTS if fault not in cells] == [], part
        for fault in FAULTS:
            assert named(cells[fault]) or "Cannot happen" in cells[fault], f"{part} {fault}"


def test_at_least_forty_attempts_are_listed_each_with_a_test_or_a_limit() -> None:
    text = (ROOT / "docs" / "hostile.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", text, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))
    assert len(rows) >= 40
    assert [number for number, row in rows if not named(row) and "Limit:" not in row] == []


def test_the_threat_model_leads_to_both_lists() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    assert "(hostile.md)" in text
    assert "(faults.md)" in text
    assert "(docs/security.md)" in (ROOT / "SECURITY.md").read_text()
