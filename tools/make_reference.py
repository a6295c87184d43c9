"""Writes docs/configuration.md and docs/reference.md from the docstrings of the code.

python tools/make_reference.py          writes both
python tools/make_reference.py --check  exits 1 when one is out of date
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import itertools
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import pipecat_voicectx
from pipecat_voicectx.states.pause_profile import PauseProfileConfig
from pipecat_voicectx.stores.page_memory import PageStoreConfig
from pipecat_voicectx.voice_context import VoiceContext
from pipecat_voicectx.voice_settings import VoiceContextConfig

DOCS = Path(__file__).parents[1] / "docs"
SECTIONS = (
    "Args:",
    "Raises:",
    "Returns:",
    "Events:",
    "Event handlers:",
    "Events (all run in the background):",
)
UNDOCUMENTED: list[str] = []
IF_WRONG: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("if_wrong.toml").read_text())
UNSAID = {f"{name}.{field}" for name, fields in IF_WRONG.items() for field in fields}
"""Lines of it that no setting has asked for yet."""
HEAD = "<!-- Written by tools/make_reference.py from the docstrings; change those. -->\n\n"


def field_docs(cls: type) -> dict[str, str]:
    """The string below each field of a dataclass."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    docs: dict[str, str] = {}
    for statement, following in itertools.pairwise(body):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
        ):
            docs[statement.target.id] = " ".join(following.value.value.split())
    return docs


def default_of(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return dataclasses.MISSING


def shown(value: Any) -> str:
    if value is dataclasses.MISSING:
        return "required"
    if isinstance(value, enum.Enum):
        return f"`{type(value).__name__}.{value.name}`"
    if inspect.isroutine(value) or inspect.isclass(value):
        return f"`{value.__name__}`"
    if isinstance(value, (frozenset, set)) and all(isinstance(item, enum.Enum) for item in value):
        return "all" if value and len(value) == len(type(next(iter(value)))) else f"`{len(value)} of them`"
    return f"`{value!r}`"


def config_tables(cls: type, path: str, seen: set[type]) -> list[str]:
    """A table of one config class, then those of the classes in its fields."""
    seen.add(cls)
    docs, rows, nested = field_docs(cls), [], []
    for field in dataclasses.fields(cls):
        value = default_of(field)
        doc = docs.get(field.name, "").replace("|", "\\|")
        if not doc:
            UNDOCUMENTED.append(f"{cls.__module__}.{cls.__name__}.{field.name}")
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            rows.append(
                f"| `{field.name}` | see `{type(value).__name__}` below | {doc} | {said_if_wrong(cls, field.name)} |"
            )
            if type(value) not in seen:
                nested.append((type(value), f"{path}.{field.name}"))
        else:
            rows.append(f"| `{field.name}` | {shown(value)} | {doc} | {if_wrong(cls, field.name)} |")
    first = (inspect.getdoc(cls) or "").split("\n\n")[0].replace("\n", " ")
    lines = [
        f"## `{path}`: {cls.__name__}",
        "",
        first,
        "",
        "| setting | default | what it is | if it is wrong |",
        "|---|---|---|---|",
        *rows,
        "",
    ]
    for inner, inner_path in nested:
        lines += config_tables(inner, inner_path, seen)
    return lines


def if_wrong(cls: type, name: str) -> str:
    """What a wrong value does."""
    text = said_if_wrong(cls, name)
    if not text:
        UNDOCUMENTED.append(f"{cls.__name__}.{name} (in tools/if_wrong.toml)")
    return text


def said_if_wrong(cls: type, name: str) -> str:
    """The same where nothing need be said: settings that hold further ones."""
    UNSAID.discard(f"{cls.__name__}.{name}")
    return IF_WRONG.get(cls.__name__, {}).get(name, "")


def configuration() -> str:
    lines = [
        "# Configuration",
        "",
        "Every setting of `VoiceContext`, its default and its unit. A value out of range raises",
        "`UsageError` when the object is made, naming the setting.",
        "",
        "```python",
        "from pipecat_voicectx import VoiceContextConfig",
        "",
        "config = VoiceContextConfig()",
        "```",
        "",
    ]
    lines += config_tables(VoiceContextConfig, "config", set())
    lines += ["What is not made by default:", ""]
    lines += config_tables(PauseProfileConfig, "config.turn_hold.pauses", set())
    lines += config_tables(PageStoreConfig, "MemoryProjector(store=...)", set())
    return HEAD + "\n".join(lines)


def reference() -> str:
    """Every public class and function, by its own docstring."""
    lines = [
        "# Reference",
        "",
        "What `pipecat_voicectx` exports. Settings are in [configuration.md](configuration.md).",
        "",
    ]
    for name in sorted(pipecat_voicectx.__all__):
        thing = getattr(pipecat_voicectx, name)
        doc = inspect.getdoc(thing) if inspect.isclass(thing) or inspect.isroutine(thing) else None
        if doc is None:
            continue
        lines += [f"## `{name}`", "", *as_markdown(doc)]
        if inspect.isclass(thing):
            lines += own_init_doc(thing)
        if thing is VoiceContext:
            lines += ["Events:", "", *(f"- `{event}`" for event in VoiceContext.EVENTS), ""]
    return HEAD + "\n".join(lines)


def as_markdown(doc: str) -> list[str]:
    """A docstring as Markdown: indented examples fenced, `Args:` and its like as lists, the rest as it stands."""
    result: list[str] = []
    for block in doc.split("\n\n"):
        rows = block.split("\n")
        if all(row.startswith("    ") for row in rows if row):
            result += ["```", *(row[4:] for row in rows), "```", ""]
        elif len(rows) > 1 and rows[0] in SECTIONS:
            result += [rows[0], "", *entries(rows[1:]), ""]
        else:
            result += [*rows, ""]
    return result


def entries(rows: list[str]) -> list[str]:
    """`name: text` lines, continued on deeper ones, as list items."""
    items: list[str] = []
    for row in textwrap.dedent("\n".join(rows)).split("\n"):
        if row.startswith(" ") and items:
            items[-1] += " " + row.strip()
        elif ": " in row:
            name, text = row.split(": ", 1)
            items.append(f"- `{name.strip()}`: {text}")
        else:
            items.append(f"- {row}")
    return items


def own_init_doc(cls: type) -> list[str]:
    """What a class says of its own constructor; an inherited docstring says nothing of it."""
    doc = (
        vars(cls)["__init__"].__doc__
        if "__init__" in vars(cls) and not dataclasses.is_dataclass(cls)
        else None
    )
    # Not inspect.cleandoc: it would dedent the entries below a first line "Args:" to its own column.
    return as_markdown(textwrap.dedent(" " * 8 + doc).strip()) if doc else []


def main() -> int:
    pages = {DOCS / "configuration.md": configuration(), DOCS / "reference.md": reference()}
    if UNSAID:
        raise SystemExit(
            f"tools/if_wrong.toml speaks of settings that are not there: {', '.join(sorted(UNSAID))}"
        )
    if UNDOCUMENTED:
        raise SystemExit(
            "settings without a docstring (unit and reason) or without what a wrong value does: "
            + ", ".join(UNDOCUMENTED)
        )
    stale = [path.name for path, text in pages.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        if stale:
            print(f"out of date: {', '.join(stale)}; run: python tools/make_reference.py")
        return 1 if stale else 0
    for path, text in pages.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
