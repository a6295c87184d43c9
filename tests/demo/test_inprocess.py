"""The in-process peers carry what WebRTC would: the same packets, the same losses, the same jitter buffer."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest

pytest.importorskip("aiortc", reason="pip install 'pipecat-voicectx[webrtc]'")

from aiortc.mediastreams import MediaStreamError

from pipecat_voicectx.demo.inprocess import InProcessConnection, InProcessPeer, connect
from pipecat_voicectx.demo.microphone import LossGate, Microphone
from pipecat_voicectx.sources.jitter_buffer import install_loss_tolerant_jitter_buffer
from pipecat_voicectx.testing import virtual_time


class _Call:
    """A caller's microphone and a bot's ear, nothing else."""

    def __init__(self) -> None:
        self.microphone = Microphone()
        self.caller = InProcessPeer()
        self.connection = InProcessConnection()
        self.gate = LossGate(lambda *_: None)
        self.received: list[int] = []
        self.peaks: list[int] = []

    async def connect(self) -> None:
        transceiver = self.caller.addTransceiver(self.microphone)
        self.gate.install(transceiver.sender.transport)
        await connect(self.caller, self.connection, lambda: None)

    async def listen(self, secs: float) -> None:
        track = self.connection.pc.getTransceivers()[0].receiver.track
        try:
            async with asyncio.timeout(secs):
                while True:
                    frame = await track.recv()
                    self.received.append(frame.pts)
                    self.peaks.append(int(np.abs(frame.to_ndarray().astype(int)).max()))
        except (TimeoutError, MediaStreamError):
            pass

    async def close(self) -> None:
        await self.caller.close()
        await asyncio.sleep(0.1)


async def _received(lost: set[int], *, tolerant: bool) -> list[int]:
    call = _Call()
    for number in lost:
        call.gate.drop(number)
    await call.connect()
    if tolerant:
        assert install_loss_tolerant_jitter_buffer(call.connection.pc) == 1
    await call.listen(3.0)
    await call.close()
    return [pts // 960 for pts in call.received]


def _missing(numbers: list[int]) -> set[int]:
    return set(range(numbers[-1])) - set(numbers)


def test_without_loss_every_packet_arrives_in_order() -> None:
    numbers = virtual_time.run(_received(set(), tolerant=False))
    assert numbers == list(range(numbers[-1] + 1))
    assert len(numbers) > 130


def test_one_lost_packet_costs_five_in_aiortcs_own_buffer() -> None:
    numbers = virtual_time.run(_received({60}, tolerant=False))
    assert len(_missing(numbers)) == 5


def test_one_lost_packet_costs_one_in_ours() -> None:
    assert _missing(virtual_time.run(_received({60}, tolerant=True))) == {60}


def test_a_burst_is_missing_exactly() -> None:
    assert _missing(virtual_time.run(_received(set(range(50, 90)), tolerant=True))) == set(range(50, 90))


def test_speech_comes_out_where_it_went_in() -> None:
    async def speak() -> tuple[int, list[int]]:
        call = _Call()
        await call.connect()
        listening = asyncio.ensure_future(call.listen(2.0))
        await asyncio.sleep(1.0)
        tone = (9000 * np.sin(np.arange(960 * 10) * 0.06)).astype(np.int16)
        first, _ = await call.microphone.speak(tone)
        await listening
        await call.close()
        loud = [pts // 960 for pts, peak in zip(call.received, call.peaks, strict=True) if peak > 3000]
        return first, loud

    first, loud = virtual_time.run(speak())
    assert loud[0] in (first, first + 1)
    assert len(loud) in (10, 11)


def test_messages_travel_both_ways_and_closing_is_seen_on_the_other_side() -> None:
    async def talk() -> tuple[list[Any], list[Any], str]:
        call = _Call()
        channel = call.caller.createDataChannel("chat")
        at_caller: list[Any] = []
        at_bot: list[Any] = []
        channel.on("message", lambda data: at_caller.append(json.loads(data)))

        @call.connection.event_handler("app-message")
        async def on_message(_connection: object, message: object) -> None:
            at_bot.append(message)

        await call.connect()
        await call.connection.connect()
        channel.send(json.dumps({"type": "hello"}))
        call.connection.send_app_message({"type": "welcome"})
        await asyncio.sleep(0.2)
        await call.close()
        return at_bot, at_caller, call.connection.pc.connectionState

    at_bot, at_caller, state = virtual_time.run(talk())
    assert at_bot == [{"type": "hello"}]
    assert at_caller == [{"type": "welcome"}]
    assert state == "closed"


def test_statistics_are_aiortcs_own() -> None:
    async def count() -> Any:
        call = _Call()
        for number in range(60, 70):
            call.gate.drop(number)
        await call.connect()
        await call.listen(2.0)
        report = await call.connection.pc.getTransceivers()[0].receiver.getStats()
        await call.close()
        return next(stats for stats in report.values() if stats.type == "inbound-rtp")

    stats = virtual_time.run(count())
    assert stats.packetsLost == 10
    assert stats.packetsReceived > 80
