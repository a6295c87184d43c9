"""The report in a real Chromium: desktop and phone, light and dark, by mouse and by keyboard."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipecat_voicectx.demo.report import render_report
from tests.demo.told_call import SCENARIO, told_call

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="no Playwright here: pip install playwright")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "demo_report.html"
    html = render_report(
        SCENARIO, stock=told_call(plugin=False), voicectx=told_call(plugin=True), transport="webrtc"
    )
    path.write_text(html, encoding="utf-8")
    return path


def opened(
    browser: Browser, report: Path, *, width: int = 1280, scheme: str = "light"
) -> tuple[Page, list[str]]:
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme="dark" if scheme == "dark" else "light"
    )
    page, complaints = context.new_page(), []
    page.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: complaints.append(request.url) if "file:" not in request.url else None)
    page.goto(report.as_uri())
    page.wait_for_selector("#strip svg .mark")
    return page, [c for c in complaints if not c.startswith("data:")]


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_draws_without_complaint_and_without_sideways_scrolling(
    browser: Browser, report: Path, width: int, scheme: str
) -> None:
    page, complaints = opened(browser, report, width=width, scheme=scheme)
    assert complaints == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for figure in ("#strip", "#loss-stock", "#loss-voicectx", "#pace", "#tokens"):
        assert page.locator(f"{figure} svg").bounding_box()["height"] > 100  # type: ignore[index]
    lightness = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]")
    assert (lightness < 60) is (scheme == "dark")


def test_both_passes_have_their_lanes(browser: Browser, report: Path) -> None:
    page, _ = opened(browser, report)
    names = page.locator(".names").inner_text()
    assert names.count("What the bot receives") == 2
    assert names.count("What it changes") == 1
    text = page.locator("#strip svg").text_content() or ""
    assert "cut off here" in text
    assert "held 1.5 s" in text
    assert "believes 6 more words" in text
    assert "knows exactly what was heard" in text


def test_pointing_at_a_mark_tells_about_it(browser: Browser, report: Path) -> None:
    page, _ = opened(browser, report)
    page.locator('.mark[aria-label^="Caller: And please"]').first.hover()
    detail = page.locator("#detail")
    assert "words a minute" in detail.inner_text()
    assert "husband" in detail.locator("del").first.inner_text()
    page.locator('.mark[aria-label="The caller barges in"]').first.hover(force=True)
    assert "Turin" in detail.locator(".over").inner_text()


def test_the_timeline_can_be_walked_by_keyboard(browser: Browser, report: Path) -> None:
    page, _ = opened(browser, report)
    page.locator("#fit").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    seen = set()
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown", "End", "+", "-"):
        page.keyboard.press(key)
        seen.add(page.evaluate("document.activeElement.getAttribute('aria-label')"))
        assert page.evaluate("document.activeElement.classList.contains('mark')"), key
    assert len(seen) >= 5


def test_a_jump_shows_the_words_at_their_time(browser: Browser, report: Path) -> None:
    page, _ = opened(browser, report)
    page.get_by_role("button", name="Barge-in").click()
    unheard = page.locator("#strip svg text.red", has_text="Turin").first
    box = unheard.bounding_box()
    assert box is not None
    assert 0 < box["x"] < 1280
    page.set_viewport_size({"width": 1100, "height": 900})
    page.wait_for_timeout(100)
    assert unheard.is_visible()  # a new width does not take the reader's place away


def test_a_pass_plays_and_stops(browser: Browser, report: Path) -> None:
    page, complaints = opened(browser, report)
    play = page.get_by_role("button", name="Play: With pipecat-voicectx")
    play.click()
    page.wait_for_selector("#strip svg .head", state="attached")
    page.wait_for_function("document.querySelector('#caption').textContent.includes('Caller')")
    assert play.get_attribute("aria-pressed") == "true"
    play.click()
    page.wait_for_selector("#strip svg .head", state="detached")
    assert play.get_attribute("aria-pressed") == "false"
    assert complaints == []


def test_the_story_reads_without_scripts(browser: Browser, report: Path) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(report.as_uri())
    text = page.locator("main").inner_text()
    assert "Loss is not silence" in text
    assert "needs JavaScript" in text
