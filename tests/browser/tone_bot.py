"""A bot over SmallWebRTC that "speaks" numbered tones, the pages it serves, and the reading of their recordings."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from aiohttp import web
from aiortc.sdp import candidate_from_sdp
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

HERE = Path(__file__).parent
RTVI = HERE / "rtvi"
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
    reports: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)
    """What pages without a driver have posted."""
    report_wanted: bool = False
    _workers: list[tuple[PipelineWorker, asyncio.Task[None], SmallWebRTCConnection]] = field(
        default_factory=list
    )

    def call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(90)

    async def serve(self) -> None:
        app = web.Application(client_max_size=2**26)
        app.router.add_get("/", self._page)
        app.router.add_get("/voicectx.js", self._client)
        app.router.add_post("/offer", self._offer)
        app.router.add_get("/rtvi", self._rtvi_page)
        app.router.add_get("/rtvi.js", self._rtvi_bundle)
        app.router.add_patch("/offer", self._candidates)
        app.router.add_get("/wanted", self._wanted)
        app.router.add_post("/report", self._report)
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

    async def _rtvi_page(self, _request: web.Request) -> web.FileResponse:
        return web.FileResponse(HERE / "rtvi_page.html")

    async def _rtvi_bundle(self, _request: web.Request) -> web.FileResponse:
        return web.FileResponse(
            RTVI / "node_modules" / "rtvi.js", headers={"Content-Type": "text/javascript"}
        )

    async def _candidates(self, request: web.Request) -> web.Response:
        for item in (await request.json())["candidates"]:
            candidate = candidate_from_sdp(item["candidate"].removeprefix("candidate:"))
            candidate.sdpMid, candidate.sdpMLineIndex = item["sdp_mid"], item["sdp_mline_index"]
            await self._workers[-1][2].add_ice_candidate(candidate)
        return web.json_response(None)

    async def _wanted(self, _request: web.Request) -> web.Response:
        return web.json_response(self.report_wanted)

    async def _report(self, request: web.Request) -> web.Response:
        self.report_wanted = False
        await self.reports.put(await request.json())
        return web.json_response(None)

    async def report(self) -> dict[str, Any]:
        """What the page has recorded, from a page without a driver."""
        self.report_wanted = True
        return await asyncio.wait_for(self.reports.get(), 20)

    async def connected(self) -> None:
        """Until a client acknowledges."""
        async with asyncio.timeout(60):
            while self.ledger is None or (not self.ledger.client.taken and self.ledger.client.stats is None):  # noqa: ASYNC110
                await asyncio.sleep(0.1)

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
            enable_rtvi="rtvi" in request.query,
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


def heard_words(report: dict[str, Any], at: float) -> float:
    """Words (with fraction) that had come out of the page's speaker at a wall-clock time, by its own recording."""
    assert report["errors"] == []
    samples, rate_hz = np.array(report["samples"], float), round(report["rate"])
    context_secs, wall_ms = np.array(report["clock"]).T
    offset_secs = float(np.median(wall_ms / 1000 - context_secs))
    frames = np.concatenate([start + np.arange(2048) for start in report["starts"]])
    envelope = np.convolve(np.abs(samples), np.ones(rate_hz // 500) / (rate_hz // 500), "same")
    loud = np.flatnonzero(envelope > 1200)
    onsets = [loud[0], *loud[1:][np.diff(loud) > rate_hz // 40]]
    position = None
    for onset in onsets:
        heard_at = frames[onset] / rate_hz + offset_secs
        piece = samples[onset + rate_hz // 200 : onset + rate_hz * 35 // 1000]
        spectrum = np.abs(np.fft.rfft(piece * np.hanning(len(piece)), rate_hz))
        code = round((float(np.argmax(spectrum[400:2600]) + 400) - 500) / 50) % CODES
        if heard_at <= at:
            position = code + min(1.0, (at - heard_at) / WORD_SECS)
    assert position is not None
    return position
