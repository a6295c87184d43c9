"""The inspector in a real Chromium: a live session, a recorded one, ten thousand events, keys, light and dark."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from pipecat_voicectx.inspector.pages import recorded_page
from pipecat_voicectx.observers.events import EventKind
from pipecat_voicectx.playback.heard import BoundaryEvidence, HeardTurn
from pipecat_voicectx.states.network import LinkBand, NetworkState
from tests.inspector.serving import ListedHub, serve
from tests.observers.calls import record_call

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
CHROMIUM = shutil.which("chromium")
T = TypeVar("T")


@pytest.fixture(scope="module")
def browser(recorded: Path) -> Iterator[Browser]:
    assert recorded  # made first: Playwright keeps a loop running, and a virtual clock wants none beside it
    if CHROMIUM is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="no Playwright here: pip install playwright")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    record_call(folder / "call.jsonl")
    (folder / "call.html").write_text(recorded_page(folder / "call.jsonl"), encoding="utf-8")
    return folder / "call.html"


class Host:
    """A bot's web server in a thread of its own, with one session that the test speaks for."""

    def __init__(self) -> None:
        from fastapi import FastAPI

        from pipecat_voicectx.inspector.mount import mount
        from pipecat_voicectx.inspector.service import InspectorConfig

        self._app = FastAPI()
        self._inspector = mount(self._app, config=InspectorConfig(token=None))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="bot-host", daemon=True)
        self._thread.start()
        self._stop: asyncio.Event | None = None
        self._served: Future[None] | None = None
        self.port = 0
        self.hub = self.do(lambda: ListedHub.on(self._inspector))

    def do(self, what: Callable[[], T]) -> T:
        """Runs `what` on the server's loop."""

        async def run() -> T:
            return what()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(10)

    def start(self) -> None:
        up: Future[int] = Future()

        async def main() -> None:
            self._stop = asyncio.Event()
            async with serve(self._app, port=self.port) as base:
                up.set_result(int(base.rsplit(":", 1)[1]))
                await self._stop.wait()

        self._served = asyncio.run_coroutine_threadsafe(main(), self._loop)
        self.port = up.result(10)

    def stop(self) -> None:
        assert self._stop is not None
        assert self._served is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._served.result(10)

    def close(self) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def tell(self, kind: EventKind, value: object, *, at_secs: float) -> None:
        self.do(lambda: self.hub.tell(kind, value, at_secs=at_secs))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/voicectx"


@contextmanager
def hosting() -> Iterator[Host]:
    host = Host()
    host.start()
    try:
        yield host
    finally:
        host.close()


def opened(browser: Browser, url: str, *, width: int = 1280, scheme: str = "light") -> tuple[Page, list[str]]:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if scheme == "dark" else "light"
    )
    page, complaints = context.new_page(), []
    page.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    own = url.split("/voicectx")[0]
    page.on("request", lambda r: complaints.append(r.url) if not r.url.startswith((own, "data:")) else None)
    page.goto(url)
    return page, complaints


def shows(page: Page, selector: str, text: str) -> None:
    """Waits for it. The page's own policy forbids the evaluation that waiting for a function needs."""
    page.locator(selector, has_text=text).wait_for(state="attached", timeout=20_000)


def context_of(tokens: int) -> dict[str, object]:
    message = {"role": "user", "part": "history", "tokens": tokens, "text": f"message of {tokens}"}
    return {"messages": [message], "tokens": {"history": tokens}, "left_out": 0}


def turn(number: int, at_secs: float) -> HeardTurn:
    return HeardTurn(
        turn_id=number,
        heard_text="The castle opens",
        unheard_text="at nine.",
        interrupted=True,
        evidence=BoundaryEvidence.WORD,
        estimated=False,
        played_samples=1,
        sample_rate_hz=24_000,
        started_secs=at_secs,
        ended_secs=at_secs + 1.5,
    )


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_recorded_session_draws_without_complaint_and_without_sideways_scrolling(
    browser: Browser, recorded: Path, width: int, scheme: str
) -> None:
    page, complaints = opened(browser, recorded.as_uri(), width=width, scheme=scheme)
    page.wait_for_selector("#strip svg .hit")
    assert complaints == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("#status").inner_text() == "recorded"
    lightness = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]")
    assert (lightness < 60) is (scheme == "dark")
    # Text on its ground, as WCAG counts it.
    assert page.evaluate(CONTRAST, ["body", ".aside", ".now dt", ".standfirst"]) >= 4.5


def test_no_mark_is_drawn_over_what_another_one_says(browser: Browser, recorded: Path) -> None:
    page, _ = opened(browser, recorded.as_uri())
    page.wait_for_selector("#strip svg .above")
    struck = """() => {
      const struck = (label, mark) => mark.classList.contains("other")
        && +mark.getAttribute("y") + 11 === +label.getAttribute("y")
        && label.compareDocumentPosition(mark) & Node.DOCUMENT_POSITION_FOLLOWING;
      return [...document.querySelectorAll("#strip svg .above")]
        .filter((label) => [...label.parentNode.children].some((mark) => struck(label, mark)))
        .map((label) => label.textContent);
    }"""
    assert page.evaluate(struck) == []


def test_of_two_requests_close_together_the_higher_one_says_its_tokens(browser: Browser) -> None:
    with hosting() as host:
        page, _ = opened(browser, host.url)
        shows(page, "#status", "live")
        for at_secs, tokens in ((1.0, 492), (1.1, 2511), (9.0, 700)):
            host.tell(EventKind.CONTEXT, context_of(tokens), at_secs=at_secs)
        shows(page, "#strip svg .tokens", "700")
        page.locator("#fit").click()
        assert page.locator("#strip svg .tokens").all_text_contents() == ["2,511", "700"]


def test_a_bot_that_has_the_page_from_its_first_call_on_is_waited_for(browser: Browser) -> None:
    with hosting() as host:
        context = browser.new_context()
        page = context.new_page()
        page.route("**/api/sessions", lambda route: route.fulfill(status=404, json={"detail": "Not Found"}))
        page.goto(host.url)
        shows(page, "#status", "waiting for a call")
        page.unroute("**/api/sessions")
        shows(page, "#status", "live")
        context.close()


CONTRAST = """(selectors) => {
  const lum = (c) => { const [r, g, b] = c.match(/\\d+/g).map(Number).map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = lum(getComputedStyle(document.body).backgroundColor);
  return Math.min(...selectors.map((s) => { const l = lum(getComputedStyle(document.querySelector(s)).color); return (Math.max(l, ground) + 0.05) / (Math.min(l, ground) + 0.05); }));
}"""  # noqa: E501


def test_a_recorded_session_shows_what_happened(browser: Browser, recorded: Path) -> None:
    page, _ = opened(browser, recorded.as_uri())
    page.wait_for_selector("#strip svg .hit")
    names = page.locator("#names").text_content() or ""
    for lane in (
        "The caller",
        "what held it open",
        "The bot, as heard",
        "The line",
        "pace",
        "Directives",
        "Tokens",
    ):
        assert lane in names, lane
    lanes = page.locator("#strip svg").text_content() or ""
    assert "held" in lanes
    assert "speak at 140" in lanes
    assert "refused" in lanes
    assert "Functions" in page.locator("#window-bar").inner_text()
    assert "set_response_speed" in page.locator("#messages").inner_text()
    assert page.locator("#threads svg .stop").count() >= 2
    assert "last word" in page.locator("#latencies").inner_text()


def test_the_timeline_can_be_walked_by_keyboard(browser: Browser, recorded: Path) -> None:
    page, complaints = opened(browser, recorded.as_uri())
    page.wait_for_selector("#strip svg .hit")
    page.locator("#in").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "scroll"
    told = []
    for key in ("ArrowLeft", "ArrowLeft", "ArrowDown", "ArrowDown", "Home", "ArrowRight", "End", "ArrowUp"):
        page.keyboard.press(key)
        told.append(page.locator("#detail").inner_text())
        assert page.locator("#strip svg .selbox").count() == 1, key
    assert len(set(told)) >= 6
    before = page.evaluate("document.getElementById('strip').offsetWidth")
    page.keyboard.press("+")
    assert page.evaluate("document.getElementById('strip').offsetWidth") > before
    page.keyboard.press("0")
    page.keyboard.press("Escape")
    page.wait_for_selector("#strip svg .sel", state="detached")
    assert complaints == []


def test_what_was_cut_off_is_struck_out(browser: Browser, recorded: Path) -> None:
    page, _ = opened(browser, recorded.as_uri())
    page.wait_for_selector("#strip svg .hit")
    page.locator("#scroll").focus()
    for key in ("Home", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
        if page.locator("#detail del").count():
            break
    assert "Ghent" in page.locator("#detail del").inner_text()


def test_a_live_session_is_drawn_as_it_happens(browser: Browser) -> None:
    with hosting() as host:
        host.tell(EventKind.NETWORK, NetworkState(band=LinkBand.GOOD), at_secs=0.0)
        page, complaints = opened(browser, host.url)
        shows(page, "#now", "good")
        host.tell(EventKind.NETWORK, NetworkState(band=LinkBand.POOR, loss_ratio=0.25), at_secs=1.0)
        shows(page, "#now", "25.0% lost")
        assert page.locator("#status").inner_text() == "live"
        host.tell(EventKind.HEARD, turn(1, 2.0), at_secs=4.0)
        shows(page, "#strip", "The castle opens")
        host.tell(EventKind.CONTEXT, context_of(321), at_secs=5.0)
        shows(page, "#messages", "message of 321")
        assert complaints == []


def test_a_lost_connection_comes_back_and_nothing_is_missing_or_double(browser: Browser) -> None:
    with hosting() as host:
        host.tell(EventKind.CONTEXT, context_of(100), at_secs=1.0)
        page, complaints = opened(browser, host.url)
        shows(page, "#messages", "message of 100")
        host.stop()
        shows(page, "#status", "trying again")
        host.tell(EventKind.CONTEXT, context_of(200), at_secs=2.0)
        host.start()
        shows(page, "#messages", "message of 200")
        shows(page, "#status", "live")
        assert "2 events" in page.locator("#standfirst").inner_text()
        # The browser itself says that a connection was refused; the page has nothing to add.
        assert [c for c in complaints if "ERR_" not in c] == []


def test_a_session_that_ends_says_so(browser: Browser) -> None:
    with hosting() as host:
        host.tell(EventKind.NETWORK, NetworkState(band=LinkBand.GOOD), at_secs=0.0)
        page, _ = opened(browser, f"{host.url}/s/told")
        shows(page, "#status", "live")
        asyncio.run_coroutine_threadsafe(host.hub.end(), host._loop).result(5)
        shows(page, "#status", "ended")
        assert page.locator("h1").inner_text() == "Ada"


def test_ten_thousand_events_stay_quick(browser: Browser) -> None:
    with hosting() as host:

        def tell_all() -> None:
            for n in range(2_000):
                at = n * 1.8
                host.hub.tell(EventKind.USER_TURN, {"phase": "speech"}, at_secs=at)
                host.hub.tell(EventKind.USER_TURN, {"phase": "silence", "stop_secs": 0.2}, at_secs=at + 0.6)
                host.hub.tell(EventKind.HEARD, turn(n, at + 0.7), at_secs=at + 1.0)
                host.hub.tell(EventKind.LATENCY, {"secs": 0.5 + (n % 7) / 10}, at_secs=at + 1.1)
                tokens = {"tokens": {"history": 200 + n % 90, "recalled": 80}, "messages": [], "left_out": 0}
                host.hub.tell(EventKind.CONTEXT, tokens, at_secs=at + 1.2)

        host.do(tell_all)
        page, complaints = opened(browser, host.url)
        shows(page, "#standfirst", "10,000 events")
        page.locator("#fit").click()
        took = page.evaluate(
            """() => new Promise((done) => {
              const scroll = document.getElementById('scroll'), begun = performance.now();
              let left = 20;
              const step = () => { document.getElementById(left % 2 ? 'in' : 'out').click(); scroll.scrollLeft += 200;
                if (--left) requestAnimationFrame(step); else done((performance.now() - begun) / 20); };
              requestAnimationFrame(step);
            })"""
        )
        assert page.locator("#strip svg *").count() < 6_000  # no more marks than can be told apart
        assert took < 400, f"{took:.0f} ms a redraw"  # a shared machine; alone it is some 20
        host.tell(EventKind.NETWORK, NetworkState(band=LinkBand.POOR), at_secs=3_600.5)
        shows(page, "#standfirst", "10,001 events")
        assert complaints == []


def test_words_of_a_caller_are_never_markup(browser: Browser) -> None:
    evil = '<img src=x onerror="document.title=1"></script><script>document.title=2</script>'
    with hosting() as host:
        message = {"role": "user", "part": "recalled", "tokens": 9, "text": f"- {evil}"}
        host.tell(
            EventKind.CONTEXT,
            {"messages": [message], "tokens": {"recalled": 9}, "left_out": 0},
            at_secs=1.0,
        )
        host.tell(EventKind.USER_TEXT, {"text": evil}, at_secs=1.0)
        page, complaints = opened(browser, host.url)
        shows(page, "#messages", "onerror")
        assert page.locator("main img").count() == 0
        assert "inspector" in page.title()
        assert complaints == []
