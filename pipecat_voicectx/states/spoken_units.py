"""What a speaker had to say out loud for a transcript, in units that can be counted.

Languages that put spaces between words are counted in words, where a number counts as the words it is read as
("1999" is three, "$20" is two). Scripts without spaces are counted in characters. A text that mixes both, and a
language that we do not know, count as nothing: a rate in the wrong unit looks plausible and is wrong.

Limits: numbers are read the English way in every spaced language. A number of five or more digits without
separators, or with a leading zero, is taken for a code that is read digit by digit.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from pipecat_voicectx.states.speaking_rate import RateUnit

__all__ = ["SpokenUnits", "count_spoken_units"]

# Languages written with spaces between words (ISO 639-1) that our readers and speech-to-text services name.
_SPACED_CODES = (
    "af ar az be bg bn bs ca cs cy da de el en es et eu fa fi fil fr ga gl gu he hi hr hu hy id is it "
    "ka kk kn ko lt lv mk ml mr ms nb ne nl nn no pa pl pt ro ru sk sl sq sr sv sw ta te tl tr uk ur uz vi"
)
SPACED_LANGUAGES = frozenset(_SPACED_CODES.split())
UNSPACED_LANGUAGES = frozenset(("zh", "yue", "ja", "th", "lo", "km", "my", "bo"))
# A Chinese sentence may hold "OK" or a brand name and still be counted in characters; beyond this share of foreign
# letters it is mixed. Chosen; untested.
LARGEST_FOREIGN_SHARE = 0.15
# Bounds the work on a hostile transcript; the longest real utterance is far below.
LONGEST_TEXT_CHARS = 20_000

_SCRIPTS_WITHOUT_SPACES = (
    "CJK",
    "HIRAGANA",
    "KATAKANA",
    "BOPOMOFO",
    "THAI",
    "LAO",
    "KHMER",
    "MYANMAR",
    "TIBETAN",
)
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_SIGNS_READ_ALOUD = frozenset("%$€£¥&+=@#°")
_YEARS = range(1100, 2100)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenUnits:
    """How much was said, and in what it was counted."""

    count: int
    unit: RateUnit
    language: str
    """Base language code the count was made for; empty when unknown."""


def count_spoken_units(
    text: str, *, language: str | None, default_language: str | None = "en"
) -> SpokenUnits:
    """Counts what is said for `text`.

    Args:
        text: A final transcript.
        language: The transcript's language ("en", "en-US", "zh-Hans"), or None when the recogniser did not say.
        default_language: Assumed for Latin script when `language` is None. None: nothing is assumed.
    """
    text = text[:LONGEST_TEXT_CHARS]
    unspaced, letters = _letter_counts(text)
    base = (language or "").split("-")[0].split("_")[0].lower()
    if not base:
        base = (default_language or "") if unspaced == 0 else _language_of_script(text)
    if base in SPACED_LANGUAGES and unspaced == 0:
        return SpokenUnits(count=_count_words(text), unit=RateUnit.WORDS_PER_MINUTE, language=base)
    if base in UNSPACED_LANGUAGES and letters - unspaced <= LARGEST_FOREIGN_SHARE * letters:
        digits = sum(character.isdigit() for character in text)
        return SpokenUnits(count=letters + digits, unit=RateUnit.CHARACTERS_PER_MINUTE, language=base)
    return SpokenUnits(count=0, unit=RateUnit.UNKNOWN, language="")


def _letter_counts(text: str) -> tuple[int, int]:
    unspaced = letters = 0
    for character in text:
        if not character.isalpha():
            continue
        letters += 1
        if ord(character) > 0x0E00 and unicodedata.name(character, "").startswith(_SCRIPTS_WITHOUT_SPACES):
            unspaced += 1
    return unspaced, letters


def _language_of_script(text: str) -> str:
    names = {unicodedata.name(character, "").split(" ")[0] for character in text if character.isalpha()}
    if names & {"HIRAGANA", "KATAKANA"}:
        return "ja"
    for script, language in (
        ("CJK", "zh"),
        ("THAI", "th"),
        ("LAO", "lo"),
        ("KHMER", "km"),
        ("MYANMAR", "my"),
    ):
        if script in names:
            return language
    return ""


def _count_words(text: str) -> int:
    return sum(_token_words(token) for token in text.split())


def _token_words(token: str) -> int:
    numbers = _NUMBER.findall(token)
    if not numbers:
        return 1 if any(character.isalnum() for character in token) else 0
    words = sum(_number_words(number) for number in numbers)
    words += sum(sign in _SIGNS_READ_ALOUD for sign in token)
    rest = _NUMBER.sub(" ", token)
    for part in re.findall(r"[^\W\d_]+", rest):
        # "3rd" and "90s" are read as one word with their number; "10am" and "5km" are two.
        words += 0 if part.lower() in {"st", "nd", "rd", "th", "s"} else 1
    return words


def _number_words(number: str) -> int:
    if _GROUPED.fullmatch(number):
        whole, _, fraction = number.replace(",", "").partition(".")
        return _cardinal_words(int(whole)) + (1 + len(fraction) if fraction else 0)
    if "." in number and number.count(".") == 1 and ":" not in number and "," not in number:
        whole, fraction = number.split(".")
        return _number_words(whole) + 1 + len(fraction)
    parts = re.split(r"[.,:]", number)
    return sum(_integer_words(part) for part in parts if part)


def _integer_words(digits: str) -> int:
    value = int(digits) if len(digits) <= 18 else -1
    if value < 0 or (len(digits) > 1 and digits[0] == "0") or (len(digits) >= 5 and value % 1000):
        return len(digits)
    if value in _YEARS and value % 1000 > 9 and len(digits) == 4:
        # "nineteen ninety nine", "nineteen hundred", "twenty ten", "nineteen oh five".
        last = value % 100
        return _below_hundred(value // 100) + (2 if last < 10 and last else _below_hundred(last) or 1)
    return _cardinal_words(value)


def _cardinal_words(value: int) -> int:
    if value == 0:
        return 1
    if value >= 10**18:
        return len(str(value))
    words = 0
    for scale in (10**15, 10**12, 10**9, 10**6, 1000):
        if value >= scale:
            words += _below_thousand(value // scale) + 1
            value %= scale
    return words + _below_thousand(value)


def _below_thousand(value: int) -> int:
    return (2 if value >= 100 else 0) + _below_hundred(value % 100)


def _below_hundred(value: int) -> int:
    if value == 0:
        return 0
    if value <= 20 or value % 10 == 0:
        return 1
    return 2
