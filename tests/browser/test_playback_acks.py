"""voicectx.js in a real Chromium against a real bot over SmallWebRTC: the boundary against what the page played.

The bot "speaks" words of 100 ms, each a tone whose pitch tells its number. The page records its own output with an
audio worklet, with the wall-clock time at which each sample was heard. Both run on one machine, so one clock serves.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from aiohttp import web
from pipecat.frames.frames import (
    AggregatedTextFrame,
    Frame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    TTSAudioRawFrame,
    TTSStartedFrame,
    TTSStoppedFrame,
    TTSTextFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.transports.base_transport import TransportParams
from pipecat.transports.smallwebrtc.connection import SmallWebRTCConnection
from pipecat.transports.smallwebrtc.transport import SmallWebRTCTransport
from pipecat.turns.user_turn_strategies import ExternalUserTurnStrategies
from pipecat.workers.runner import WorkerRunner

from pipecat_voicectx.playback.heard import HeardTurn
from pipecat_voicectx.processors.playback_ledger import PlaybackLedger

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium")
HERE = Path(__file__).parent
CLIENT = HERE.parent.parent / "pipecat_voicectx" / "client" / "voicectx.js"
RATE_HZ = 24_000
WORD_SECS = 0.1
CODES = 40


def tone(number: int) -> bytes:
    """A word: 40 ms of tone, 60 ms of silence."""
    samples = np.zeros(int(RATE_HZ * WORD_SECS))
    count = int(RATE_HZ * 0.04)
    frequency = 500 + 50 * (number % CODES)
    samples[:count] = 12_000 * np.sin(2 * np.pi * frequency * np.arange(count) / RATE_HZ)
    return samples.astype(np.int16).tobytes()


class ToneTTS(FrameProcessor):
    """Speaks numbered tones with word times."""

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        await self.push_frame(frame, direction)

    async def say(self, words: int) -> None:
        await self.push_frame(LLMFullResponseStartFrame())
        announcement = AggregatedTextFrame(
            " ".join(f"w{n}" for n in range(words)), "sentence", context_id="c"
        )
        announcement.will_be_spoken = True
        announcement.append_to_context = False
        await self.push_frame(announcement)
        await self.push_frame(TTSStartedFrame(context_id="c"))
        base = self.get_clock().get_time()
        for number in range(words):
            word = TTSTextFrame(f"w{number}", "word", context_id="c", segment_id=announcement.id)
            word.pts = base + round(number * WORD_SECS * 1e9)
            await self.push_frame(word)
            await self.push_frame(TTSAudioRawFrame(tone(number), RATE_HZ, 1, context_id="c"))
        await self.push_frame(TTSStoppedFrame(context_id="c"))
        await self.push_frame(LLMFullResponseEndFrame())


@dataclass
class Bot:
    """The bot's server, in a thread of its own with a loop of its own."""

    url: str = ""
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    turns: list[HeardTurn] = field(default_factory=list)
    ledger: PlaybackLedger | None = None
    _tts: ToneTTS | None = None
    _pair: LLMContextAggregatorPair | None = None
    _workers: list[tuple[PipelineWorker, asyncio.Task[None], SmallWebRTCConnection]] = field(
        default_factory=list
    )

    def call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    async def serve(self) -> None:
        app = web.Application()
        app.router.add_get("/", self._page)
        app.router.add_get("/voicectx.js", self._client)
        app.router.add_post("/offer", self._offer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/"

    async def close(self) -> None:
        for worker, running, connection in self._workers:
            await worker.cancel()
            await running
            await connection.disconnect()
        await self._runner.cleanup()

    async def _page(self, _request: web.Request) -> web.FileResponse:
        return web.FileResponse(HERE / "playback_page.html")

    async def _client(self, _request: web.Request) -> web.FileResponse:
        return web.FileResponse(CLIENT)

    async def _offer(self, request: web.Request) -> web.Response:
        offer = await request.json()
        connection = SmallWebRTCConnection()
        await connection.initialize(sdp=offer["sdp"], type=offer["type"])
        transport = SmallWebRTCTransport(
            connection, TransportParams(audio_out_enabled=True, audio_out_sample_rate=RATE_HZ)
        )
        context = LLMContext()
        self._pair = LLMContextAggregatorPair(
            context, user_params=LLMUserAggregatorParams(user_turn_strategies=ExternalUserTurnStrategies())
        )
        self._tts = ToneTTS()
        self.ledger = PlaybackLedger(context=context, tts=self._tts, output=transport.output())
        self.turns = []

        async def on_heard(_ledger: PlaybackLedger, turn: HeardTurn) -> None:
            self.turns.append(turn)

        self.ledger.add_event_handler("on_heard", on_heard)
        worker = PipelineWorker(
            Pipeline(
                [
                    transport.input(),
                    self._pair.user(),
                    self._tts,
                    transport.output(),
                    self.ledger,
                    self._pair.assistant(),
                ]
            ),
            enable_rtvi=False,
            cancel_on_idle_timeout=False,
            params=PipelineParams(audio_out_sample_rate=RATE_HZ),
        )
        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(worker)
        self._workers.append((worker, asyncio.ensure_future(runner.run()), connection))
        return web.json_response(connection.get_answer())

    async def say(self, words: int) -> None:
        assert self._tts is not None
        await self._tts.say(words)

    async def interrupt(self) -> float:
        assert self._pair is not None
        now = time.time()
        await self._pair.user().broadcast_interruption()
        return now


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


def opened(browser: Browser, bot: Bot, query: str = "") -> Page:
    page = browser.new_page()
    page.goto(bot.url + query)
    page.wait_for_function("window.page && window.page.voicectx", timeout=20_000)
    page.wait_for_timeout(1500)
    return page


def heard_words(report: dict[str, Any], at: float) -> float:
    """Words (with fraction) that had come out of the page's speaker at a wall-clock time, by its own recording."""
    samples = np.array(report["samples"], float)
    context_secs, wall_ms = np.array(report["clock"]).T
    offset_secs = float(np.median(wall_ms / 1000 - context_secs))
    frames = np.concatenate([start + np.arange(2048) for start in report["starts"]])
    envelope = np.convolve(np.abs(samples), np.ones(96) / 96, "same")
    loud = np.flatnonzero(envelope > 1200)
    onsets = [loud[0], *loud[1:][np.diff(loud) > 1200]]
    position = None
    for onset in onsets:
        heard_at = frames[onset] / 48_000 + offset_secs
        piece = samples[onset + 240 : onset + 1680]
        spectrum = np.abs(np.fft.rfft(piece * np.hanning(len(piece)), 48_000))
        code = round((float(np.argmax(spectrum[400:2600]) + 400) - 500) / 50) % CODES
        if heard_at <= at:
            position = code + min(1.0, (at - heard_at) / WORD_SECS)
    assert position is not None
    return position


@pytest.mark.parametrize("at_secs", [1.24, 2.67])
def test_the_boundary_is_what_the_page_played(browser: Browser, bot: Bot, at_secs: float) -> None:
    page = opened(browser, bot)
    bot.call(bot.say(38))
    page.wait_for_timeout(at_secs * 1000 + 250)
    interrupted_at = bot.call(bot.interrupt())
    page.wait_for_timeout(1200)
    report = page.evaluate("window.page.report()")
    page.close()
    assert bot.ledger is not None
    assert bot.ledger.client.taken > 10
    assert bot.ledger.client.refused == 0
    turn = bot.turns[-1]
    assert not turn.estimated
    truth = heard_words(report, interrupted_at)
    assert turn.played_samples / RATE_HZ == pytest.approx(truth * WORD_SECS, abs=0.06)
    assert abs(len(turn.heard_text.split()) - truth) <= 1


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
