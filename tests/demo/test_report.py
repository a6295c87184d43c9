import json
import re
from html.parser import HTMLParser

import pytest

from pipecat_voicectx.demo.report import render_report
from pipecat_voicectx.demo.report_data import PassView, view_pass
from tests.demo.told_call import SCENARIO, Event, told_call


@pytest.fixture(scope="module")
def page() -> str:
    return render_report(
        SCENARIO, stock=told_call(plugin=False), voicectx=told_call(plugin=True), transport="in-process"
    )


def view(*, plugin: bool) -> PassView:
    return view_pass(told_call(plugin=plugin), SCENARIO)


def test_the_page_loads_nothing_from_anywhere(page: str) -> None:
    outside = re.sub(r"http://www\.w3\.org/\S+", "", page)
    assert not re.search(r"https?://|//cdn|@import|<link(?! rel=\"icon\" href=\"data:)|src=", outside)


def test_the_page_stays_below_three_megabytes(page: str) -> None:
    assert len(page.encode()) < 3_000_000


def test_the_markup_is_closed_and_ids_are_unique(page: str) -> None:
    class Checker(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []
            self.ids: list[str] = []

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.ids += [value for name, value in attrs if name == "id" and value]
            if tag not in ("meta", "link", "br"):
                self.open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert len(checker.ids) == len(set(checker.ids))


def test_the_data_block_is_json_whatever_was_said() -> None:
    events = told_call(plugin=False)
    events.append(
        {"src": "llm", "kind": "reply", "at": 50.0, "n": 1, "text": "</script><b>oops</b>", "tool_calls": []}
    )
    page = render_report(SCENARIO, stock=events, voicectx=told_call(plugin=True), transport="webrtc")
    block = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert block is not None
    assert json.loads(block[1])["passes"][0]["requests"][0]["answered"] == "</script><b>oops</b>"


def test_the_story_names_what_happened(page: str) -> None:
    assert "takes the missing audio for the end of the turn once" in page
    assert "holds the turn open for 1.5 s" in page
    assert "about six words that never reached" in page
    assert '<span class="over">Third there is Turin by train,</span>' in page
    assert "names 3 of 6" in page
    assert "<mark>without flights</mark>" in page
    assert "<del>because my husband" in page


def test_what_memory_brought_stands_beside_the_answer() -> None:
    events = told_call(plugin=True)
    request = [event for event in events if event["kind"] == "request"][-1]
    block = (
        "<recalled_context>\nNote.\n[last call]\n- User: no flights <b> You: All right.\n</recalled_context>"
    )
    request["messages"] = [{"role": "developer", "content": block}, *request["messages"]]
    page = render_report(SCENARIO, stock=told_call(plugin=False), voicectx=events, transport="webrtc")
    assert "<li>User: <mark>no flights</mark> &lt;b&gt; You: All right.</li>" in page
    assert "<dd>nothing</dd>" in page


def test_a_story_without_harm_does_not_claim_any() -> None:
    fine = told_call(plugin=True)
    page = render_report(SCENARIO, stock=fine, voicectx=fine, transport="webrtc")
    assert "Stock Pipecat waited this time as well" in page
    assert "happened to tell the model exactly" in page


def test_an_empty_pass_still_makes_a_page() -> None:
    page = render_report(SCENARIO, stock=[], voicectx=[], transport="webrtc")
    assert "One call, told twice" in page
    assert page.count("–</td>") >= 6


def test_words_after_the_onset_are_unheard_and_stand_right_of_it() -> None:
    for plugin in (False, True):
        told = view(plugin=plugin)
        [barge_in] = told.barge_ins
        listed = next(turn for turn in told.bot_turns if turn["words"][0][0] == "Of")  # type: ignore[index]
        words = listed["words"]
        assert isinstance(words, list)
        assert [word[0] for word in words if word[3]] == barge_in["heard"]
        assert all(word[2] <= barge_in["at"] + 0.01 for word in words if word[3])
        assert all(word[1] >= barge_in["at"] - 0.01 for word in words if not word[3])


def test_what_was_generated_and_never_left_is_kept_apart() -> None:
    listed = next(turn for turn in view(plugin=True).bot_turns if turn["unsaid"])
    assert str(listed["unsaid"]).startswith("for eight hundred")


def test_a_turn_in_a_lossy_sentence_is_marked_cut_in_one_pass_only() -> None:
    assert [turn["cut"] for turn in view(plugin=False).turns].count(True) == 1
    assert not any(turn["cut"] for turn in view(plugin=True).turns)


def test_holds_states_and_directives_are_the_plugins() -> None:
    stock, plugin = view(plugin=False), view(plugin=True)
    assert (stock.holds, stock.states, stock.directives) == ((), (), ())
    assert [round(float(str(h["end"])) - float(str(h["at"])), 1) for h in plugin.holds] == [1.5]
    assert [s["label"] for s in plugin.states if s["kind"] == "network"] == ["good", "poor", "recovering"]
    assert plugin.directives[0]["label"] == "speak at 224"


@pytest.mark.parametrize(
    ("fields", "label"),
    [
        ({"type": "SetVadSilenceDuration", "duration_ms": 1500}, "wait 1.5 s"),
        ({"type": "SetVadSilenceDuration", "duration_ms": None}, "usual silence again"),
        ({"type": "DeferResponse", "reason": "x"}, "answer later"),
        ({"type": "SetResponseInstruction", "text": "x"}, "a hint for the next answer"),
        ({"type": "Unheard"}, "Unheard"),
    ],
)
def test_directives_have_a_name_a_reader_knows(fields: Event, label: str) -> None:
    event = {"src": "voicectx", "kind": "directive", "at": 1.0, "origin": "reflex", **fields}
    [directive] = view_pass([event], SCENARIO).directives
    assert (directive["label"], directive["why"]) == (label, "decided by: reflex")
