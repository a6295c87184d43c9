"""A backchannel or a cough over the bot's voice starts no turn and cancels nothing.

`CandidateTurnStartStrategy` takes the place of Pipecat's two default start strategies (voice activity, transcripts).
While the bot is silent it does what they do. While the bot speaks, the machine in `playback.speech_candidate` decides
whether speech is an interruption. Turns that a service or another strategy starts are none of its business.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from loguru import logger
from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    Frame,
    InterimTranscriptionFrame,
    TranscriptionFrame,
    UserBackchannelFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.processors.aggregators.llm_response_universal import LLMUserAggregator
from pipecat.turns.types import ProcessFrameResult
from pipecat.turns.user_start import (
    BaseUserTurnStartStrategy,
    TranscriptionUserTurnStartStrategy,
    VADUserTurnStartStrategy,
)
from pipecat.turns.user_turn_controller import UserTurnController
from pipecat.turns.user_turn_strategies import UserTurnStrategies

from pipecat_voicectx.playback.speech_candidate import (
    CandidateVerdict,
    SpeechCandidate,
    SpeechCandidateConfig,
)
from pipecat_voicectx.private_reads import private

__all__ = ["CandidateTurnStartStrategy", "install_candidate_start"]


class CandidateTurnStartStrategy(BaseUserTurnStartStrategy):  # type: ignore[no-untyped-call]
    """Starts a turn when the user takes the floor. See the module's text."""

    def __init__(
        self, config: SpeechCandidateConfig | None = None, *, was_asked: Callable[[], bool] | None = None
    ) -> None:
        """Args:
        config: When speech over the bot's voice is an interruption.
        was_asked: Whether the last sentence heard whole is a question (`PlaybackLedger.has_asked`). None: never.
        """
        super().__init__()
        self._was_asked = was_asked or (lambda: False)
        self._candidate = SpeechCandidate(config=config or SpeechCandidateConfig())
        self._in_turn = False
        self._timer: asyncio.Task[None] | None = None
        self.backchannels = 0
        """Transcripts that were one."""

    async def cleanup(self) -> None:
        """Release the timer. Idempotent."""
        await super().cleanup()  # type: ignore[no-untyped-call]
        if self._timer is not None:
            await self.cancel_task(self._timer)
            self._timer = None

    async def handle_user_turn_started(self) -> None:
        """A turn began, whoever started it."""
        self._in_turn = True
        self._candidate.turn_started()

    async def handle_user_turn_stopped(self) -> None:
        """The turn is over."""
        self._in_turn = False

    async def process_frame(self, frame: Frame) -> ProcessFrameResult:
        """Decides by what is said and for how long.

        Args:
            frame: The frame.

        Returns:
            STOP when a turn was started.
        """
        verdict = self._verdict(frame)
        self._arm_timer()
        if self._in_turn:
            return ProcessFrameResult.CONTINUE
        match verdict:
            case CandidateVerdict.CONFIRM:
                await self.trigger_user_turn_started()
                return ProcessFrameResult.STOP
            case CandidateVerdict.BACKCHANNEL if isinstance(frame, TranscriptionFrame):
                self.backchannels += 1
                await self.trigger_reset_aggregation()  # type: ignore[no-untyped-call]
                await self.push_frame(
                    UserBackchannelFrame(text=frame.text, user_id=frame.user_id, timestamp=frame.timestamp)
                )
            case _:
                pass
        return ProcessFrameResult.CONTINUE

    def _verdict(self, frame: Frame) -> CandidateVerdict:
        match frame:
            case VADUserStartedSpeakingFrame():
                return self._candidate.speech_started(time.monotonic())
            case VADUserStoppedSpeakingFrame():
                self._candidate.speech_stopped()
            case TranscriptionFrame() | InterimTranscriptionFrame():
                return self._candidate.transcribed(frame.text, was_asked=self._was_asked())
            case BotStartedSpeakingFrame():
                self._candidate.bot_started()
            case BotStoppedSpeakingFrame():
                return self._candidate.bot_stopped()
            case _:
                pass
        return CandidateVerdict.NOTHING

    def _arm_timer(self) -> None:
        if self._timer is None and self._candidate.next_deadline() is not None:
            self._timer = self.create_task(self._wait(), "speech lasts")

    async def _wait(self) -> None:
        while (due := self._candidate.next_deadline()) is not None and time.monotonic() < due:  # noqa: ASYNC110
            await asyncio.sleep(max(0.001, due - time.monotonic()))
        self._timer = None
        if self._candidate.tick(time.monotonic()) is CandidateVerdict.CONFIRM and not self._in_turn:
            await self.trigger_user_turn_started()


def install_candidate_start(
    aggregator: LLMUserAggregator,
    config: SpeechCandidateConfig | None = None,
    *,
    was_asked: Callable[[], bool] | None = None,
) -> bool:
    """Puts the strategy where `aggregator` starts turns by Pipecat's defaults, now and after a service changes them.

    Call it before the pipeline starts. Start strategies chosen by the host or a service stay as they are.

    Returns:
        False when the aggregator is built differently than expected, which one warning says.
    """
    controller = private(aggregator, "_user_turn_controller")
    if not isinstance(controller, UserTurnController):
        logger.warning("{}: no turn controller found; a cough may interrupt", aggregator)
        return False
    _replace_defaults(controller.user_turn_strategies, config, was_asked)
    update = controller.update_strategies

    async def update_replaced(strategies: UserTurnStrategies) -> None:
        _replace_defaults(strategies, config, was_asked)
        await update(strategies)

    controller.update_strategies = update_replaced  # type: ignore[method-assign]
    return True


def _replace_defaults(
    strategies: UserTurnStrategies,
    config: SpeechCandidateConfig | None,
    was_asked: Callable[[], bool] | None,
) -> None:
    defaults = (VADUserTurnStartStrategy, TranscriptionUserTurnStartStrategy)
    start = strategies.start or []
    if {type(strategy) for strategy in start} == set(defaults):
        strategies.start = [CandidateTurnStartStrategy(config, was_asked=was_asked)]
