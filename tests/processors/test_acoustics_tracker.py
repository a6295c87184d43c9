from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    Frame,
    InputAudioRawFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
    UserStoppedSpeakingFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.tests.utils import SleepFrame, run_test

from pipecat_voicectx.processors.acoustics_tracker import AcousticsTracker
from pipecat_voicectx.processors.frames import AcousticsFrame, AffectFrame
from pipecat_voicectx.states.acoustics import AcousticState
from pipecat_voicectx.states.affect import AffectEvidence, AffectReading, AffectState
from pipecat_voicectx.testing import virtual_time
from tests.signals.voices import Samples, noise, pcm, voice

STEP = 320


def audio(samples: Samples) -> list[Frame]:
    """20 ms frames when they are due."""
    frames: list[Frame] = []
    data = pcm(samples)
    for at in range(0, len(data), 2 * STEP):
        frames.append(InputAudioRawFrame(audio=data[at : at + 2 * STEP], sample_rate=16_000, num_channels=1))
        frames.append(SleepFrame(sleep=0.02))
    return frames


def room(secs: float, *, level: float = 0.0005, seed: int = 1) -> list[Frame]:
    return audio(noise(secs, level=level, seed=seed))


def turn(
    text: str,
    *,
    f0_hz: float = 120,
    level: float = 0.05,
    secs: float = 2.4,
    vibrato: float = 0.05,
    room_level: float = 0.0005,
) -> list[Frame]:
    """One turn of the caller: speech, 0.2 s of delay on both sides, the transcript, the turn's end."""
    tone, _ = voice(f0_hz, secs, level=level, vibrato=vibrato)
    at = np.arange(len(tone)) / 16_000
    swelling = (tone * (0.05 + np.sin(np.pi * at / 0.2) ** 2)).astype(np.float32)
    sound = audio((swelling + noise(secs, level=room_level, seed=3)).astype(np.float32))
    return [
        *sound[:20],
        VADUserStartedSpeakingFrame(start_secs=0.2),
        *sound[20:],
        *room(0.2, level=room_level),
        VADUserStoppedSpeakingFrame(stop_secs=0.2),
        TranscriptionFrame(text=text, user_id="ann", timestamp=""),
        UserStoppedSpeakingFrame(),
        *room(1.0, level=room_level, seed=2),
    ]


@dataclass
class Heard:
    acoustics: list[AcousticState] = field(default_factory=list)
    affects: list[AffectState] = field(default_factory=list)
    down: list[Frame] = field(default_factory=list)

    @property
    def labels(self) -> list[str | None]:
        return [state.reading.label if state.reading else None for state in self.affects]


def play(frames: list[Frame], **options: Any) -> tuple[Heard, AcousticsTracker]:
    async def main() -> tuple[Heard, AcousticsTracker]:
        tracker, heard = AcousticsTracker(**options), Heard()

        async def on_acoustics(_tracker: AcousticsTracker, state: AcousticState) -> None:
            heard.acoustics.append(state)

        async def on_affect(_tracker: AcousticsTracker, state: AffectState) -> None:
            heard.affects.append(state)

        tracker.add_event_handler("on_acoustics", on_acoustics)
        tracker.add_event_handler("on_affect", on_affect)
        down, _ = await run_test(tracker, frames_to_send=frames)
        await asyncio.sleep(0)
        heard.down = list(down)
        return heard, tracker

    return virtual_time.run(main())


def test_the_room_is_told_when_the_caller_pauses() -> None:
    heard, tracker = play([*room(1.5), *turn("hello there")])
    (state,) = heard.acoustics
    # The voice swells and fades: its mean is 4 dB below its peaks.
    assert state.snr_db == pytest.approx(36.0, abs=3.0)
    assert state.noisy is False
    assert state.echo is None
    assert tracker.acoustics == state
    assert [frame.state for frame in heard.down if isinstance(frame, AcousticsFrame)] == [state]


def test_loud_noise_is_told() -> None:
    heard, _ = play([*room(1.5, level=0.03), *turn("hello there", room_level=0.03)])
    assert heard.acoustics[-1].noisy


def test_every_frame_of_audio_goes_on_in_order() -> None:
    frames = [*room(1.0), *turn("hello")]
    heard, _ = play(frames)
    sent = [frame.audio for frame in frames if isinstance(frame, InputAudioRawFrame)]
    assert [frame.audio for frame in heard.down if isinstance(frame, InputAudioRawFrame)] == sent


def test_a_raised_voice_is_told_after_some_turns_and_before_the_turn_ends() -> None:
    usual = [turn(f"sentence number {number}", f0_hz=118 + number) for number in range(5)]
    raised = turn("sentence number nine", f0_hz=190, level=0.2, vibrato=0.25)
    heard, tracker = play([*room(1.5), *(frame for part in usual for frame in part), *raised])
    assert heard.labels[-1] == "aroused"
    assert set(heard.labels[:-1]) == {None}
    assert tracker.affect.turn == 6
    kinds = [type(frame) for frame in heard.down if isinstance(frame, AffectFrame | UserStoppedSpeakingFrame)]
    assert kinds[-2:] == [AffectFrame, UserStoppedSpeakingFrame]


def test_words_of_feeling_are_told_even_when_the_transcript_comes_after_the_turn() -> None:
    heard, _ = play([*room(1.5), *turn("I am really angry about my bill.")])
    assert heard.labels == [None, "anger"]
    assert [frame.state for frame in heard.down if isinstance(frame, AffectFrame)] == heard.affects


def test_another_speaker_has_no_baseline_yet() -> None:
    parts = [turn(f"sentence number {number}") for number in range(5)]
    stranger = turn("now somebody else", f0_hz=220, level=0.2, vibrato=0.25)
    for frame in stranger:
        if isinstance(frame, TranscriptionFrame):
            frame.user_id = "bob"
    heard, _ = play([*room(1.5), *(frame for part in parts for frame in part), *stranger])
    assert heard.affects[-1].reading is None
    assert heard.affects[-1].arousal is None


def test_without_affect_no_feeling_is_estimated() -> None:
    heard, _ = play([*room(1.5), *turn("I am really angry about my bill.")], affect=None)
    assert heard.affects == []
    assert heard.acoustics


class Output(FrameProcessor):
    """Stands for the output transport: only what it writes matters."""


def speech(secs: float, seed: int) -> Samples:
    tone, _ = voice(150, secs, seed=seed)
    rng = np.random.default_rng(seed)
    shape = np.repeat(rng.choice([0.003, 0.05, 0.4, 1.0], size=int(secs / 0.1) + 1), 1_600)[: len(tone)]
    shaped: Samples = (tone * shape).astype(np.float32)
    return shaped


class Talk(AcousticsTracker):
    """Writes the bot's voice to the output as the caller's frames come by."""

    def __init__(self, output: Output, bot: bytes) -> None:
        super().__init__(output=output)
        self.bot, self.at, self.speaker = bot, 0, output

    async def audio_passed(self, frame: InputAudioRawFrame) -> None:
        data, self.at = self.bot[self.at : self.at + 640], self.at + 640
        if data:
            written = TTSAudioRawFrame(audio=data, sample_rate=16_000, num_channels=1)
            await self.speaker._call_event_handler("on_before_push_frame", written)
        await super().audio_passed(frame)


@pytest.mark.parametrize("echoes", [True, False])
def test_the_bots_own_voice_in_the_microphone_is_told(echoes: bool) -> None:
    async def main() -> AcousticState:
        bot = speech(9.0, 4)
        other = np.concatenate([np.zeros(3_200, np.float32), (bot if echoes else speech(9.0, 5)) * 0.1])
        tracker = Talk(Output(), pcm(bot))
        frames = [
            BotStartedSpeakingFrame(),
            *audio((other[: len(bot)] + noise(9.0, level=0.0005)).astype(np.float32)),
            BotStoppedSpeakingFrame(),
        ]
        await run_test(tracker, frames_to_send=frames)
        return tracker.acoustics

    state = virtual_time.run(main())
    assert state.echo is echoes
    if echoes:
        assert state.echo_delay_secs == pytest.approx(0.2, abs=0.13)


class Model:
    def __init__(self, *, fails: bool = False, hangs: bool = False, confidence: float = 0.9) -> None:
        self.wants_audio = True
        self.seen: list[AffectEvidence] = []
        self.fails, self.hangs, self.confidence = fails, hangs, confidence

    async def estimate(self, evidence: AffectEvidence) -> AffectReading | None:
        self.seen.append(evidence)
        if self.fails:
            raise RuntimeError("the model is gone")
        if self.hangs:
            await asyncio.Event().wait()
        return AffectReading(label="joy", valence=0.8, confidence=self.confidence)


def test_an_estimator_of_the_host_takes_the_place_of_the_rules_and_is_given_the_sound() -> None:
    model = Model()
    heard, _ = play([*room(1.5), *turn("thank you so much")], estimator=model)
    assert heard.labels[-1] == "joy"
    last = model.seen[-1]
    assert last.text == "thank you so much"
    assert last.sample_rate_hz == 16_000
    assert len(last.audio) / 32_000 == pytest.approx(2.9, abs=0.5)


def test_the_hosts_estimator_may_not_claim_below_the_least_confidence_either() -> None:
    heard, _ = play([*room(1.5), *turn("thank you so much")], estimator=Model(confidence=0.1))
    assert set(heard.labels) == {None}


@pytest.mark.parametrize("model", [Model(fails=True), Model(hangs=True)])
def test_an_estimator_that_raises_or_hangs_costs_an_estimate_and_nothing_else(model: Model) -> None:
    heard, tracker = play([*room(1.5), *turn("one"), *turn("two"), *room(6.0)], estimator=model)
    assert heard.affects == []
    assert tracker.failures > 0
    assert sum(isinstance(frame, TranscriptionFrame) for frame in heard.down) == 2


def test_broken_frames_cost_a_count_and_nothing_else() -> None:
    odd = [
        InputAudioRawFrame(audio=b"", sample_rate=16_000, num_channels=1),
        InputAudioRawFrame(audio=b"\x01", sample_rate=16_000, num_channels=1),
        InputAudioRawFrame(audio=bytes(641), sample_rate=16_000, num_channels=1),
        InputAudioRawFrame(audio=bytes(640), sample_rate=8_000, num_channels=1),
        InputAudioRawFrame(audio=bytes(640), sample_rate=0, num_channels=1),
    ]
    heard, tracker = play([*room(1.5), *odd, *turn("?!"), *odd, *turn("hello")])
    assert sum(isinstance(frame, InputAudioRawFrame) for frame in heard.down) >= 10
    assert heard.acoustics
    assert tracker.failures == 0
