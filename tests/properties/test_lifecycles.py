"""Every lifecycle with a transition table, driven at random: what never holds, and that all of each table was used."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from pipecat_voicectx.errors import InvalidTransitionError
from pipecat_voicectx.orchestrator import deferral as deferral_module
from pipecat_voicectx.orchestrator import turn_hold as hold_module
from pipecat_voicectx.orchestrator.deferral import AnswerReason, Deferral, DeferralConfig, DeferralPhase
from pipecat_voicectx.orchestrator.directives import DirectiveOrigin
from pipecat_voicectx.orchestrator.turn_hold import TurnHeld, TurnHold, TurnHoldConfig, TurnReleased
from pipecat_voicectx.playback import action_gate, ledger
from pipecat_voicectx.playback.action_gate import CallBook, CallEvent, CallState
from pipecat_voicectx.playback.ledger import LedgerEntry, TurnEvent, TurnLedger, TurnState
from pipecat_voicectx.playback.speech_candidate import (
    CandidateState,
    CandidateVerdict,
    SpeechCandidate,
    is_backchannel,
)
from pipecat_voicectx.states.network import LinkBand, NetworkState

SOON = st.floats(0.0, 0.4)
LONG = st.floats(0.1, 8.0)

# -- bot turns

LIFE = (TurnState.GENERATING, TurnState.SENT, TurnState.PLAYING, TurnState.COMPLETE, TurnState.REVOKED)


class BotTurns(RuleBasedStateMachine):
    """Turns of one ledger; what happens to them comes in any order."""

    used: ClassVar[set[tuple[TurnState, TurnEvent]]] = set()
    entries = Bundle("entries")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = TurnLedger()
        self.opened: list[LedgerEntry] = []

    @rule(target=entries)
    def opens(self) -> LedgerEntry:
        entry = self.ledger.open_turn(0.0)
        self.opened.append(entry)
        return entry

    @rule(entry=entries, event=st.sampled_from(TurnEvent))
    def something_happens(self, entry: LedgerEntry, event: TurnEvent) -> None:
        before = entry.state
        possible = self.ledger.can_apply(entry, event)
        try:
            after = self.ledger.apply(entry, event)
        except InvalidTransitionError:
            assert not possible
            assert entry.state is before
            return
        assert possible
        assert LIFE.index(after) > LIFE.index(before), "a turn's life only goes forward"
        self.used.add((before, event))

    @rule(events=st.lists(st.sampled_from(TurnEvent), max_size=6))
    def one_turn_lives(self, events: list[TurnEvent]) -> None:
        entry = self.opens()
        for event in events:
            self.something_happens(entry=entry, event=event)

    @rule(entry=entries, chunks=st.integers(1, 30))
    def audio_is_written(self, entry: LedgerEntry, chunks: int) -> None:
        before = entry.state
        for _ in range(chunks):
            self.ledger.add_written(entry, bytes(32_000), rate_hz=16_000, now_secs=1.0)
        assert entry.state is (TurnState.SENT if before is TurnState.GENERATING else before)

    @invariant()
    def what_is_kept_is_bounded_and_in_order(self) -> None:
        assert list(self.ledger.turns) == self.opened[-8:]
        for entry in self.ledger.turns:
            assert sum(map(len, entry.audio)) < 2 * (10 + 1) * 16_000 + 1


# -- calls of tools


class Calls(RuleBasedStateMachine):
    """More calls than are remembered, at the same time."""

    used: ClassVar[set[tuple[CallState, CallEvent]]] = set()
    calls = Bundle("calls")

    def __init__(self) -> None:
        super().__init__()
        self.book = CallBook(max_calls=3, max_results=2)
        self.states: dict[str, CallState] = {}
        self.executed: dict[str, int] = {}

    @rule(target=calls, number=st.integers(0, 5))
    def arrives(self, number: int) -> str:
        call_id = f"call-{number}"
        known = self.book.state(call_id)
        self.book.open(call_id)
        assert self.book.state(call_id) is (known or CallState.WAITING)
        if known is None:
            self.executed[call_id] = 0
        return call_id

    @rule(call_id=calls, event=st.sampled_from(CallEvent))
    def something_happens(self, call_id: str, event: CallEvent) -> None:
        before = self.book.state(call_id)
        try:
            self.book.apply(call_id, event)
        except InvalidTransitionError:
            assert self.book.state(call_id) is before
            return
        assert before in (CallState.WAITING, CallState.RUNNING), (
            "nothing moves a call that is over or forgotten"
        )
        self.used.add((before, event))
        self.executed[call_id] += event is CallEvent.STARTED
        assert self.executed[call_id] <= 1, "one call, one execution"

    @rule(key=st.sampled_from("abcd"), turn=st.integers(0, 2), value=st.integers())
    def a_result_is_remembered(self, key: str, turn: int, value: int) -> None:
        self.book.remember(key, turn, value, now_secs=10.0)
        assert self.book.has_result(key, turn, now_secs=10.0, repeat_secs=30.0)
        assert self.book.result(key, turn) == value
        assert self.book.has_result(key, turn, now_secs=41.0, repeat_secs=30.0) is (turn != 0)

    @invariant()
    def no_more_is_remembered_than_was_asked_for(self) -> None:
        assert len(self.book._calls) <= 3
        assert len(self.book._results) <= 2


# -- held turns


class WatchedHold(TurnHold):
    used: ClassVar[set[tuple[object, object]]] = set()

    def _set_phase(self, cause: hold_module.HoldReason | hold_module.ReleaseReason) -> None:
        before = self._phase
        super()._set_phase(cause)
        self.used.add((before, cause))


class Holding(RuleBasedStateMachine):
    """A caller who pauses, a line that loses audio, and strategies that end turns at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.config = TurnHoldConfig()
        self.hold = WatchedHold(self.config)
        self.now_secs = 100.0
        self.network = NetworkState(band=LinkBand.GOOD)
        self.proposed = self.passed = self.emitted = self.dropped = 0
        self.doubted = False
        self.speaking = False

    def _released(self, release: TurnReleased | None) -> None:
        if release is None:
            return
        assert not self.hold.held
        assert release.held_secs >= 0.0
        self.emitted += release.reason.emits
        self.dropped += not release.reason.emits

    def _wake(self) -> None:
        self._released(self.hold.wake(now_secs=self.now_secs))

    @rule(frames=st.integers(1, 60))
    def audio_arrives(self, frames: int) -> None:
        for _ in range(frames):
            self.now_secs += 0.02
            self.hold.add_audio(now_secs=self.now_secs, duration_secs=0.02)
            self._wake()

    @rule(secs=LONG)
    def nothing_arrives(self, secs: float) -> None:
        self.doubted = True
        self.now_secs += secs
        self._wake()

    @rule(secs=SOON, band=st.sampled_from(LinkBand), muted=st.booleans())
    def audio_is_lost(self, secs: float, band: LinkBand, muted: bool) -> None:
        self.doubted |= secs > 0.0
        total_secs = self.network.concealed_total_secs + secs
        self.network = NetworkState(band=band, concealed_total_secs=total_secs, muted=muted)
        self.hold.add_network(self.network, now_secs=self.now_secs)
        self._wake()

    @rule(times=st.integers(1, 8), frames=st.integers(20, 29))
    def packets_are_lost_now_and_then(self, times: int, frames: int) -> None:
        for _ in range(times):
            self.audio_is_lost(secs=0.05, band=LinkBand.GOOD, muted=False)
            self.audio_arrives(frames=frames)

    @rule()
    def the_caller_speaks(self) -> None:
        self._released(self.hold.speech_started(now_secs=self.now_secs))
        self.speaking = True
        assert not self.hold.held, "a boundary is never withheld over speech"
        assert self.hold.vouched_secs == 0.0

    @rule()
    def a_recogniser_hears_the_caller_go_on(self) -> None:
        self._released(self.hold.speech_resumed(now_secs=self.now_secs))
        assert not self.hold.held

    @rule(stop_secs=st.floats(0.0, 1.0))
    def the_caller_pauses(self, stop_secs: float) -> None:
        self.speaking = False
        self.hold.speech_stopped(now_secs=self.now_secs, stop_secs=stop_secs)
        self._wake()

    @rule()
    def a_strategy_ends_the_turn(self) -> None:
        if self.hold.held:
            vouched_secs = self.hold.vouched_secs
            with pytest.raises(InvalidTransitionError):
                self.hold.boundary(now_secs=self.now_secs)
            assert self.hold.held
            assert self.hold.vouched_secs == vouched_secs
            return
        self.proposed += 1
        held = self.hold.boundary(now_secs=self.now_secs)
        assert isinstance(held, TurnHeld) is self.hold.held
        assert held is None or self.doubted, "nothing speaks against it, and it is withheld"
        self.passed += held is None

    @rule()
    def something_else_ends_the_turn(self) -> None:
        self._released(self.hold.turn_over(now_secs=self.now_secs))
        assert not self.hold.held

    @rule(ms=st.none() | st.integers(200, 60_000), origin=st.sampled_from(DirectiveOrigin))
    def a_longer_silence_is_asked_for(self, ms: int | None, origin: DirectiveOrigin) -> None:
        self.doubted |= ms is not None
        self.hold.set_silence(ms, origin=origin, now_secs=self.now_secs)

    @rule(before_secs=st.floats(0.0, 0.5))
    def the_deadline_comes(self, before_secs: float) -> None:
        deadline_secs = self.hold.next_deadline()
        assert (deadline_secs is not None) is self.hold.held
        if deadline_secs is None:
            return
        self.now_secs = max(self.now_secs, deadline_secs - before_secs)
        self._wake()
        self.now_secs = max(self.now_secs, deadline_secs)
        self._wake()
        assert not self.hold.held, "the hard deadline ends every hold"

    @invariant()
    def every_proposal_passes_is_emitted_is_dropped_or_waits(self) -> None:
        assert self.proposed == self.passed + self.emitted + self.dropped + self.hold.held
        assert self.hold.vouched_secs >= 0.0
        silence_secs = self.hold.silence_secs(self.now_secs)
        assert silence_secs is None or silence_secs <= self.config.cap_secs


# -- deferred responses


class WatchedDeferral(Deferral):
    used: ClassVar[set[tuple[object, object]]] = set()

    def _move(self, event: deferral_module._Event) -> None:
        before = self._phase
        super()._move(event)
        self.used.add((before, event))


class Deferring(RuleBasedStateMachine):
    """A model that defers whenever it can, a caller who goes on or not, and a line that recovers or not."""

    def __init__(self) -> None:
        super().__init__()
        self.config = DeferralConfig()
        self.machine = WatchedDeferral(self.config)
        self.now_secs = 0.0
        self.deferred = self.answered = self.cancelled = 0
        self.since_secs = 0.0
        self.deferred_this_turn = False

    def _wake(self) -> None:
        before = self.machine.phase
        reason = self.machine.wake(now_secs=self.now_secs)
        if reason is None:
            return
        self.answered += 1
        assert self.machine.phase is DeferralPhase.IDLE
        assert self.machine.reason is None
        if before is DeferralPhase.CONTINUING:
            assert reason is AnswerReason.NOTHING_SAID
        else:
            assert self.now_secs - self.since_secs >= self.config.soft_deadline_secs - 1e-5
        assert self.machine.wake(now_secs=self.now_secs) is None, "it is given once"

    @rule(secs=LONG)
    def time_passes(self, secs: float) -> None:
        self.now_secs += secs
        self._wake()

    @rule()
    def the_model_defers(self) -> None:
        possible = self.machine.available
        before = self.machine.phase
        if possible:
            self.machine.defer("the number may be cut", now_secs=self.now_secs)
            assert not self.deferred_this_turn, "once a turn"
            self.deferred += 1
            self.deferred_this_turn = True
            self.since_secs = self.now_secs
            return
        with pytest.raises(InvalidTransitionError):
            self.machine.defer("again", now_secs=self.now_secs)
        assert self.machine.phase is before

    @rule(impaired=st.booleans())
    def the_line_changes(self, impaired: bool) -> None:
        self.machine.network(impaired=impaired)
        self._wake()

    @rule(gap_secs=st.floats(-1.0, 10.0), silence_ms=st.floats(100.0, 4000.0))
    def the_caller_speaks(self, gap_secs: float, silence_ms: float) -> None:
        waited = self.machine.phase is DeferralPhase.PENDING
        continuation = self.machine.speech_started(gap_secs=gap_secs, vad_silence_ms=silence_ms)
        assert (continuation is not None) is waited
        if continuation is not None:
            assert continuation.silence_ms <= self.config.longest_silence_ms
            assert continuation.silence_ms % self.config.quantum_ms == 0
            assert continuation.silence_ms >= min(silence_ms, self.config.longest_silence_ms)

    @rule()
    def the_caller_stops(self) -> None:
        self.machine.speech_stopped(now_secs=self.now_secs)

    @rule()
    def the_next_turn_is_answered(self) -> None:
        waited = self.machine.phase is not DeferralPhase.IDLE
        assert self.machine.turn_answered() is waited
        self.answered += waited
        self.deferred_this_turn = False
        assert self.machine.available

    @rule()
    def the_call_ends(self) -> None:
        self.cancelled += self.machine.phase is not DeferralPhase.IDLE
        self.machine.cancel()
        assert self.machine.phase is DeferralPhase.IDLE

    @invariant()
    def each_deferred_response_is_given_once_or_waits(self) -> None:
        waits = self.machine.phase is not DeferralPhase.IDLE
        assert self.deferred == self.answered + self.cancelled + waits
        assert (self.machine.reason is not None) is waits
        assert waits or self.machine.next_deadline() is None

    @invariant()
    def none_waits_beyond_the_hard_deadline_unless_the_caller_speaks(self) -> None:
        if self.machine.phase is DeferralPhase.PENDING:
            assert self.now_secs - self.since_secs < self.config.hard_deadline_secs


# -- speech over the bot's voice

WORDS = st.sampled_from(
    ["mhm", "yeah okay", "stop", "yes", "no wait", "", "...", "\x00", "uh huh oh right sure"]
)


class Speech(RuleBasedStateMachine):
    """A caller who coughs, agrees and interrupts while the bot does or does not speak."""

    used: ClassVar[set[tuple[CandidateState, CandidateState]]] = set()

    def __init__(self) -> None:
        super().__init__()
        self.machine = SpeechCandidate()
        self.now_secs = 0.0
        self.bot_speaks = False
        self.before = CandidateState.IDLE

    def _check(self, verdict: CandidateVerdict) -> None:
        if verdict is CandidateVerdict.CONFIRM:
            assert self.machine.state is CandidateState.CONFIRMED
            assert self.machine.next_deadline() is None

    @rule()
    def the_bot_starts(self) -> None:
        self.machine.bot_started()
        self.bot_speaks = True

    @rule()
    def the_bot_stops(self) -> None:
        was = self.machine.state
        verdict = self.machine.bot_stopped()
        self.bot_speaks = False
        assert (verdict is CandidateVerdict.CONFIRM) is (was is CandidateState.CANDIDATE)

    @rule()
    def speech_begins(self) -> None:
        verdict = self.machine.speech_started(self.now_secs)
        self._check(verdict)
        assert (verdict is CandidateVerdict.CONFIRM) is not self.bot_speaks

    @rule()
    def speech_ends(self) -> None:
        self.machine.speech_stopped()
        assert self.machine.state is CandidateState.IDLE
        assert self.machine.tick(self.now_secs + 100.0) is CandidateVerdict.NOTHING, (
            "a cough confirms nothing later"
        )

    @rule(text=WORDS, was_asked=st.booleans())
    def words_come(self, text: str, was_asked: bool) -> None:
        verdict = self.machine.transcribed(text, was_asked=was_asked)
        self._check(verdict)
        if self.bot_speaks and is_backchannel(text) and not was_asked:
            assert verdict is CandidateVerdict.BACKCHANNEL
        if not any(letter.isalpha() for letter in text):
            assert verdict is CandidateVerdict.NOTHING

    @rule(secs=SOON)
    def time_passes(self, secs: float) -> None:
        self.now_secs += secs
        due_secs = self.machine.next_deadline()
        verdict = self.machine.tick(self.now_secs)
        self._check(verdict)
        assert (verdict is CandidateVerdict.CONFIRM) is (due_secs is not None and due_secs <= self.now_secs)

    @rule()
    def the_turn_starts(self) -> None:
        self.machine.turn_started()
        self.bot_speaks = False
        assert self.machine.next_deadline() is None

    @invariant()
    def only_a_candidate_waits_for_a_deadline(self) -> None:
        if self.machine.next_deadline() is not None:
            assert self.machine.state is CandidateState.CANDIDATE
        if self.machine.state is not self.before:
            self.used.add((self.before, self.machine.state))
        self.before = self.machine.state


TestBotTurns = BotTurns.TestCase
TestCalls = Calls.TestCase
TestHolding = Holding.TestCase
TestDeferring = Deferring.TestCase
TestSpeech = Speech.TestCase

IDLE, CANDIDATE, CONFIRMED = CandidateState


@pytest.mark.parametrize(
    ("machine", "used", "table"),
    [
        (BotTurns, BotTurns.used, set(ledger._TRANSITIONS)),
        (Calls, Calls.used, set(action_gate._TRANSITIONS)),
        (Holding, WatchedHold.used, set(hold_module._TRANSITIONS)),
        (Deferring, WatchedDeferral.used, set(deferral_module._TRANSITIONS)),
        (
            Speech,
            Speech.used,
            {
                (IDLE, CANDIDATE),
                (IDLE, CONFIRMED),
                (CANDIDATE, IDLE),
                (CANDIDATE, CONFIRMED),
                (CONFIRMED, IDLE),
                (CONFIRMED, CANDIDATE),
            },
        ),
    ],
    ids=["bot turns", "calls", "held turns", "deferred responses", "speech"],
)
def test_every_transition_of_the_table_happens(
    machine: type[RuleBasedStateMachine], used: set[object], table: set[object]
) -> None:
    used.clear()
    # A run may leave rules out on purpose, so that rare ones come in a row; ten that differ do not all miss the same.
    differing = settings(
        derandomize=False, database=None, max_examples=100, stateful_step_count=50, deadline=None
    )
    for _ in range(10):
        run_state_machine_as_test(machine, settings=differing)
        if used == table:
            break
    assert used == table
