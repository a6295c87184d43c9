"""voicectx.js in a real Chromium against a real bot over SmallWebRTC: the boundary against what the page played.

The bot "speaks" words of 100 ms, each a tone whose pitch tells its number. The page records its own output with an
audio worklet, with the wall-clock time at which each sample was heard. Both run on one machine, so one clock serves.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from tests.browser.tone_bot import RATE_HZ, WORD_SECS, Bot, heard_words

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

PULSEAUDIO = shutil.which("pulseaudio")
FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
# A profile that never asks, and plays and captures without a person or a device.
FIREFOX_PREFS = {
    "media.navigator.streams.fake": True,
    "media.navigator.permission.disabled": True,
    "media.autoplay.default": 0,
    "media.autoplay.blocking_policy": 0,
    "media.peerconnection.ice.obfuscate_host_addresses": False,
    "media.peerconnection.ice.loopback": True,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "app.update.enabled": False,
    "media.cubeb.sandbox": False,
}


def opened(browser: Browser, bot: Bot, query: str = "") -> Page:
    page = browser.new_page()
    page.goto(bot.url + query)
    page.wait_for_function("window.page && window.page.voicectx", timeout=20_000)
    page.wait_for_timeout(1500)
    return page


def test_the_boundary_is_what_the_page_played(browser: Browser, bot: Bot) -> None:
    """Three cuts: a machine that is busy for a moment moves one of them, and what it moves by is bounded too.

    The page's recording is read at the end: reading it holds Python, and with it the bot in this process, whose track
    then sends at once what it owes and is heard that much later.
    """
    page = opened(browser, bot)
    cuts = []
    for at_secs in (1.24, 2.67, 1.9):
        bot.call(bot.say(38))
        page.wait_for_timeout(at_secs * 1000 + 250)
        interrupted_at = bot.call(bot.interrupt())
        page.wait_for_timeout(1200)
        cuts.append((bot.turns[-1], interrupted_at))
    report = page.evaluate("window.page.report()")
    page.close()
    errors_secs = []
    for turn, interrupted_at in cuts:
        assert not turn.estimated
        truth = heard_words(report, interrupted_at)
        errors_secs.append(abs(turn.played_samples / RATE_HZ - truth * WORD_SECS))
        assert abs(len(turn.heard_text.split()) - truth) <= 1.5
    assert bot.ledger is not None
    assert bot.ledger.client.taken > 30
    assert bot.ledger.client.refused == 0
    assert statistics.median(errors_secs) <= 0.06
    assert max(errors_secs) <= 0.15


def test_the_page_is_told_of_the_turn_and_falls_silent_when_it_is_revoked(browser: Browser, bot: Bot) -> None:
    page = opened(browser, bot)
    bot.call(bot.say(30))
    page.wait_for_timeout(1200)
    bot.call(bot.interrupt())
    page.wait_for_timeout(300)
    assert page.evaluate("window.page.element.muted") is True
    page.wait_for_timeout(1200)
    assert page.evaluate("window.page.element.muted") is False
    kinds = [message["t"] for _, message in page.evaluate("window.page.received") if message.get("v") == 1]
    page.close()
    assert kinds == ["turn", "revoke"]


def test_what_is_paused_or_muted_is_not_heard(browser: Browser, bot: Bot) -> None:
    page = opened(browser, bot)
    bot.call(bot.say(38))
    page.wait_for_timeout(1300)
    page.evaluate("window.page.element.muted = true")
    muted_at = time.time()
    page.wait_for_timeout(1200)
    bot.call(bot.interrupt())
    page.wait_for_timeout(1000)
    report = page.evaluate("window.page.report()")
    page.close()
    assert [ack["live"] for _, ack in report["acks"] if ack["t"] == "ack"][-1] is False
    assert bot.turns[-1].played_samples / RATE_HZ == pytest.approx(
        heard_words(report, muted_at) * WORD_SECS, abs=0.15
    )


def test_without_synchronization_sources_the_bot_falls_back_to_its_write_clock(
    browser: Browser, bot: Bot
) -> None:
    """Safari's and Firefox's way, by taking the interface away from Chromium: not those browsers themselves."""
    page = opened(browser, bot, "?nosync=1")
    bot.call(bot.say(38))
    page.wait_for_timeout(1800)
    interrupted_at = bot.call(bot.interrupt())
    page.wait_for_timeout(1000)
    report = page.evaluate("window.page.report()")
    page.close()
    assert all(ack["r"] is None for _, ack in report["acks"] if ack["t"] == "ack")
    turn = bot.turns[-1]
    assert turn.estimated
    assert turn.played_samples / RATE_HZ == pytest.approx(
        heard_words(report, interrupted_at) * WORD_SECS, abs=0.3
    )


def test_what_a_bot_that_stood_still_sends_at_once_is_not_taken_for_heard(browser: Browser, bot: Bot) -> None:
    page = opened(browser, bot, "?nosync=1")
    page.wait_for_timeout(1000)
    bot.loop.call_soon_threadsafe(time.sleep, 1.7)
    bot.call(bot.say(38))
    page.wait_for_timeout(2900)
    interrupted_at = bot.call(bot.interrupt())
    page.wait_for_timeout(1000)
    report = page.evaluate("window.page.report()")
    page.close()
    turn = bot.turns[-1]
    assert turn.estimated
    assert turn.interrupted
    assert turn.played_samples / RATE_HZ == pytest.approx(
        heard_words(report, interrupted_at) * WORD_SECS, abs=0.35
    )


@contextmanager
def sound_card() -> Iterator[str | None]:
    """A sound card that plays into nothing, as PulseAudio's address; None where there is no PulseAudio."""
    if PULSEAUDIO is None:
        yield None
        return
    # A socket's address is short: pytest's folders have names too long for one.
    with TemporaryDirectory() as folder:
        address = Path(folder) / "socket"
        command = [
            PULSEAUDIO,
            *("-n", "--exit-idle-time=-1", "--use-pid-file=no", "--daemonize=no"),
            "--load=module-null-sink",
            f"--load=module-native-protocol-unix socket={address} auth-anonymous=1",
        ]
        with running(command, {"XDG_RUNTIME_DIR": folder, "HOME": folder}):
            deadline = time.monotonic() + 10
            while not address.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            yield f"unix:{address}"


@contextmanager
def running(command: list[str], environment: dict[str, str]) -> Iterator[None]:
    process = subprocess.Popen(
        command, env=os.environ | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def firefox(url: str, profile: Path, *, sound: str | None) -> Iterator[None]:
    """A Firefox without a driver: the page acts and reports by itself."""
    if FIREFOX is None:
        pytest.skip("no Firefox here: apt-get install firefox-esr")
    prefs = "".join(f'user_pref("{name}", {json.dumps(value)});\n' for name, value in FIREFOX_PREFS.items())
    (profile / "user.js").write_text(prefs, "utf-8")
    command = [FIREFOX, "--headless", "--no-remote", "--profile", str(profile), url]
    with running(command, {"PULSE_SERVER": sound} if sound else {}):
        yield


def refused(bot: Bot) -> int:
    assert bot.ledger is not None
    return bot.ledger.client.refused


def test_firefox_acknowledges_without_output_statistics_and_says_so(bot: Bot, tmp_path: Path) -> None:
    bot.ledger = None
    with sound_card() as sound, firefox(bot.url + "?reports=1", tmp_path, sound=sound):
        bot.call(bot.connected())
        time.sleep(1.5)
        bot.call(bot.say(38))
        time.sleep(2.2)
        interrupted_at = bot.call(bot.interrupt())
        time.sleep(1.2)
        report = bot.call(bot.report())
    acks = [ack for _, ack in report["acks"] if ack["t"] == "ack"]
    assert any(ack["r"] is not None and ack["live"] for ack in acks)
    assert {ack["pd"] for ack in acks} == {40}
    assert refused(bot) == 0
    turn = bot.turns[-1]
    assert not turn.estimated
    if not report["clock"]:
        pytest.skip(
            "Firefox plays nothing without a sound card (apt-get install pulseaudio): its acknowledgements came, its "
            "position was not compared"
        )
    behind_secs = heard_words(report, interrupted_at) * WORD_SECS - turn.played_samples / RATE_HZ
    # Its output delay is assumed, not measured: a word may be missing, and none is invented.
    assert -0.06 <= behind_secs <= 0.45
