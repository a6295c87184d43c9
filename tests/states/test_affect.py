from __future__ import annotations

from dataclasses import replace

import pytest

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.signals.prosody import Prosody
from pipecat_voicectx.states.affect import (
    AffectConfig,
    AffectEvidence,
    AffectReading,
    AffectState,
    ProsodyAffect,
    blended,
)

USUAL = Prosody(
    speech_secs=3.0,
    level_dbfs=-26.0,
    level_spread_db=14.0,
    pause_ratio=0.1,
    nuclei_per_sec=4.5,
    voiced_secs=2.2,
    f0_hz=120.0,
    f0_spread_semitones=5.0,
)
RAISED = replace(
    USUAL, f0_hz=165.0, f0_spread_semitones=9.0, level_dbfs=-19.0, nuclei_per_sec=6.0, pause_ratio=0.0
)
LOWERED = replace(
    USUAL, f0_hz=100.0, f0_spread_semitones=2.0, level_dbfs=-33.0, nuclei_per_sec=3.2, pause_ratio=0.35
)
ANGER = AffectReading(label="anger", valence=-0.7, confidence=0.5)


def evidence(prosody: Prosody | None, **more: object) -> AffectEvidence:
    base = AffectEvidence(turn=9, prosody=prosody, words=None, snr_db=25.0)
    return replace(base, **more)  # type: ignore[arg-type]


def known(turns: int = 6) -> ProsodyAffect:
    """A caller whose voice has been heard for some turns, a little different each time."""
    estimator = ProsodyAffect()
    for number in range(turns):
        f0 = 120.0 * (1.0 + 0.02 * (number % 3 - 1))
        estimator.finish(evidence(replace(USUAL, f0_hz=f0, level_dbfs=-26.0 + number % 2)))
    return estimator


def label(state: AffectState) -> str | None:
    return state.reading.label if state.reading else None


def test_before_the_caller_is_known_the_voice_claims_nothing() -> None:
    state = known(turns=2).estimate(evidence(RAISED))
    assert (state.arousal, state.voice, state.reading) == (None, None, None)


def test_a_raised_voice_is_aroused_and_a_lowered_one_subdued() -> None:
    assert label(known().estimate(evidence(RAISED))) == "aroused"
    assert label(known().estimate(evidence(LOWERED))) == "subdued"


def test_the_usual_voice_claims_nothing() -> None:
    state = known().estimate(evidence(USUAL))
    assert state.reading is None
    assert state.arousal == pytest.approx(0.0, abs=0.15)


def test_the_same_voice_is_judged_against_its_own_baseline_only() -> None:
    """A voice that is high, loud and fast by nature is not excited by nature."""
    lively = ProsodyAffect()
    for _ in range(6):
        lively.finish(evidence(RAISED))
    assert lively.estimate(evidence(RAISED)).reading is None
    assert label(lively.estimate(evidence(USUAL))) == "subdued"


def test_one_feature_alone_claims_nothing() -> None:
    for change in ({"f0_hz": 250.0}, {"level_dbfs": -5.0}, {"nuclei_per_sec": 9.0}, {"pause_ratio": 0.9}):
        assert known().estimate(evidence(replace(USUAL, **change))).voice is None


def test_the_voice_alone_has_no_valence_and_bounded_confidence() -> None:
    voice = known(turns=20).estimate(evidence(RAISED)).voice
    assert voice is not None
    assert voice.valence == 0.0
    assert 0.35 <= voice.confidence <= 0.6


@pytest.mark.parametrize(
    "worse",
    [{"snr_db": 2.0}, {"snr_db": -3.0}, {"lost_secs": 1.0}, {"prosody": replace(RAISED, voiced_secs=0.3)}],
)
def test_poor_evidence_claims_nothing(worse: dict[str, object]) -> None:
    assert known().estimate(replace(evidence(RAISED), **worse)).voice is None  # type: ignore[arg-type]


def test_words_are_claimed_without_a_baseline() -> None:
    state = ProsodyAffect().estimate(evidence(USUAL, words=ANGER))
    assert state.reading == ANGER


def test_a_voice_that_fits_the_words_makes_them_surer_and_one_that_does_not_less() -> None:
    raised = known().estimate(evidence(RAISED, words=ANGER)).reading
    lowered = known().estimate(evidence(LOWERED, words=ANGER)).reading
    assert raised is not None
    assert raised.label == "anger"
    assert raised.valence == ANGER.valence
    assert raised.confidence == pytest.approx(0.65)
    assert lowered is None or lowered.confidence < ANGER.confidence


def test_what_is_below_the_least_confidence_is_not_claimed() -> None:
    faint = AffectReading(label="joy", valence=0.4, confidence=0.34)
    assert ProsodyAffect().estimate(evidence(None, words=faint)).reading is None
    odd = AffectReading(label="joy", valence=0.4, confidence=float("nan"))
    assert ProsodyAffect().estimate(evidence(None, words=odd)).reading is None


def test_turns_that_cannot_be_judged_do_not_enter_the_baseline() -> None:
    estimator = ProsodyAffect()
    estimator.finish(evidence(None))
    estimator.finish(evidence(replace(USUAL, f0_hz=None)))
    estimator.finish(evidence(USUAL, snr_db=-5.0))
    estimator.finish(evidence(USUAL, lost_secs=2.0))
    assert estimator.baseline_turns == 0
    for _ in range(50):
        estimator.finish(evidence(USUAL))
    assert estimator.baseline_turns == AffectConfig().baseline_turns
    estimator.restart()
    assert estimator.baseline_turns == 0


def test_two_readings_with_valence_are_weighted_by_confidence() -> None:
    sad = AffectReading(label="sadness", valence=-0.6, confidence=0.8)
    glad = AffectReading(label="joy", valence=0.8, confidence=0.4)
    both = blended(sad, glad)
    assert both is not None
    assert both.label == "sadness"
    assert both.valence == pytest.approx((-0.48 + 0.32) / 1.2)
    assert both.confidence == pytest.approx(0.56)
    assert blended(None, None) is None
    assert blended(sad, None) is sad
    assert blended(replace(sad, confidence=0.0), replace(glad, confidence=0.0)) is None


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="least_confidence"):
        AffectConfig(least_confidence=0.0)
    with pytest.raises(UsageError, match="fewest_turns"):
        AffectConfig(fewest_turns=30)
