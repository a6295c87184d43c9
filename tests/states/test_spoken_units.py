from __future__ import annotations

import pytest

from pipecat_voicectx.states.speaking_rate import RateUnit
from pipecat_voicectx.states.spoken_units import count_spoken_units


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello there.", 2),
        ("well-known, isn't it?", 3),
        ("... -- !", 0),
        ("", 0),
        ("in 1999", 4),
        ("1900", 2),
        ("1905", 3),
        ("2010", 2),
        ("2000", 2),
        ("2024", 3),
        ("7", 1),
        ("42", 2),
        ("110", 3),
        ("1,250", 5),
        ("250000", 4),
        ("055", 3),
        ("5551234", 7),
        ("3.14", 4),
        ("$20", 2),
        ("20%", 2),
        ("10am", 2),
        ("3rd", 1),
        ("9:30", 2),
        ("twenty-one", 1),
    ],
)
def test_numbers_count_as_the_words_they_are_read_as(text: str, words: int) -> None:
    assert count_spoken_units(text, language="en").count == words


@pytest.mark.parametrize(
    ("text", "language", "count", "code"),
    [
        ("我想订一张去北京的票。", "zh-CN", 10, "zh"),
        ("東京まで行きたいです", None, 10, "ja"),
        ("我要去", None, 3, "zh"),
        ("请给我的iPhone充电以后再打电话给我我会等你们的消息谢谢你们的帮助再见朋友们大家好", "zh", 44, "zh"),
    ],
)
def test_scripts_without_spaces_count_in_characters(
    text: str, language: str | None, count: int, code: str
) -> None:
    units = count_spoken_units(text, language=language)
    assert units.unit is RateUnit.CHARACTERS_PER_MINUTE
    assert units.language == code
    assert units.count == pytest.approx(count, abs=4)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("我想 book a table for two tonight please", "zh"),
        ("我想要", "en"),
        ("some words here", "xx"),
        ("some words here", "zh"),
    ],
)
def test_mixed_and_unknown_languages_are_unknown(text: str, language: str) -> None:
    units = count_spoken_units(text, language=language)
    assert units.unit is RateUnit.UNKNOWN
    assert units.count == 0


def test_a_language_is_assumed_only_when_told_to() -> None:
    assert count_spoken_units("two words", language=None).language == "en"
    assert count_spoken_units("two words", language=None, default_language=None).unit is RateUnit.UNKNOWN
    assert count_spoken_units("dos palabras", language="es_MX").language == "es"


def test_a_hostile_number_costs_no_more_than_its_digits() -> None:
    assert count_spoken_units("9" * 15_000, language="en").count == 15_000
