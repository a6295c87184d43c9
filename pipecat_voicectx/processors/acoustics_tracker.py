"""`AcousticsTracker`: hears what surrounds the caller's words, and how they sound.

Place it behind the speech-to-text service and in front of the user aggregator. Voice activity reaches it from either
side, transcripts come by, audio passes without a stop. Between turns it looks at levels only; pitch is worked out
while somebody speaks.

Affect is an inference about a person. Some jurisdictions restrict it or ask for notice (in the EU, the AI Act); leave
it out with `affect=None` where it must not be made.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

from loguru import logger
from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    CancelFrame,
    EndFrame,
    Frame,
    InputAudioRawFrame,
    OutputAudioRawFrame,
    TranscriptionFrame,
    UserStoppedSpeakingFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor

from pipecat_voicectx.memory.feelings import feelings_in
from pipecat_voicectx.processors.audio_lane import AudioLane
from pipecat_voicectx.processors.frames import AcousticsFrame, AffectFrame, NetworkStateFrame
from pipecat_voicectx.runtimes.frame_listeners import listen, stop_listening
from pipecat_voicectx.signals.echo import EchoDetector
from pipecat_voicectx.signals.levels import LevelBlock, LevelMeter
from pipecat_voicectx.sources.affect_estimator import AffectEstimator
from pipecat_voicectx.states.acoustics import AcousticConfig, AcousticEstimator, AcousticState
from pipecat_voicectx.states.affect import AffectConfig, AffectReading, AffectState
from pipecat_voicectx.states.turn_affect import TurnAffectCollector

__all__ = ["AcousticsTracker"]

# Blocks kept from before a detector noticed speech: it needs 0.2 s. Chosen: twice that.
LOOK_BACK_SECS = 0.5
# While the bot speaks, its voice is looked for so often.
ECHO_PERIOD_SECS = 1.0
# An estimator of the host's own that takes longer is given up; a turn is over by then. Chosen.
ESTIMATE_TIMEOUT_SECS = 5.0


class AcousticsTracker(AudioLane):
    """Pushes `AcousticsFrame` and `AffectFrame` downstream when the states changed.

    The affect of a turn is known in steps: from the voice when speech pauses, with the words when a final transcript
    comes, each in front of what may end the turn.

    Event handlers: `on_acoustics(tracker, state: AcousticState)` and `on_affect(tracker, state: AffectState)`, with
    every pushed state.
    """

    def __init__(
        self,
        *,
        output: FrameProcessor | None = None,
        acoustics: AcousticConfig | None = None,
        affect: AffectConfig | None = AffectConfig(),  # noqa: B008  frozen
        estimator: AffectEstimator | None = None,
        name: str | None = None,
    ) -> None:
        """Args:
        output: The output transport, whose writes are compared with the microphone. None: no echo is looked for.
        acoustics: When noise and distortion are worth acting on.
        affect: When an estimate is claimed. None: no affect is estimated at all.
        estimator: An affect estimator of your own. None: the caller's voice against its own baseline, and the words.
        """
        super().__init__(name=name)
        self._meter = LevelMeter()
        # When a block begins is known from when it is full, so it is kept short.
        self._bot_meter = LevelMeter(frames_per_block=5)
        self._acoustics = AcousticEstimator(acoustics)
        self._affect = None if affect is None else TurnAffectCollector(affect)
        self._estimator = estimator
        if self._affect is not None and estimator is not None and estimator.wants_audio:
            self._affect.keep_audio()
        self._echo = EchoDetector()
        self._output = output
        self._recent: deque[LevelBlock] = deque(maxlen=16)
        self._speaking = False
        self._bot_spoke_secs: float | None = None
        self._compared_secs = float("-inf")
        self._pushed_affect = AffectState()
        self._estimating: asyncio.Task[None] | None = None
        self.failures = 0
        """Frames whose evaluation failed; each was forwarded all the same."""
        for event in ("on_acoustics", "on_affect"):
            self._register_event_handler(event)
        if output is not None:
            listen(output, "on_before_push_frame", self._bot_audio)

    @property
    def acoustics(self) -> AcousticState:
        """The acoustic state now."""
        return self._acoustics.state

    @property
    def affect(self) -> AffectState:
        """The affect of the latest turn."""
        return self._pushed_affect

    async def audio_passed(self, frame: InputAudioRawFrame) -> None:
        """Looks at a frame of caller audio."""
        try:
            block = self._meter.add(
                frame.audio, sample_rate_hz=frame.sample_rate, channels=frame.num_channels
            )
            if block is not None:
                await self._block(block, time.monotonic())
        except (
            Exception
        ) as error:  # The outer edge: audio was forwarded; a call must not end over a measurement.
            await self._failed(error)

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        await self.push_frame(frame, direction)
        try:
            await self._observe(frame)
        except Exception as error:  # The outer edge, as above.
            await self._failed(error)

    async def cleanup(self) -> None:
        await super().cleanup()  # type: ignore[no-untyped-call]
        if self._output is not None:
            stop_listening(self._output, "on_before_push_frame", self._bot_audio)
            self._output = None
        await self._give_up_estimate()

    async def _failed(self, error: Exception) -> None:
        self.failures += 1
        if self.failures == 1:
            await self.push_error(f"acoustics not updated: {type(error).__name__}", exception=error)

    async def _observe(self, frame: Frame) -> None:
        now_secs = time.monotonic()
        match frame:
            case InputAudioRawFrame():
                await self.audio_passed(frame)
            case VADUserStartedSpeakingFrame():
                await self._flush(now_secs)
                self._speech_started(now_secs - frame.start_secs)
            case VADUserStoppedSpeakingFrame():
                await self._flush(now_secs)
                await self._speech_stopped(now_secs - frame.stop_secs)
            case TranscriptionFrame() if self._affect is not None:
                self._affect.final(frame.text, words=_feeling(frame.text), speaker=frame.user_id or "")
                await self._publish_affect()
            case UserStoppedSpeakingFrame() if self._affect is not None:
                self._affect.turn_ended()
            case NetworkStateFrame() if self._affect is not None:
                self._affect.lost_total(frame.state.concealed_total_secs)
            case BotStartedSpeakingFrame():
                self._bot_spoke_secs = float("inf")
            case BotStoppedSpeakingFrame():
                self._bot_spoke_secs = now_secs
            case EndFrame() | CancelFrame():
                await self._give_up_estimate()
            case _:
                pass

    # Audio

    async def _flush(self, now_secs: float) -> None:
        """What was heard before a change belongs to the state before it."""
        block = self._meter.flush()
        if block is not None:
            await self._block(block, now_secs)

    async def _block(self, block: LevelBlock, now_secs: float) -> None:
        self._acoustics.add_frames(block.powers, block.clipped, ended_secs=now_secs)
        if self._affect is not None:
            if self._speaking:
                self._affect.add(block)
            else:
                self._recent.append(block)
        if self._output is None or self._bot_spoke_secs is None:
            return
        self._echo.add_microphone(block.powers, ended_secs=now_secs)
        # The voice still comes back for a while after the bot stopped.
        if now_secs - self._bot_spoke_secs < ECHO_PERIOD_SECS < now_secs - self._compared_secs:
            self._compared_secs = now_secs
            evidence = self._echo.compare(now_secs=now_secs)
            if evidence is not None and self._acoustics.add_echo(evidence):
                await self._publish_acoustics()

    def _speech_started(self, started_secs: float) -> None:
        self._acoustics.speech_started(started_secs)
        self._speaking = True
        if self._affect is not None:
            blocks = list(self._recent)
            self._recent.clear()
            secs = 0.0
            first = len(blocks)
            while first > 0 and secs < LOOK_BACK_SECS:
                first -= 1
                secs += len(blocks[first].samples) / blocks[first].rate_hz
            self._affect.speech_started(blocks[first:])

    async def _speech_stopped(self, ended_secs: float) -> None:
        self._speaking = False
        if self._acoustics.speech_stopped(ended_secs):
            await self._publish_acoustics()
        if self._affect is not None:
            self._affect.speech_stopped(
                floor_power=self._acoustics.floor_power, snr_db=self._acoustics.state.snr_db
            )
            await self._publish_affect()

    def _bot_audio(self, _output: FrameProcessor, frame: Frame) -> None:
        if isinstance(frame, OutputAudioRawFrame):
            block = self._bot_meter.add(
                frame.audio, sample_rate_hz=frame.sample_rate, channels=frame.num_channels
            )
            if block is not None:
                self._echo.add_bot(block.powers, started_secs=time.monotonic())

    # States

    async def _publish_acoustics(self) -> None:
        state = self._acoustics.state
        logger.debug("{}: SNR {} dB, echo {}", self, state.snr_db and round(state.snr_db), state.echo)
        await self.push_frame(AcousticsFrame(state=state))
        await self._call_event_handler("on_acoustics", state)

    async def _publish_affect(self) -> None:
        assert self._affect is not None
        if self._estimator is not None:
            await self._give_up_estimate()
            self._estimating = self.create_task(self._ask(self._estimator), "affect")
            return
        await self._push_affect(self._affect.state())

    async def _push_affect(self, state: AffectState) -> None:
        if state == self._pushed_affect or state.turn == 0:
            return
        self._pushed_affect = state
        logger.debug("{}: affect {}", self, state.reading.label if state.reading else None)
        await self.push_frame(AffectFrame(state=state))
        await self._call_event_handler("on_affect", state)

    async def _ask(self, estimator: AffectEstimator) -> None:
        assert self._affect is not None
        evidence = self._affect.evidence()
        if evidence is None:
            return
        try:
            async with asyncio.timeout(ESTIMATE_TIMEOUT_SECS):
                reading = await estimator.estimate(evidence)
            await self._push_affect(self._affect.state_with(evidence, reading))
        except Exception as error:  # A foreign estimator may raise anything; the turn stays unjudged.
            await self._failed(error)

    async def _give_up_estimate(self) -> None:
        task, self._estimating = self._estimating, None
        if task is not None and not task.done():
            await self.cancel_task(task)


def _feeling(text: str) -> AffectReading | None:
    """The strongest feeling that a transcript puts into words."""
    readings = [feeling.reading for feeling in feelings_in(text)]
    return max(readings, key=lambda reading: abs(reading.valence) * reading.confidence, default=None)
