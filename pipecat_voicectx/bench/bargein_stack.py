"""The calls of the barge-in bench: one interruption each, on virtual time, through the real pipeline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from pipecat.frames.frames import InputAudioRawFrame, InterruptionFrame, LLMMessagesAppendFrame
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.llm import OpenAILLMService

from pipecat_voicectx.bench.bargein_listings import OPERATIONS, Listing, load_listings
from pipecat_voicectx.playback.clock import PlayoutClockConfig
from pipecat_voicectx.playback.heard import strip_cut_off_note
from pipecat_voicectx.processors.forward_gate import ForwardGate
from pipecat_voicectx.processors.playback_ledger import PlaybackLedger, PlaybackLedgerConfig
from pipecat_voicectx.testing.openai_server import ChatRequest, OpenAIServer, Reply
from pipecat_voicectx.testing.playback_harness import (
    Client,
    Scene,
    Script,
    Shape,
    run_barge_in,
    run_scene,
    word_counts,
)
from pipecat_voicectx.testing.realtime_harness import run_realtime, scripted_item

__all__ = ["GcmCase", "IdleRequest", "Listing", "Score", "load_listings", "run_gcm", "run_idle", "run_point"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One interruption."""

    heard: int
    """Words played at the client at the onset."""
    committed: int
    """Words of the script the record begins with."""
    dirty: bool
    """Whether the record holds anything else."""
    fallbacks: int
    """Texts that were dropped because nothing said where they ended."""
    repair_ms: float | None = None
    """CPU time the interruption cost in the ledger."""

    @property
    def over(self) -> int:
        """Words too many."""
        return max(0, self.committed - self.heard)

    @property
    def under(self) -> int:
        """Words too few."""
        return max(0, self.heard - self.committed)


def config_for(client: Client) -> PlaybackLedgerConfig:
    """The acknowledgements' way is measured (a round trip), as a network source would."""
    uplink_secs = client.ack_delay_secs if client.ack_delay_secs is not None else 0.02
    return PlaybackLedgerConfig(clock=PlayoutClockConfig(uplink_delay_secs=uplink_secs))


async def run_point(
    shape: str, at_secs: float, *, client: Client, stock: bool, delays_secs: Sequence[float]
) -> list[Score]:
    """One interruption of one shape, scored for clients that play at each of the delays."""
    if shape == "realtime":
        return await _run_realtime(at_secs, client=client, stock=stock, delays_secs=delays_secs)
    if shape == "reinject":
        return await _run_reinject(at_secs, client=client, stock=stock, delays_secs=delays_secs)
    settle_secs = 0.6 + (client.ack_delay_secs or 0.0)
    outcome = await run_barge_in(
        Shape(shape),
        at_secs,
        client=client,
        settle_secs=settle_secs,
        stock=stock,
        config=config_for(client),
        measure=_CutTimer.around,
        delays_secs=delays_secs,
    )
    return [
        Score(
            heard=heard,
            committed=outcome.committed,
            dirty=outcome.dirty,
            fallbacks=outcome.fallbacks,
            repair_ms=outcome.measured,
        )
        for heard in outcome.heard_at
    ]


async def _run_realtime(
    at_secs: float, *, client: Client, stock: bool, delays_secs: Sequence[float]
) -> list[Score]:
    script = Script()
    # Three items, of which the second stalls: what the wall clock cannot know.
    items = [
        scripted_item(script, 0, 3),
        scripted_item(script, 3, 3, pause_at_secs=1.0, pause_secs=1.5),
        scripted_item(script, 6, 2),
    ]
    outcome = await run_realtime(
        script, items, at_secs, client=client, stock=stock, config=config_for(client), delays_secs=delays_secs
    )
    committed, dirty = _prefix(outcome.text, script)
    return [
        Score(heard=heard, committed=committed, dirty=dirty, fallbacks=outcome.fallbacks)
        for heard in outcome.heard_at
    ]


async def _run_reinject(
    at_secs: float, *, client: Client, stock: bool, delays_secs: Sequence[float]
) -> list[Score]:
    """What an audio-only model is made to hear. Stock tells it nothing: it believes all it has generated."""
    script = Script()
    model = _AudioModel()

    def ahead(ledger: PlaybackLedger) -> Sequence[FrameProcessor]:
        return [ForwardGate(ledger=ledger), model]

    async def play(scene: Scene) -> list[Score]:
        await scene.answer()
        await scene.top.push_frame(_silence())
        await asyncio.sleep(at_secs)
        onset = await scene.interrupt()
        await asyncio.sleep(0.8)
        words = model.words()
        committed = len(script.words) if stock else max(words, default=-1) + 1
        gaps = words != list(range(min(words, default=0), max(words, default=-1) + 1))
        return [
            Score(
                heard=scene.output.heard_words(script, onset - delay),
                committed=committed,
                dirty=gaps,
                fallbacks=0,
            )
            for delay in delays_secs
        ]

    scores: list[Score] = await run_scene(
        Shape.SENTENCE,
        play,
        client=client,
        script=script,
        stock=stock,
        config=config_for(client),
        before_llm=ahead,
    )
    return scores


def _silence() -> InputAudioRawFrame:
    return InputAudioRawFrame(audio=bytes(960), sample_rate=24_000, num_channels=1)


class _AudioModel(FrameProcessor):
    """Stands where an audio-only model does."""

    def __init__(self) -> None:
        super().__init__()
        self._pcm = bytearray()

    async def process_frame(self, frame: Any, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, InputAudioRawFrame) and direction is FrameDirection.DOWNSTREAM:
            self._pcm += frame.audio
        await self.push_frame(frame, direction)

    def words(self) -> list[int]:
        """Words of which at least half can be heard in what it was given; the first may be cut by the window."""
        import numpy as np

        durations = Script().durations
        counts = word_counts(np.frombuffer(bytes(self._pcm) + bytes(2), np.int16))
        return sorted(number for number, count in counts.items() if count >= durations[number] / 2)


class _CutTimer:
    """CPU time the ledger takes for an interruption. Real time: the pipeline's clocks are virtual."""

    def __init__(self, ledger: PlaybackLedger) -> None:
        self._ledger, self._before = ledger, ledger._before
        self.ms: float | None = None
        ledger._before = self._timed_before  # type: ignore[method-assign]

    def close(self) -> None:
        self._ledger._before = self._before  # type: ignore[method-assign]

    @classmethod
    def around(cls, ledger: PlaybackLedger) -> _CutTimer:
        return cls(ledger)

    async def _timed_before(self, frame: Any, direction: FrameDirection) -> bool:
        if not isinstance(frame, InterruptionFrame) or self.ms is not None:
            return await self._before(frame, direction)
        started = time.thread_time()
        held = await self._before(frame, direction)
        self.ms = (time.thread_time() - started) * 1000
        return held


# Requests made while the bot is silent: what do they pay?


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleRequest:
    """One interruption of nothing, and the request after it."""

    edits: int
    """Messages changed or put in."""
    frames: int
    """Frames the ledger sent of its own."""
    held: int
    """Frames of the user's audio that waited at the gate."""
    ms: float
    """CPU time in the ledger."""


async def run_idle(requests: int) -> list[IdleRequest]:
    """The user speaks after an answer was heard to its end, several times."""
    gates: list[ForwardGate] = []
    script = Script(sentences=Script().sentences[:2])

    def ahead(ledger: PlaybackLedger) -> Sequence[FrameProcessor]:
        gates.append(ForwardGate(ledger=ledger))
        return gates

    async def play(scene: Scene) -> list[IdleRequest]:
        assert scene.ledger is not None
        measured = []
        for _ in range(requests):
            scene.tts.rewind()
            await scene.answer()
            await asyncio.sleep(script.secs + 3.0)
            own = _OwnFrames(scene.ledger)
            rewritten, timer = scene.ledger.rewritten, _CutTimer(scene.ledger)
            await scene.pair.user().broadcast_interruption()  # type: ignore[no-untyped-call]
            await scene.top.push_frame(_silence())
            await asyncio.sleep(0.05)
            measured.append(
                IdleRequest(
                    edits=scene.ledger.rewritten - rewritten,
                    frames=own.count,
                    held=gates[0].waiting,
                    ms=timer.ms or 0.0,
                )
            )
            own.close()
            timer.close()
        return measured

    idle: list[IdleRequest] = await run_scene(
        Shape.WORD, play, client=Client(), script=script, config=config_for(Client()), before_llm=ahead
    )
    return idle


class _OwnFrames:
    """Counts frames that leave the ledger and were never handed to it."""

    def __init__(self, ledger: PlaybackLedger) -> None:
        self.count = 0
        self._ledger = ledger
        self._received: set[int] = set()
        ledger.add_event_handler("on_before_process_frame", self._on_received)
        ledger.add_event_handler("on_before_push_frame", self._on_pushed)

    def close(self) -> None:
        self._ledger.remove_event_handler("on_before_process_frame", self._on_received)
        self._ledger.remove_event_handler("on_before_push_frame", self._on_pushed)

    def _on_received(self, _ledger: FrameProcessor, frame: Any) -> None:
        self._received.add(frame.id)

    def _on_pushed(self, _ledger: FrameProcessor, frame: Any) -> None:
        self.count += frame.id not in self._received


def _prefix(text: str, script: Script) -> tuple[int, bool]:
    said, words = text.split(), script.words
    committed = 0
    while committed < min(len(said), len(words)) and said[committed] == words[committed]:
        committed += 1
    return committed, committed != len(said)


# Listings: interrupted while an item is read out, is the item in the next request, and no later one?


@dataclass(frozen=True, slots=True, kw_only=True)
class GcmCase:
    """One listing, cut at one time, followed by one request."""

    listing: Listing
    delay_secs: float
    """From the query to the onset of the user's speech."""
    operation: str
    shape: str
    stock: bool


class _Lister:
    """Answers the first request with the list and every other with a word."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._asked = 0

    def reply(self, request: ChatRequest) -> Reply:
        self._asked += 1
        return Reply(
            text=self._text if self._asked == 1 else "Of course.", first_token_secs=0.3, token_secs=0.01
        )


async def run_gcm(case: GcmCase) -> bool:
    """Whether the request after the interruption is anchored at the item the user heard."""
    script = Script(sentences=case.listing.items)
    client = Client(delay_secs=0.15, ack_delay_secs=0.05)
    async with OpenAIServer(_Lister(" ".join(case.listing.items))) as server:
        llm = OpenAILLMService(
            api_key="none", base_url=server.base_url, settings=OpenAILLMService.Settings(model="scripted")
        )

        async def play(scene: Scene) -> bool:
            asked = time.monotonic()
            await scene.worker.queue_frame(
                LLMMessagesAppendFrame(
                    [{"role": "user", "content": f"Tell me about {case.listing.name}."}], run_llm=True
                )
            )
            await scene.bot_started.wait()
            await asyncio.sleep(asked + case.delay_secs - time.monotonic())
            onset = await scene.interrupt()
            await asyncio.sleep(1.2)
            await scene.worker.queue_frame(
                LLMMessagesAppendFrame(
                    [{"role": "user", "content": OPERATIONS[case.operation]}], run_llm=True
                )
            )
            await asyncio.sleep(1.0)
            playing = scene.output.word_at(onset - client.delay_secs)
            return _anchored(server.requests[-1].messages, script, playing) and len(server.requests) == 2

        anchored: bool = await run_scene(
            Shape(case.shape),
            play,
            client=client,
            script=script,
            stock=case.stock,
            config=config_for(client),
            llm=llm,
        )
        return anchored


def _anchored(messages: Sequence[Mapping[str, object]], script: Script, playing: int) -> bool:
    answers = [str(message["content"]) for message in messages if message["role"] == "assistant"]
    if len(answers) != 1 or playing < 0:
        return False
    committed, dirty = _prefix(strip_cut_off_note(answers[0]), script)
    ends = list(accumulate(len(item.split()) for item in script.sentences))
    item = next(index for index, end in enumerate(ends) if playing < end)
    first = ends[item] - len(script.sentences[item].split())
    return not dirty and first < committed <= ends[item]
