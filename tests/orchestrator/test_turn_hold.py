from __future__ import annotations

import itertools

import pytest

from pipecat_voicectx.errors import InvalidTransitionError, UsageError
from pipecat_voicectx.orchestrator.directives import DirectiveOrigin
from pipecat_voicectx.orchestrator.modes import ControlMode
from pipecat_voicectx.orchestrator.turn_hold import (
    HoldPhase,
    HoldReason,
    ReleaseReason,
    TurnHold,
    TurnHoldConfig,
    TurnReleased,
)
from pipecat_voicectx.states.network import LinkBand, NetworkState


class Line:
    """A caller's line in 20 ms steps; tells the machine what a receiver would."""

    def __init__(self, config: TurnHoldConfig | None = None) -> None:
        self.hold = TurnHold(config)
        self.now = 0.0
        self.lost = 0.0
        self.released: list[TurnReleased] = []

    def receive(self, secs: float, *, conceal: bool = False) -> None:
        for _ in range(round(secs / 0.02)):
            self.now += 0.02
            self.hold.add_audio(now_secs=self.now, duration_secs=0.02)
            if conceal:
                self.tell(0.02)
            self.wake()

    def tell(self, lost: float, *, band: LinkBand = LinkBand.POOR) -> None:
        self.lost += lost
        self.hold.add_network(NetworkState(band=band, concealed_total_secs=self.lost), now_secs=self.now)

    def outage(self, secs: float) -> None:
        """Nothing comes for `secs`; then the first frame after it, and the state that knows the hole."""
        for _ in range(round(secs / 0.02)):
            self.now += 0.02
            self.wake()
        self.now += 0.02
        self.hold.add_audio(now_secs=self.now, duration_secs=0.02)
        self.wake()
        self.tell(secs)

    def speak(self, secs: float) -> None:
        released = self.hold.speech_started(now_secs=self.now)
        if released:
            self.released.append(released)
        self.receive(secs)

    def fall_silent(self, stop_secs: float = 0.2) -> None:
        self.receive(stop_secs)
        self.hold.speech_stopped(now_secs=self.now, stop_secs=stop_secs)

    def boundary(self) -> HoldReason | None:
        held = self.hold.boundary(now_secs=self.now)
        return held.reason if held else None

    def wake(self) -> None:
        released = self.hold.wake(now_secs=self.now)
        if released:
            self.released.append(released)

    @property
    def reasons(self) -> list[ReleaseReason]:
        return [item.reason for item in self.released]


def test_on_a_clean_line_a_boundary_passes_at_once() -> None:
    line = Line()
    line.speak(1.0)
    line.fall_silent()
    assert line.boundary() is None
    assert not line.hold.held
    assert line.hold.next_deadline() is None


def test_a_hole_in_the_silence_asks_for_silence_that_was_received() -> None:
    line = Line()
    line.speak(1.0)
    line.receive(0.2, conceal=True)
    line.hold.speech_stopped(now_secs=line.now, stop_secs=0.2)
    assert line.boundary() is HoldReason.LOST_AUDIO
    line.receive(0.58)
    assert line.hold.held
    line.receive(0.04)
    assert line.reasons == [ReleaseReason.VOUCHED]
    assert line.released[0].held_secs == pytest.approx(0.6, abs=0.03)


def test_speech_after_the_hole_drops_the_boundary() -> None:
    line = Line()
    line.speak(1.0)
    line.receive(0.3, conceal=True)
    line.hold.speech_stopped(now_secs=line.now, stop_secs=0.2)
    line.boundary()
    line.receive(0.4)
    line.speak(0.5)
    assert line.reasons == [ReleaseReason.CONTINUED]
    line.fall_silent()
    assert line.boundary() is None


def test_a_hole_before_the_silence_is_no_doubt() -> None:
    line = Line()
    line.speak(1.0)
    line.receive(0.3, conceal=True)
    line.receive(0.5)
    line.fall_silent()
    assert line.boundary() is None


def test_one_lost_packet_in_the_silence_is_no_doubt() -> None:
    line = Line()
    line.speak(1.0)
    line.receive(0.1)
    line.tell(0.02)
    line.receive(0.1)
    line.hold.speech_stopped(now_secs=line.now, stop_secs=0.2)
    assert line.boundary() is None


def test_a_boundary_during_an_outage_waits_for_audio_and_then_for_silence() -> None:
    line = Line()
    line.speak(1.0)
    line.fall_silent()
    line.now += 0.3
    assert line.boundary() is HoldReason.STALL
    line.outage(1.0)
    assert line.hold.held
    line.receive(0.5)
    assert line.hold.held
    line.receive(0.12)
    assert line.reasons == [ReleaseReason.VOUCHED]


def test_audio_that_was_only_late_releases_as_soon_as_no_hole_turns_up() -> None:
    line = Line()
    line.speak(1.0)
    line.fall_silent()
    line.receive(0.6)
    line.now += 0.3
    assert line.boundary() is HoldReason.STALL
    line.receive(0.1)
    assert line.hold.held
    line.receive(0.06)
    assert line.reasons == [ReleaseReason.VOUCHED]


def test_each_hole_starts_the_count_anew() -> None:
    """Silence received before an outage says nothing about the speech after it."""
    line = Line()
    line.speak(1.0)
    line.receive(0.2, conceal=True)
    line.hold.speech_stopped(now_secs=line.now, stop_secs=0.2)
    line.boundary()
    line.receive(0.5)
    line.outage(0.4)
    line.receive(0.3)
    assert line.hold.held
    line.receive(0.32)
    assert line.reasons == [ReleaseReason.VOUCHED]


def test_the_hard_deadline_ends_every_hold() -> None:
    line = Line()
    line.speak(1.0)
    line.fall_silent()
    line.now += 0.2
    line.boundary()
    assert line.hold.next_deadline() == pytest.approx(line.now + 5.0)
    line.now += 4.9
    line.wake()
    assert line.hold.held
    line.now += 0.1
    line.wake()
    assert line.reasons == [ReleaseReason.HARD_DEADLINE]


def test_after_the_soft_deadline_a_healthy_line_is_enough() -> None:
    line = Line()
    line.speak(1.0)
    line.receive(0.2, conceal=True)
    line.hold.speech_stopped(now_secs=line.now, stop_secs=0.2)
    line.boundary()
    for _ in range(40):
        line.receive(0.02)
        line.tell(0.02)  # every other packet: vouched silence does not grow
    assert line.hold.held
    line.tell(0.0, band=LinkBand.RECOVERING)
    line.receive(0.44)
    assert line.hold.held
    line.tell(0.06, band=LinkBand.RECOVERING)
    line.receive(0.3)
    line.tell(0.0, band=LinkBand.RECOVERING)
    line.receive(0.16)
    assert line.reasons == [ReleaseReason.SOFT_DEADLINE]


@pytest.mark.parametrize("mode", [ControlMode.LLM, ControlMode.OFF])
def test_without_the_reflex_the_line_holds_nothing(mode: ControlMode) -> None:
    line = Line(TurnHoldConfig(mode=mode))
    line.speak(1.0)
    line.receive(0.2, conceal=True)
    line.hold.speech_stopped(now_secs=line.now, stop_secs=0.2)
    line.now += 0.5
    assert line.boundary() is None
    line.hold.set_silence(2000, origin=DirectiveOrigin.MODEL, now_secs=line.now)
    assert line.boundary() is (HoldReason.LONGER_SILENCE if mode is ControlMode.LLM else None)


def test_a_muted_caller_is_not_held() -> None:
    line = Line()
    line.speak(1.0)
    line.fall_silent()
    line.hold.add_network(NetworkState(muted=True), now_secs=line.now)
    line.now += 2.0
    assert line.boundary() is None


def test_a_turn_that_ends_elsewhere_voids_the_hold() -> None:
    line = Line()
    line.speak(1.0)
    line.fall_silent()
    line.now += 0.2
    line.boundary()
    released = line.hold.turn_over(now_secs=line.now)
    assert released is not None
    assert released.reason is ReleaseReason.TURN_OVER
    assert not released.reason.emits
    assert line.hold.turn_over(now_secs=line.now) is None


def test_without_voice_activity_a_boundary_stands_for_half_a_second_of_silence() -> None:
    line = Line()
    line.receive(2.0)
    assert line.boundary() is None
    line.hold.turn_over(now_secs=line.now)
    line.receive(0.3)
    line.tell(0.2)
    assert line.boundary() is HoldReason.LOST_AUDIO
    line.receive(0.62)
    assert line.reasons == [ReleaseReason.VOUCHED]


def test_a_lengthened_silence_holds_on_a_clean_line_until_it_is_over() -> None:
    """F06"""
    line = Line()
    line.hold.set_silence(2000, origin=DirectiveOrigin.MODEL, now_secs=line.now)
    line.speak(0.8)
    line.fall_silent()
    assert line.boundary() is HoldReason.LONGER_SILENCE
    line.receive(0.9)
    line.speak(0.8)  # "one two three" after 0.9 s: one number, one turn
    assert line.reasons == [ReleaseReason.CONTINUED]
    line.fall_silent()
    assert line.boundary() is HoldReason.LONGER_SILENCE
    line.receive(1.82)
    assert line.reasons == [ReleaseReason.CONTINUED, ReleaseReason.VOUCHED]


def test_a_lengthened_silence_is_clipped_to_the_cap_and_gives_itself_back() -> None:
    hold = TurnHold()
    hold.set_silence(60_000, origin=DirectiveOrigin.MODEL, now_secs=0.0)
    assert hold.silence_secs(0.0) == 5.0
    assert hold.silence_secs(29.9) == 5.0
    assert hold.silence_secs(30.0) is None


def test_what_a_continuation_proved_outranks_the_model_and_ends_with_recovery() -> None:
    hold = TurnHold()
    hold.add_network(NetworkState(band=LinkBand.POOR, concealed_total_secs=0.5), now_secs=0.0)
    hold.set_silence(3000, origin=DirectiveOrigin.MODEL, now_secs=0.0)
    hold.set_silence(1200, origin=DirectiveOrigin.DEFERRAL, now_secs=0.0)
    assert hold.silence_secs(1.0) == 1.2
    assert hold.silence_secs(20.0) == 1.2
    hold.add_network(NetworkState(band=LinkBand.RECOVERING, concealed_total_secs=0.5), now_secs=20.0)
    assert hold.silence_secs(24.9) == 1.2
    assert hold.silence_secs(25.0) == 3.0
    hold.set_silence(None, origin=DirectiveOrigin.MODEL, now_secs=25.0)
    assert hold.silence_secs(25.0) is None


def test_a_new_loss_starts_the_recovery_anew() -> None:
    hold = TurnHold()
    hold.set_silence(1200, origin=DirectiveOrigin.DEFERRAL, now_secs=0.0)
    hold.add_network(NetworkState(band=LinkBand.POOR, concealed_total_secs=0.2), now_secs=3.0)
    hold.add_network(NetworkState(band=LinkBand.GOOD, concealed_total_secs=0.2), now_secs=4.0)
    assert hold.silence_secs(8.9) == 1.2
    assert hold.silence_secs(9.1) is None


def test_a_second_boundary_while_one_is_withheld_is_illegal_and_changes_nothing() -> None:
    line = Line()
    line.speak(1.0)
    line.fall_silent()
    line.now += 0.2
    line.boundary()
    deadline = line.hold.next_deadline()
    with pytest.raises(InvalidTransitionError):
        line.hold.boundary(now_secs=line.now)
    assert line.hold.next_deadline() == deadline


def test_the_table_has_exactly_the_legal_transitions() -> None:
    from pipecat_voicectx.orchestrator.turn_hold import _TRANSITIONS

    for phase, cause in itertools.product(HoldPhase, [*HoldReason, *ReleaseReason]):
        legal = (phase is HoldPhase.OPEN) is isinstance(cause, HoldReason)
        assert ((phase, cause) in _TRANSITIONS) is legal


@pytest.mark.parametrize("wrong", [{"cap_secs": 0.0}, {"vouched_secs": 6.0}, {"soft_deadline_secs": 9.0}])
def test_a_config_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        TurnHoldConfig(**wrong)
