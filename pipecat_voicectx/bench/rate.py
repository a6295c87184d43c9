"""Does the bot speak as fast as its caller? A fixed response speed against ours, on real synthesized audio.

Eight callers talk at 110 to 240 words per minute, six turns each. The orchestrator asks a scripted model over the real
protocol; what is measured is the audio that the voice produced.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from loguru import logger
from pipecat.frames.frames import (
    Frame,
    LLMMessagesAppendFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
    TTSStoppedFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies
from pipecat.workers.runner import WorkerRunner

from pipecat_voicectx.demo.espeak import Synthesis, synthesize
from pipecat_voicectx.demo.espeak_tts import EspeakTTSService, EspeakTTSSettings
from pipecat_voicectx.errors import UnavailableError, UsageError
from pipecat_voicectx.playback.heard import BoundaryEvidence, HeardTurn
from pipecat_voicectx.processors.frames import HeardTurnFrame
from pipecat_voicectx.processors.orchestrator import Orchestrator
from pipecat_voicectx.processors.speaking_rate_tracker import SpeakingRateTracker
from pipecat_voicectx.testing import virtual_time
from pipecat_voicectx.testing.openai_server import ChatRequest, OpenAIServer, Reply, ToolCall

__all__ = ["add_arguments", "run"]

RATE_HZ = 24_000
# What the voice delivers when nobody sets it: the middle of the callers' range, so that "fixed" is at its best.
FIXED_WPM = 175.0
CALLERS = 8
SLOWEST_WPM, FASTEST_WPM = 110, 240
# A speaker's own scatter from turn to turn. Chosen: a tenth either way.
SCATTER = 0.1
QUICK_CALLERS = 2
# Virtual seconds; a response takes six.
ANSWER_WITHIN_SECS = 30.0

SENTENCES = (
    "I would like to book a table for four people near the station next Friday evening.",
    "Can you tell me how much it costs to send a parcel from Boston to Chicago overnight?",
    "My internet connection keeps dropping every afternoon and I have restarted the router already.",
    "The meeting with the marketing team was moved from Tuesday morning to Thursday afternoon.",
    "Please remind me to call my grandmother tomorrow before noon and to pick up the blue jacket.",
    "We are looking for a quiet place by the sea with good food and not too many people.",
    "I ordered a pair of shoes last week and they arrived in the wrong size and colour.",
    "Could you check whether there is an earlier train that does not stop in every village?",
    "The washing machine makes a strange noise when it spins and then it shows an error.",
    "I need to change the address on my account because we moved to a new flat in May.",
    "Do you know if the museum is open on Monday and whether we should book the tickets before?",
    "My daughter starts school in September and we still need a desk and a lamp for her room.",
)
_GREET: Any = {"role": "user", "content": "(The caller is connected.)"}
ANSWERS = (
    "Certainly, let me have a look at that for you and tell you what would be possible today.",
    "Thank you for telling me, I have written it down and will come back to it in a moment.",
    "That is no problem at all, there are two ways of doing it and both are free of charge.",
    "I can see it here in front of me, and it should be ready for you by tomorrow morning.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    text: str
    wpm: float
    """What the caller's audio really delivers."""
    speech: Synthesis


@dataclass(slots=True)
class _Spoken:
    """A bot's responses as audio."""

    wpms: list[float] = field(default_factory=list)
    requests: int = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `voicectx bench rate`."""
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="two callers instead of eight")
    size.add_argument("--full", action="store_true", help="accepted for uniformity")
    parser.add_argument("--seed", type=int, default=1, help="scatters the callers' turns (default 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")


def run(args: argparse.Namespace) -> int:
    """Runs the bench and prints its figures."""
    logger.remove()
    try:
        callers = _callers(seed=args.seed, count=QUICK_CALLERS if args.quick else CALLERS)
    except UsageError as error:
        print(f"voicectx bench rate: {error}", file=sys.stderr)
        return 2
    errors: dict[str, list[float]] = {"fixed": [], "voicectx": []}
    requests = {"fixed": 0, "voicectx": 0}
    for turns in callers:
        for name in errors:
            spoken = virtual_time.run(_call(turns, adapting=name == "voicectx"))
            requests[name] += spoken.requests
            errors[name] += [abs(bot - turn.wpm) for bot, turn in zip(spoken.wpms, turns, strict=True)]
    fixed, ours = statistics.mean(errors["fixed"]), statistics.mean(errors["voicectx"])
    result: dict[str, Any] = {
        "version": 1,
        "seed": args.seed,
        "settings": {
            "callers": len(callers),
            "fixed_wpm": FIXED_WPM,
            "voice": "eSpeak NG",
            "llm": "scripted",
        },
        "utterances": len(errors["fixed"]),
        "mae_fixed_wpm": round(fixed, 2),
        "mae_voicectx_wpm": round(ours, 2),
        "reduction": round(1.0 - ours / fixed, 4),
        "llm_requests": requests,
    }
    print(f"{result['utterances']} caller turns at {SLOWEST_WPM}-{FASTEST_WPM} words per minute, eSpeak NG")
    print(f"fixed speed  mean error {fixed:5.1f} wpm, {requests['fixed']} requests")
    print(f"voicectx     mean error {ours:5.1f} wpm, {requests['voicectx']} requests")
    print(f"reduction    {result['reduction']:.1%}")
    if args.json is not None:
        args.json.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    return 0


def _callers(*, seed: int, count: int) -> list[list[_Turn]]:
    random = np.random.default_rng(seed)
    # Evenly over the range whatever the count, so that a quick run has a slow and a fast caller.
    bases = np.linspace(SLOWEST_WPM / (1 - SCATTER / 2), FASTEST_WPM / (1 + SCATTER / 2), count)
    callers = []
    for number, base in enumerate(bases):
        turns = []
        for i in range(6):
            text = SENTENCES[(6 * number + i) % len(SENTENCES)]
            wanted = float(base * (1 + random.uniform(-SCATTER / 2, SCATTER / 2)))
            # The synthesizer delivers by syllables: a second attempt corrects for this text's words.
            first = synthesize(text, words_per_minute=wanted, sample_rate_hz=RATE_HZ)
            asked = wanted * wanted / _wpm(text, first)
            speech = synthesize(text, words_per_minute=asked, sample_rate_hz=RATE_HZ)
            turns.append(_Turn(text=text, wpm=_wpm(text, speech), speech=speech))
        callers.append(turns)
    return callers


def _wpm(text: str, speech: Synthesis) -> float:
    secs = (speech.words[-1].end_sample - speech.words[0].start_sample) / RATE_HZ
    return len(text.split()) * 60.0 / secs


def _fixed_setting() -> float:
    """The setting at which the answers come out at `FIXED_WPM` on average."""
    delivered = [
        _wpm(text, synthesize(text, words_per_minute=FIXED_WPM, sample_rate_hz=RATE_HZ)) for text in ANSWERS
    ]
    return FIXED_WPM * FIXED_WPM / statistics.mean(delivered)


class _Model:
    """Matches the caller's speed when the states show another one. Scripted."""

    def __init__(self) -> None:
        self.answers = 0

    def reply(self, request: ChatRequest) -> Reply:
        roles = [str(message.get("role")) for message in request.messages]
        since_user = request.messages[len(roles) - roles[::-1].index("user") :]
        state = next((text for text in map(_text, since_user) if text.startswith("<voice_state>")), "")
        shown = re.search(r"Caller speaks (\d+) wpm", state)
        if shown and "tool" not in [message.get("role") for message in since_user]:
            wpm = min(300, max(100, int(shown[1])))
            return Reply(
                tool_calls=(ToolCall(name="set_response_speed", arguments={"words_per_minute": wpm}),)
            )
        self.answers += 1
        return Reply(text=ANSWERS[self.answers % len(ANSWERS)])


def _text(message: Any) -> str:
    return str(message.get("content"))


class _Ears(FrameProcessor):
    """Measures each response from its audio."""

    def __init__(self, model: _Model) -> None:
        super().__init__()
        self._model = model
        self._pieces: list[bytes] = []
        self.secs: list[float] = []

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSAudioRawFrame):
            self._pieces.append(frame.audio)
        elif isinstance(frame, TTSStoppedFrame) and self._pieces:
            self.secs.append(_voiced_secs(b"".join(self._pieces)))
            self._pieces.clear()
            await self._settle(self.secs[-1])
        await self.push_frame(frame, direction)

    async def _settle(self, secs: float) -> None:
        """Everything was heard: what the playback ledger would say."""
        now_secs = time.monotonic()
        turn = HeardTurn(
            turn_id=len(self.secs),
            heard_text=_last_answer(self._model),
            unheard_text="",
            interrupted=False,
            evidence=BoundaryEvidence.WORD,
            estimated=False,
            played_samples=round(secs * RATE_HZ),
            sample_rate_hz=RATE_HZ,
            started_secs=now_secs,
            ended_secs=now_secs,
        )
        await self.broadcast_frame(HeardTurnFrame, turn=turn)


def _voiced_secs(audio: bytes) -> float:
    """Length from the first to the last sound that stands 40 dB above silence."""
    samples = np.abs(np.frombuffer(audio, np.int16).astype(np.int32))
    loud = np.flatnonzero(samples > 100)
    return float(loud[-1] - loud[0]) / RATE_HZ if len(loud) else 0.0


async def _call(turns: Sequence[_Turn], *, adapting: bool) -> _Spoken:
    model = _Model()
    spoken, ears = _Spoken(), _Ears(model)
    async with OpenAIServer(model) as server:
        llm = OpenAILLMService(api_key="scripted", base_url=server.base_url)
        tts = EspeakTTSService(
            settings=EspeakTTSSettings(words_per_minute=_fixed_setting()), sample_rate=RATE_HZ
        )
        stop = SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0.3)
        pair = LLMContextAggregatorPair(
            LLMContext(),
            user_params=LLMUserAggregatorParams(user_turn_strategies=UserTurnStrategies(stop=[stop])),
        )
        parts: list[FrameProcessor] = [pair.user(), llm, tts, ears, pair.assistant()]
        if adapting:
            parts = [SpeakingRateTracker(), pair.user(), Orchestrator(llm=llm, tts=tts), *parts[1:]]
        worker = PipelineWorker(
            Pipeline(parts),
            params=PipelineParams(audio_out_sample_rate=RATE_HZ),
            enable_rtvi=False,
            cancel_on_idle_timeout=False,
        )
        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(worker)
        running = asyncio.create_task(runner.run())
        await asyncio.sleep(0.2)
        try:
            # The bot greets first, as bots do; that is not counted.
            await worker.queue_frame(LLMMessagesAppendFrame(messages=[_GREET], run_llm=True))
            await _answered(ears, 1)
            for turn in turns:
                before = len(ears.secs)
                await _speak(worker, turn)
                await _answered(ears, before + 1)
                spoken.wpms.append(len(_last_answer(model).split()) * 60.0 / ears.secs[-1])
        finally:
            spoken.requests = len(server.requests)
            await worker.cancel()
            await running
    return spoken


async def _answered(ears: _Ears, count: int) -> None:
    deadline_secs = time.monotonic() + ANSWER_WITHIN_SECS
    while len(ears.secs) < count:
        if time.monotonic() > deadline_secs:
            raise UnavailableError("the bot never answered")
        await asyncio.sleep(0.05)


def _last_answer(model: _Model) -> str:
    return ANSWERS[model.answers % len(ANSWERS)]


async def _speak(worker: PipelineWorker, turn: _Turn) -> None:
    words = [
        {"word": word.text, "start": word.start_sample / RATE_HZ, "end": word.end_sample / RATE_HZ}
        for word in turn.speech.words
    ]
    await worker.queue_frame(VADUserStartedSpeakingFrame(start_secs=0.2))
    await asyncio.sleep(len(turn.speech.samples) / RATE_HZ)
    await worker.queue_frame(VADUserStoppedSpeakingFrame(stop_secs=0.2))
    await asyncio.sleep(0.1)
    await worker.queue_frame(
        TranscriptionFrame(text=turn.text, user_id="caller", timestamp="", result=words, finalized=True)
    )
