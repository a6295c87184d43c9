"""The page of a recording: whatever was said in it, the page stays whole."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pipecat_voicectx.errors import BadInputError
from pipecat_voicectx.inspector import pages
from pipecat_voicectx.inspector.pages import live_page, recorded_page

HEADER = {"session_id": "s", "started_wall_secs": 1.0, "started_secs": 1.0, "title": "<b>Ada</b>"}


def recording(path: Path, said: str, *, times: int = 1) -> Path:
    event = {"n": 1, "at": 0.5, "k": "user_text", "v": {"text": said}}
    lines = [json.dumps({"session": HEADER}), *[json.dumps(event)] * times]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    "said",
    ["</script><script>alert(1)</script>", "<!--<script>", "$title ${base}", "]]>", "\u2028", "caf\ud800"],
)
def test_words_cannot_leave_the_data(tmp_path: Path, said: str) -> None:
    page = recorded_page(recording(tmp_path / "call.jsonl", said))
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    assert "<" not in found[1]
    assert json.loads(found[1])["events"][0]["v"]["text"] == said
    assert page.count("<script") == 2
    assert "<b>Ada" not in page


def test_a_recording_that_no_browser_would_open_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_MAX_PAGE_CHARS", 1_000)
    with pytest.raises(BadInputError, match="too large a page"):
        recorded_page(recording(tmp_path / "call.jsonl", "hello", times=100))


def test_the_live_page_names_its_files_below_its_own_path() -> None:
    page = live_page('/a"b')
    assert 'src="/a&quot;b/page.js"' in page
