"""What surrounds the caller's words: noise, distortion, the bot's own voice.

Theory of operation. Levels of 20 ms frames arrive continuously; voice activity says afterwards when somebody spoke,
since a detector needs time to notice. Frames therefore wait for `UNDECIDED_SECS` before they count. What then lies
outside speech is noise; its floor is the mean of the latest five seconds without their loudest tenth, which a cough
does not move.
What lies inside is speech and noise together; the signal-to-noise ratio of a turn is (mean - floor) / floor. Digital
silence is neither: nothing was measured there.

Known limits: noise that comes and goes with the speech (an AGC, a noise gate) makes the line look cleaner than it is;
a second voice near by is noise to us; of noise that comes in bursts (keys, clatter) what lies between the bursts
counts; a recorder that clips below full scale is not noticed.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.signals.echo import ECHO_CORRELATION, EchoEvidence
from pipecat_voicectx.signals.levels import FRAME_SECS, SILENT_DBFS, dbfs

__all__ = ["AcousticConfig", "AcousticEstimator", "AcousticState"]

# A detector reports a start 0.2 s late and a stop 0.2 s late; speech also fades in and out. Chosen: twice that, and
# what a slow transport adds.
UNDECIDED_SECS = 0.6
# Breath before and the room's answer after speech are not the noise floor. Chosen.
MARGIN_SECS = 0.15
NOISE_MEMORY_SECS = 5.0
# A cough or a door is in the loudest tenth of five seconds. Without it, the mean of white and pink noise, hum, a car
# and babble is right to 1 dB (the median: 2 dB).
QUIET_SHARE = 0.9
# Fewer frames give no floor: half a second.
FEWEST_NOISE_FRAMES = 25
FEWEST_SPEECH_FRAMES = 15
# A speaker moves slowly; each comparison changes the verdict's strength by so much. Chosen: two in a row decide.
ECHO_STEP = 0.5
LOWEST_SNR_DB = -10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AcousticConfig:
    """When acoustics are worth acting on."""

    noisy_below_db: float = 10.0
    """Signal-to-noise ratio below which the caller is hard to understand: word error rates of recognisers rise
    steeply from about 10 dB downward (Aurora and CHiME evaluations)."""
    clipped_from_ratio: float = 0.02
    """Share of a turn's frames that are cut off at full scale from which on the voice is distorted. Chosen."""

    def __post_init__(self) -> None:
        if not LOWEST_SNR_DB <= self.noisy_below_db <= 60.0:
            raise UsageError(
                f"AcousticConfig.noisy_below_db must be within -10..60, is {self.noisy_below_db}"
            )
        if not 0.0 < self.clipped_from_ratio <= 1.0:
            raise UsageError(
                f"AcousticConfig.clipped_from_ratio must be within 0..1, is {self.clipped_from_ratio}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AcousticState:
    """After the caller's latest stretch of speech."""

    noise_floor_dbfs: float | None = None
    """Level between speech. None: not enough of it was heard."""
    speech_level_dbfs: float | None = None
    """Level of the latest speech without the noise. None: none was heard."""
    snr_db: float | None = None
    """Signal-to-noise ratio of the latest speech, -10 dB at least. None: one of the two is unknown."""
    clipped_ratio: float = 0.0
    """Share of the latest speech's 20 ms frames that are cut off at full scale."""
    echo: bool | None = None
    """Whether the bot's own voice comes back. None: it has not spoken long enough to tell."""
    echo_delay_secs: float | None = None
    """How late it comes back. None: it does not."""
    noisy: bool = False
    """The signal-to-noise ratio is below the configured bound."""
    clipped: bool = False
    """The clipped share is above the configured bound."""


class AcousticEstimator:
    """Feed it in time order; `speech_stopped` and `add_echo` say whether the state changed."""

    def __init__(self, config: AcousticConfig | None = None) -> None:
        self._config = config or AcousticConfig()
        self._undecided: deque[tuple[float, float, bool]] = deque(maxlen=round(30.0 / FRAME_SECS))
        self._noise: deque[float] = deque(maxlen=round(NOISE_MEMORY_SECS / FRAME_SECS))
        self._speaking_since_secs: float | None = None
        self._spoken: tuple[float, float] | None = None
        self._speech_sum = 0.0
        self._speech_frames = 0
        self._clipped_frames = 0
        self._echo_score: float | None = None
        self._state = AcousticState()

    @property
    def state(self) -> AcousticState:
        """The state now."""
        return self._state

    @property
    def floor_power(self) -> float | None:
        """Mean square of the noise floor. None: unknown."""
        if len(self._noise) < FEWEST_NOISE_FRAMES:
            return None
        quiet = sorted(self._noise)[: round(QUIET_SHARE * len(self._noise))]
        return statistics.fmean(quiet)

    def add_frames(self, powers: Sequence[float], clipped: Sequence[bool], *, ended_secs: float) -> None:
        """20 ms frames in a row, the last of which ended at `ended_secs`."""
        if self._undecided and self._undecided[-1][0] > ended_secs:
            self._clock_went_back(ended_secs)
        started_secs = ended_secs - len(powers) * FRAME_SECS
        for number, (power, cut) in enumerate(zip(powers, clipped, strict=True)):
            if power > 0.0:
                self._undecided.append((started_secs + number * FRAME_SECS, power, cut))
        self._decide(ended_secs - UNDECIDED_SECS)

    def speech_started(self, started_secs: float) -> None:
        """Speech began at `started_secs`, the detector's delay already subtracted."""
        if self._speaking_since_secs is None:
            self._speaking_since_secs = started_secs
            self._spoken = None
            self._speech_sum, self._speech_frames, self._clipped_frames = 0.0, 0, 0

    def speech_stopped(self, ended_secs: float) -> bool:
        """Speech ended at `ended_secs`, the silence that was waited for already subtracted."""
        since_secs, self._speaking_since_secs = self._speaking_since_secs, None
        if since_secs is None:
            return False
        self._spoken = (since_secs, ended_secs)
        self._decide(ended_secs)
        return self._sum_up()

    def add_echo(self, evidence: EchoEvidence) -> bool:
        """One comparison with the bot's voice."""
        heard = 1.0 if evidence.correlation >= ECHO_CORRELATION else 0.0
        score = self._echo_score
        self._echo_score = heard / 2.0 if score is None else score + ECHO_STEP * (heard - score)
        verdict = self._echo_score > 0.7 or (bool(self._state.echo) and self._echo_score > 0.3)
        delay_secs = evidence.delay_secs if verdict and heard else self._state.echo_delay_secs
        return self._assign(echo=verdict, echo_delay_secs=delay_secs if verdict else None)

    def _clock_went_back(self, now_secs: float) -> None:
        """What waits has times that never come: it is nobody's, and who speaks does so from now on."""
        self._undecided.clear()
        self._spoken = None
        if self._speaking_since_secs is not None:
            self._speaking_since_secs = now_secs

    def _decide(self, until_secs: float) -> None:
        """Counts waiting frames up to `until_secs` as what they were."""
        while self._undecided and self._undecided[0][0] < until_secs:
            at_secs, power, cut = self._undecided.popleft()
            if self._speaking_since_secs is None and self._spoken is None:
                self._noise.append(power)
            elif self._in_speech(at_secs, margin_secs=0.0):
                self._speech_sum += power
                self._speech_frames += 1
                self._clipped_frames += cut
            elif not self._in_speech(at_secs, margin_secs=MARGIN_SECS):
                self._noise.append(power)

    def _in_speech(self, at_secs: float, *, margin_secs: float) -> bool:
        since_secs = self._speaking_since_secs
        if since_secs is not None and at_secs >= since_secs - margin_secs:
            return True
        spoken = self._spoken
        return spoken is not None and spoken[0] - margin_secs <= at_secs < spoken[1] + margin_secs

    def _sum_up(self) -> bool:
        if self._speech_frames < FEWEST_SPEECH_FRAMES:
            return False
        mean = self._speech_sum / self._speech_frames
        floor = self.floor_power
        clipped_ratio = self._clipped_frames / self._speech_frames
        if floor is None:
            return self._assign(
                speech_level_dbfs=dbfs(mean), clipped_ratio=clipped_ratio, noise_floor_dbfs=None, snr_db=None
            )
        speech = mean - floor
        snr_db = LOWEST_SNR_DB if speech <= 0.0 else max(LOWEST_SNR_DB, dbfs(speech) - dbfs(floor))
        return self._assign(
            noise_floor_dbfs=dbfs(floor),
            speech_level_dbfs=dbfs(speech) if speech > 0.0 else SILENT_DBFS,
            snr_db=snr_db,
            clipped_ratio=clipped_ratio,
        )

    def _assign(self, **changes: float | bool | None) -> bool:
        """The one place where the state changes."""
        before = self._state
        values = {name: getattr(before, name) for name in before.__slots__} | changes
        snr_db = values["snr_db"]
        values["noisy"] = snr_db is not None and snr_db < self._config.noisy_below_db
        values["clipped"] = values["clipped_ratio"] >= self._config.clipped_from_ratio
        self._state = AcousticState(**values)
        return self._state != before
