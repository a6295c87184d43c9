"""`VoiceContext`: what it builds, what it refuses, how it passes events on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMUserAggregatorParams
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies

from pipecat_voicectx.demo.espeak_tts import EspeakTTSService
from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.orchestrator.turn_hold import TurnHoldConfig
from pipecat_voicectx.processors.turn_hold import TurnHoldStopStrategy
from pipecat_voicectx.stores.embedders import LexicalEmbedder
from pipecat_voicectx.testing.openai_server import ChatRequest, Reply
from pipecat_voicectx.testing.scripted_session import PassThrough, Session, Transport, play
from pipecat_voicectx.testing.virtual_time import run
from pipecat_voicectx.voice_context import Part, VoiceContext, VoiceContextConfig


def make(**options: Any) -> VoiceContext:
    return VoiceContext(
        context=LLMContext(),
        transport=Transport(),  # type: ignore[arg-type]
        stt=PassThrough(),
        llm=PassThrough(),
        tts=PassThrough(),
        embedder=LexicalEmbedder(),
        **options,
    )


def test_the_pipeline_is_in_the_documented_order() -> None:
    voice = make()
    names = [type(processor).__name__ for processor in voice.processors()]
    ours = [name for name in names if name not in ("PassThrough", "_PacedOutput")]
    assert ours == [
        "SpeakingRateTracker",
        "NetworkTracker",
        "AcousticsTracker",
        "LLMUserAggregator",
        "MemoryProjector",
        "Orchestrator",
        "PlaybackLedger",
        "LLMAssistantAggregator",
    ]
    assert names.index("_PacedOutput") == names.index("PlaybackLedger") - 1


@pytest.mark.parametrize("part", [part for part in Part if part is not Part.NETWORK])
def test_a_part_left_out_is_not_built(part: Part) -> None:
    everything = len(make().processors())
    voice = make(config=VoiceContextConfig(parts=frozenset(Part) - {part}))
    # Turn holding is no processor; acoustics and affect share one.
    shared = part in (Part.TURN_HOLD, Part.ACOUSTICS, Part.AFFECT)
    assert len(voice.processors()) == (everything if shared else everything - 1)


def test_without_acoustics_and_affect_nobody_listens_to_the_sound() -> None:
    voice = make(config=VoiceContextConfig(parts=frozenset(Part) - {Part.ACOUSTICS, Part.AFFECT}))
    assert voice.acoustics is None


def test_without_any_part_it_is_a_stock_pipeline_with_stock_settings() -> None:
    voice = make(config=VoiceContextConfig(parts=frozenset()))
    assert len(voice.processors()) == 7
    assert (
        voice.aggregators.user()._params.user_turn_stop_timeout
        == LLMUserAggregatorParams().user_turn_stop_timeout
    )


def test_holding_turns_without_watching_the_network_is_refused() -> None:
    with pytest.raises(UsageError, match="TURN_HOLD needs NETWORK"):
        VoiceContextConfig(parts=frozenset({Part.TURN_HOLD}))


def test_a_store_without_an_owner_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="user_id"):
        make(store_path=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_anonymous_callers_never_share_an_owner() -> None:
    first, second = make(), make()
    assert first.memory is not None
    assert second.memory is not None
    assert first.memory.memory._owner != second.memory.memory._owner


@pytest.mark.parametrize(("given", "expected"), [(5.0, 6.0), (9.0, 9.0)])
def test_the_turn_watchdog_outlasts_the_longest_hold(given: float, expected: float) -> None:
    voice = make(user_params=LLMUserAggregatorParams(user_turn_stop_timeout=given))
    assert voice.aggregators.user()._params.user_turn_stop_timeout == expected


@pytest.mark.parametrize(("given", "expected"), [(1.0, 6.0), (0.0, 0.0), (8.0, 8.0)])
def test_the_idle_watchdog_outlasts_the_longest_hold_unless_it_is_off(given: float, expected: float) -> None:
    voice = make(user_params=LLMUserAggregatorParams(audio_idle_timeout=given))
    assert voice.aggregators.user()._params.audio_idle_timeout == expected


def test_the_application_s_own_params_are_left_as_they_are() -> None:
    params = LLMUserAggregatorParams()
    make(user_params=params)
    assert params.audio_idle_timeout == 1.0


def test_a_longer_hold_raises_the_watchdogs_with_it() -> None:
    config = VoiceContextConfig(turn_hold=TurnHoldConfig(cap_secs=8.0))
    assert make(config=config).aggregators.user()._params.user_turn_stop_timeout == 9.0


def test_the_configured_stop_strategies_are_wrapped() -> None:
    strategies = UserTurnStrategies(stop=[SpeechTimeoutUserTurnStopStrategy()])
    voice = make(user_params=LLMUserAggregatorParams(user_turn_strategies=strategies))
    stop = voice.aggregators.user()._user_turn_controller.user_turn_strategies.stop
    assert [type(strategy) for strategy in stop or []] == [TurnHoldStopStrategy]


def test_an_unknown_event_is_refused_by_naming_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"on_heerd.*on_heard"):
        make().add_event_handler("on_heerd", _nothing)


async def _nothing(*_values: object) -> None:
    pass


class Talks:
    def reply(self, request: ChatRequest) -> Reply:
        return Reply(text="First sentence of the answer. Second sentence of the answer.")


def test_events_of_every_working_part_reach_the_application() -> None:
    seen: dict[str, list[object]] = {}

    async def script(session: Session) -> None:
        assert session.voice is not None
        for name in VoiceContext.EVENTS:
            _collect(session.voice, name, seen)
        await session.say("one two three four five six")
        await session.answered()
        await session.say("seven eight nine ten eleven twelve")
        await session.answered()

    play(script, Talks(), ours=True, tts=EspeakTTSService)
    for name in ("on_speaking_rate", "on_network_state", "on_heard", "on_projected", "on_recall"):
        assert seen.get(name), name
    heard = [turn.heard_text for turn in seen["on_heard"]]  # type: ignore[attr-defined]
    assert heard[0] == "First sentence of the answer. Second sentence of the answer."


def _collect(voice: VoiceContext, name: str, seen: dict[str, list[object]]) -> None:
    @voice.event_handler(name)
    async def collect(_source: object, value: object) -> None:
        seen.setdefault(name, []).append(value)


def test_a_call_that_was_given_a_user_is_identified_as_nobody_else() -> None:
    async def identify_twice() -> None:
        voice = make(user_id="ann")
        await voice.identify("ann")
        with pytest.raises(UsageError, match="another user"):
            await voice.identify("bob")

    run(identify_twice())
