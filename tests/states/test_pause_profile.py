from __future__ import annotations

import pytest

from pipecat_voicectx.errors import UsageError
from pipecat_voicectx.states.pause_profile import PauseProfile, PauseProfileConfig, is_dictation


def profile(*pauses: float, now: float = 0.0) -> PauseProfile:
    made = PauseProfile()
    for pause in pauses:
        made.add_pause(pause, now_secs=now)
    return made


def test_without_enough_evidence_nothing_changes() -> None:
    assert profile(0.8, 0.9, 0.7, 0.8).silence_secs(now_secs=0.0) is None


def test_a_speaker_who_pauses_long_gets_a_longer_silence() -> None:
    assert profile(*[0.7] * 9, 0.9).silence_secs(now_secs=0.0) == pytest.approx(0.85)


def test_a_speaker_who_hardly_pauses_gets_a_shorter_one_within_bounds() -> None:
    assert profile(*[0.16] * 6).silence_secs(now_secs=0.0) == pytest.approx(0.31)
    assert profile(*[2.5] * 6).silence_secs(now_secs=0.0) == 1.5


@pytest.mark.parametrize("pause", [0.05, 0.149, 3.1, -1.0, float("nan")])
def test_what_is_no_pause_is_no_evidence(pause: float) -> None:
    assert profile(*[pause] * 9).silence_secs(now_secs=0.0) is None


def test_old_pauses_fade() -> None:
    made = profile(*[1.2] * 5, now=0.0)
    for _ in range(5):
        made.add_pause(0.3, now_secs=600.0)
    assert made.silence_secs(now_secs=600.0) == pytest.approx(0.45)


def test_memory_is_bounded() -> None:
    made = profile(*[0.4] * 10_000)
    assert len(made._pauses) == 40


@pytest.mark.parametrize(
    "text",
    [
        "my number is zero five five",
        "it's 0 5 5 1",
        "055",
        "j o h n",
        "john dot smith at g",
        "mail me at ann@x.org",
        "plus four four two",
    ],
)
def test_numbers_letters_and_addresses_are_dictated(text: str) -> None:
    assert is_dictation(text)


@pytest.mark.parametrize(
    "text", ["", "I need two", "at ten", "a table for four at nine", "we met at one", "I think a"]
)
def test_ordinary_talk_is_not(text: str) -> None:
    assert not is_dictation(text)


def test_dictation_lengthens_the_silence_for_its_duration() -> None:
    made = PauseProfile()
    made.add_text("my number is zero five five")
    assert made.silence_secs(now_secs=0.0) == 1.5
    made.add_text("thank you")
    assert made.silence_secs(now_secs=0.0) is None
    made.add_text("one two three")
    made.turn_over()
    assert made.silence_secs(now_secs=0.0) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"shortest_secs": 2.0},
        {"quantile": 1.0},
        {"fewest_pauses": 0},
        {"half_life_secs": 0.0},
        {"margin_secs": -0.1},
        {"fluent_secs": -1.0},
        {"shortest_pause_secs": -0.1},
        {"longest_pause_secs": 0.1},
    ],
)
def test_a_config_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        PauseProfileConfig(**wrong)  # type: ignore[arg-type]
