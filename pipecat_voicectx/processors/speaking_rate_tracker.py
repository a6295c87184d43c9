"""`SpeakingRateTracker`: hears how fast the caller speaks.

Place it behind the speech-to-text service and in front of the user aggregator, which consumes transcripts. Voice
activity reaches it from either side: upstream from the aggregator's detector, downstream from a `VADProcessor`.
"""

from __future__ import annotations

import time

from loguru import logger
from pipecat.frames.frames import (
    Frame,
    TranscriptionFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.processors.frame_processor import FrameDirection

from pipecat_voicectx.processors.audio_lane import AudioLane
from pipecat_voicectx.processors.frames import SpeakingRateFrame
from pipecat_voicectx.processors.network_tracker import NetworkTracker
from pipecat_voicectx.sources.stt_words import read_timed_words
from pipecat_voicectx.states.network import NetworkSource, NetworkState
from pipecat_voicectx.states.speaking_rate import SpeakingRateEstimator, SpeakingRateState
from pipecat_voicectx.states.utterances import UtteranceJoiner

__all__ = ["SpeakingRateTracker"]

# What these report is missing from the audio altogether; others say that something stands in its place.
_CUTTING = {NetworkSource.AUDIO_PTS, NetworkSource.JITTER_BUFFER}


class SpeakingRateTracker(AudioLane):
    """Estimates the caller's speaking rate from final transcripts and pushes `SpeakingRateFrame`s downstream.

    Event handlers: `on_speaking_rate(tracker, state: SpeakingRateState)` whenever the estimate changed.
    """

    def __init__(
        self, *, default_language: str | None = "en", window: int = 10, name: str | None = None
    ) -> None:
        """Args:
        default_language: Base language code assumed for Latin script when the recogniser names none; None assumes
            nothing and leaves the rate unknown then.
        window: Utterances the estimate is made of.
        """
        super().__init__(name=name)
        self._estimator = SpeakingRateEstimator(window=window)
        self._joiner = UtteranceJoiner(self._estimator, default_language=default_language)
        self._pushed = self._estimator.state
        self._said_no_times = False
        self._lost_total_secs = 0.0
        self._filled_total_secs = 0.0
        self.failures = 0
        """Frames whose evaluation failed; each was forwarded all the same."""
        self._register_event_handler("on_speaking_rate")

    def listen_to(self, network: NetworkTracker) -> None:
        """Counts audio that the line lost as spoken. The tracker of the line stands behind this one."""
        network.add_event_handler("on_network_state", self._line_changed)

    @property
    def state(self) -> SpeakingRateState:
        """The estimate now."""
        return self._estimator.state

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        await self.push_frame(frame, direction)
        if isinstance(frame, (TranscriptionFrame, VADUserStartedSpeakingFrame, VADUserStoppedSpeakingFrame)):
            changed = self._evaluate(frame)
            if changed:
                # A system frame: it overtakes the transcript, and is known before the turn it may end.
                await self._publish()

    def _evaluate(
        self, frame: TranscriptionFrame | VADUserStartedSpeakingFrame | VADUserStoppedSpeakingFrame
    ) -> bool:
        now_secs = time.monotonic()
        try:
            match frame:
                case VADUserStartedSpeakingFrame():
                    return self._joiner.speech_started(now_secs - frame.start_secs)
                case VADUserStoppedSpeakingFrame():
                    return self._joiner.speech_stopped(now_secs - frame.stop_secs)
                case TranscriptionFrame():
                    return self._transcript(frame)
        except Exception as error:  # The outer edge: a wrong rate must not cost a word of the call.
            self.failures += 1
            logger.warning("{}: speaking rate not updated ({})", self, type(error).__name__)
            return False

    def _transcript(self, frame: TranscriptionFrame) -> bool:
        words = read_timed_words(frame.result)
        if not words and frame.text and frame.result is not None and not self._said_no_times:
            self._said_no_times = True
            logger.info(
                "{}: no word times in a result of type {}; voice activity is used instead",
                self,
                type(frame.result).__name__,
            )
        return self._joiner.final(
            frame.text,
            words=words or (),
            language=str(frame.language) if frame.language else None,
            speaker=frame.user_id or "",
        )

    async def _line_changed(self, network: NetworkTracker, state: NetworkState) -> None:
        lost_secs = state.concealed_total_secs - self._lost_total_secs
        self._lost_total_secs = state.concealed_total_secs
        # What was filled for the recogniser is on its clock, like audio that somebody else concealed.
        filled_secs = min(lost_secs, network.concealed_for_stt_secs - self._filled_total_secs)
        self._filled_total_secs = network.concealed_for_stt_secs
        self._joiner.lost(filled_secs, cut_out=False)
        self._joiner.lost(lost_secs - filled_secs, cut_out=bool(_CUTTING & set(state.sources)))

    async def _publish(self) -> None:
        state = self._estimator.state
        if state == self._pushed:
            return
        self._pushed = state
        logger.debug("{}: {} {}", self, state.rate and round(state.rate), state.unit.value)
        await self.push_frame(SpeakingRateFrame(state=state))
        await self._call_event_handler("on_speaking_rate", state)
