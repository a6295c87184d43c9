"""The page: markup, style and script from the files beside this one, live or with a recording in it."""

from __future__ import annotations

import html
import json
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from string import Template

from pipecat_voicectx.errors import BadInputError
from pipecat_voicectx.observers.codec import encode
from pipecat_voicectx.observers.events import EventKind, read_session

__all__ = ["live_page", "page_file", "recorded_page"]

# Chosen: what a browser opens without complaint; the recorder's own bound, without the cores' calls, is below.
_MAX_PAGE_CHARS = 48_000_000
_NOT_SHOWN = EventKind.CALLS.value


@lru_cache(maxsize=4)
def page_file(name: str) -> str:
    """One of the page's own files."""
    return (files("pipecat_voicectx.inspector") / "page" / name).read_text(encoding="utf-8")


def live_page(base: str) -> str:
    """The page of a running bot; `base` is the path it is mounted at."""
    at = html.escape(base)
    return Template(page_file("page.html")).substitute(
        head=f'<link rel="stylesheet" href="{at}/style.css">',
        title="voicectx inspector",
        base=at,
        foot=f'<script src="{at}/page.js"></script>',
    )


def recorded_page(path: Path) -> str:
    """The same page with a recorded session in it: one file that loads nothing.

    Raises:
        BadInputError: Not a recording, or too large for a page.
    """
    header, lines = read_session(path)
    shown = [
        json.dumps(line, ensure_ascii=False, separators=(",", ":"))
        for line in lines
        if line["k"] != _NOT_SHOWN
    ]
    if sum(map(len, shown)) > _MAX_PAGE_CHARS:
        raise BadInputError(
            f"{path} holds more than {_MAX_PAGE_CHARS // 1_000_000} MB of events: too large a page"
        )
    head = json.dumps(encode(header), ensure_ascii=False)
    # A tag in somebody's words could end the script element, or keep it from ending.
    data = f'{{"session":{head},"events":[{",".join(shown)}]}}'.replace("<", "\\u003c")
    return Template(page_file("page.html")).substitute(
        head=f"<style>\n{page_file('style.css')}</style>",
        title=html.escape(f"{header.title or header.session_id}: voicectx inspector"),
        base="",
        foot=f'<script type="application/json" id="data">{data}</script>\n<script>\n{page_file("page.js")}</script>',
    )
