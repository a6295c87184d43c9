from __future__ import annotations

import pytest

from pipecat_voicectx.errors import InvalidTransitionError, UsageError
from pipecat_voicectx.orchestrator.deferral import (
    AnswerReason,
    Continuation,
    Deferral,
    DeferralConfig,
    DeferralPhase,
    longer_silence_ms,
)

CONFIG = DeferralConfig()


def pending(*, impaired: bool = False) -> Deferral:
    deferral = Deferral()
    deferral.network(impaired=impaired)
    deferral.defer("cut off", now_secs=10.0)
    return deferral


@pytest.mark.parametrize(
    ("vad_ms", "gap", "expected"),
    [
        (200, 0.0, 400),
        (200, 1.25, 1700),
        (500, 0.31, 1100),
        (1000, 0.3, 1500),
        (200, 0.6, 1000),
        (200, 9.0, 5000),
        (200, -1.0, 400),
    ],
)
def test_the_silence_grows_by_the_gap_and_a_margin_rounded_up(
    vad_ms: float, gap: float, expected: int
) -> None:
    assert longer_silence_ms(vad_silence_ms=vad_ms, gap_secs=gap, config=CONFIG) == expected


def test_on_a_healthy_line_the_soft_deadline_answers() -> None:
    deferral = pending()
    assert deferral.next_deadline() == 11.5
    assert deferral.wake(now_secs=11.4) is None
    assert deferral.wake(now_secs=11.5) is AnswerReason.RECOVERED
    assert deferral.wake(now_secs=11.6) is None
    assert deferral.phase is DeferralPhase.IDLE


def test_on_a_bad_line_the_hard_deadline_answers() -> None:
    deferral = pending(impaired=True)
    assert deferral.next_deadline() == 15.0
    assert deferral.wake(now_secs=14.9) is None
    assert deferral.wake(now_secs=15.0) is AnswerReason.HARD_DEADLINE


def test_recovery_between_the_deadlines_answers_at_once() -> None:
    deferral = pending(impaired=True)
    deferral.network(impaired=False)
    assert deferral.wake(now_secs=13.0) is AnswerReason.RECOVERED


def test_speech_is_a_continuation_and_its_turn_answers_both_parts() -> None:
    deferral = pending(impaired=True)
    assert deferral.speech_started(gap_secs=1.25, vad_silence_ms=200) == Continuation(
        gap_secs=1.25, silence_ms=1700
    )
    assert deferral.phase is DeferralPhase.CONTINUING
    assert deferral.next_deadline() is None
    assert deferral.wake(now_secs=99.0) is None
    assert deferral.turn_answered()
    assert deferral.phase is DeferralPhase.IDLE
    assert deferral.reason is None


def test_a_continuation_without_words_is_answered_after_all() -> None:
    deferral = pending()
    deferral.speech_started(gap_secs=1.0, vad_silence_ms=200)
    deferral.speech_stopped(now_secs=12.0)
    assert deferral.next_deadline() == 14.0
    assert deferral.wake(now_secs=13.9) is None
    assert deferral.wake(now_secs=14.0) is AnswerReason.NOTHING_SAID


def test_more_speech_of_a_continuation_puts_its_end_off() -> None:
    deferral = pending()
    deferral.speech_started(gap_secs=1.0, vad_silence_ms=200)
    deferral.speech_stopped(now_secs=12.0)
    assert deferral.speech_started(gap_secs=0.3, vad_silence_ms=200) is None
    assert deferral.wake(now_secs=20.0) is None


def test_a_turn_is_deferred_once_and_the_next_one_may_be_again() -> None:
    deferral = pending()
    assert not deferral.available
    with pytest.raises(InvalidTransitionError):
        deferral.defer("again", now_secs=10.5)
    assert deferral.wake(now_secs=11.5) is AnswerReason.RECOVERED
    with pytest.raises(InvalidTransitionError):
        deferral.defer("again", now_secs=12.0)
    assert not deferral.turn_answered()
    assert deferral.available


def test_speech_while_nothing_waits_is_no_continuation() -> None:
    assert Deferral().speech_started(gap_secs=1.0, vad_silence_ms=200) is None


def test_the_end_of_the_call_ends_the_wait() -> None:
    deferral = pending()
    deferral.cancel()
    deferral.cancel()
    assert deferral.wake(now_secs=99.0) is None
    assert deferral.next_deadline() is None
    assert deferral.reason is None


@pytest.mark.parametrize(
    "wrong",
    [{"soft_deadline_secs": 6.0}, {"soft_deadline_secs": 0.0}, {"quantum_ms": 0}, {"empty_turn_secs": 0.0}],
)
def test_a_config_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        DeferralConfig(**wrong)  # type: ignore[arg-type]
