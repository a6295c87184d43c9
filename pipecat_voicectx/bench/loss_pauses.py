"""What the pause profile does: false ends and latency of quick and slow speakers and of dictated digits.

Each speaker has a call of twelve turns on a clean line, through the real turn-taking stack; the profile learns on the
way, and all turns count. Part of `voicectx bench loss`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from pipecat.frames.frames import Frame, TranscriptionFrame, VADUserStoppedSpeakingFrame
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.turns.user_stop import (
    BaseUserTurnStopStrategy,
    SpeechTimeoutUserTurnStopStrategy,
    TurnAnalyzerUserTurnStopStrategy,
)
from pipecat.turns.user_turn_strategies import UserTurnStrategies

from pipecat_voicectx.bench.loss_audio import (
    LEAD_SECS,
    NOISE_RMS,
    PACKET,
    PACKET_SECS,
    RATE_HZ,
    Arrival,
    Pcm,
)
from pipecat_voicectx.bench.loss_hearing import STT_DELAY_SECS, Ear, SharedEar, SmartTurn
from pipecat_voicectx.bench.loss_line import AudioEnds, CallLine
from pipecat_voicectx.bench.loss_speech import PLAIN, SPEAKERS, VOICES, spoken
from pipecat_voicectx.bench.loss_tables import TurnEnd
from pipecat_voicectx.orchestrator.turn_hold import TurnHoldConfig
from pipecat_voicectx.processors.turn_hold_install import install_turn_hold
from pipecat_voicectx.states.pause_profile import PauseProfileConfig

__all__ = ["pause_rows"]

TURNS = 12
# Silence behind each turn: longer than anything that ends one.
GAP_SECS = 4.0
# Pauses inside turns. Chosen: at a comma, of a speaker who thinks, and between groups of digits.
ORDINARY_PAUSES_SECS = (0.15, 0.5)
SLOW_PAUSES_SECS, DIGIT_PAUSES_SECS = (0.5, 1.1), (0.5, 1.2)
WORDS_PER_MINUTE = {"quick": 215.0, "ordinary": 170.0, "slow": 125.0, "digits": 140.0}
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Segment:
    text: str
    end_secs: float


@dataclass(slots=True)
class _Call:
    samples: list[Pcm] = field(default_factory=list)
    segments: list[_Segment] = field(default_factory=list)
    turns: list[tuple[float, float]] = field(default_factory=list)
    secs: float = 0.0

    def silence(self, secs: float) -> None:
        self.samples.append(np.zeros(round(secs * RATE_HZ), np.int16))
        self.secs += len(self.samples[-1]) / RATE_HZ

    def speech(self, text: str, sound: Pcm, end: int) -> None:
        self.samples.append(sound)
        self.segments.append(_Segment(text=text, end_secs=self.secs + end / RATE_HZ))
        self.secs += len(sound) / RATE_HZ


def _call(speaker: str, *, seed: int) -> _Call:
    random = np.random.default_rng([seed, SPEAKERS.index(speaker)])
    voice = VOICES[int(random.integers(len(VOICES)))]
    call = _Call()
    call.silence(LEAD_SECS)
    for number in range(TURNS):
        started_secs = call.secs
        parts, pauses = _parts(speaker, number, random)
        for index, part in enumerate(parts):
            if index:
                call.silence(float(random.uniform(*pauses)))
            wpm = WORDS_PER_MINUTE[speaker] * float(random.uniform(0.93, 1.07))
            call.speech(part, *spoken(part, words_per_minute=wpm, voice=voice))
        call.turns.append((started_secs, call.segments[-1].end_secs))
        call.silence(GAP_SECS)
    return call


def _parts(speaker: str, number: int, random: np.random.Generator) -> tuple[list[str], tuple[float, float]]:
    if speaker == "digits":
        groups = [" ".join(random.choice(_DIGITS, 3)) for _ in range(3)]
        return [f"the number is {groups[0]}", *groups[1:]], DIGIT_PAUSES_SECS
    words = PLAIN[(number + int(random.integers(len(PLAIN)))) % len(PLAIN)].split()
    if speaker == "quick":
        return [" ".join(words[: int(random.integers(6, 12))])], (0.0, 0.0)
    cuts = sorted({int(random.integers(4, 8)), int(random.integers(9, 13))})
    if speaker == "ordinary":
        # Every other turn without a pause.
        cuts = cuts[: number % 2]
    parts = [" ".join(words[a:b]) for a, b in zip([0, *cuts], [*cuts, len(words)], strict=True)]
    return parts, SLOW_PAUSES_SECS if speaker == "slow" else ORDINARY_PAUSES_SECS


class _Recogniser(FrameProcessor):
    """A final transcript after each stop of voice activity, with what was said by then."""

    def __init__(self, segments: Sequence[_Segment], start_secs: float) -> None:
        super().__init__()
        self._left = list(segments)
        self._start_secs = start_secs

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, VADUserStoppedSpeakingFrame):
            self.create_task(self._later(time.monotonic() - self._start_secs))
        await self.push_frame(frame, direction)

    async def _later(self, now_secs: float) -> None:
        await asyncio.sleep(STT_DELAY_SECS)
        said = [segment for segment in self._left if segment.end_secs <= now_secs]
        self._left = self._left[len(said) :]
        text = " ".join(segment.text for segment in said) or "mm"
        await self.push_frame(TranscriptionFrame(text=text, user_id="u", timestamp="", finalized=True))


class _Listener:
    """One strategy, with or without the profile."""

    def __init__(self, call: _Call, ear: SharedEar, start_secs: float, *, model: bool, profile: bool) -> None:
        self.name = f"{'smart_turn' if model else 'silence0.6'}.{'profile' if profile else 'stock'}"
        self.stops_secs: list[float] = []
        self._start_secs = start_secs
        strategy: BaseUserTurnStopStrategy = (
            TurnAnalyzerUserTurnStopStrategy(turn_analyzer=SmartTurn())
            if model
            else SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0.6)
        )
        pair = LLMContextAggregatorPair(
            LLMContext(),
            user_params=LLMUserAggregatorParams(
                vad_analyzer=Ear(ear), user_turn_strategies=UserTurnStrategies(stop=[strategy])
            ),
        )
        pair.user().add_event_handler("on_user_turn_stopped", self._stopped)
        # Without a network tracker: what the line does to a turn is the other bench's question.
        if profile:
            install_turn_hold(pair.user(), TurnHoldConfig(pauses=PauseProfileConfig()))
        self.line = CallLine(
            [_Recogniser(call.segments, start_secs), pair.user(), AudioEnds(), pair.assistant()]
        )

    async def _stopped(self, *_: object) -> None:
        self.stops_secs.append(time.monotonic() - self._start_secs)


async def pause_rows(speaker: str, *, seed: int) -> dict[str, list[TurnEnd]]:
    """One call of a speaker, by listener."""
    call = _call(speaker, seed=seed)
    noise = np.random.default_rng(seed).normal(0, NOISE_RMS, sum(map(len, call.samples)))
    samples = (np.concatenate(call.samples) + noise).clip(-32768, 32767).astype(np.int16)
    ear, start_secs = SharedEar(), time.monotonic() + 0.3
    listeners = [
        _Listener(call, ear, start_secs, model=model, profile=profile)
        for model in (False, True)
        for profile in (False, True)
    ]
    for listener in listeners:
        await listener.line.start()
    for index in range(len(samples) // PACKET):
        at_secs = (index + 1) * PACKET_SECS
        await asyncio.sleep(max(0.0, start_secs + at_secs - time.monotonic()))
        audio = samples[index * PACKET : (index + 1) * PACKET].tobytes()
        for listener in listeners:
            await listener.line.hear(Arrival(at_secs=at_secs, pts=None, audio=audio))
    rows = {listener.name: _turns(call, listener.stops_secs) for listener in listeners}
    await asyncio.gather(*(listener.line.stop() for listener in listeners))
    return rows


def _turns(call: _Call, stops_secs: Sequence[float]) -> list[TurnEnd]:
    rows: list[TurnEnd] = []
    for started_secs, ended_secs in call.turns:
        early = any(started_secs <= at < ended_secs for at in stops_secs)
        after = [at - ended_secs for at in stops_secs if ended_secs <= at < ended_secs + GAP_SECS]
        rows.append((early, after[0] if after else None))
    return rows
