"""`NetworkTracker`: watches what the line from the caller does to the audio.

Place it behind the speech-to-text service and in front of the user aggregator, so that the turn-hold wrapper in the
aggregator reads its `NetworkStateFrame`s. It looks at every frame of caller audio (presentation times, arrivals,
samples) and, every 50 ms in one task of its own, at the statistics of the transport.

Given a SmallWebRTC transport, it also replaces aiortc's jitter buffer by one that loses only what was lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from loguru import logger
from pipecat.frames.frames import (
    CancelFrame,
    EndFrame,
    Frame,
    InputAudioRawFrame,
    InputTransportMessageFrame,
    SpeechControlParamsFrame,
    StartFrame,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.processors.frameworks.rtvi.frames import RTVIClientMessageFrame
from pipecat.services.stt_service import STTService
from pipecat.transports.base_transport import BaseTransport

from pipecat_voicectx.orchestrator.directives import SetVadSilenceDuration
from pipecat_voicectx.processors.audio_lane import AudioLane
from pipecat_voicectx.processors.client_reception import ClientReception
from pipecat_voicectx.processors.frames import DirectiveFrame, NetworkStateFrame
from pipecat_voicectx.processors.stats_poller import StatsPoller
from pipecat_voicectx.processors.stt_concealment import SttConcealment
from pipecat_voicectx.signals.abrupt_cuts import AbruptCutDetector
from pipecat_voicectx.signals.audio_gaps import AudioGap, PtsGapDetector
from pipecat_voicectx.signals.concealment_pattern import (
    ConcealedAudio,
    ConcealmentPatternDetector,
    SilenceGate,
    decoded,
)
from pipecat_voicectx.signals.discontinuous import DiscontinuousSender
from pipecat_voicectx.sources.client_messages import RTVI_MESSAGE_TYPE, is_client_message
from pipecat_voicectx.sources.daily_stats import DailyStatsSource
from pipecat_voicectx.sources.small_webrtc import SmallWebRTCLink
from pipecat_voicectx.sources.stats_source import StatsSource
from pipecat_voicectx.states.network import NetworkConfig, NetworkEstimator, NetworkSource, NetworkState

__all__ = ["NetworkTracker"]

# LOV, section 4.1.
SAMPLE_PERIOD_SECS = 0.05
# While impaired, the state is repeated this often even if nothing but the time moved. Chosen.
REPEAT_SECS = 0.25
# Where nobody better counts, the samples are looked at.
_HINTS_HELP = (None, NetworkSource.AUDIO_PATTERN, NetworkSource.DAILY_STATS)
# Packets are counted when they arrive, and their gap is seen after the jitter buffer, or up to a poll (50 ms) earlier.
# Chosen: the deepest usual jitter buffer.
LOSS_SEEN_WITHIN_SECS = 1.0
# Honest zeros for this long are a muted microphone, not a pause of a noise gate. Chosen; untested.
MUTED_AFTER_SECS = 0.3


class NetworkTracker(AudioLane):
    """Pushes `NetworkStateFrame`s downstream when the uplink changed materially, at most every 50 ms.

    Event handlers: `on_network_state(tracker, state: NetworkState)` with every pushed state;
    `on_audio_gap(tracker, gap: AudioGap)` for each stretch of audio that never came.
    """

    def __init__(
        self,
        *,
        transport: BaseTransport | None = None,
        stats: Sequence[StatsSource] = (),
        config: NetworkConfig | None = None,
        stt: FrameProcessor | None = None,
        pts_clock_hz: int | None = None,
        name: str | None = None,
    ) -> None:
        """Args:
        transport: The bot's transport. SmallWebRTC: its statistics are read, mutes are heard and the jitter buffer
            is replaced. Daily: its client's statistics are read. Others: arrivals, presentation times, samples.
        stats: Further sources of reception counters.
        config: Thresholds.
        stt: The service that short holes are filled for, where the configuration asks for it.
        pts_clock_hz: What presentation times count in; None finds out.
        """
        super().__init__(name=name)
        self._config = config or NetworkConfig()
        self._estimator = NetworkEstimator(self._config)
        self._pts = PtsGapDetector(clock_hz=pts_clock_hz)
        self._gate = SilenceGate()
        self._patterns = ConcealmentPatternDetector()
        self._cuts = AbruptCutDetector()
        daily = [DailyStatsSource(transport)] if DailyStatsSource.fits(transport) else []
        self._poller = StatsPoller([*stats, *daily], self._estimator)
        self._link = SmallWebRTCLink.of(transport, on_hole_secs=self._on_hole)
        self._track_muted = False
        self._dtx = DiscontinuousSender()
        self._hole_secs = float("-inf")
        self._concealment = self._concealing(stt, pts_clock_hz)
        self._client = ClientReception(self._estimator)
        self._task: asyncio.Task[None] | None = None
        self._pushed: NetworkState | None = None
        self._pushed_secs = float("-inf")
        self._gaps: list[AudioGap] = []
        self.failures = 0
        """Frames whose evaluation failed; each was forwarded all the same."""
        self._register_event_handler("on_network_state")
        self._register_event_handler("on_audio_gap")

    @property
    def state(self) -> NetworkState:
        """The uplink now."""
        return self._estimator.state(time.monotonic())

    @property
    def concealed_for_stt_secs(self) -> float:
        """Audio that was invented for the speech-to-text service since the call began."""
        return self._concealment.filled_secs if self._concealment is not None else 0.0

    @property
    def failed_reads(self) -> int:
        """Reads of statistics that raised or hung."""
        return self._poller.failures

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        await self.push_frame(frame, direction)
        match frame:
            case InputAudioRawFrame():
                await self.audio_passed(frame)
            case StartFrame():
                self._start()
            case EndFrame() | CancelFrame():
                await self._stop()
            case RTVIClientMessageFrame() if frame.type == RTVI_MESSAGE_TYPE:
                self._client.take(frame.data)
            case InputTransportMessageFrame() if is_client_message(frame.message):
                self._client.take(frame.message)
            case SpeechControlParamsFrame() if frame.vad_params is not None:
                self._estimator.set_silence_threshold(frame.vad_params.stop_secs)
            case DirectiveFrame(directive=SetVadSilenceDuration(duration_ms=duration_ms)):
                self._estimator.set_silence_threshold((duration_ms or 0) / 1000.0)
            case _:
                pass

    async def cleanup(self) -> None:
        await super().cleanup()  # type: ignore[no-untyped-call]
        await self._stop()
        if self._link is not None:
            self._link.detach()
        if self._concealment is not None:
            self._concealment.detach()

    def _concealing(self, stt: FrameProcessor | None, pts_clock_hz: int | None) -> SttConcealment | None:
        longest_secs = self._config.conceal_for_stt_secs
        if longest_secs <= 0.0:
            return None
        if not isinstance(stt, STTService):
            logger.warning("{}: conceal_for_stt_secs is set, but `stt` is no STTService: holes stay", self)
            return None
        return SttConcealment(stt, longest_secs=longest_secs, pts_clock_hz=pts_clock_hz)

    def _start(self) -> None:
        if self._task is None:
            self._task = self.create_task(self._sample(), "sample")

    async def _stop(self) -> None:
        if self._task is not None:
            task, self._task = self._task, None
            await self.cancel_task(task)

    async def audio_passed(self, frame: InputAudioRawFrame) -> None:
        """Looks at a frame of caller audio."""
        now_secs = time.monotonic()
        try:
            if self._evaluate_audio(frame, now_secs):
                await self._publish(now_secs)
        except (
            Exception
        ) as error:  # The outer edge: audio was forwarded; a call must not end over a measurement.
            self.failures += 1
            if self.failures == 1:
                await self.push_error(f"network state not updated: {type(error).__name__}", exception=error)

    def _evaluate_audio(self, frame: InputAudioRawFrame, now_secs: float) -> bool:
        """Returns whether the state may have changed; what only time changes, the next sample will see."""
        bytes_per_sec = frame.sample_rate * frame.num_channels * 2
        if bytes_per_sec <= 0 or not frame.audio:
            return False
        secs = len(frame.audio) / bytes_per_sec
        self._estimator.add_audio(now_secs=now_secs)
        self._gate.add(frame.audio, secs=secs)
        muted = self._track_muted or (self._gate.gated and self._gate.run_secs >= MUTED_AFTER_SECS)
        self._estimator.set_muted(muted, now_secs=now_secs)
        self._estimator.set_discontinuous(self._dtx.silent_after(frame.audio))
        gap = self._pts.add(
            now_secs=now_secs, pts=frame.pts, duration_secs=secs, sample_rate_hz=frame.sample_rate
        )
        total_secs = self._estimator.concealed_total_secs
        if gap is not None and not muted:
            self._pts_gap(gap)
        elif self._pts.active:
            self._estimator.add_alive(NetworkSource.AUDIO_PTS, now_secs=now_secs)
        if self._estimator.counting_source(now_secs) in _HINTS_HELP:
            self._evaluate_pattern(frame, now_secs)
        last = self._pushed
        return (
            last is None
            or last.stall_secs > 0.0
            or bool(self._gaps)
            or self._estimator.concealed_total_secs != total_secs
        )

    def _evaluate_pattern(self, frame: InputAudioRawFrame, now_secs: float) -> None:
        samples = decoded(frame.audio)
        concealed = self._patterns.add(samples, sample_rate_hz=frame.sample_rate, gate=self._gate)
        doubtful = self._cuts.add(samples, sample_rate_hz=frame.sample_rate)
        if concealed is None and doubtful and not self._gate.gated:
            secs = len(frame.audio) / (frame.sample_rate * frame.num_channels * 2)
            concealed = ConcealedAudio(secs=secs, silent=True)
        if concealed is not None:
            self._estimator.add_concealed(
                NetworkSource.AUDIO_PATTERN,
                now_secs=now_secs,
                secs=concealed.secs,
                silent_secs=concealed.secs if concealed.silent else 0.0,
            )

    def _pts_gap(self, gap: AudioGap) -> None:
        """A step in the sender's clock is a loss, unless whoever counts packets misses none: then nothing was sent.

        In the middle of speech something was: aiortc's own jitter buffer threw it away.
        """
        since_secs = gap.at_secs - LOSS_SEEN_WITHIN_SECS
        alive = self._estimator.alive
        if alive(NetworkSource.JITTER_BUFFER, gap.at_secs):
            self._dtx.proven |= self._hole_secs < since_secs
        elif (
            alive(NetworkSource.RTP_STATS, gap.at_secs)
            and self._estimator.packets_lost(since_secs) == 0
            and not self._dtx.spoke_before
        ):
            self._dtx.proven = True
            return
        self._gap(NetworkSource.AUDIO_PTS, gap)

    def _gap(self, source: NetworkSource, gap: AudioGap) -> None:
        counted = self._estimator.add_concealed(
            source, now_secs=gap.at_secs, secs=gap.missing_secs, silent_secs=gap.missing_secs
        )
        if counted:
            self._gaps.append(gap)

    def _on_hole(self, missing_secs: float) -> None:
        self._hole_secs = time.monotonic()
        self._gap(NetworkSource.JITTER_BUFFER, AudioGap(at_secs=time.monotonic(), missing_secs=missing_secs))

    async def _sample(self) -> None:
        due_secs = time.monotonic()
        while True:
            due_secs += SAMPLE_PERIOD_SECS
            # A clock that went back must not keep it from looking.
            await asyncio.sleep(min(max(0.0, due_secs - time.monotonic()), SAMPLE_PERIOD_SECS))
            now_secs = time.monotonic()
            if due_secs - now_secs > SAMPLE_PERIOD_SECS:
                due_secs = now_secs
            late = now_secs - due_secs > SAMPLE_PERIOD_SECS
            if late:
                # The loop itself was held up: audio that came meanwhile is still queued, and its absence says
                # nothing about the line.
                due_secs = now_secs
                continue
            await self._tick(now_secs)

    async def _tick(self, now_secs: float) -> None:
        try:
            await self._poller.poll(now_secs)
            if self._link is not None:
                self._track_muted = self._link.muted
                if self._link.watch():
                    self._estimator.add_alive(NetworkSource.JITTER_BUFFER, now_secs=now_secs)
                if self._link.stats is not None:
                    self._poller.add(self._link.stats)
            await self._publish(now_secs)
        except Exception as error:  # The outer edge of the task: sampling goes on.
            self.failures += 1
            if self.failures == 1:
                await self.push_error(f"network state not updated: {type(error).__name__}", exception=error)

    async def _publish(self, now_secs: float) -> None:
        if 0.0 <= now_secs - self._pushed_secs < SAMPLE_PERIOD_SECS - 1e-6:
            return
        if self._nothing_new(now_secs):
            return
        state = self._estimator.state(now_secs)
        if not self._is_news(state, now_secs):
            return
        before, self._pushed, self._pushed_secs = self._pushed, state, now_secs
        if before is None or before.band is not state.band:
            logger.debug("{}: uplink {}", self, state.band.value)
        await self.push_frame(NetworkStateFrame(state=state))
        gaps, self._gaps = self._gaps, []
        for gap in gaps:
            await self._call_event_handler("on_audio_gap", gap)
        await self._call_event_handler("on_network_state", state)

    def _nothing_new(self, now_secs: float) -> bool:
        """What `_is_news` says of a good line that stays good, without putting a state together."""
        last = self._pushed
        return (
            last is not None
            and last.recovered
            and not last.muted
            and last.stall_secs == 0.0
            and last.concealed_total_secs == self._estimator.concealed_total_secs
            and self._estimator.uneventful(now_secs)
        )

    def _is_news(self, state: NetworkState, now_secs: float) -> bool:
        last = self._pushed
        if last is None:
            return True
        if (
            state.band is not last.band
            or state.muted is not last.muted
            or state.concealed_total_secs != last.concealed_total_secs
            or (state.stall_secs > 0.0) is not (last.stall_secs > 0.0)
        ):
            return True
        return state.impaired and not 0.0 <= now_secs - self._pushed_secs < REPEAT_SECS
