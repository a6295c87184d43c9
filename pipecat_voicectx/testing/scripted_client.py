"""Both ends of the way to the listener: an output that paces as SmallWebRTC does, and a client that acknowledges."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from pipecat.frames.frames import (
    Frame,
    InputTransportMessageFrame,
    OutputAudioRawFrame,
    OutputTransportMessageFrame,
    OutputTransportMessageUrgentFrame,
    StartFrame,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.transports.base_output import BaseOutputTransport
from pipecat.transports.base_transport import TransportParams
from pipecat.transports.smallwebrtc.transport import RawAudioTrack

from pipecat_voicectx.testing.scripted_voice import RATE_HZ, Script, word_counts

__all__ = ["Client", "SimulatedClient", "Top", "TrackOutput"]


@dataclass(frozen=True, kw_only=True)
class Client:
    """Who listens: plays `delay_secs` after the audio left, acknowledges every `period_secs`."""

    delay_secs: float = 0.15
    ack_delay_secs: float | None = 0.05
    """How long an acknowledgement is under way. None: it sends none."""
    ack_jitter_secs: float = 0.0
    period_secs: float = 0.1
    seed: int = 3
    stops_after_secs: float | None = None
    """Stops acknowledging this long after the bot began to speak."""


class TrackOutput(BaseOutputTransport):
    """An output transport that paces its writes as SmallWebRTC does. Also the ledger's `PlayoutPositionSource`."""

    def __init__(self) -> None:
        self.epoch = 0
        super().__init__(TransportParams(audio_out_enabled=True, audio_out_sample_rate=RATE_HZ))
        self.track: RawAudioTrack | None = None
        self.words_sent: list[tuple[float, dict[int, int]]] = []
        """(time, {word number: samples}) of each 10 ms that left."""
        self.sinks: list[Callable[[float, int], None]] = []
        """Called with time and track position after each 10 ms."""
        self.messages: list[Any] = []
        """Messages to the client."""
        self._sender: asyncio.Task[None] | None = None

    def position_samples(self) -> int | None:
        """See `PlayoutPositionSource`."""
        return None if self.track is None else self.track._timestamp

    def rtp_origin(self) -> int | None:
        """See `PlayoutPositionSource`."""
        return None

    async def start(self, frame: StartFrame) -> None:
        await super().start(frame)
        self.track = RawAudioTrack(self.sample_rate)
        self._sender = self.create_task(self._send(self.track))
        await self.set_transport_ready(frame)

    def lose(self, *, unheard_after_secs: float) -> None:
        """The connection breaks: nothing more is sent, and what left after a time never reached anybody."""
        if self._sender is not None:
            self._sender.cancel()
        self.words_sent = [sent for sent in self.words_sent if sent[0] <= unheard_after_secs]

    def reconnect(self) -> None:
        """The client came back: a new track that counts from zero; what was queued on the old one is lost."""
        old, self.track = self.track, RawAudioTrack(self.sample_rate)
        self.epoch += 1
        if self._sender is not None:
            self._sender.cancel()
        self._sender = self.create_task(self._send(self.track))
        if old is not None:
            for _, waiting in old._chunk_queue:
                if waiting is not None and not waiting.done():
                    waiting.set_result(True)

    async def write_audio_frame(self, frame: OutputAudioRawFrame) -> bool:
        assert self.track is not None
        await self.track.add_audio_bytes(frame.audio)
        return True

    async def send_message(
        self, frame: OutputTransportMessageFrame | OutputTransportMessageUrgentFrame
    ) -> None:
        self.messages.append(frame.message)

    async def cleanup(self) -> None:
        if self._sender is not None:
            await self.cancel_task(self._sender)
            self._sender = None
        await super().cleanup()  # type: ignore[no-untyped-call]

    def note_sent(self, now_secs: float, samples: np.ndarray[Any, np.dtype[np.int16]]) -> None:
        """Reads the words off 10 ms that left. For voices whose samples say nothing, override it."""
        counts = word_counts(samples)
        if counts:
            self.words_sent.append((now_secs, counts))

    async def _send(self, track: RawAudioTrack) -> None:
        while True:
            sent = await track.recv()  # type: ignore[no-untyped-call]
            now_secs = time.monotonic()
            self.note_sent(now_secs, sent.to_ndarray()[0])
            for sink in self.sinks:
                sink(now_secs, track._timestamp)

    def word_at(self, at_secs: float) -> int:
        """Number of the word that was leaving, or had left last, at a time; -1 before the first."""
        last = -1
        for sent_secs, counts in self.words_sent:
            if sent_secs <= at_secs:
                last = max(counts)
        return last

    def heard_words(self, script: Script, at_secs: float) -> int:
        """Words of which at least half had left by `at_secs`, counted from the first."""
        totals: dict[int, int] = {}
        for sent_secs, counts in self.words_sent:
            if sent_secs <= at_secs:
                for number, count in counts.items():
                    totals[number] = totals.get(number, 0) + count
        durations = script.durations
        heard = 0
        while heard < len(durations) and totals.get(heard, 0) >= durations[heard] / 2:
            heard += 1
        return heard


class Top(FrameProcessor):
    """First in the pipeline; client messages enter here, as from an input transport."""

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        await self.push_frame(frame, direction)


class SimulatedClient:
    def __init__(self, client: Client, output: TrackOutput, top: Top) -> None:
        self._client, self._top, self._output = client, top, output
        self._played = 0
        self._index = 0
        self._epoch = 0
        self._arrivals: list[tuple[float, int]] = []
        self._rng = random.Random(client.seed)
        self._sends: set[asyncio.Task[None]] = set()
        output.sinks.append(
            lambda now_secs, position: self._arrivals.append((now_secs + client.delay_secs, position))
        )

    async def run(self) -> None:
        if self._client.ack_delay_secs is None:
            return
        started = time.monotonic()
        while True:
            await asyncio.sleep(self._client.period_secs)
            now_secs = time.monotonic()
            while self._index < len(self._arrivals) and self._arrivals[self._index][0] <= now_secs:
                self._played = self._arrivals[self._index][1]
                self._index += 1
            stops = self._client.stops_after_secs
            if self._played and (stops is None or now_secs - started < stops):
                task = asyncio.create_task(self._send(self._played))
                self._sends.add(task)
                task.add_done_callback(self._sends.discard)

    def lose(self) -> None:
        """The connection breaks: what was on its way is lost, and nothing is acknowledged until audio comes again."""
        self._arrivals.clear()
        self._played, self._index = 0, 0

    def _learn_epoch(self) -> None:
        """The bot says with each turn which track it is on."""
        turns = [message for message in self._output.messages if message.get("t") == "turn"]
        if turns:
            self._epoch = turns[-1]["epoch"]

    async def _send(self, samples: int) -> None:
        self._learn_epoch()
        delay_secs = (self._client.ack_delay_secs or 0.0) + self._rng.uniform(0, self._client.ack_jitter_secs)
        await asyncio.sleep(delay_secs)
        message = {
            "v": 1,
            "t": "ack",
            "epoch": self._epoch,
            "r": None,
            "samples": samples,
            "turn": None,
            "live": True,
        }
        await self._top.push_frame(InputTransportMessageFrame(message=message))

    async def close(self) -> None:
        for task in list(self._sends):
            task.cancel()
