"""What is taken out of a transcript before it is remembered: fillers, repeated words, restarts.

For memory only. The model always sees what was really said, and a page keeps it; facts, summaries and searches read
the cleaned text. Nothing is rephrased: words are only left out, in order, so that cleaning cannot invent anything.

What stays, because it carries meaning: repeated numbers ("five five one"), repeated letters of a spelling, and markers
of a correction ("no wait", "I mean" in the middle of a sentence), which the extraction of facts still needs.

Known limits: fillers are those of English and the hesitation sounds of German and French; a restart is found only when
it repeats its first word or breaks off with a dash.
"""

from __future__ import annotations

import re
from operator import eq

__all__ = ["clean_transcript", "is_low_signal"]

# Hesitation sounds; no word of English, German, French or Spanish among them.
_SOUNDS = re.compile(
    r"(?<![\w'’-])(?:u+h+m*|u+m+|e+r+m+|e{2,}r+|h+m{2,}|mm+(?:[- ]?hm+)?|a+h+m+|ä+h+m*|ö+h+m*|e+u+h+)(?![\w'’-])[,.…]*",
    re.IGNORECASE,
)
# Phrases that say nothing where they stand: between pauses, or at either end of the utterance.
_ASIDE = (
    r"(?:you know(?: what)?|kind of|sort of|like|basically|literally|right|well|so|okay|ok|oh|yeah|anyway)"
)
_ASIDE_BETWEEN_COMMAS = re.compile(
    r"(?<=,)\s*(?:you know|i mean|like|basically|literally|well),", re.IGNORECASE
)
_ASIDE_AT_START = re.compile(
    rf"^(?:\s*{_ASIDE}\b(?!\s+(?:of|to|that|is|it|not)\b)[,\s]+)+(?=\S)", re.IGNORECASE
)
_ASIDE_AT_END = re.compile(
    r"(?<![,\s])[,\s]+(?:you know|you know what i mean|i mean|or something|or whatever)([.!?]?)\s*$", re.I
)
_ONLY_ASIDES = re.compile(rf"(?:\W*\b(?:{_ASIDE}|i mean|or something|or whatever)\b)+\W*", re.IGNORECASE)
_BROKEN_WORD = re.compile(r"(?<![\w'–—-])(?:[\w']+[-–—])+(?=\s|$)[,\s]*")
_BLANKS = re.compile(r"\s+")
_WORD = re.compile(r"\S+")

_NUMBER_TEXT = """oh zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand
double triple"""
_NUMBER_WORDS = frozenset(_NUMBER_TEXT.split())
# A repetition of these is grammar ("had had", "that that") or a word of its own ("bye bye").
_MAY_REPEAT = frozenset({"had", "that", "bye", "ha", "is"})
# Chosen: a restart repeats a few words; longer repetitions are said on purpose.
_MAX_REPEATED_WORDS = 4

# Chosen: whoever goes on for this long says something, or it would take long to find that they do not.
_MAX_LOW_SIGNAL_CHARS = 500
_LOW_SIGNAL_TEXT = """ok okay yes yeah yep yup no nope right sure fine great good cool nice thanks thank you hello hi
hey bye goodbye mhm uh huh hm hmm i see alright perfect exactly please oh really wow morning evening afternoon got it"""
_LOW_SIGNAL = frozenset(_LOW_SIGNAL_TEXT.split())


def clean_transcript(text: str) -> str:
    """`text` without fillers, stutters and restarts; the same text again when there is nothing to take out."""
    cleaned = text
    while (shorter := _clean_once(cleaned)) != cleaned:  # ends: every pass that changes something shortens it
        cleaned = shorter
    return cleaned


def _clean_once(text: str) -> str:
    cleaned = _BLANKS.sub(" ", _SOUNDS.sub(" ", text)).strip()
    cleaned = _ASIDE_BETWEEN_COMMAS.sub("", cleaned)
    # "i w- i want": the piece that broke off goes; what the restart repeats goes with the repetitions.
    cleaned = _BROKEN_WORD.sub(" ", cleaned)
    cleaned = _ASIDE_AT_END.sub(r"\1", _drop_repetitions(cleaned))
    cleaned = _ASIDE_AT_START.sub("", cleaned)
    cleaned = re.sub(r"\s+([,.!?])", r"\1", _BLANKS.sub(" ", cleaned))
    return re.sub(r"^[,.\s]+|,(?=[,.!?])", "", cleaned).strip(" ,")


def is_low_signal(text: str) -> bool:
    """Whether a turn carries nothing worth keeping: greetings, acknowledgements, fillers, silence."""
    if len(text) > _MAX_LOW_SIGNAL_CHARS:
        return False
    cleaned = clean_transcript(text)
    # "Um, you know, uh.": what stands between fillers is an aside, where nothing but that is said.
    words = re.findall(r"[\w']+", "" if _ONLY_ASIDES.fullmatch(cleaned) else cleaned.casefold())
    return all(word in _LOW_SIGNAL for word in words)


def _bare(word: str) -> str:
    return word.strip(",.;:!?…").casefold()


def _may_repeat(words: list[str]) -> bool:
    return all(
        word in _NUMBER_WORDS
        or word in _MAY_REPEAT
        or any(char.isdigit() for char in word)
        or (len(word) == 1 and word != "i")
        for word in words
    )


def _drop_repetitions(text: str) -> str:
    """Drops the earlier of two equal runs of up to four words that follow each other."""
    words = _WORD.findall(text)
    bare = [_bare(word) for word in words]
    if not any(any(map(eq, bare, bare[apart:])) for apart in range(1, _MAX_REPEATED_WORDS + 1)):
        return " ".join(words)
    kept: list[int] = []
    for position in range(len(words)):
        kept.append(position)
        for length in range(min(_MAX_REPEATED_WORDS, len(kept) // 2), 0, -1):
            last, before = kept[-length:], kept[-2 * length : -length]
            run = [bare[i] for i in last]
            ends_sentence = any(words[i][-1] in ".!?" for i in before)
            if (
                run == [bare[i] for i in before]
                and not ends_sentence
                and "" not in run
                and not _may_repeat(run)
            ):
                del kept[-2 * length : -length]
                break
    return " ".join(words[i] for i in kept)
