import pytest

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.playback.speech_candidate import (
    CandidateState,
    CandidateVerdict,
    SpeechCandidate,
    SpeechCandidateConfig,
    is_backchannel,
)

CONFIRM, NOTHING = CandidateVerdict.CONFIRM, CandidateVerdict.NOTHING


@pytest.fixture
def spoken_over() -> SpeechCandidate:
    candidate = SpeechCandidate()
    candidate.bot_started()
    return candidate


@pytest.mark.parametrize("text", ["Mhm.", "uh-huh", "Yeah, okay.", "oh I see", "OK", "うん", "D'accord."])
def test_what_listeners_say_is_a_backchannel(text: str) -> None:
    assert is_backchannel(text)


@pytest.mark.parametrize(
    "text", ["", "...", "stop", "yeah but wait", "okay okay okay okay okay", "no", "うんでも"]
)
def test_what_asks_for_the_floor_is_none(text: str) -> None:
    assert not is_backchannel(text)


def test_speech_while_the_bot_is_silent_is_a_turn_at_once() -> None:
    assert SpeechCandidate().speech_started(1.0) is CONFIRM


def test_speech_over_the_bot_is_a_candidate_that_a_cough_does_not_confirm(
    spoken_over: SpeechCandidate,
) -> None:
    assert spoken_over.speech_started(1.0) is NOTHING
    assert spoken_over.state is CandidateState.CANDIDATE
    assert spoken_over.next_deadline() == 1.5
    assert spoken_over.tick(1.4) is NOTHING
    spoken_over.speech_stopped()
    assert spoken_over.next_deadline() is None
    assert spoken_over.tick(9.0) is NOTHING


def test_speech_that_lasts_confirms_itself(spoken_over: SpeechCandidate) -> None:
    spoken_over.speech_started(1.0)
    assert spoken_over.speech_started(1.2) is NOTHING
    assert spoken_over.next_deadline() == 1.5
    assert spoken_over.tick(1.5) is CONFIRM
    assert spoken_over.next_deadline() is None


def test_words_confirm_also_after_their_sound(spoken_over: SpeechCandidate) -> None:
    spoken_over.speech_started(1.0)
    assert spoken_over.transcribed("Mhm.") is CandidateVerdict.BACKCHANNEL
    spoken_over.speech_stopped()
    assert spoken_over.transcribed("  ") is NOTHING
    assert spoken_over.transcribed("Stop.") is CONFIRM
    assert spoken_over.speech_started(3.0) is NOTHING
    assert spoken_over.next_deadline() == 3.5


def test_who_speaks_when_the_bot_falls_silent_has_the_floor(spoken_over: SpeechCandidate) -> None:
    assert spoken_over.bot_stopped() is NOTHING
    spoken_over.bot_started()
    spoken_over.speech_started(1.0)
    assert spoken_over.bot_stopped() is CONFIRM


@pytest.mark.parametrize("text", ["Yes.", "oh sure", "okay", "uh-huh"])
def test_a_yes_after_a_question_is_an_answer_although_the_bot_talks_on(text: str) -> None:
    candidate = SpeechCandidate()
    candidate.bot_started()
    assert candidate.transcribed(text) is CandidateVerdict.BACKCHANNEL
    assert candidate.transcribed(text, was_asked=True) is CandidateVerdict.CONFIRM


def test_what_answers_nothing_stays_a_backchannel_after_a_question(spoken_over: SpeechCandidate) -> None:
    assert spoken_over.transcribed("Hmm, wow.", was_asked=True) is CandidateVerdict.BACKCHANNEL


def test_a_yes_once_the_bot_is_silent_is_an_answer(spoken_over: SpeechCandidate) -> None:
    spoken_over.bot_stopped()
    assert spoken_over.transcribed("Yes.") is CONFIRM


def test_a_turn_that_began_otherwise_leaves_nothing_pending(spoken_over: SpeechCandidate) -> None:
    spoken_over.speech_started(1.0)
    spoken_over.turn_started()
    assert spoken_over.next_deadline() is None
    assert spoken_over.tick(2.0) is NOTHING


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(UsageError):
        SpeechCandidateConfig(confirm_secs=6.0)
