"""Holding a turn open while the silence that would end it cannot be vouched for.

Inputs: audio frames as they arrive, the network state, voice activity, and the *boundaries* that the wrapped stop
strategy proposes. A boundary passes at once when nothing speaks against it: on a clean line this machine is
transparent. It is withheld when

- audio is stalled right now, or a hole (lost or concealed audio) lies in the silence: *vouched* silence is audio that
  was really received after speech ended and after the last hole, and `vouched_secs` of it must be there. It exceeds
  the time a detector needs to notice that speech resumed, which is why a hole starts the count anew: before that
  time has passed, received silence after a hole is no evidence;
- a directive lengthened the silence that ends a turn: then that much vouched silence must be there, hole or not.

A withheld boundary is released when the silence is vouched for, at the soft deadline when the line is healthy again,
and at the hard deadline in any case. Speech that starts while it is withheld proves it premature: it is dropped, the
turn goes on, and the wrapped strategy will propose another one.

    OPEN --boundary, doubtful--> HELD --vouched | soft | hard--> OPEN (emitted)
                                 HELD --speech | turn over-----> OPEN (dropped)

Ties: evidence is looked at before deadlines. Known limit: speech that was lost entirely, from its first word to its
last, leaves silence that is vouched for; nothing at the receiver can tell.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

from pipecat_voicectx.errors import InvalidTransitionError, UsageError
from pipecat_voicectx.orchestrator.directives import DirectiveOrigin
from pipecat_voicectx.orchestrator.modes import ControlMode
from pipecat_voicectx.states.network import NetworkState
from pipecat_voicectx.states.pause_profile import PauseProfileConfig

__all__ = [
    "HoldPhase",
    "HoldReason",
    "ReleaseReason",
    "TurnHeld",
    "TurnHold",
    "TurnHoldConfig",
    "TurnReleased",
]


class HoldPhase(Enum):
    """Whether a boundary is withheld."""

    OPEN = "open"
    HELD = "held"


class HoldReason(Enum):
    """Why a boundary is withheld."""

    STALL = "stall"
    LOST_AUDIO = "lost_audio"
    LONGER_SILENCE = "longer_silence"


class ReleaseReason(Enum):
    """Why a withheld boundary is withheld no longer."""

    VOUCHED = "vouched"
    SOFT_DEADLINE = "soft_deadline"
    HARD_DEADLINE = "hard_deadline"
    CONTINUED = "continued"
    """The caller spoke on; the boundary was dropped."""
    TURN_OVER = "turn_over"
    """Something else ended the turn; the boundary was dropped."""

    @property
    def emits(self) -> bool:
        """Whether the boundary takes effect now."""
        return self in (ReleaseReason.VOUCHED, ReleaseReason.SOFT_DEADLINE, ReleaseReason.HARD_DEADLINE)


_TRANSITIONS: dict[tuple[HoldPhase, HoldReason | ReleaseReason], HoldPhase] = {
    **{(HoldPhase.OPEN, reason): HoldPhase.HELD for reason in HoldReason},
    **{(HoldPhase.HELD, reason): HoldPhase.OPEN for reason in ReleaseReason},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnHoldConfig:
    """How long a turn is held, and on what evidence it is let go."""

    mode: ControlMode = ControlMode.BOTH
    """`LLM`: only a lengthened silence holds. `OFF`: nothing does."""
    vouched_secs: float = 0.6
    """Received silence that makes a doubtful boundary good. Must exceed the time a detector needs to report that
    speech resumed: 0.2 s of speech plus smoothing, about 0.4 s as measured with Silero."""
    soft_deadline_secs: float = 1.5
    """From then on a healthy line is enough (LOV, section 3.3)."""
    cap_secs: float = 5.0
    """No boundary is withheld longer, whatever the line does (LOV, section 3.3: the hard deadline)."""
    stall_secs: float = 0.1
    """No audio for longer than this makes a boundary doubtful. Gaps between arrivals reach 55 ms on a clean path."""
    settle_secs: float = 0.12
    """After a stall a hole is waited for this long: the network state may come two samples (50 ms) late."""
    hole_secs: float = 0.04
    """Lost audio within the silence that makes it doubtful: two packets. One changes no detector's verdict."""
    lead_secs: float = 0.1
    """A hole this long before the end of speech still counts as lying in the silence: detectors smooth."""
    assumed_silence_secs: float = 0.5
    """Silence that a boundary stands for where nothing reports voice activity. Chosen: below the shortest end-of-turn
    silence of the recognisers that end turns by themselves."""
    pauses: PauseProfileConfig | None = None
    """Learns how long this speaker pauses inside a turn and waits for it; None leaves that to the strategies. Where a
    strategy waits longer by itself, it still does: a wrapper cannot end a turn."""
    recovery_secs: float = 5.0
    """A lengthened silence goes back to the default after this much healthy reception (LOV, section 3.3)."""
    directive_secs: float = 30.0
    """A silence that the model lengthened goes back after this time in any case. Chosen: a dictated address."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if name in ("mode", "pauses"):
                continue
            if not 0.0 < getattr(self, name) <= 60.0:
                raise UsageError(f"TurnHoldConfig.{name} must be within 0..60 s, is {getattr(self, name)}")
        if not self.vouched_secs <= self.cap_secs or not self.soft_deadline_secs <= self.cap_secs:
            raise UsageError("TurnHoldConfig: vouched_secs and soft_deadline_secs must not exceed cap_secs")


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnHeld:
    """A boundary is being withheld."""

    at_secs: float
    reason: HoldReason
    vouched_secs: float
    needed_secs: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnReleased:
    """A withheld boundary took effect or was dropped."""

    at_secs: float
    reason: ReleaseReason
    held_secs: float
    vouched_secs: float


@dataclass(slots=True)
class _LongerSilence:
    duration_secs: float
    set_secs: float
    healthy_since_secs: float | None


class TurnHold:
    """The machine. All methods take the present time and must be called in its order.

    The caller owns the timer: it calls `wake` at `next_deadline()`, and `wake` also after every frame of audio while
    `held`, since that is when evidence grows.
    """

    def __init__(self, config: TurnHoldConfig | None = None) -> None:
        self._config = config or TurnHoldConfig()
        self._phase = HoldPhase.OPEN
        self._held_since_secs = 0.0
        self._speaking = False
        self._speech_ended_secs: float | None = None
        self._vouched_secs = 0.0
        self._received_since_hole_secs = 0.0
        self._last_audio_secs: float | None = None
        self._stall_ended_secs = float("-inf")
        self._muted = False
        self._impaired = False
        self._concealed_total_secs: float | None = None
        self._holes: deque[tuple[float, float]] = deque(maxlen=256)
        self._longer: dict[DirectiveOrigin, _LongerSilence] = {}
        self._learned_secs: float | None = None

    @property
    def held(self) -> bool:
        """Whether a boundary is withheld."""
        return self._phase is HoldPhase.HELD

    @property
    def doubtful(self) -> bool:
        """Whether audio is missing in the present silence."""
        return self._hole_in_silence()

    @property
    def vouched_secs(self) -> float:
        """Received silence since speech ended and since the last hole."""
        return 0.0 if self._speaking else self._vouched_secs

    def add_audio(self, *, now_secs: float, duration_secs: float) -> None:
        """A frame of caller audio arrived."""
        if self._stalled(now_secs):
            self._stall_ended_secs = now_secs
        self._last_audio_secs = now_secs
        self._received_since_hole_secs += duration_secs
        if not self._speaking:
            self._vouched_secs += duration_secs

    def add_network(self, state: NetworkState, *, now_secs: float) -> None:
        """The network state changed; what it concealed since the last one is a hole now."""
        before, self._concealed_total_secs = self._concealed_total_secs, state.concealed_total_secs
        self._muted = state.muted
        hole_secs = state.concealed_total_secs - (before or 0.0)
        if hole_secs > 0.0:
            self._holes.append((now_secs, hole_secs))
            if self._lost_since(now_secs - self._config.lead_secs) >= self._config.hole_secs - 1e-9:
                self._received_since_hole_secs = self._vouched_secs = 0.0
            else:
                self._vouched_secs = max(0.0, self._vouched_secs - hole_secs)
        if state.impaired or hole_secs > 0.0:
            for longer in self._longer.values():
                longer.healthy_since_secs = None
        elif self._impaired:
            for longer in self._longer.values():
                longer.healthy_since_secs = now_secs
        self._impaired = state.impaired

    def speech_started(self, *, now_secs: float) -> TurnReleased | None:
        """Voice activity. A withheld boundary was premature."""
        self._speaking = True
        self._speech_ended_secs = None
        self._vouched_secs = 0.0
        return self._release(ReleaseReason.CONTINUED, now_secs) if self.held else None

    def speech_resumed(self, *, now_secs: float) -> TurnReleased | None:
        """A recogniser that ends turns by itself heard the caller go on; it will not tell when that speech ends."""
        self._vouched_secs = 0.0
        return self._release(ReleaseReason.CONTINUED, now_secs) if self.held else None

    def speech_stopped(self, *, now_secs: float, stop_secs: float) -> None:
        """Voice activity ended `stop_secs` ago."""
        self._speaking = False
        self._speech_ended_secs = now_secs - stop_secs
        # Of the silence that made the detector stop, only what came after the last hole is vouched for.
        self._vouched_secs = min(max(0.0, stop_secs), self._received_since_hole_secs)

    def boundary(self, *, now_secs: float) -> TurnHeld | None:
        """The wrapped strategy ends the turn. None: let it. Otherwise it is withheld from now on."""
        if self.held:
            raise InvalidTransitionError("a boundary is withheld already")
        if self._speech_ended_secs is None and not self._speaking:
            # Nobody reports voice activity here (the recogniser ends turns by itself).
            self.speech_stopped(now_secs=now_secs, stop_secs=self._config.assumed_silence_secs)
        doubt = self._doubt(now_secs)
        if doubt is None:
            return None
        self._set_phase(doubt)
        self._held_since_secs = now_secs
        return TurnHeld(
            at_secs=now_secs,
            reason=doubt,
            vouched_secs=self.vouched_secs,
            needed_secs=self._needed_secs(now_secs),
        )

    def wake(self, *, now_secs: float) -> TurnReleased | None:
        """Looks at the evidence and the deadlines. Returns the release, if it is time."""
        if not self.held:
            return None
        if self._doubt(now_secs) is None:
            return self._release(ReleaseReason.VOUCHED, now_secs)
        held_secs = now_secs - self._held_since_secs
        if held_secs >= self._config.cap_secs - 1e-6:
            return self._release(ReleaseReason.HARD_DEADLINE, now_secs)
        if held_secs >= self._config.soft_deadline_secs - 1e-6 and self._healthy_enough(now_secs):
            return self._release(ReleaseReason.SOFT_DEADLINE, now_secs)
        return None

    def next_deadline(self) -> float | None:
        """When `wake` must be called at the latest; None while nothing is withheld."""
        return self._held_since_secs + self._config.cap_secs if self.held else None

    def turn_over(self, *, now_secs: float) -> TurnReleased | None:
        """A turn ended, or another one began; a withheld boundary is void."""
        if not self._speaking:
            self._speech_ended_secs = None
        return self._release(ReleaseReason.TURN_OVER, now_secs) if self.held else None

    def set_silence(self, duration_ms: int | None, *, origin: DirectiveOrigin, now_secs: float) -> None:
        """Lengthens the silence that ends a turn, or gives it back (None). Clipped to the hold cap."""
        if duration_ms is None:
            self._longer.pop(origin, None)
            return
        self._longer[origin] = _LongerSilence(
            duration_secs=min(duration_ms / 1000.0, self._config.cap_secs),
            set_secs=now_secs,
            healthy_since_secs=None if self._impaired else now_secs,
        )

    def set_learned_silence(self, secs: float | None) -> None:
        """The silence that this speaker's pauses ask for; None: not known. Anything else outranks it."""
        self._learned_secs = None if secs is None else min(secs, self._config.cap_secs)

    def silence_secs(self, now_secs: float) -> float | None:
        """The lengthened silence in force now; None: the wrapped strategy's own."""
        for origin in [
            origin for origin, longer in self._longer.items() if self._expired(origin, longer, now_secs)
        ]:
            del self._longer[origin]
        for origin in _PRECEDENCE:
            if origin in self._longer:
                return self._longer[origin].duration_secs
        return self._learned_secs

    def _expired(self, origin: DirectiveOrigin, longer: _LongerSilence, now_secs: float) -> bool:
        healthy = (
            longer.healthy_since_secs is not None
            and now_secs - longer.healthy_since_secs >= self._config.recovery_secs
        )
        # What a continuation proved belongs to the line and goes when that is healthy; what was asked for on a
        # healthy line (a dictated number) has only the clock.
        if origin is DirectiveOrigin.DEFERRAL:
            return healthy
        return now_secs - longer.set_secs >= self._config.directive_secs

    def _doubt(self, now_secs: float) -> HoldReason | None:
        mode = self._config.mode
        if mode is ControlMode.OFF:
            return None
        if mode.reflex and self._stalled(now_secs):
            return HoldReason.STALL
        if mode.reflex and self._hole_in_silence() and self._vouched_secs < self._config.vouched_secs - 1e-6:
            return HoldReason.LOST_AUDIO
        longer_secs = self.silence_secs(now_secs)
        if longer_secs is not None and self._vouched_secs < longer_secs - 1e-6:
            return HoldReason.LONGER_SILENCE
        settling = mode.reflex and self.held and now_secs - self._stall_ended_secs < self._config.settle_secs
        return HoldReason.STALL if settling else None

    def _needed_secs(self, now_secs: float) -> float:
        return max(self._config.vouched_secs, self.silence_secs(now_secs) or 0.0)

    def _stalled(self, now_secs: float) -> bool:
        if self._muted or self._last_audio_secs is None:
            return False
        return now_secs - self._last_audio_secs > self._config.stall_secs

    def _hole_in_silence(self) -> bool:
        if self._speech_ended_secs is None:
            return False
        lost_secs = self._lost_since(self._speech_ended_secs - self._config.lead_secs)
        return lost_secs >= self._config.hole_secs - 1e-9

    def _lost_since(self, since_secs: float) -> float:
        return sum(secs for at_secs, secs in self._holes if at_secs >= since_secs)

    def _healthy_enough(self, now_secs: float) -> bool:
        if self._impaired or self._stalled(now_secs):
            return False
        # Audio flows again; the detector must still have had the time to hear speech in it.
        longer = self.silence_secs(now_secs) is not None
        return not longer and self._vouched_secs >= 0.75 * self._config.vouched_secs

    def _release(self, reason: ReleaseReason, now_secs: float) -> TurnReleased:
        self._set_phase(reason)
        return TurnReleased(
            at_secs=now_secs,
            reason=reason,
            held_secs=now_secs - self._held_since_secs,
            vouched_secs=self.vouched_secs,
        )

    def _set_phase(self, cause: HoldReason | ReleaseReason) -> None:
        after = _TRANSITIONS.get((self._phase, cause))
        if after is None:
            raise InvalidTransitionError(f"{cause.value} is not possible while {self._phase.value}")
        self._phase = after


# What a continuation proved outranks what the model asked for, which outranks what was learned.
_PRECEDENCE = (
    DirectiveOrigin.DEFERRAL,
    DirectiveOrigin.MODEL,
    DirectiveOrigin.APPLICATION,
    DirectiveOrigin.REFLEX,
)
