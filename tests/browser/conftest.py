"""A real Chromium, and the bot of tones that the pages talk to. Skipped with a reason where there is none."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.tone_bot import Bot

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium")


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> None:
    """Not looked at here: a module's tests share a bot and a browser, whose sockets outlive each test."""


@pytest.fixture(scope="module")
def bot() -> Iterator[Bot]:
    served = Bot()
    thread = threading.Thread(target=served.loop.run_forever, daemon=True)
    thread.start()
    served.call(served.serve())
    yield served
    served.call(served.close())
    served.loop.call_soon_threadsafe(served.loop.stop)
    thread.join(5)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="no Playwright here: pip install playwright")
    arguments = [
        "--no-sandbox",
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        "--autoplay-policy=no-user-gesture-required",
    ]
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield launched
        launched.close()
