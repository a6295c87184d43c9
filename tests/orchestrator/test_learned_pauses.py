"""One caller's pauses, as turns and speech come and go."""

from __future__ import annotations

import pytest

from pipecat_voicectx.orchestrator.learned_pauses import LearnedPauses
from pipecat_voicectx.states.pause_profile import PauseProfileConfig


class Caller:
    def __init__(self, config: PauseProfileConfig | None = None) -> None:
        self.pauses = LearnedPauses(config)
        self.now_secs = 100.0

    def speaks(self, secs: float, *, doubtful: bool = False) -> Caller:
        self.pauses.speech_started(now_secs=self.now_secs, doubtful=doubtful)
        self.now_secs += secs + 0.2
        self.pauses.speech_stopped(now_secs=self.now_secs, stop_secs=0.2)
        return self

    def pauses_for(self, secs: float) -> Caller:
        """Counted from the end of speech, which the detector reported 0.2 s late."""
        self.now_secs += secs - 0.2
        return self

    def turn(self, secs: float = 2.0) -> Caller:
        self.speaks(secs)
        return self.ends()

    def ends(self) -> Caller:
        self.pauses.turn_over(now_secs=self.now_secs)
        self.now_secs += 4.0
        return self

    def longer(self) -> float | None:
        return self.pauses.longer_secs(now_secs=self.now_secs)

    @property
    def due(self) -> float | None:
        """Silence after which the present turn has ended."""
        due_secs = self.pauses.due_secs(now_secs=self.now_secs)
        return None if due_secs is None else round(due_secs - (self.now_secs - 0.2), 3)

    def says(self, text: str = "well", *, final: bool = True) -> Caller:
        self.pauses.add_text(text, final=final)
        return self


def test_pauses_inside_turns_lengthen_the_silence() -> None:
    caller = Caller()
    for _ in range(5):
        caller.speaks(1.0).pauses_for(0.8).speaks(1.0).ends()
    assert caller.longer() == pytest.approx(0.95)


def test_a_pause_with_lost_audio_in_it_teaches_nothing() -> None:
    caller = Caller()
    for _ in range(8):
        caller.speaks(1.0).pauses_for(0.8).speaks(1.0, doubtful=True).ends()
    assert caller.longer() is None


def test_fluent_turns_shorten_it_once_there_are_enough_and_the_words_are_in() -> None:
    caller = Caller()
    for _ in range(5):
        caller.turn()
    assert caller.speaks(2.0).says().due is None
    caller.ends()
    caller.speaks(2.0)
    assert caller.due is None
    assert caller.says(final=False).due is None
    assert caller.says().due == 0.2
    assert caller.longer() is None


def test_short_answers_are_no_evidence_of_fluency() -> None:
    caller = Caller()
    for _ in range(20):
        caller.turn(0.5)
    assert caller.speaks(2.0).says().due is None


def test_one_long_pause_of_late_is_waited_for() -> None:
    caller = Caller()
    for _ in range(8):
        caller.turn()
    caller.speaks(1.0).pauses_for(0.7).speaks(1.0)
    assert caller.says().due == pytest.approx(0.85)


def test_a_cut_turn_that_goes_on_at_once_teaches_its_pause() -> None:
    caller = Caller()
    for _ in range(8):
        caller.turn()
    caller.speaks(1.0).says()
    assert caller.due == 0.2
    caller.pauses.turn_over(now_secs=caller.now_secs)
    caller.pauses_for(0.6).speaks(1.0)
    assert caller.says().due == pytest.approx(0.75)


def test_what_is_said_after_the_bot_was_heard_is_an_answer_and_no_continuation() -> None:
    caller = Caller()
    for _ in range(8):
        caller.turn()
    caller.speaks(1.0)
    caller.pauses.turn_over(now_secs=caller.now_secs)
    caller.pauses.bot_heard()
    caller.pauses_for(0.6).speaks(1.0)
    assert caller.says().due == 0.2


def test_while_digits_are_dictated_nothing_is_shortened_and_the_longest_silence_holds() -> None:
    caller = Caller()
    for _ in range(8):
        caller.turn()
    caller.speaks(2.0).says("zero five five")
    assert caller.due is None
    assert caller.longer() == 1.5
    caller.ends()
    assert caller.longer() is None
    assert caller.speaks(2.0).says().due == 0.2


def test_a_speaker_who_pauses_longer_than_the_bound_is_never_hurried() -> None:
    caller = Caller()
    for _ in range(8):
        caller.speaks(1.0).pauses_for(1.4).speaks(1.0).ends()
    assert caller.speaks(2.0).says().due is None
    assert caller.longer() == 1.5


def test_old_evidence_is_none() -> None:
    caller = Caller(PauseProfileConfig(half_life_secs=10.0))
    for _ in range(8):
        caller.turn()
    caller.now_secs += 60.0
    assert caller.speaks(2.0).says().due is None
