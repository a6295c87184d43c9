"""The recorded caller: speaks on cue, loses packets, plays the bot on a clock, says what it has played.

Everything it does follows from the scenario and from what it hears; it knows nothing of the bot's insides. The same
caller runs in its own process over WebRTC and, for `--fast`, beside the bot on a virtual clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from aiortc.mediastreams import MediaStreamError
from pipecat.processors.frameworks.rtvi.models import PROTOCOL_VERSION

from pipecat_voicectx.demo.events import EventLog
from pipecat_voicectx.demo.microphone import FRAME_SAMPLES, LossGate, Microphone, caller_audio
from pipecat_voicectx.demo.playout import PauseDetector, Playout
from pipecat_voicectx.demo.recorded_stt import RECORDING_MESSAGE, recording_message
from pipecat_voicectx.demo.recording import Recording
from pipecat_voicectx.demo.scenario import AfterBotSilence, BargeIn, Call, Role, Scenario, Utterance
from pipecat_voicectx.errors import UnavailableError

__all__ = ["CLIENT_DELAY_SECS", "Connect", "run_caller"]

# Chosen: a browser's jitter buffer plus its output, of the order measured for Chromium (100-250 ms).
CLIENT_DELAY_SECS = 0.2
TRACK_RATE_HZ = 24_000
"""Rate of the bot's track, which positions in events and acknowledgements are counted in."""
# Chosen: between the pause at a comma (0.18 s at 170 WPM) and the one between two sentences (0.28 s).
MIN_PAUSE_SECS = 0.22

_TICK_SECS = 0.02
_ACK_SECS = 0.1
_PING_SECS = 1.0
_READY_RETRY_SECS = 0.5
# Chosen: a person would say "hello?" once and hang up.
_MAX_UNANSWERED = 2
# Chosen: ICE and DTLS on loopback take 0.3 s, the bot's first import of a model up to 10 s on two cores.
_CONNECT_TIMEOUT_SECS = 30.0

Connect = Callable[[Any, int], Awaitable[None]]
"""Signals a peer's offer for call number n and applies the answer."""


async def run_caller(
    scenario: Scenario, *, log: EventLog, new_peer: Callable[[], Any], connect: Connect
) -> None:
    """Plays all calls of a scenario, one after the other.

    Raises:
        BadInputError: A recording is damaged.
        UnavailableError: A call could not be connected, or the bot's audio never came.
    """
    audio = caller_audio(scenario)
    for number, call in enumerate(scenario.calls, start=1):
        live = _LiveCall(scenario, audio, log, new_peer())
        try:
            await live.connect(connect, number)
            await live.play(call)
        finally:
            await live.close()


class _LiveCall:
    """One connection."""

    def __init__(
        self, scenario: Scenario, audio: Mapping[str, npt.NDArray[np.int16]], log: EventLog, peer: Any
    ) -> None:
        self._scenario = scenario
        self._audio = audio
        self._log = log
        self._peer = peer
        self._microphone = Microphone()
        self._gate = LossGate(self._on_loss)
        self._playout = Playout(delay_secs=CLIENT_DELAY_SECS, track_rate_hz=TRACK_RATE_HZ)
        self._detector = PauseDetector(min_pause_secs=MIN_PAUSE_SECS)
        self._tasks: list[asyncio.Task[None]] = []
        self._epoch = 0
        self._message_number = 0
        self._ready = asyncio.Event()
        self._unanswered = 0
        self._first_rtp = 0
        self._began_secs = 0.0

    async def connect(self, connect: Connect, number: int) -> None:
        """Brings the call up and starts the clockwork."""
        connected = asyncio.Event()
        transceiver = self._peer.addTransceiver(self._microphone, direction="sendrecv")
        self._channel = self._peer.createDataChannel("voicectx")
        self._channel.on("message", self._on_message)
        self._peer.on("track", lambda track: self._start(self._listen(track)))

        def on_state() -> None:
            if self._peer.connectionState == "connected":
                connected.set()

        self._peer.on("connectionstatechange", on_state)
        self._gate.install(transceiver.sender.transport)
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_SECS):
                await connect(self._peer, number)
                # Bundling may have moved the audio to another transport, before anything was sent.
                self._gate.install(transceiver.sender.transport)
                await connected.wait()
                self._first_rtp = await self._gate.first_timestamp(_CONNECT_TIMEOUT_SECS)
                await self._bot_ready()
        except TimeoutError:
            raise UnavailableError(
                f"call {number} did not connect within {_CONNECT_TIMEOUT_SECS:.0f} s; see the bot's output"
            ) from None
        self._began_secs = time.monotonic()
        self._log.write("call_start", call=number)
        self._start(self._tick())

    async def _bot_ready(self) -> None:
        """Tells the bot that we listen and waits until it does, as every RTVI client."""
        about = {"version": PROTOCOL_VERSION, "about": {"library": "pipecat-voicectx demo caller"}}
        while not self._ready.is_set():
            self._send(json.dumps({"label": "rtvi-ai", "type": "client-ready", "id": "ready", "data": about}))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ready.wait(), _READY_RETRY_SECS)

    async def play(self, call: Call) -> None:
        """Follows the call's script to its end."""
        for index, utterance in enumerate(call.utterances):
            await self._await_cue(utterance.cue, is_first=index == 0)
            await self._speak(utterance)
        await self._await_cue(call.hang_up, is_first=False)
        self._log.write("hangup")

    async def close(self) -> None:
        """Hangs up; safe to call twice."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self._peer.close()

    def _start(self, coroutine: Any) -> None:
        self._tasks.append(asyncio.ensure_future(coroutine))

    async def _await_cue(self, cue: AfterBotSilence | BargeIn, *, is_first: bool) -> None:
        deadline_secs = time.monotonic() + cue.timeout_secs
        while (now_secs := time.monotonic()) < deadline_secs:
            match cue:
                case AfterBotSilence():
                    silent_secs = (
                        self._detector.silent_secs(now_secs=now_secs) if self._detector.spoke else 0.0
                    )
                    if is_first and not self._detector.spoke:
                        silent_secs = now_secs - self._began_secs
                    if silent_secs >= cue.secs:
                        return
                case BargeIn():
                    pauses = self._detector.pauses
                    if len(pauses) >= cue.after_pauses:
                        due_secs = pauses[cue.after_pauses - 1].start_secs + cue.plus_secs
                        await asyncio.sleep(max(0.0, due_secs - now_secs))
                        return
            await asyncio.sleep(_TICK_SECS / 2)
        self._log.write("cue_timeout")
        self._unanswered = 0 if self._detector.spoke else self._unanswered + 1
        if self._unanswered >= _MAX_UNANSWERED:
            raise UnavailableError(f"the bot said nothing after {_MAX_UNANSWERED} utterances; see its output")

    async def _speak(self, utterance: Utterance) -> None:
        recording = self._scenario.recordings[utterance.id]
        samples = self._audio[utterance.id]
        first_frame, began_secs = await self._microphone.speak(samples)
        for packet in range(len(samples) // FRAME_SAMPLES + 1):
            if utterance.is_lost(packet):
                self._gate.drop(first_frame + packet)
        rtp = (self._first_rtp + first_frame * FRAME_SAMPLES) % (1 << 32)
        self._send_message(RECORDING_MESSAGE, recording_message(utterance.id, rtp))
        self._log.write("utterance", **_utterance_fields(utterance, recording, self._log.at(began_secs)))
        onset_secs = began_secs + recording.words[0][1]
        if utterance.role is Role.BARGE_IN:
            await asyncio.sleep(max(0.0, onset_secs - time.monotonic()))
            position = self._playout.track_sample(now_secs=onset_secs)
            self._acknowledge(onset_secs)
            self._log.write(
                "barge_in", at=self._log.at(onset_secs), id=utterance.id, track_sample=position or 0
            )
        await asyncio.sleep(max(0.0, began_secs + recording.speech_end_secs - time.monotonic()))
        self._detector.restart()

    async def _listen(self, track: Any) -> None:
        with contextlib.suppress(MediaStreamError):
            while True:
                frame = await track.recv()
                peak = int(np.abs(frame.to_ndarray().astype(np.int32)).max())
                self._playout.add(frame.pts, peak, now_secs=time.monotonic())

    async def _tick(self) -> None:
        """The loudspeaker's clock: plays, acknowledges, keeps the connection alive."""
        next_ack_secs = next_ping_secs = started_secs = time.monotonic()
        ticks = 0
        while True:
            now_secs = time.monotonic()
            for piece in self._playout.advance(now_secs=now_secs):
                self._detector.add(piece)
            if now_secs >= next_ping_secs:
                self._send("ping")
                next_ping_secs += _PING_SECS
            if now_secs >= next_ack_secs:
                self._acknowledge(now_secs)
                next_ack_secs += _ACK_SECS
            ticks += 1
            await asyncio.sleep(max(0.0, started_secs + ticks * _TICK_SECS - time.monotonic()))

    def _acknowledge(self, now_secs: float) -> None:
        position = self._playout.track_sample(now_secs=now_secs)
        if position is None:
            return
        self._log.write("played", at=self._log.at(now_secs), track_sample=position)
        ack = {"v": 1, "t": "ack", "epoch": self._epoch, "r": None, "samples": position, "turn": None}
        self._send_message("voicectx", {**ack, "age": 0, "pd": 0, "live": True})

    def _send_message(self, kind: str, data: Mapping[str, object]) -> None:
        """In RTVI's envelope, which Pipecat's own clients use."""
        self._message_number += 1
        envelope = {"label": "rtvi-ai", "type": "client-message", "id": str(self._message_number)}
        self._send(json.dumps({**envelope, "data": {"t": kind, "d": data}}))

    def _send(self, text: str) -> None:
        if self._channel.readyState == "open":
            self._channel.send(text)

    def _on_message(self, data: object) -> None:
        with contextlib.suppress(ValueError, TypeError):
            message = json.loads(str(data))
            if message.get("type") == "bot-ready":
                self._ready.set()
            if message.get("type") == "server-message":  # RTVI's envelope
                message = message.get("data")
            if isinstance(message, dict) and message.get("v") == 1:
                self._on_server_message(message)

    def _on_server_message(self, message: Mapping[str, object]) -> None:
        epoch, after = message.get("epoch"), message.get("after_sample")
        if isinstance(epoch, int):
            self._epoch = epoch
        if message.get("t") == "revoke" and isinstance(after, int):
            self._playout.drop_after(after)

    def _on_loss(self, start_secs: float, end_secs: float, packets: int) -> None:
        self._log.write(
            "loss", at=self._log.at(start_secs), end=round(self._log.at(end_secs), 4), packets=packets
        )


def _utterance_fields(utterance: Utterance, recording: Recording, at: float) -> dict[str, Any]:
    words = [[word, round(at + start, 4), round(at + end, 4)] for word, start, end in recording.words]
    return {
        "at": at,
        "id": utterance.id,
        "end": round(at + recording.duration_secs, 4),
        "text": recording.text,
        "words": words,
        "wpm": round(recording.words_per_minute, 1),
    }
