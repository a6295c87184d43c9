"""The wrapper inside the real user aggregator: same events at the same times on a clean line, held on a bad one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from pipecat.audio.turn.base_turn_analyzer import BaseTurnAnalyzer, BaseTurnParams, EndOfTurnState
from pipecat.frames.frames import (
    EagerEndOfTurnCancelFrame,
    EagerTranscriptionFrame,
    Frame,
    InputAudioRawFrame,
    LLMContextFrame,
    ProposedUserStartedSpeakingFrame,
    ProposedUserStoppedSpeakingFrame,
    STTMetadataFrame,
    TranscriptionFrame,
    UserTurnInferenceCompletedFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.metrics.metrics import MetricsData
from pipecat.pipeline.pipeline import Pipeline
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMUserAggregator, LLMUserAggregatorParams
from pipecat.tests.utils import SleepFrame, run_test
from pipecat.turns.user_stop import (
    BaseUserTurnStopStrategy,
    DeferredUserTurnStopStrategy,
    EagerUserTurnStopStrategy,
    ExternalUserTurnStopStrategy,
    SpeechTimeoutUserTurnStopStrategy,
    TurnAnalyzerUserTurnStopStrategy,
)
from pipecat.turns.user_turn_strategies import (
    ExternalUserTurnStrategies,
    FilterIncompleteUserTurnStrategies,
    UserTurnStrategies,
)

from pipecat_voicectx.orchestrator.directives import DirectiveOrigin, SetVadSilenceDuration
from pipecat_voicectx.orchestrator.turn_hold import ReleaseReason, TurnHeld, TurnHoldConfig, TurnReleased
from pipecat_voicectx.processors.frames import DirectiveFrame
from pipecat_voicectx.processors.network_tracker import NetworkTracker
from pipecat_voicectx.processors.turn_hold import TurnHoldStopStrategy, wrap_stop_strategies
from pipecat_voicectx.processors.turn_hold_install import install_turn_hold
from pipecat_voicectx.states.pause_profile import PauseProfileConfig
from pipecat_voicectx.testing import virtual_time

RNG = np.random.default_rng(1)


class ScriptedAnalyzer(BaseTurnAnalyzer):
    """Says what it was told to say, whatever it hears."""

    def __init__(self) -> None:
        super().__init__()

    @property
    def speech_triggered(self) -> bool:
        return False

    @property
    def params(self) -> BaseTurnParams:
        return BaseTurnParams()

    def append_audio(self, buffer: bytes, is_speech: bool) -> EndOfTurnState:
        return EndOfTurnState.INCOMPLETE

    async def analyze_end_of_turn(self) -> tuple[EndOfTurnState, MetricsData | None]:
        return EndOfTurnState.COMPLETE, None

    def clear(self) -> None:
        pass


class Call:
    """A caller on a line with numbered 20 ms packets, as frames with the time between them."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.packet = 0

    def _step(self) -> None:
        self.frames.append(SleepFrame(sleep=0.02))
        self.packet += 1

    def receive(self, secs: float) -> Call:
        for _ in range(round(secs / 0.02)):
            self._step()
            frame = InputAudioRawFrame(
                audio=RNG.normal(0, 300, 320).astype(np.int16).tobytes(), sample_rate=16_000, num_channels=1
            )
            frame.pts = self.packet * 960
            self.frames.append(frame)
        return self

    def lose(self, secs: float) -> Call:
        for _ in range(round(secs / 0.02)):
            self._step()
        return self

    def say(self, *frames: Frame) -> Call:
        self.frames += frames
        return self

    def starts(self) -> Call:
        return self.say(VADUserStartedSpeakingFrame(start_secs=0.2))

    def stops(self) -> Call:
        return self.say(VADUserStoppedSpeakingFrame(stop_secs=0.2))

    def text(self, text: str) -> Call:
        return self.say(TranscriptionFrame(text=text, user_id="u", timestamp="t", finalized=True))


@dataclass
class Heard:
    events: list[tuple[float, str]] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    inferences: int = 0
    withdrawn: int = 0
    held: list[TurnHeld] = field(default_factory=list)
    released: list[TurnReleased] = field(default_factory=list)

    def times(self, kind: str) -> list[float]:
        return [at for at, name in self.events if name == kind]


def play(
    call: Call,
    strategies: Callable[[], UserTurnStrategies | None],
    *,
    wrap: bool = True,
    turn_timeout: float = 6.0,
    config: TurnHoldConfig | None = None,
) -> Heard:
    async def main() -> Heard:
        heard = Heard()
        loop = asyncio.get_running_loop()
        context = LLMContext()
        aggregator = LLMUserAggregator(
            context,
            params=LLMUserAggregatorParams(
                user_turn_strategies=strategies(), user_turn_stop_timeout=turn_timeout
            ),
        )
        if wrap:
            install_turn_hold(
                aggregator,
                config,
                handlers=[
                    ("on_turn_held", lambda _, held: heard.held.append(held)),
                    ("on_turn_released", lambda _, released: heard.released.append(released)),
                ],
            )
        start = 0.0

        def note(kind: str) -> Callable[..., None]:
            def on_event(*_: object) -> None:
                heard.events.append((round(loop.time() - start, 4), kind))

            return on_event

        for kind in ("on_user_turn_started", "on_user_turn_inference_triggered", "on_user_turn_stopped"):
            aggregator.add_event_handler(kind, note(kind))
        start = loop.time()
        down, _ = await run_test(
            Pipeline([NetworkTracker(), aggregator]),
            frames_to_send=[*call.frames, SleepFrame(sleep=8.0)],
        )
        heard.messages = [str(message["content"]) for message in context.messages]  # type: ignore[index]
        heard.inferences = sum(isinstance(frame, LLMContextFrame) for frame in down)
        heard.withdrawn = sum(isinstance(frame, EagerEndOfTurnCancelFrame) for frame in down)
        return heard

    return virtual_time.run(main())


def speech_timeout() -> UserTurnStrategies:
    return UserTurnStrategies(stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0.3)])


def turn_analyzer() -> UserTurnStrategies:
    return UserTurnStrategies(stop=[TurnAnalyzerUserTurnStopStrategy(turn_analyzer=ScriptedAnalyzer())])


def deferred() -> UserTurnStrategies:
    inner = SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0.3)
    return UserTurnStrategies(stop=[DeferredUserTurnStopStrategy(inner)])


def external() -> UserTurnStrategies:
    return ExternalUserTurnStrategies()


def eager() -> UserTurnStrategies:
    strategies = ExternalUserTurnStrategies()
    strategies.stop = [EagerUserTurnStopStrategy()]
    return strategies


def llm_completion() -> UserTurnStrategies:
    detector = SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0.3)
    return FilterIncompleteUserTurnStrategies(stop=[detector])


def by_the_models_verdict() -> Call:
    call = Call().receive(1.0)
    for text in ("first turn", "second turn"):
        call.starts().receive(1.5).stops().receive(0.1).text(text).receive(0.9)
        call.say(UserTurnInferenceCompletedFrame()).receive(1.0)
    # A turn that the model calls incomplete: no verdict until the caller has gone on.
    call.starts().receive(1.0).stops().receive(0.1).text("third").receive(1.5)
    call.starts().receive(1.0).stops().receive(0.1).text("turn").receive(0.9)
    return call.say(UserTurnInferenceCompletedFrame()).receive(1.0)


def by_voice() -> Call:
    call = Call().receive(1.0)
    for text in ("first turn", "second turn"):
        call.starts().receive(1.5).stops().receive(0.1).text(text).receive(2.0)
    # A pause inside a turn, and a transcript that comes late.
    return (
        call.starts()
        .receive(1.0)
        .stops()
        .receive(0.2)
        .starts()
        .receive(1.0)
        .stops()
        .receive(0.9)
        .text("third")
    )


def by_service() -> Call:
    call = Call().receive(1.0)
    for text in ("first turn", "second turn"):
        call.say(ProposedUserStartedSpeakingFrame()).receive(1.5).text(text)
        call.say(ProposedUserStoppedSpeakingFrame()).receive(2.0)
    return call


def by_eager_service() -> Call:
    call = Call().receive(1.0)
    for eager_text, text in (("first turn", "First turn."), ("second", "second turn")):
        call.say(ProposedUserStartedSpeakingFrame()).receive(1.5)
        call.say(EagerTranscriptionFrame(text=eager_text, user_id="u", timestamp="t")).receive(0.3)
        call.text(text).say(ProposedUserStoppedSpeakingFrame()).receive(2.0)
    return call


@pytest.mark.parametrize(
    ("call", "strategies"),
    [
        (by_voice, speech_timeout),
        (by_voice, turn_analyzer),
        (by_voice, deferred),
        (by_service, external),
        (by_eager_service, eager),
        (by_the_models_verdict, llm_completion),
    ],
)
def test_on_a_clean_line_the_same_events_come_at_the_same_times(
    call: Callable[[], Call], strategies: Callable[[], UserTurnStrategies]
) -> None:
    bare = play(call(), strategies, wrap=False)
    wrapped = play(call(), strategies)
    assert bare.events
    assert wrapped.events == bare.events
    assert wrapped.messages == bare.messages
    assert wrapped.inferences == bare.inferences
    assert wrapped.held == []


def outage_in_mid_sentence() -> Call:
    """Two seconds are gone in the middle; the host's watchdog reports a stop after one second without audio."""
    call = Call().receive(1.0).starts().receive(1.5).lose(1.0).stops().lose(0.2).text("I would like to fly")
    return (
        call.lose(0.8).receive(0.02).starts().receive(1.5).stops().receive(0.1).text("to Lisbon").receive(2.0)
    )


@pytest.mark.parametrize("strategies", [speech_timeout, turn_analyzer])
def test_an_outage_in_mid_sentence_is_one_user_message_and_one_answer(
    strategies: Callable[[], UserTurnStrategies],
) -> None:
    bare = play(outage_in_mid_sentence(), strategies, wrap=False)
    assert bare.inferences == 2  # what stock Pipecat does with it
    held = play(outage_in_mid_sentence(), strategies)
    assert held.messages == ["I would like to fly to Lisbon"]
    assert held.inferences == 1
    assert len(held.times("on_user_turn_stopped")) == 1
    assert [item.reason for item in held.released] == [ReleaseReason.CONTINUED]


def test_the_models_verdict_is_not_held_but_what_it_is_asked_about_is() -> None:
    call = outage_in_mid_sentence().say(UserTurnInferenceCompletedFrame()).lose(0.4).receive(1.0)
    heard = play(call, llm_completion)
    assert heard.inferences == 1
    assert heard.messages == ["I would like to fly to Lisbon"]
    # The line fails again while the answer is on its way: the turn is over all the same.
    verdict_secs = sum(
        frame.sleep for frame in outage_in_mid_sentence().frames if isinstance(frame, SleepFrame)
    )
    assert heard.times("on_user_turn_stopped") == [pytest.approx(verdict_secs, abs=0.05)]


def test_a_turn_that_really_ends_in_a_burst_ends_as_soon_as_silence_is_received() -> None:
    call = (
        Call()
        .receive(1.0)
        .starts()
        .receive(1.5)
        .lose(0.3)
        .receive(0.1)
        .stops()
        .text("that is all")
        .receive(4.0)
    )
    heard = play(call, speech_timeout)
    assert heard.messages == ["that is all"]
    assert [item.reason for item in heard.released] == [ReleaseReason.VOUCHED]
    # 1 s lead, 1.5 s speech, 0.3 s lost, then 0.6 s of silence that was received.
    assert heard.times("on_user_turn_stopped") == [pytest.approx(3.42, abs=0.1)]


def test_a_caller_who_never_comes_back_is_answered_at_the_hard_deadline() -> None:
    call = Call().receive(1.0).starts().receive(1.5).lose(1.0).stops().text("hello").lose(7.0)
    heard = play(call, speech_timeout)
    assert [item.reason for item in heard.released] == [ReleaseReason.HARD_DEADLINE]
    assert heard.released[0].held_secs == pytest.approx(5.0, abs=0.01)
    assert heard.messages == ["hello"]


def test_with_a_short_host_timeout_the_cap_shrinks_below_it() -> None:
    call = Call().receive(1.0).starts().receive(1.5).lose(1.0).stops().text("hello").lose(5.0)
    heard = play(call, speech_timeout, turn_timeout=3.0)
    assert [item.reason for item in heard.released] == [ReleaseReason.HARD_DEADLINE]
    assert heard.released[0].held_secs == pytest.approx(2.5, abs=0.01)


def test_a_confirmed_speculation_is_withdrawn_when_the_caller_speaks_on() -> None:
    call = Call().receive(1.0).say(ProposedUserStartedSpeakingFrame()).receive(1.0)
    call.say(EagerTranscriptionFrame(text="fly me", user_id="u", timestamp="t")).lose(0.3)
    call.text("fly me").say(ProposedUserStoppedSpeakingFrame()).lose(0.3).receive(0.02)
    call.say(ProposedUserStartedSpeakingFrame()).receive(1.0).text("to Lisbon").say(
        ProposedUserStoppedSpeakingFrame()
    ).receive(2.0)
    heard = play(call, eager)
    assert heard.messages == ["fly me to Lisbon"]
    assert heard.withdrawn == 1
    assert [item.reason for item in heard.released] == [ReleaseReason.CONTINUED]


def test_a_lengthened_silence_keeps_a_dictated_number_in_one_turn() -> None:
    """F06"""

    def dictation() -> Call:
        call = Call().receive(1.0).starts().receive(1.0).stops().text("zero five five").receive(0.9)
        return call.starts().receive(1.0).stops().text("one two three").receive(3.0)

    assert len(play(dictation(), speech_timeout).messages) == 2
    longer = SetVadSilenceDuration(duration_ms=1500, origin=DirectiveOrigin.MODEL)
    call = Call().say(DirectiveFrame(directive=longer))
    call.frames += dictation().frames
    heard = play(call, speech_timeout)
    assert heard.messages == ["zero five five one two three"]
    assert len(heard.times("on_user_turn_stopped")) == 1


def test_a_number_that_is_dictated_is_waited_for_without_being_told() -> None:
    """F06"""
    call = Call().receive(1.0).starts().receive(1.0).stops().text("zero five five").receive(0.9)
    call.starts().receive(1.0).stops().text("one two three").receive(3.0)
    heard = play(call, speech_timeout, config=TurnHoldConfig(pauses=PauseProfileConfig()))
    assert heard.messages == ["zero five five one two three"]
    assert [item.reason for item in heard.released] == [ReleaseReason.CONTINUED, ReleaseReason.VOUCHED]


def test_pauses_are_learned_and_then_waited_for() -> None:
    def slow_speaker() -> Call:
        call = Call().receive(1.0)
        # Six pauses of 0.25 s that the strategy bridges by itself, then one of 0.45 s, which it would not.
        for _ in range(6):
            call.starts().receive(0.8).stops().receive(0.24)
        call.starts().receive(0.8).stops().text("one part").receive(0.34)
        return call.starts().receive(0.8).stops().text("and the other").receive(3.0)

    assert len(play(slow_speaker(), speech_timeout).messages) == 2
    heard = play(slow_speaker(), speech_timeout, config=TurnHoldConfig(pauses=PauseProfileConfig()))
    assert heard.messages == ["one part and the other"]


def fluent_speaker() -> Call:
    call = Call().receive(1.0)
    for n in range(8):
        call.starts().receive(1.6).stops().receive(0.1).text(f"turn {n} is spoken fluently").receive(2.0)
    return call


@pytest.mark.parametrize("wait", [0.6, 1.2])
def test_a_fluent_speaker_is_answered_sooner_once_it_is_known(wait: float) -> None:
    def patient() -> UserTurnStrategies:
        return UserTurnStrategies(stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=wait)])

    bare = play(fluent_speaker(), patient, wrap=False)
    wrapped = play(fluent_speaker(), patient, config=TurnHoldConfig(pauses=PauseProfileConfig()))
    assert wrapped.messages == bare.messages
    before, after = bare.times("on_user_turn_stopped"), wrapped.times("on_user_turn_stopped")
    assert after[:6] == before[:6]
    # The detector's 0.2 s are the shortest silence there is: over with the words.
    assert [late - soon for late, soon in zip(before, after, strict=True)][6:] == [
        pytest.approx(wait - 0.1, abs=0.03)
    ] * 2


def test_a_service_that_ends_turns_is_not_hurried() -> None:
    bare = play(by_service(), external, wrap=False)
    config = TurnHoldConfig(pauses=PauseProfileConfig(fewest_to_shorten=1, fluent_secs=0.1))
    assert play(by_service(), external, config=config).events == bare.events


def test_strategies_that_a_service_installs_are_wrapped_too() -> None:
    installed: list[BaseUserTurnStopStrategy] = []

    async def main() -> None:
        aggregator = LLMUserAggregator(LLMContext())
        assert install_turn_hold(aggregator)
        recommended = ExternalUserTurnStrategies()
        metadata = STTMetadataFrame(
            service_name="stt", ttfs_p99_latency=0.5, user_turn_strategies=recommended
        )
        await run_test(aggregator, frames_to_send=[metadata, SleepFrame(sleep=0.1)])
        installed.extend(aggregator._user_turn_controller.user_turn_strategies.stop or [])

    virtual_time.run(main())
    assert [type(strategy) for strategy in installed] == [TurnHoldStopStrategy]
    assert isinstance(installed[0], TurnHoldStopStrategy)
    assert isinstance(installed[0].inner, ExternalUserTurnStopStrategy)


def test_wrapping_is_idempotent_and_absent_stays_absent() -> None:
    assert wrap_stop_strategies(None) is None
    strategies = speech_timeout()
    once = wrap_stop_strategies(strategies)
    assert once is strategies
    assert strategies.stop is not None
    first = strategies.stop[0]
    wrap_stop_strategies(strategies)
    assert strategies.stop == [first]


def test_the_wrapper_hands_through_what_realtime_mode_changes() -> None:
    wrapped = TurnHoldStopStrategy(SpeechTimeoutUserTurnStopStrategy())
    assert wrapped.wait_for_transcript
    wrapped.wait_for_transcript = False
    assert not wrapped.inner.wait_for_transcript  # type: ignore[attr-defined]
    bare = TurnHoldStopStrategy(DeferredUserTurnStopStrategy(SpeechTimeoutUserTurnStopStrategy()))
    assert not hasattr(bare, "wait_for_transcript")
    assert not bare.resolves_proposed_turn_stop_frames
    assert TurnHoldStopStrategy(ExternalUserTurnStopStrategy()).resolves_proposed_turn_stop_frames
