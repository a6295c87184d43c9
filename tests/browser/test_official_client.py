"""voicectx.js beside Pipecat's official browser client, in a real Chromium, against a real bot over SmallWebRTC."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.browser.tone_bot import RTVI, Bot

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def official_client() -> None:
    """Bundles the official client, the first time with the network; the page itself needs none."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm here: apt-get install npm")
    if (RTVI / "node_modules" / "rtvi.js").exists():
        return
    install = [npm, "install", "--no-audit", "--no-fund", "--no-package-lock"]
    for command in (install, [npm, "run", "bundle"]):
        done = subprocess.run(command, cwd=RTVI, capture_output=True, timeout=300, check=False)
        if done.returncode:
            pytest.skip(f"npm could not get the official client: {done.stderr.decode()[-200:]}")


@pytest.mark.usefixtures("official_client")
def test_it_works_beside_the_official_client(browser: Browser, bot: Bot) -> None:
    page = browser.new_page()
    page.goto(bot.url + "rtvi")
    page.wait_for_function("window.page?.connected || window.page?.errors.length", timeout=30_000)
    assert page.evaluate("window.page.errors") == []
    page.wait_for_timeout(1500)
    bot.call(bot.say(38))
    page.wait_for_timeout(1800)
    bot.call(bot.interrupt())
    page.wait_for_timeout(1000)
    assert page.evaluate("window.page.exact") is True
    kinds = [message["data"]["t"] for message in page.evaluate("window.page.received")]
    page.close()
    assert kinds == ["turn", "revoke"]
    assert bot.ledger is not None
    assert bot.ledger.client.taken > 10
    assert bot.ledger.client.refused == 0
    assert not bot.turns[-1].estimated
    # Where exactly it was cut is compared in test_playback_acks; here the words came from this client's clock.
    assert 3 <= len(bot.turns[-1].heard_text.split()) <= 24
