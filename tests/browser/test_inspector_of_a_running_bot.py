"""The inspector of a running bot, in a real Chromium, while a caller is on the line: the bot the README patches."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.bots.hosting import calling, hosted, running_bot, without_keys
from tests.bots.readme_diff import STOCK_BOT, applied, readme_diff

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

pytestmark = pytest.mark.browser
CHROMIUM = shutil.which("chromium")
SAID = ["What is the weather like in Ghent?", "Thank you very much."]


async def shows(page: Page, selector: str, text: str) -> None:
    await page.locator(selector, has_text=text).first.wait_for(state="attached", timeout=20_000)


async def opened(browser: Browser, url: str, scheme: str) -> tuple[Page, list[str]]:
    context = await browser.new_context(
        viewport={"width": 1280, "height": 900}, color_scheme="dark" if scheme == "dark" else "light"
    )
    page, complaints = await context.new_page(), []
    page.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda r: complaints.append(r.url) if not r.url.startswith((url, "data:")) else None)
    await page.goto(f"{url}/voicectx")
    return page, complaints


@pytest.mark.filterwarnings("ignore:unread_data:DeprecationWarning")  # aiohttp's, of its own form parser
def test_a_call_is_seen_while_it_happens_in_light_and_dark(tmp_path: Path) -> None:
    if CHROMIUM is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    async_api = pytest.importorskip(
        "playwright.async_api", reason="no Playwright here: pip install playwright"
    )
    bot_file = tmp_path / "bot.py"
    bot_file.write_text(applied(readme_diff(), STOCK_BOT.read_text()))

    async def call() -> None:
        server, _ = hosted(SAID)
        async with server, async_api.async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            environment = without_keys(OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="not-a-secret")
            async with running_bot(bot_file, "-t", "webrtc", environment=environment, cwd=tmp_path) as bot:
                async with calling(bot.url) as caller:
                    await caller.hears(0.3)  # the session is there, and so is its page
                    light, complaints = await opened(browser, bot.url, "light")
                    dark, more = await opened(browser, bot.url, "dark")
                    await shows(light, "#status", "live")
                    await asyncio.sleep(2.0)
                    await caller.says(SAID[0])
                    await caller.hears(2.0)
                    await shows(light, "#strip", "What is the weather like in Ghent?")
                    await shows(light, "#messages", "get_current_weather")
                    await shows(light, "#strip", "It is nice in Ghent today")
                    await asyncio.sleep(3.0)
                    await caller.says(SAID[1])
                    await shows(light, "#messages", SAID[1])
                    await shows(light, "#threads-count", "page")
                    await shows(light, "#now", "wpm")
                    await shows(dark, "#messages", SAID[1])
                    assert await light.locator("h1").inner_text() == "my bot"
                    for name, page in (("light", light), ("dark", dark)):
                        await page.screenshot(path=str(tmp_path / f"live-{name}.png"), full_page=True)
                await shows(light, "#status", "ended")
                assert complaints + more == []
            await browser.close()

    asyncio.run(call())
